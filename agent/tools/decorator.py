"""The `@tool` decorator: a function with annotations and a docstring becomes a tool."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

from agent.errors import ConfigurationError
from agent.json_values import JsonObject
from agent.tools.definition import AgentTool, Execute, ToolDisplayHint
from agent.tools.results import ToolResult, content_blocks, to_result

if TYPE_CHECKING:  # imports pydantic
    from agent.tools.signature import ArgumentModel


@dataclass(frozen=True)
class FunctionTool(AgentTool):
    """A function made a tool by `@tool`; calling it calls the function, and its name and docs are kept."""

    function: Callable[..., Any] = field(default=lambda: None, repr=False)

    def __post_init__(self) -> None:
        kept = {name: getattr(self.function, name, None) for name in ("__name__", "__module__", "__doc__")}
        self.__dict__.update(kept, __wrapped__=self.function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


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
    read_only: bool = False,
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
    read_only: bool = False,
) -> Any:
    """Make a function a tool: `@tool`, or `@tool(name=..., parallel=True, timeout=30)`.

    The schema comes from the annotations, descriptions from the docstring (Google, Sphinx or NumPy style) or
    from `Annotated[str, "..."]`. Arguments are checked and coerced by the annotations, extra ones ignored. A
    parameter called `context` gets the `ToolContext`. The function may return anything: text, blocks and
    `ToolResult` as they are, other values as JSON. An async function runs on an event loop of its own and is
    cancelled with the run. The decorated function can still be called as before.

    `parallel` marks it safe to run beside others, `timeout` limits a call in seconds, `read_only` says that a
    call changes nothing. Raises ConfigurationError for a function whose parameters no schema can describe.
    """

    def decorate(function: Callable[..., Any]) -> FunctionTool:
        from agent.tools.docstrings import split_docstring
        from agent.tools.signature import ArgumentModel

        tool_name = name or _name_of(function)
        summary, parameter_docs = split_docstring(function.__doc__)
        arguments = ArgumentModel(function, tool_name, parameter_docs)
        return FunctionTool(
            name=tool_name,
            description=description or summary,
            parameters=arguments.schema,
            execute=_executor(function, arguments),
            label=label,
            display_hint=display_hint,
            parallel=parallel,
            timeout=timeout,
            read_only=read_only,
            function=function,
        )

    return decorate if function is None else decorate(function)


def _name_of(function: Callable[..., Any]) -> str:
    if not callable(function):
        raise ConfigurationError(
            f"@tool takes a function, not {function!r}; settings go by name: @tool(name=...)"
        )
    name: str = getattr(getattr(function, "func", function), "__name__", "<nameless>")
    if name.startswith("<"):
        raise ConfigurationError(f"{function!r} has no name a model could call it by; give one: name=...")
    return name


def _executor(function: Callable[..., Any], arguments_of: ArgumentModel) -> Execute:
    """The `execute` of a tool: checks the arguments, calls the function, converts what it returns."""

    def execute(arguments: JsonObject, context: Any = None) -> ToolResult:
        value = function(**arguments_of.parse(arguments, context))
        if inspect.iscoroutine(value):
            from agent.tools.coroutines import run_coroutine

            value = run_coroutine(value, getattr(context, "cancel", None))
        return _function_result(value)

    return execute


def _function_result(value: Any) -> ToolResult:
    """The result for a function's return value: results as they are, data as JSON, anything else as text."""
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
    """True for an iterable that is neither a result nor a list with text and image blocks."""
    if not isinstance(value, Iterable) or isinstance(value, str) or hasattr(value, "is_error"):
        return False
    if not isinstance(value, (list, tuple)) or all(isinstance(item, str) for item in value):
        return True
    try:
        content_blocks(value)
    except TypeError:
        return True
    return False
