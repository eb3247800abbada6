"""What a tool is: `AgentTool`, the `@tool` decorator, and `ToolSet`, where names cannot collide.

A `ToolSet` also takes any object with `name`, `description`, `parameters` and `execute(arguments,
context)`, so tools of other packages fit without knowing this one.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, overload, runtime_checkable

from agent.cancel import CancelToken
from agent.errors import ConfigurationError
from agent.messages import ImageContent, TextContent, UserBlock
from agent.runs import RunMetadata
from agent.tools.docstrings import split_docstring
from agent.usage import Usage


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answers.

    `content` (a string, or text and image blocks) goes to the model; `details` only to screens and logs;
    `meta` is small text the model sees after the content. `terminate` asks to stop after this batch, which
    happens when every result of the batch asks for it. `status_message` labels a partial result.
    """

    content: tuple[UserBlock, ...]
    details: Any = field(default=None, hash=False)
    meta: Mapping[str, str] | None = field(default=None, hash=False)
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

    def __post_init__(self) -> None:
        if not isinstance(self.title_args, tuple):
            object.__setattr__(self, "title_args", tuple(self.title_args))


class ToolContext:
    """What a running tool knows: its call's id, the stop signal, a way to report progress, the run.

    Threads: made by the worker, used by the tool's thread and any it starts. `update` and `add_usage` may be
    called from any thread and never block; after the call is settled they do nothing.
    """

    __slots__ = ("_charge", "_report", "cancel", "journal", "run", "tool_call_id")

    def __init__(
        self,
        tool_call_id: str = "",
        cancel: CancelToken | None = None,
        report: Callable[[ToolResult], object] | None = None,
        run: RunMetadata | None = None,
        journal: Any = None,
        charge: Callable[[Usage], object] | None = None,
    ) -> None:
        self.tool_call_id = tool_call_id
        self.cancel = cancel or CancelToken()
        self.run = run
        self.journal = journal
        self._report = report
        self._charge = charge

    def update(self, partial: Any) -> None:
        """Show a partial result (a ToolResult or text); it is not stored."""
        if self._report is not None:
            self._report(to_result(partial))

    def add_usage(self, usage: Usage) -> None:
        """Count what the tool spent on models itself towards the run: its usage, and so its limits."""
        if self._charge is not None:
            self._charge(usage)


Execute = Callable[[dict[str, Any], Any], Any]


@dataclass(frozen=True, slots=True)
class AgentTool:
    """A tool: what the model is told of it, and the function that does it.

    `execute(arguments, context)` returns a `ToolResult`, text or blocks, or raises; it runs on a thread of
    its own. `parallel` marks it safe to run beside others, `timeout` limits a call in seconds.
    """

    name: str
    description: str
    parameters: dict[str, Any] = field(hash=False)
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
    """A function made a tool by `@tool`; calling it calls the function, and its name and docs are kept."""

    function: Callable[..., Any] = field(default=lambda: None, repr=False)

    def __post_init__(self) -> None:
        kept = {name: getattr(self.function, name, None) for name in ("__name__", "__module__", "__doc__")}
        self.__dict__.update(kept, __wrapped__=self.function)

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

    def __init__(self, tools: Iterable[Any] | None = ()) -> None:
        self._tools: dict[str, Any] = {}
        for item in tools or ():
            _check_tool(item)
            self._tools[item.name] = item

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


class JoinedTools(ToolSet):
    """A live set and a few tools that are always there; the latter win. For reading only."""

    __slots__ = ("_always", "_live")

    def __init__(self, live: ToolSet, always: Iterable[Any]) -> None:
        super().__init__()
        self._live = live
        self._always = ToolSet(always)

    def get(self, name: str) -> Any | None:
        return self._always.get(name) or self._live.get(name)

    def names(self) -> list[str]:
        return [item.name for item in self]

    def copy(self) -> ToolSet:
        return ToolSet(self)

    def __contains__(self, name: object) -> bool:
        return name in self._always or name in self._live

    def __len__(self) -> int:
        return len(self.names())  # not of a list, whose making would ask for the length

    def __iter__(self) -> Iterator[Any]:
        return iter([*(item for item in self._live if item.name not in self._always), *self._always])


