"""The subscribers of an agent: called on its worker, or on a thread of their own behind a queue."""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from collections.abc import Callable

from agent.errors import ConfigurationError
from agent.events import Event, MessageUpdate, ToolExecutionUpdate
from agent.runtime.worker import Worker

logger = logging.getLogger("agent")

Subscriber = Callable[[Event], object]

FULL_QUEUE_TIMEOUT = 5.0
"""How long, in seconds, a run waits for a place in a full queue: longer than any screen or disk takes."""

_STREAMING = (MessageUpdate, ToolExecutionUpdate)


def _wait(slots: threading.Semaphore, seconds: float) -> bool:
    return slots.acquire(timeout=seconds)


class QueuedSubscriber:
    """Hands events to a function that runs on another thread, in order.

    A full queue makes the run wait for a slot, at most `FULL_QUEUE_TIMEOUT`. Then the event is dropped, and
    those that follow are dropped without a wait until there is a slot again, so that a function that never
    returns costs a run that wait once. With `drop_streaming`, updates of messages and tools never wait: there
    are many, and the end of the message or tool has the whole content. `dropped` counts what was dropped, of
    either kind.

    Threads: only the agent's worker calls it; any thread may call `close` and `finish`. Its own thread starts
    with the first event, and keeps neither the agent nor the function alive.
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
        self._slots = threading.Semaphore(size)
        self._worker: Worker | None = None
        self._is_closed = False
        self._is_stuck = False

    def __call__(self, event: Event) -> None:
        """Queue an event, or drop it."""
        if self._is_closed:
            return
        if not self._has_slot_for(event):
            self.dropped += 1
            return
        worker = self._worker or self._start()
        if worker is None:
            self.dropped += 1
            self._slots.release()
            return
        context = contextvars.copy_context()  # the function is inside the run as any subscriber is
        worker.put(lambda: context.run(self._deliver, event))

    def close(self) -> None:
        """Deliver nothing more; a run that waits for a slot goes on."""
        self._is_closed = True
        self._slots.release()
        self.finish()

    def finish(self) -> None:
        """Deliver what is queued, then end the thread. No event may follow."""
        if self._worker is not None:
            self._worker.stop()

    def join(self, seconds: float) -> None:
        """Wait for the thread to end, unless this is it."""
        if self._worker is not None and not self._worker.is_current():
            self._worker.join(seconds)

    def _start(self) -> Worker | None:
        """Start the thread; None when there is none to be had, and the next event tries again."""
        try:
            self._worker = Worker(f"agent-subscriber-{self._name}")
        except RuntimeError as error:
            logger.warning("a subscriber has no thread (%s); its events are dropped until it gets one", error)
        return self._worker

    def _has_slot_for(self, event: Event) -> bool:
        if self._slots.acquire(blocking=False):
            self._is_stuck = False
            return True
        if self._is_stuck or (self._drop_streaming and isinstance(event, _STREAMING)):
            return False
        if self._wait(self._slots, FULL_QUEUE_TIMEOUT):
            return not self._is_closed
        self._is_stuck = True
        logger.warning(
            "a subscriber took no event for %s s; %s is dropped, and what follows until it takes one",
            FULL_QUEUE_TIMEOUT,
            event.type,
        )
        return False

    def _deliver(self, event: Event) -> None:
        self._slots.release()
        if self._is_closed:
            return
        try:
            self._function(event)
        except BaseException:  # also SystemExit, which would end this thread alone
            logger.exception("a subscriber failed on %s", event.type)


class Subscription:
    """The return value of `subscribe()`: calling it ends the subscription, as often as you like.

    After that, a subscriber with a queue gets no further event, except for the one that it may be handling.
    """

    __slots__ = ("_queued", "_remove", "function", "with_children")

    def __init__(
        self, function: Subscriber, with_children: bool, remove: Callable[[Subscription], None]
    ) -> None:
        self.function = function
        self.with_children = with_children
        self._queued = function if isinstance(function, QueuedSubscriber) else None
        self._remove = remove

    def __call__(self) -> None:
        """End the subscription."""
        self._remove(self)
        if self._queued is not None:
            self._queued.close()

    @property
    def dropped(self) -> int:
        """How many events the subscriber missed because its queue was full; 0 without a queue."""
        return 0 if self._queued is None else self._queued.dropped


class SubscriberList:
    """The subscriptions of an agent, in the order in which they were made.

    Owner: an Agent. Threads: the worker reads `subscriptions` for every event; a change swaps the whole
    tuple, under `_lock`, so that a reader sees the old one or the new one. `_lock` is reentrant: a finalizer
    may end a subscription on the thread that is about to make one.
    """

    def __init__(self) -> None:
        self.subscriptions: tuple[Subscription, ...] = ()
        self._lock = threading.RLock()

    def add(
        self, function: Subscriber, queue: int | None, drop_streaming: bool, children: bool, name: str
    ) -> Subscription:
        """Add a subscriber; with a queue on a thread of its own, named after the agent."""
        if queue is not None:
            function = QueuedSubscriber(function, queue, drop_streaming, name)
        subscription = Subscription(function, children, self._remove)
        with self._lock:
            self.subscriptions = (*self.subscriptions, subscription)
        return subscription

    def finish(self) -> None:
        """Let those with a queue handle what is in it and end. No event may follow."""
        for queued in self._queued():
            queued.finish()

    def join(self, deadline: float) -> None:
        """Wait for their threads, until that moment of the monotonic clock."""
        for queued in self._queued():
            queued.join(max(0.0, deadline - time.monotonic()))

    def _remove(self, subscription: Subscription) -> None:
        with self._lock:
            self.subscriptions = tuple(other for other in self.subscriptions if other is not subscription)

    def _queued(self) -> list[QueuedSubscriber]:
        functions = [subscription.function for subscription in self.subscriptions]
        return [function for function in functions if isinstance(function, QueuedSubscriber)]
