"""What a tool is: `AgentTool`, the `@tool` decorator, and `ToolSet`, where names cannot collide.

A `ToolSet` also takes any object with `name`, `description`, `parameters` and `execute(arguments,
context)`, so tools of other packages fit without knowing this one.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, overload, runtime_checkable

from agent.cancel import CancelToken
from agent.docstrings import split_docstring
from agent.errors import ConfigurationError, ToolError
from agent.messages import ImageContent, TextContent, UserBlock
from agent.runs import RunMetadata


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answers.

    `content` (a string, or text and image blocks) goes to the model; `details` only to screens and logs;
    `meta` is small text the model sees after the content. `terminate` asks to stop after this batch, which
    happens when every result of the batch asks for it. `status_message` labels a partial result.
    """

    content: tuple[UserBlock, ...]
    details: Any = None
    meta: Mapping[str, str] | None = None
    is_error: bool = False
    terminate: bool = False
    status_message: str = ""

    def __init__(
        self,
        content: str | Sequence[UserBlock] = (),
        details: Any = None,
        meta: Mapping[str, str] | None = None,
        is_error: bool = False,
        terminate: bool = False,
        status_message: str = "",
    ) -> None:
        put = object.__setattr__
        put(self, "content", (TextContent(content),) if isinstance(content, str) else tuple(content))
        put(self, "details", details)
        put(self, "meta", meta)
        put(self, "is_error", is_error)
        put(self, "terminate", terminate)
        put(self, "status_message", status_message)

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return "".join(block.text for block in self.content if isinstance(block, TextContent))


@dataclass(frozen=True, slots=True)
class TitleArg:
    """An argument in the header line of a call: `style` is "path", "pattern", "accent" or ""."""

    name: str
    style: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class ToolDisplayHint:
    """How a screen may show a call: its title, how many lines of the result, and whether in a box."""

    title_args: tuple[TitleArg, ...] = ()
    result_max_lines: int = 10
    use_box: bool = False


class ToolContext:
    """What a running tool knows: its call's id, the stop signal, a way to report progress, the run.

    Threads: made by the worker, used by the tool's thread and any it starts. `update` may be called from any
    thread and never blocks; after the call is settled it does nothing.
    """

    __slots__ = ("_report", "cancel", "journal", "run", "tool_call_id")

    def __init__(
        self,
        tool_call_id: str = "",
        cancel: CancelToken | None = None,
        report: Callable[[ToolResult], object] | None = None,
        run: RunMetadata | None = None,
        journal: Any = None,
    ) -> None:
        self.tool_call_id = tool_call_id
        self.cancel = cancel or CancelToken()
        self.run = run
        self.journal = journal
        self._report = report

    def update(self, partial: Any) -> None:
        """Show a partial result (a ToolResult or text); it is not stored."""
        if self._report is not None:
            self._report(to_result(partial))


Execute = Callable[[dict[str, Any], Any], Any]


@dataclass(frozen=True, slots=True)
class AgentTool:
    """A tool: what the model is told of it, and the function that does it.

    `execute(arguments, context)` returns a `ToolResult`, text or blocks, or raises; it runs on a thread of
    its own. `parallel` marks it safe to run beside others, `timeout` limits a call in seconds.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    execute: Execute
    label: str = ""
    display_hint: ToolDisplayHint | None = None
    parallel: bool = False
    timeout: float | None = None


@runtime_checkable
class ToolLike(Protocol):
    """Anything a `ToolSet` accepts."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def parameters(self) -> dict[str, Any]: ...

    @property
    def execute(self) -> Callable[..., Any]: ...


@dataclass(frozen=True)
class FunctionTool(AgentTool):
    """A function made a tool by `@tool`; calling it calls the function."""

    function: Callable[..., Any] = field(default=lambda: None, repr=False)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


class ToolGroups(NamedTuple):
    """Tool names by origin, each list sorted."""

    builtin: list[str]
    extensions: dict[str, list[str]]


