"""A run as an iterator of its events."""

from __future__ import annotations

from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any

from agent.events import AgentEnd, Event
from agent.runs import Run

if TYPE_CHECKING:
    from agent.agent import Agent


class EventStream:
    """The events of one run, in order, ending with its `agent_end`.

    Threads: the worker puts events on an unbounded queue and is never held up; one thread iterates. Closing,
    leaving a `with` block or dropping the iterator before the end aborts the run and waits for it (inside a
    run of the same agent, which can't wait for it, it aborts only).
    """

    def __init__(self, agent: Agent, prompt: Any, images: Any) -> None:
        self._agent = agent
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._ended = False
        self._unsubscribe = agent.subscribe(self._events.put)
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
        while True:
            event = self._events.get()
            # A run that was just finishing when this one was accepted may still be telling its end.
            if event.run_id == self.run.run_id:
                break
        if isinstance(event, AgentEnd):
            self._end()
            if self._agent.can_wait():
                self.run.wait()
        return event

    def close(self) -> None:
        """Abort the run if it has not ended, and wait for it."""
        if self._ended:
            return
        self._end()
        self._agent.abort_run(self.run)
        if self._agent.can_wait():
            self.run.wait()

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
            self.close()
