"""Events from other threads, kept until the run's own thread emits them."""

from __future__ import annotations

from collections.abc import Callable

from agent.events import Event


class EventRelay:
    """Takes the events of runs inside this one, and notices of changed queues, to the run's thread.

    Owner: an Agent. Threads: `forward` and `notify` may be called from any thread and from a signal handler,
    and never block; `pending_events` and `on_pending` are called by the worker alone. There is no lock:
    appending to a list and swapping one are atomic. A wake-up may be one too many, never one too few.
    """

    __slots__ = ("_events", "_wake", "has_pending")

    def __init__(self) -> None:
        self.has_pending = False
        self._events: list[Event] = []
        self._wake: Callable[[], object] | None = None

    def forward(self, event: Event) -> None:
        """Keep an event for the run's thread."""
        self._events.append(event)
        self.notify()

    def notify(self) -> None:
        """Wake the run's thread: there is something to emit."""
        self.has_pending = True
        wake = self._wake
        if wake is not None:
            wake()

    def pending_events(self) -> list[Event]:
        """Take the events that were forwarded since the last call."""
        self.has_pending = False  # before they are taken: an event that comes now sets it again
        count = len(self._events)
        events = self._events[:count]
        del self._events[:count]
        return events

    def on_pending(self, wake: Callable[[], object] | None) -> None:
        """Call `wake` when there is something to emit, at once if there is now; None ends that.

        It runs on the thread that forwards, and must not block.
        """
        self._wake = wake
        if wake is not None and self.has_pending:
            wake()
