"""Defines `Tool`: a name, a description, a JSON Schema and a function that returns a `Result`.

It depends on no agent framework. A framework uses `name`, `description`, `parameters` and
`execute(arguments, context)`; a script calls a tool like a function: `tool(path="x")`.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from agent_tools.files.path_encoding import path_text

logger = logging.getLogger("agent_tools")

# Characters of a failure's text that are kept at its start and end. Longer texts echo an argument that the
# model sent itself, such as a path of 100,000 characters.
_FAILURE_START, _FAILURE_END = 8_000, 2_000


JsonObject = dict[str, Any]
"""A JSON object. Its values come from outside: code checks the type of each where it reads it."""

JsonMapping = Mapping[str, Any]
"""A JSON object that is only read."""


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Text in a result."""

    text: str
    type: Literal["text"] = field(default="text", init=False)


@dataclass(frozen=True, slots=True)
class ImageBlock:
    """An image in a result; `data` is base64 text, `mime_type` the type that its bytes have."""

    data: str
    mime_type: str
    type: Literal["image"] = field(default="image", init=False)


Block = TextBlock | ImageBlock


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a call.

    `content` is sent to the model (a string becomes one text block). `details` is for displays and logs and
    is never sent. `meta` holds short texts for the model that are not part of the content (a hash).
    `terminate` asks the agent to stop after this batch. `status_message` labels a partial result.
    """

    content: tuple[Block, ...]
    details: Any = None
    meta: Mapping[str, str] | None = None
    is_error: bool = False
    terminate: bool = False
    status_message: str = ""

    def __init__(
        self,
        content: str | Sequence[Block] = (),
        details: Any = None,
        meta: Mapping[str, str] | None = None,
        is_error: bool = False,
        terminate: bool = False,
        status_message: str = "",
    ) -> None:
        blocks = (TextBlock(content),) if isinstance(content, str) else tuple(content)
        for name, value in (
            ("content", blocks),
            ("details", details),
            ("meta", meta),
            ("is_error", is_error),
            ("terminate", terminate),
            ("status_message", status_message),
        ):
            object.__setattr__(self, name, value)

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))


class ToolFailure(Exception):
    """Raised by a tool's function; the text, sent to the model, says what went wrong and what to try."""


class Cancel(Protocol):
    """A cancel token, such as a `threading.Event`."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float | None = None, /) -> bool: ...


class CallContext(Protocol):
    """What a tool's function uses of its context. It may also have a `journal`: see `Context`."""

    @property
    def cancel(self) -> Cancel: ...

    def update(self, partial: Result, /) -> object: ...


class AnyTool(Protocol):
    """What every tool has, whether it is a `Tool` or not."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def parameters(self) -> dict[str, Any]: ...

    def execute(self, arguments: Any, context: Any = None, /) -> Any: ...


@dataclass(slots=True)
class Context:
    """The context of a call that no framework made.

    Setting `cancel` stops the call. `on_update` receives partial results on the thread of the call. `journal`
    records changes for an undo; None records nothing.
    """

    tool_call_id: str = ""
    cancel: Cancel = field(default_factory=threading.Event)
    on_update: Callable[[Result], object] | None = None
    journal: Any = None

    def update(self, partial: Result) -> None:
        """Pass a partial result to `on_update`, if there is one."""
        if self.on_update is not None:
            self.on_update(partial)


@dataclass(frozen=True, slots=True)
class TitleArg:
    """An argument shown in the title of a call; `style` is "path", "pattern", "accent" or ""."""

    name: str
    style: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class DisplayHint:
    """How a display may show a call: arguments in the title, lines of the result, in a box or not."""

    title_args: tuple[TitleArg, ...] = ()
    result_max_lines: int = 10
    use_box: bool = False


class PathUse(NamedTuple):
    """A file or folder that a call uses: `path` as found, absolute; `real` with all links resolved.

    `is_written` is true for a path that the call creates or changes. A search uses everything below its path.
    """

    path: str
    real: str
    is_written: bool = False


class Arguments(BaseModel):
    """Base class of a tool's arguments. Unknown keys are ignored; aliases are the names that models send."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True, frozen=True)


A = TypeVar("A", bound=Arguments, covariant=True)


