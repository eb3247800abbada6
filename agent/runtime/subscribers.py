"""Who hears of the events of an agent: on its worker, or, slow, on a thread of their own behind a queue."""

from __future__ import annotations

import contextvars
import logging
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue

from agent.errors import ConfigurationError
from agent.events import Event, MessageUpdate, ToolExecutionUpdate
from agent.runtime.worker import Jobs, hire

logger = logging.getLogger("agent")

Subscriber = Callable[[Event], object]

PATIENCE = 5.0
"""How long, in seconds, a run waits for a place in a full queue: longer than any screen or disk takes."""

_STREAMING = (MessageUpdate, ToolExecutionUpdate)


def _wait(room: threading.Semaphore, seconds: float) -> bool:
    return room.acquire(timeout=seconds)


class QueuedSubscriber:
    """Hands events to a function that runs on another thread, in order.

    A full queue makes the run wait for a place, at most `PATIENCE`; then the event is dropped, and what
    follows is dropped at once until there is room again, so that a function that never returns costs a run
    that wait once. With `drop_streaming`, updates of messages and tools never wait: there are many, and the
    end of the message or tool says it all. `dropped` counts what was dropped, of either kind.

    Threads: only the agent's worker calls it. `leave` and `end` may come from any thread. The thread starts
    with the first event and knows its jobs alone, so that it keeps neither the agent nor the function alive.
    """

    def __init__(
        self,
        function: Subscriber,
        size: int,
        drop_streaming: bool = False,
        name: str = "",
        wait: Callable[[threading.Semaphore, float], bool] = _wait,
    ) -> None:
        if type(size) is not int or size < 1:
            raise ConfigurationError(f"queue must be a whole number of at least 1, or None, not {size!r}")
        self.dropped = 0
        self._function = function
        self._drop_streaming = drop_streaming
        self._name = name
        self._wait = wait
        self._room = threading.Semaphore(size)
        self._jobs: Jobs = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._left = False
        self._stuck = False
        weakref.finalize(self, self._jobs.put, None).atexit = False

    def __call__(self, event: Event) -> None:
        """Queue an event, or drop it."""
        if self._left:
            return
        if not self._has_room_for(event):
            self.dropped += 1
            return
        if self._thread is None:
            self._thread = hire(self._jobs, f"agent-subscriber-{self._name}")
        context = contextvars.copy_context()  # the function is inside the run as any subscriber is
        self._jobs.put(lambda: context.run(self._deliver, event))

    def leave(self) -> None:
        """Deliver nothing more; frees a run that waits for a place."""
        self._left = True
        self._room.release()
        self._jobs.put(None)

    def end(self) -> None:
        """Deliver what is queued, then end the thread. No event may follow."""
        self._jobs.put(None)

    def join(self, seconds: float) -> None:
        """Wait for the thread to end, unless this is it."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(seconds)

    def _has_room_for(self, event: Event) -> bool:
        if self._room.acquire(blocking=False):
            self._stuck = False
            return True
        if self._stuck or (self._drop_streaming and isinstance(event, _STREAMING)):
            return False
        if self._wait(self._room, PATIENCE):
            return not self._left
        self._stuck = True
        logger.warning(
            "a subscriber took no event for %s s; %s is dropped, and what follows until it takes one",
            PATIENCE,
            event.type,
        )
        return False

    def _deliver(self, event: Event) -> None:
        self._room.release()
        if self._left:
            return
        try:
            self._function(event)
        except BaseException:  # also SystemExit, which would end this thread alone
            logger.exception("a subscriber failed on %s", event.type)


class Subscription:
    """What `subscribe()` returns: calling it ends the subscription, as often as you like.

    Once it has returned, a subscriber with a queue hears of no further event, but for the one it may be at.
    """

    __slots__ = ("_end", "_queued")

    def __init__(self, end: Callable[[], None], queued: QueuedSubscriber | None = None) -> None:
        self._end = end
        self._queued = queued

    def __call__(self) -> None:
        """End the subscription."""
        self._end()
        if self._queued is not None:
            self._queued.leave()

    @property
    def dropped(self) -> int:
        """How many events the subscriber missed because its queue was full; 0 without a queue."""
        return 0 if self._queued is None else self._queued.dropped


@dataclass(frozen=True, slots=True)
class Member:
    """A subscriber, and whether it hears of the runs inside those of its agent."""

    function: Subscriber
    hears_children: bool


class Audience:
    """The subscribers of an agent, in the order they came.

    Threads: `members` is read by the worker for every event; a change swaps the whole tuple, under `_lock`,
    so that whoever reads it sees the old one or the new one.
    """

    def __init__(self) -> None:
        self.members: tuple[Member, ...] = ()
        # Reentrant: a finalizer may end a subscription on the thread that is about to begin one.
        self._lock = threading.RLock()

    def add(
        self, function: Subscriber, queue: int | None, drop_streaming: bool, children: bool, name: str
    ) -> Subscription:
        """Begin a subscription; with a queue on a thread of its own, named after the agent."""
        queued = None if queue is None else QueuedSubscriber(function, queue, drop_streaming, name)
        member = Member(queued or function, children)
        with self._lock:
            self.members = (*self.members, member)

        def leave() -> None:
            with self._lock:
                self.members = tuple(other for other in self.members if other is not member)

        return Subscription(leave, queued)

    def end(self) -> None:
        """Let those with a queue hear what is in it and end. No event may follow."""
        for queued in self._queued():
            queued.end()

    def join(self, deadline: float) -> None:
        """Wait for their threads, until that moment of the monotonic clock."""
        for queued in self._queued():
            queued.join(max(0.0, deadline - time.monotonic()))

    def _queued(self) -> list[QueuedSubscriber]:
        return [m.function for m in self.members if isinstance(m.function, QueuedSubscriber)]
