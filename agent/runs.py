"""The vocabulary of runs: metadata, results, and which run the current code is part of."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import uuid4

from agent.cancel import CancelToken
from agent.messages import Message, ToolCall
from agent.usage import Usage

Stop = Literal[
    "end_turn",
    "max_turns",
    "budget",
    "paused",
    "stop_when",
    "terminated",
    "stopped",
    "truncated",
    "aborted",
    "error",
]


@dataclass(frozen=True, slots=True)
class RunMetadata:
    """The ids of a run. `parent_run_id` is empty unless the run was started inside another."""

    run_id: str
    parent_run_id: str = ""
    agent_name: str = ""


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run: why it stopped, its completed turns, its usage, the last text and its messages.

    `output` is the typed result, when one was asked for and given. `cause` is the exception that ended the
    run, if a hook raised it.
    """

    stop: Stop
    turns: int = 0
    usage: Usage = field(default_factory=Usage)
    text: str = ""
    messages: tuple[Message, ...] = ()
    pending_calls: tuple[ToolCall, ...] = ()
    error: str = ""
    run_id: str = ""
    output: Any = None
    cause: BaseException | None = field(default=None, compare=False, repr=False)


_current: ContextVar[RunMetadata | None] = ContextVar("agent_current_run", default=None)
# The keys of all agents inside whose runs this code is running, the innermost and those that wait for it.
_inside: ContextVar[frozenset[object]] = ContextVar("agent_inside_runs_of", default=frozenset())


EventSink = Callable[[Any], object]
"""Takes the events of a run, on whatever thread they come; never blocks."""

# The sink of the run that this code is part of: it gets the events of the runs that are started here.
_parent_sink: ContextVar[EventSink | None] = ContextVar("agent_parent_sink", default=None)


# The stop signal of the tool call or run that this code is part of.
_current_cancel: ContextVar[CancelToken | None] = ContextVar("agent_current_cancel", default=None)


def current_run() -> RunMetadata | None:
    """The run that this code is part of (a tool, a hook, a subscriber), or None outside of any."""
    return _current.get()


def new_metadata(agent_key: object, agent_name: str) -> RunMetadata:
    """Metadata for a run started here: a child of the current run, or a sibling of the agent's own."""
    outer = _current.get()
    parent = ""
    if outer is not None:
        parent = outer.parent_run_id if is_inside(agent_key) else outer.run_id
    return RunMetadata(f"run_{uuid4().hex}", parent, agent_name)


def enter_run(metadata: RunMetadata, agent_key: object) -> None:
    """Mark the current context as part of a run. Called once, in a context made for that run."""
    _current.set(metadata)
    _inside.set(_inside.get() | {agent_key})


def is_inside(agent_key: object) -> bool:
    """True in code that runs as part of a run of that agent."""
    return agent_key in _inside.get()


def depth() -> int:
    """How many runs this code is part of: 1 in a tool of an agent that was prompted from outside of any."""
    return len(_inside.get())


def cancel_with(token: CancelToken) -> Token[CancelToken | None]:
    """Make `token` the stop signal of code in the current context; `restore_cancel` ends that."""
    return _current_cancel.set(token)


def restore_cancel(before: Token[CancelToken | None]) -> None:
    """Undo a call of `cancel_with` in the same context."""
    _current_cancel.reset(before)


def current_cancel() -> CancelToken | None:
    """The stop signal of the tool call or run that this code is part of; None outside of any."""
    return _current_cancel.get()


def forward_events_to(sink: EventSink) -> None:
    """Send the events of all runs that are started in the current context to `sink` too."""
    _parent_sink.set(sink)


def parent_sink() -> EventSink | None:
    """The sink that gets the events of a run that is started here; None outside of any run."""
    return _parent_sink.get()