class Tool(Generic[A]):
    """One tool. Immutable, and safe to call from any number of threads at once.

    `function(arguments, context)` gets validated arguments and returns a `Result` or raises `ToolFailure`.
    `execute` turns every exception into a result with `is_error`: it never raises because of what a model
    sent or of the state of a file. `parallel` allows calls beside those of other tools. `read_only` states
    that a call changes nothing: no file, no process, nothing outside the program.
    """

    def __init__(
        self,
        name: str,
        description: str,
        arguments: type[A],
        function: Callable[[A, CallContext], Result],
        *,
        label: str = "",
        parallel: bool = False,
        read_only: bool = False,
        display_hint: DisplayHint | None = None,
        paths: Callable[[A], tuple[PathUse, ...]] | None = None,
    ) -> None:
        self.name = name
        self.label = label or name
        self.description = description
        self.parameters = _schema(arguments)
        self.parallel = parallel
        self.read_only = read_only
        self.display_hint = display_hint
        self._arguments = arguments
        self._function = function
        self._paths = paths

    def execute(self, arguments: Mapping[str, object] | str, context: CallContext | None = None) -> Result:
        """Run the tool with the arguments of a model: a JSON object, or its text."""
        if context is None:
            context = Context()
        try:
            parsed = self._parse(arguments)
            if context.cancel.is_set():
                raise ToolFailure(f"{self.name} was aborted before it started")
            return _sendable(self._function(parsed, context))
        except ToolFailure as failure:
            return _failed(str(failure))
        except OSError as error:
            return _failed(f"{self.name} failed: {_os_error_text(error)}")
        except RecursionError:
            return _failed(
                f"{self.name} failed: its arguments, or the links of a path, are nested too deeply"
            )
        except Exception as error:
            logger.exception("the tool %s failed unexpectedly", self.name)
            return _failed(f"{self.name} failed: {type(error).__name__}: {error}")

    def paths(self, arguments: Mapping[str, object] | str) -> tuple[PathUse, ...] | None:
        """The files and folders that a call with these arguments would use, for permission checks.

        The tool opens the same paths: it resolves its arguments with the same function. None for a tool that
        does not declare its paths, () for a call that uses none. Raises `ToolFailure` for arguments that the
        tool refuses. Links may change between this check and the call.
        """
        return self._paths(self._parse(arguments)) if self._paths else None

    def run(self, **arguments: object) -> Result:
        """Run the tool with keyword arguments."""
        return self.execute(arguments)

    __call__ = run

    def __repr__(self) -> str:
        return f"<Tool {self.name}>"

    def _parse(self, arguments: Mapping[str, object] | str) -> A:
        value: object = arguments
        if isinstance(value, str):
            value = _from_json_text(value)
        if not isinstance(value, Mapping):
            raise ToolFailure(f"the arguments of {self.name} must be a JSON object, got {describe(value)}")
        # Models send null for optional arguments that they do not use.
        present = {key: item for key, item in value.items() if item is not None}
        try:
            return self._arguments.model_validate(present)
        except ValidationError as error:
            raise ToolFailure(_validation_text(error)) from None


def _sendable(result: Result) -> Result:
    """Escape what is not valid UTF-8 in the texts: they may quote a path that is not."""
    if all(_valid(block.text) == block.text for block in result.content if isinstance(block, TextBlock)):
        return result
    blocks = (TextBlock(_valid(b.text)) if isinstance(b, TextBlock) else b for b in result.content)
    return replace(result, content=tuple(blocks))


def _valid(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def _failed(text: str) -> Result:
    """A failed result of bounded length and in valid UTF-8, whatever `text` quotes."""
    text = _valid(text)
    left_out = len(text) - _FAILURE_START - _FAILURE_END
    if left_out > 0:
        text = f"{text[:_FAILURE_START]}\n[{left_out} characters left out]\n{text[-_FAILURE_END:]}"
    return Result(text, is_error=True)


def describe(value: object) -> str:
    """Describe a JSON value for an error text: its type and, when short, the value itself."""
    kind = {
        type(None): "null",
        bool: "a boolean",
        int: "an integer",
        float: "a number",
        str: "a string",
        list: "an array",
        tuple: "an array",
        dict: "an object",
    }.get(type(value), f"a {type(value).__name__}")
    shown = repr(value)
    return f"{kind} ({shown})" if value is not None and len(shown) <= 60 else kind


_EXPECTED = {
    "string_type": "a string",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "an array",
    "model_type": "an object",
    "model_attributes_type": "an object",
}


def _validation_text(error: ValidationError) -> str:
    lines = []
    for item in error.errors(include_url=False):
        where = ".".join(str(part) for part in item["loc"])
        if item["type"] == "missing":
            lines.append(f"{where} is required")
        elif item["type"] in _EXPECTED:
            lines.append(f"{where}: expected {_EXPECTED[item['type']]}, got {describe(item['input'])}")
        else:
            message = item["msg"].removeprefix("Value error, ")
            lines.append(f"{where}: {message}" if where else message)
    return "\n".join(lines)


def _from_json_text(text: str) -> object:
    if not text.strip():
        return {}
    try:
        # strict=False: models put raw line feeds and tabs inside strings.
        return json.loads(text, strict=False)
    except ValueError:
        return text


def _schema(arguments: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema of the arguments, without references, pydantic's titles and null branches."""
    raw = arguments.model_json_schema(by_alias=True)
    definitions = raw.pop("$defs", {})
    schema: dict[str, Any] = _clean(raw, definitions)
    schema.pop("description", None)
    schema.setdefault("properties", {})
    schema.setdefault("required", [])
    return schema


def _clean(node: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_clean(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target = dict(definitions[node["$ref"].rpartition("/")[2]])
        target.pop("description", None)
        return _clean({**target, **{k: v for k, v in node.items() if k != "$ref"}}, definitions)
    cleaned: dict[str, Any] = {}
    for key, value in node.items():
        if key == "properties":
            cleaned[key] = {name: _clean(item, definitions) for name, item in value.items()}
        elif key == "anyOf":
            branches = [_clean(item, definitions) for item in value if item != {"type": "null"}]
            cleaned.update(branches[0] if len(branches) == 1 else {"anyOf": branches})
        elif key != "title" and not (key == "default" and value is None):
            cleaned[key] = _clean(value, definitions)
    return cleaned


def _os_error_text(error: OSError) -> str:
    reason = error.strerror or type(error).__name__
    name = path_text(error.filename) if isinstance(error.filename, str) else error.filename
    return f"{reason}: {name}" if name else reason
