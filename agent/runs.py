"""One run of an agent: who it is, a handle to wait for it, and what came of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import uuid4

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
    """Which run something belongs to. `parent_run_id` is empty unless it was started inside another."""

    run_id: str
    parent_run_id: str = ""
    agent_name: str = ""


@dataclass(frozen=True, slots=True)
class RunResult:
    """What came of a run: why it stopped, its completed turns, its usage, the last text and its messages.

    `output` is the typed result, when one was asked for and given. `cause` is the exception that ended the
    run, if that was a hook's.
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


Ear = Callable[[Any], object]
"""Takes an event of a run to where others hear of it too; may be called from any thread and never blocks."""

# Where events of the runs that are started by this code are told as well: to the run it is part of.
_ear: ContextVar[Ear | None] = ContextVar("agent_events_of_runs_started_here", default=None)


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
    """How many runs this code is part of: 1 in a tool of an agent that nobody runs."""
    return len(_inside.get())


def hear_runs_started_here(ear: Ear) -> None:
    """Let the events of all runs that are started in the current context be told to `ear` too."""
    _ear.set(ear)


def ear_of_the_enclosing_run() -> Ear | None:
    """Where a run that is started here has to tell its events to, beside its own subscribers."""
    return _ear.get()


def refuse_inside(agent_key: object, what: str) -> None:
    """Raise RuntimeError when called from within a run of that agent, where waiting could never end."""
    if is_inside(agent_key):
        raise RuntimeError(
            f"{what} was called from a tool, hook or subscriber of a run of the same agent: "
            "it would wait for itself"
        )


# Python runs signal handlers on the main thread, once that runs. The system may hand a signal to any thread,
# and on Windows none wakes a wait: a main thread that waits without end may never hear of a Ctrl-C. So it
# comes up for air.
AIR = 0.1


def air() -> float | None:
    """How long a wait on this thread may last before it has to look around; None for ever."""
    return AIR if threading.current_thread() is threading.main_thread() else None


def wait_for(event: threading.Event, timeout: float | None) -> bool:
    """`event.wait(timeout)`, which a signal's handler interrupts whichever thread the signal reached."""
    if air() is None:
        return event.wait(timeout)
    deadline = None if timeout is None else time.monotonic() + timeout
    while not event.wait(AIR if deadline is None else min(AIR, max(0.0, deadline - time.monotonic()))):
        if deadline is not None and time.monotonic() >= deadline:
            return False
    return True


class Run:
    """A handle on one run, returned by `prompt()` and `resume()`.

    Threads: made by the caller, settled once by the worker; every method may be called from any thread. It
    does not keep the agent alive.
    """

    __slots__ = ("_agent_key", "_finished", "_metadata", "_result")

    def __init__(self, metadata: RunMetadata, agent_key: object) -> None:
        self._metadata = metadata
        self._agent_key = agent_key
        self._finished = threading.Event()
        self._result: RunResult | None = None

    @property
    def run_id(self) -> str:
        """The id that the run's events carry."""
        return self._metadata.run_id

    @property
    def metadata(self) -> RunMetadata:
        """The run's ids."""
        return self._metadata

    @property
    def done(self) -> bool:
        """True once the run has ended and its last subscriber has returned."""
        return self._finished.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end, at most `timeout` seconds; True when it has ended.

        Raises RuntimeError inside a run of the same agent.
        """
        refuse_inside(self._agent_key, "Run.wait()")
        return wait_for(self._finished, timeout)

    def result(self, timeout: float | None = None) -> RunResult:
        """What came of the run, waiting for its end.

        Raises TimeoutError; a failed run is a result with `stop="error"`.
        """
        if not self._finished.is_set() and not self.wait(timeout):
            raise TimeoutError(f"the run did not end within {timeout} seconds")
        assert self._result is not None
        return self._result

    def settle(self, result: RunResult) -> None:
        """Called by the worker, once."""
        self._result = result
        self._finished.set()

    def __repr__(self) -> str:
        return f"<Run {self.run_id} {'done' if self.done else 'running'}>"
