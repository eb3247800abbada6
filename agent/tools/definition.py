"""The definition of a tool: its name and schema, how a screen shows a call, the function that runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from agent.cancel import CancelToken
from agent.runs import RunMetadata
from agent.tools.results import ToolResult, to_result
from agent.usage import Usage


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
    """The second argument of `execute`: the id of the call, the cancel token, progress reports, the run.

    Threads: made by the worker, used by the tool's thread and any it starts. `update` and `add_usage` may be
    called from any thread and never block; after the call has its result they do nothing.
    """

    __slots__ = ("_on_update", "_on_usage", "cancel", "journal", "run", "tool_call_id")

    def __init__(
        self,
        tool_call_id: str = "",
        cancel: CancelToken | None = None,
        on_update: Callable[[ToolResult], object] | None = None,
        run: RunMetadata | None = None,
        journal: Any = None,
        on_usage: Callable[[Usage], object] | None = None,
    ) -> None:
        self.tool_call_id = tool_call_id
        self.cancel = cancel or CancelToken()
        self.run = run
        self.journal = journal
        self._on_update = on_update
        self._on_usage = on_usage

    def update(self, partial: Any) -> None:
        """Show a partial result (a ToolResult or text); it is not stored."""
        if self._on_update is not None:
            self._on_update(to_result(partial))

    def add_usage(self, usage: Usage) -> None:
        """Add what the tool itself spent on models to the usage of the run, which counts for its limits.

        Raises TypeError for anything but a `Usage`, such as the usage object of another SDK.
        """
        if not isinstance(usage, Usage):
            raise TypeError(f"add_usage takes an agent.Usage, not {type(usage).__name__}")
        if self._on_usage is not None:
            self._on_usage(usage)


Execute = Callable[[dict[str, Any], Any], Any]


@dataclass(frozen=True, slots=True)
class AgentTool:
    """A tool: name, description and JSON Schema for the model, and the function that runs.

    `execute(arguments, context)` returns a `ToolResult`, text or blocks, or raises; it runs on a thread of
    its own. `parallel` marks it safe to run beside others, `timeout` limits a call in seconds, `read_only`
    says that a call changes nothing.
    """

    name: str
    description: str
    parameters: dict[str, Any] = field(hash=False)
    execute: Execute
    label: str = ""
    display_hint: ToolDisplayHint | None = None
    parallel: bool = False
    timeout: float | None = None
    read_only: bool = False


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