class ToolSet:
    """Tools by name, in order. A tool added under a name that is taken replaces it in its place.

    Threads: reads may run beside writes (a write swaps the table, so a reader sees the old or the new one);
    writers are serialised by the owner, `Agent.update_tools`.
    """

    __slots__ = ("_tools",)

    def __init__(self, tools: Iterable[Any] = ()) -> None:
        self._tools: dict[str, Any] = {}
        for item in tools:
            self.add(item)

    def add(self, item: Any) -> None:
        """Add a tool. Raises ConfigurationError for what is no tool."""
        _check_tool(item)
        self._tools = {**self._tools, item.name: item}

    def remove(self, name: str) -> None:
        """Take a tool out; nothing happens when there is none of that name."""
        self._tools = {key: item for key, item in self._tools.items() if key != name}

    def get(self, name: str) -> Any | None:
        """The tool of that exact name, or None."""
        return self._tools.get(name)

    def names(self) -> list[str]:
        """The names, in order."""
        return list(self._tools)

    def copy(self) -> ToolSet:
        """An independent set of the same tools."""
        twin = ToolSet()
        twin._tools = self._tools
        return twin

    def classify(self, extension_tools: Mapping[str, Iterable[str]] | None = None) -> ToolGroups:
        """The names by origin: those an extension claims go to it, the rest is builtin.

        Tools named `mcp__...` are left out.
        """
        owner = {name: extension for extension, names in (extension_tools or {}).items() for name in names}
        groups = ToolGroups([], {})
        for name in sorted(self._tools):
            if name.startswith("mcp__"):
                continue
            if name in owner:
                groups.extensions.setdefault(owner[name], []).append(name)
            else:
                groups.builtin.append(name)
        return groups

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __len__(self) -> int:
        return len(self._tools)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._tools.values()))

    def __repr__(self) -> str:
        return f"ToolSet({', '.join(self._tools)})"


def _check_tool(item: Any) -> None:
    missing = [name for name in ("name", "description", "parameters", "execute") if not hasattr(item, name)]
    if missing:
        hint = "; decorate it with @tool" if inspect.isfunction(item) else ""
        raise ConfigurationError(f"{item!r} is not a tool: it has no {', '.join(missing)}{hint}")
    if not isinstance(item.name, str) or not item.name:
        raise ConfigurationError(f"the name of a tool must be a non-empty string, not {item.name!r}")
    if not isinstance(item.parameters, Mapping):
        raise ConfigurationError(f"the parameters of tool {item.name!r} must be a JSON Schema object")
    if not callable(item.execute):
        raise ConfigurationError(f"tool {item.name!r} can't be executed: execute is not callable")


def to_result(value: Any) -> ToolResult:
    """A ToolResult of whatever a tool returned: a result of ours or of another package, text, blocks, None.

    Raises TypeError for anything else.
    """
    if isinstance(value, ToolResult):
        return value
    if value is None:
        return ToolResult(())
    if isinstance(value, str):
        return ToolResult(value)
    if hasattr(value, "content") and hasattr(value, "is_error"):
        content = value.content if isinstance(value.content, str) else _blocks(value.content)
        return ToolResult(
            content,
            getattr(value, "details", None),
            getattr(value, "meta", None),
            bool(value.is_error),
            bool(getattr(value, "terminate", False)),
            getattr(value, "status_message", "") or "",
        )
    if isinstance(value, Iterable) and not isinstance(value, (bytes, Mapping)):
        return ToolResult(_blocks(value))
    raise TypeError(f"a tool must return a ToolResult, text or content blocks, not {type(value).__name__}")


def _blocks(items: Iterable[Any]) -> list[UserBlock]:
    return [_block(item) for item in items]


def _block(item: Any) -> UserBlock:
    if isinstance(item, (TextContent, ImageContent)):
        return item
    if isinstance(item, str):
        return TextContent(item)
    read = item.get if isinstance(item, Mapping) else functools.partial(getattr, item)
    match read("type", None):
        case "text":
            return TextContent(read("text", ""))
        case "image":
            return ImageContent(read("data", ""), read("mime_type", None) or read("mimeType", ""))
    raise TypeError(f"a tool's content must be text and image blocks, not {type(item).__name__}")


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...


@overload
def tool(
    *,
    name: str = "",
    description: str = "",
    label: str = "",
    display_hint: ToolDisplayHint | None = None,
    parallel: bool = False,
    timeout: float | None = None,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    label: str = "",
    display_hint: ToolDisplayHint | None = None,
    parallel: bool = False,
    timeout: float | None = None,
) -> Any:
    """Make a function a tool: `@tool`, or `@tool(name=..., parallel=True, timeout=30)`.

    The schema comes from the annotations, descriptions from the docstring (Google, Sphinx or NumPy style) or
    from `Annotated[str, "..."]`. Arguments are checked and coerced by the annotations, extra ones ignored. A
    parameter called `context` gets the `ToolContext`. The function may return anything: text, blocks and
    `ToolResult` as they are, other values as JSON. The decorated function can still be called as before.

    Raises ConfigurationError for a function whose parameters no schema can describe.
    """

    def decorate(function: Callable[..., Any]) -> FunctionTool:
        return _function_tool(function, name, description, label, display_hint, parallel, timeout)

    return decorate if function is None else decorate(function)


