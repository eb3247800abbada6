"""The JSON Schema for a function's signature, and the function's arguments from those of a model.

Imports pydantic, so it is loaded when the first tool is made of a function.
"""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from agent.errors import ConfigurationError, ToolError
from agent.json_values import JsonMapping, JsonObject

_CONTEXT = "context"

# A number where text is expected becomes its digits: nothing is lost, and models do it often.
_CONFIG = ConfigDict(extra="ignore", coerce_numbers_to_str=True, protected_namespaces=())


class ArgumentModel:
    """The arguments of a function as a pydantic model; its fields are numbered, so any name is possible.

    `schema` describes them to a model. Raises ConfigurationError for a function whose parameters no schema
    can describe.
    """

    def __init__(self, function: Callable[..., Any], name: str, docs: Mapping[str, str]) -> None:
        self._name = name
        parameters = _parameters(function, name)
        self._wants_context = any(parameter.name == _CONTEXT for parameter in parameters)
        shown = [parameter for parameter in parameters if parameter.name != _CONTEXT]
        self._fields = {parameter.name: f"argument_{n}" for n, parameter in enumerate(shown)}
        fields: JsonObject = {
            self._fields[parameter.name]: _field(parameter, docs.get(parameter.name)) for parameter in shown
        }
        try:
            self._model: type[BaseModel] = create_model(
                name, __config__=_CONFIG, __module__=getattr(function, "__module__", __name__), **fields
            )
            self.schema = plain_schema(self._model.model_json_schema(schema_generator=_Schema))
        except Exception as error:
            raise ConfigurationError(f"no schema can be made for tool {name!r}: {error}") from error

    def parse(self, arguments: JsonMapping, context: Any) -> JsonObject:
        """The keyword arguments for the function. Raises ToolError that names each field at fault."""
        model = self._validated(arguments)
        values = {name: getattr(model, key) for name, key in self._fields.items()}
        return values | {_CONTEXT: context} if self._wants_context else values

    def _validated(self, arguments: JsonMapping) -> BaseModel:
        try:
            return self._model.model_validate(arguments)
        except ValidationError as error:
            repaired = self._repaired(arguments, error)
            if repaired == arguments:
                raise ToolError(f"invalid arguments for {self._name}: {problems(error)}") from None
        try:
            return self._model.model_validate(repaired)
        except ValidationError as error:
            raise ToolError(f"invalid arguments for {self._name}: {problems(error)}") from None

    def _repaired(self, arguments: Any, error: ValidationError) -> Any:
        """The arguments with two common mistakes corrected: null for "not given", and JSON in a string."""
        if not isinstance(arguments, Mapping):
            return arguments
        repaired = dict(arguments)
        for name in {item["loc"][0] for item in error.errors(include_url=False) if item["loc"]}:
            if repaired.get(name) is None:
                repaired.pop(name, None)
            else:
                repaired[name] = _unwrapped(repaired[name])
        return repaired


class _Schema(GenerateJsonSchema):
    """Leaves out a default that JSON can't hold, without a warning."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012


def _parameters(function: Callable[..., Any], name: str) -> list[inspect.Parameter]:
    parameters = _evaluated_parameters(function, name)
    for parameter in parameters:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ConfigurationError(
                f"parameter {parameter.name!r} of tool {name!r} must be one that can be passed by name"
            )
    if parameters and parameters[0].name in ("self", "cls") and parameters[0].annotation is inspect._empty:
        raise ConfigurationError(
            f"tool {name!r} is a method without its object; make the tool of a bound one: tool(object.{name})"
        )
    return parameters


def _evaluated_parameters(function: Callable[..., Any], name: str) -> list[inspect.Parameter]:
    """The parameters with annotations that were kept as text evaluated.

    Only those of parameters that a model sees: the types of `context` and of the result may be imported for
    type checkers alone. Names that are local to the place of the definition are found too.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
        names = dict(_globals_of(function))
        if "<locals>" in getattr(function, "__qualname__", ""):
            names.update(_locals_of_caller())
        return [
            parameter.replace(annotation=eval(parameter.annotation, names))
            if isinstance(parameter.annotation, str) and parameter.name != _CONTEXT
            else parameter
            for parameter in parameters
        ]
    except Exception as error:
        raise ConfigurationError(f"the annotations of tool {name!r} can't be read: {error}") from error


def _globals_of(function: Any) -> JsonMapping:
    """The globals of a function, through wrappers, partials and bound methods."""
    while isinstance(function, functools.partial) or hasattr(function, "__wrapped__"):
        function = function.func if isinstance(function, functools.partial) else function.__wrapped__
    code = function if inspect.isroutine(function) else type(function).__call__
    names: JsonMapping = getattr(code, "__globals__", {})
    return names


def _locals_of_caller() -> JsonMapping:
    """The local names where the tool is defined: those of the nearest frame outside of this package."""
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("agent.tools."):
        frame = frame.f_back
    return frame.f_locals


def _field(parameter: inspect.Parameter, docs: str | None) -> tuple[Any, FieldInfo]:
    annotation: Any = Any if parameter.annotation is parameter.empty else parameter.annotation
    options: JsonObject = {"alias": parameter.name}
    if isinstance(parameter.default, FieldInfo):
        annotation = Annotated[annotation, parameter.default]
    elif parameter.default is not parameter.empty:
        options["default"] = parameter.default
    description = _annotated_text(annotation) or docs
    if description:
        options["description"] = description
    return annotation, Field(**options)


def _annotated_text(annotation: Any) -> str | None:
    """The description in `Annotated[str, "..."]` or `Annotated[str, Field(description="...")]`."""
    for item in getattr(annotation, "__metadata__", ()):
        text = item.description if isinstance(item, FieldInfo) else item
        if isinstance(text, str):
            return text
    return None


def plain_schema(schema: JsonObject) -> JsonObject:
    """The schema without the titles that pydantic adds: they only repeat the names."""
    plain: JsonObject = _without_titles(schema)
    plain.setdefault("properties", {})
    plain.setdefault("required", [])
    plain.pop("description", None)
    return plain


def _without_titles(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_titles(item) for item in node]
    if not isinstance(node, dict):
        return node
    cleaned = {}
    for key, value in node.items():
        if key in ("properties", "$defs"):
            cleaned[key] = {name: _without_titles(item) for name, item in value.items()}
        elif key in ("default", "const", "enum", "examples"):
            cleaned[key] = value
        elif key != "title":
            cleaned[key] = _without_titles(value)
    return cleaned


def _unwrapped(value: Any) -> Any:
    """The array or object that a model wrote as a string; anything else as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(value, strict=False)
        except (ValueError, RecursionError):
            return value
    return value


def problems(error: ValidationError) -> str:
    """The problems of a validation in one line, each with its field, what was expected and what came."""
    return "; ".join(_problem(item) for item in error.errors(include_url=False))


def _problem(item: Any) -> str:
    where = ".".join(str(part) for part in item["loc"])
    if item["type"] == "missing":
        return f"{where} is required"
    if not where:
        return f"a JSON object was expected, got {_shown(item['input'])}"
    message = item["msg"].removeprefix("Value error, ")
    if item["type"].endswith("_parsing") or item["type"] == "int_from_float":
        message = message.partition(",")[0]  # the rest repeats the value, which follows
    return f"{where}: {message.replace('Input should be', 'expected', 1)}, got {_shown(item['input'])}"


def _shown(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