def _check_tool(item: Any) -> None:
    missing = [name for name in ("name", "description", "parameters", "execute") if not hasattr(item, name)]
    if missing:
        hint = "; decorate it with @tool" if inspect.isfunction(item) else ""
        raise ConfigurationError(f"{item!r} is not a tool: it has no {', '.join(missing)}{hint}")
    if not isinstance(item.name, str) or not item.name:
        raise ConfigurationError(f"the name of a tool must be a non-empty string, not {item.name!r}")
    if not isinstance(item.description, str):
        raise ConfigurationError(f"the description of tool {item.name!r} must be a string")
    if not isinstance(item.parameters, Mapping):
        raise ConfigurationError(f"the parameters of tool {item.name!r} must be a JSON Schema object")
    if not callable(item.execute):
        raise ConfigurationError(f"tool {item.name!r} can't be executed: execute is not callable")


def to_result(value: Any) -> ToolResult:
    """A ToolResult of whatever a tool returned: a result of ours or of another package, text, a block or
    several, None.

    Raises TypeError for anything else.
    """
    if isinstance(value, ToolResult):
        return value
    if value is None:
        return ToolResult(())
    if isinstance(value, str):
        return ToolResult(value)
    if isinstance(value, (TextContent, ImageContent)):
        return ToolResult((value,))
    if hasattr(value, "content") and hasattr(value, "is_error"):
        content = value.content if isinstance(value.content, str) else _blocks(value.content or ())
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
        case "text" if isinstance(text := read("text", None), str):
            return TextContent(text)
        case "image" if (data := read("data", None)) and isinstance(data, str):
            return ImageContent(data, read("mime_type", None) or read("mimeType", ""))
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
    `ToolResult` as they are, other values as JSON. An async function runs on an event loop of its own and is
    cancelled with the run. The decorated function can still be called as before.

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
    from agent.tools.signature import ArgumentModel

    if not callable(function):
        raise ConfigurationError(
            f"@tool takes a function, not {function!r}; settings go by name: @tool(name=...)"
        )
    name = name or getattr(getattr(function, "func", function), "__name__", "<nameless>")
    if name.startswith("<"):
        raise ConfigurationError(f"{function!r} has no name a model could call it by; give one: name=...")
    summary, parameter_docs = split_docstring(function.__doc__)
    arguments_of = ArgumentModel(function, name, parameter_docs)

    def execute(arguments: dict[str, Any], context: Any = None) -> ToolResult:
        value = function(**arguments_of.parse(arguments, context))
        if inspect.iscoroutine(value):
            from agent.tools.coroutines import run_coroutine

            value = run_coroutine(value, getattr(context, "cancel", None))
        return _function_result(value)

    return FunctionTool(
        name,
        description or summary,
        arguments_of.schema,
        execute,
        label,
        display_hint,
        parallel,
        timeout,
        function,
    )


def _function_result(value: Any) -> ToolResult:
    """The result of what a function returned: a result as it is, data as JSON, anything else as text."""
    if isinstance(value, (bytes, bytearray)):
        return ToolResult(value.decode(errors="replace"))
    if not _is_list_of_data(value):
        try:
            return to_result(value)
        except TypeError:
            pass
    from pydantic_core import to_json

    try:
        return ToolResult(to_json(value).decode())
    except Exception:
        return ToolResult(str(value))


def _is_list_of_data(value: Any) -> bool:
    """True for what can be iterated, but for results and for lists that hold text and image blocks."""
    if not isinstance(value, Iterable) or isinstance(value, str) or hasattr(value, "is_error"):
        return False
    if not isinstance(value, (list, tuple)) or all(isinstance(item, str) for item in value):
        return True
    try:
        _blocks(value)
    except TypeError:
        return True
    return False
