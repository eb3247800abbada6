"""A run as an iterator of its events."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from types import TracebackType

from agent.cancel import CancelToken, poll_timeout
from agent.events import AgentEnd, Event
from agent.runtime.run_handle import Run
from agent.runtime.subscribers import Subscriber

# A deadlock guard. The collector may drop an iterator in the middle of anything a thread does, where the
# run's end might wait for that thread. An aborted run ends long before this.
_DROPPED_TIMEOUT = 3.0


class EventIterator:
    """The events of one run, in order, ending with its `agent_end`.

    `start(cancel)` starts the run, `subscribe` and `can_wait` are those of its agent. Raises what `start`
    raises.

    Threads: the worker puts events on an unbounded queue and is never held up; one thread iterates, any may
    close, which also ends the iteration. Closing, leaving a `with` block or dropping the iterator before the
    end aborts the run and waits for it (inside a run of the same agent, which can't wait, it aborts only).
    """

    def __init__(
        self,
        start: Callable[[CancelToken], Run],
        subscribe: Callable[[Subscriber], Callable[[], None]],
        can_wait: Callable[[], bool],
    ) -> None:
        self._can_wait = can_wait
        self._cancel = CancelToken()
        self._events: SimpleQueue[Event | None] = SimpleQueue()
        self._ended = True
        self._unsubscribe = subscribe(self._events.put)
        try:
            self.run: Run = start(self._cancel)
            self._ended = False
        except BaseException:
            self._end()
            self._cancel.cancel("aborted")
            raise

    def __iter__(self) -> EventIterator:
        return self

    def __next__(self) -> Event:
        if self._ended:
            raise StopIteration
        if not self._can_wait():
            raise RuntimeError("a run's own tools, hooks and subscribers can't iterate over its events")
        while True:
            event = self._next()
            if event is None:  # closed by another thread
                raise StopIteration
            # A run that was just finishing when this one was accepted may still be emitting its end.
            if event.run_id == self.run.run_id:
                break
        if isinstance(event, AgentEnd):
            self._end()
            self.run.wait()
        return event

    def _next(self) -> Event | None:
        while True:
            try:
                return self._events.get(timeout=poll_timeout())
            except Empty:
                continue

    def close(self) -> None:
        """Abort the run if it has not ended, and wait for it."""
        self._close(None)

    def _close(self, timeout: float | None) -> None:
        if self._ended:
            return
        self._end()
        self._events.put(None)
        self._cancel.cancel("aborted")
        if self._can_wait():
            self.run.wait(timeout)

    def _end(self) -> None:
        self._ended = True
        self._unsubscribe()

    def __enter__(self) -> EventIterator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_ended", True):
            self._close(_DROPPED_TIMEOUT)
