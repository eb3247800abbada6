"""A run as an iterator of its events."""

from __future__ import annotations

from queue import Empty, SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any

from agent import runs
from agent.events import AgentEnd, Event
from agent.runs import Run

if TYPE_CHECKING:
    from agent.agent import Agent


# The collector may drop a stream in the middle of anything a thread does, where the run's end might wait for
# that thread. An aborted run ends long before this; more is a knot that must come undone.
_DROPPED_TIMEOUT = 3.0


class EventStream:
    """The events of one run, in order, ending with its `agent_end`.

    Threads: the worker puts events on an unbounded queue and is never held up; one thread iterates, any may
    close, which also ends the iteration. Closing, leaving a `with` block or dropping the iterator before the
    end aborts the run and waits for it (inside a run of the same agent, which can't wait, it aborts only).
    """

    def __init__(self, agent: Agent, prompt: Any, images: Any) -> None:
        self._agent = agent
        self._events: SimpleQueue[Event | None] = SimpleQueue()
        self._ended = False
        self._unsubscribe = agent.subscribe(self._events.put, children=False)
        try:
            self.run: Run = agent.prompt(prompt, images)
        except BaseException:
            self._ended = True
            self._unsubscribe()
            raise

    def __iter__(self) -> EventStream:
        return self

    def __next__(self) -> Event:
        if self._ended:
            raise StopIteration
        if not self._agent.can_wait():
            raise RuntimeError("a run's own tools, hooks and subscribers can't iterate over its events")
        while True:
            event = self._next()
            if event is None:  # closed by another thread
                raise StopIteration
            # A run that was just finishing when this one was accepted may still be telling its end.
            if event.run_id == self.run.run_id:
                break
        if isinstance(event, AgentEnd):
            self._end()
            self.run.wait()
        return event

    def _next(self) -> Event | None:
        while True:
            try:
                return self._events.get(timeout=runs.air())
            except Empty:
                continue

    def close(self) -> None:
        """Abort the run if it has not ended, and wait for it."""
        self._leave(None)

    def _leave(self, timeout: float | None) -> None:
        if self._ended:
            return
        self._end()
        self._events.put(None)
        self._agent.abort_run(self.run)
        if self._agent.can_wait():
            self.run.wait(timeout)

    def _end(self) -> None:
        self._ended = True
        self._unsubscribe()

    def __enter__(self) -> EventStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_ended", True):
            self._leave(_DROPPED_TIMEOUT)