def _function_tool(
    function: Callable[..., Any],
    name: str,
    description: str,
    label: str,
    display_hint: ToolDisplayHint | None,
    parallel: bool,
    timeout: float | None,
) -> FunctionTool:
    name = name or function.__name__
    summary, parameter_docs = split_docstring(function.__doc__)
    signature = _ArgumentModel(function, name, parameter_docs)

    def execute(arguments: dict[str, Any], context: Any) -> ToolResult:
        value = function(**signature.parse(arguments, context))
        if inspect.iscoroutine(value):
            import asyncio

            value = asyncio.run(value)
        return _function_result(value)

    return FunctionTool(
        name,
        description or summary,
        signature.schema(),
        execute,
        label,
        display_hint,
        parallel,
        timeout,
        function,
    )


def _function_result(value: Any) -> ToolResult:
    try:
        return to_result(value)
    except TypeError:
        pass
    from pydantic_core import to_json

    try:
        return ToolResult(to_json(value).decode())
    except Exception:
        return ToolResult(str(value))


class _ArgumentModel:
    """The arguments of a function as a pydantic model; its fields are numbered, so any name is possible."""

    def __init__(self, function: Callable[..., Any], name: str, docs: Mapping[str, str]) -> None:
        from pydantic import ConfigDict, Field, create_model

        self._name = name
        self._fields: dict[str, str] = {}
        self._wants_context = False
        fields: dict[str, Any] = {}
        for parameter in _parameters(function, name):
            if parameter.name == "context":
                self._wants_context = True
                continue
            key = f"argument_{len(fields)}"
            self._fields[parameter.name] = key
            annotation = Any if parameter.annotation is parameter.empty else parameter.annotation
            default = ... if parameter.default is parameter.empty else parameter.default
            described = docs.get(parameter.name) or _annotated_text(annotation)
            fields[key] = (annotation, Field(default, alias=parameter.name, description=described))
        config = ConfigDict(extra="ignore", arbitrary_types_allowed=False)
        try:
            self._model = create_model(name, __config__=config, **fields)
            self._schema = _plain_schema(self._model.model_json_schema(by_alias=True))
        except Exception as error:
            raise ConfigurationError(f"no schema can be made for tool {name!r}: {error}") from error

    def schema(self) -> dict[str, Any]:
        return self._schema

    def parse(self, arguments: Mapping[str, Any], context: Any) -> dict[str, Any]:
        from pydantic import ValidationError

        try:
            model = self._model.model_validate(arguments)
        except ValidationError as error:
            raise ToolError(f"invalid arguments for {self._name}: {_problems(error)}") from None
        values = {name: getattr(model, key) for name, key in self._fields.items()}
        return values | {"context": context} if self._wants_context else values


def _parameters(function: Callable[..., Any], name: str) -> list[inspect.Parameter]:
    try:
        signature = inspect.signature(function, eval_str=True)
    except Exception as error:
        raise ConfigurationError(f"the annotations of tool {name!r} can't be read: {error}") from error
    for parameter in signature.parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ConfigurationError(
                f"parameter {parameter.name!r} of tool {name!r} must be one that can be passed by name"
            )
    return list(signature.parameters.values())


def _annotated_text(annotation: Any) -> str | None:
    """The description in `Annotated[str, "..."]`."""
    return next((item for item in getattr(annotation, "__metadata__", ()) if isinstance(item, str)), None)


def _plain_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without the titles pydantic adds, which tell a model nothing."""
    plain: dict[str, Any] = _without_titles(schema)
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
        elif key != "title":
            cleaned[key] = _without_titles(value)
    return cleaned


def _problems(error: Any) -> str:
    parts = []
    for item in error.errors(include_url=False):
        where = ".".join(str(part) for part in item["loc"])
        if item["type"] == "missing":
            parts.append(f"{where} is required")
        else:
            parts.append(f"{where}: {item['msg']}, got {_shown(item['input'])}")
    return "; ".join(parts)


def _shown(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
