"""The messages that wait to enter a run: the steering and follow-up queues, and the reply to a parked run."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Literal

from agent.cancel import CancelToken
from agent.errors import ConfigurationError
from agent.messages import Message

QUEUE_MODES = ("one-at-a-time", "all")


class Receipt:
    """The state of a message given to `steer()` or `follow_up()`.

    `state` is `queued`; then `delivered`, once the message is part of a run, with `turn` as the number of the
    turn in that run, from 1; or `returned`, once it was taken back or dropped from the queue. Threads: any
    may read it; the inbox changes it, once.
    """

    __slots__ = ("_state", "_turn")

    def __init__(self) -> None:
        self._state: Literal["queued", "delivered", "returned"] = "queued"
        self._turn: int | None = None

    @property
    def state(self) -> Literal["queued", "delivered", "returned"]:
        """`queued`, `delivered` or `returned`."""
        return self._state

    @property
    def turn(self) -> int | None:
        """The turn of its run that the message entered, from 1; None unless delivered."""
        return self._turn

    def deliver(self, turn: int) -> None:
        """Set the state to `delivered`. Called by the inbox."""
        self._turn = turn
        self._state = "delivered"

    def give_back(self) -> None:
        """Set the state to `returned`. Called by the inbox."""
        self._state = "returned"

    def __repr__(self) -> str:
        return f"<Receipt {self._state}{f' in turn {self._turn}' if self._turn else ''}>"


class _Queue:
    """Messages with their receipts, oldest first.

    Used with the lock of the inbox held. A signal handler may append at any point of the other methods, on
    the same thread: each reads and changes `_items` by single operations that nothing comes in between.
    """

    __slots__ = ("_items", "mode")

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self._items: deque[tuple[Message, Receipt]] = deque()

    def __bool__(self) -> bool:
        return bool(self._items)

    def append(self, message: Message) -> Receipt:
        receipt = Receipt()
        self._items.append((message, receipt))
        return receipt

    def messages(self) -> list[Message]:
        return [message for message, _ in tuple(self._items)]

    def deliver(self, turn: int) -> list[Message]:
        """Take the oldest message, or all of them, by the mode."""
        taken = self._take_all() if self.mode == "all" else self._take_first()
        for _, receipt in taken:
            receipt.deliver(turn)
        return [message for message, _ in taken]

    def give_back(self) -> list[Message]:
        """Take all messages out."""
        returned = self._take_all()
        for _, receipt in returned:
            receipt.give_back()
        return [message for message, _ in returned]

    def remove(self, index: int) -> Message | None:
        """Take out the message at an index; None when there is none (negative ones never match)."""
        if not 0 <= index < len(self._items):
            return None
        message, receipt = self._items[index]
        del self._items[index]
        receipt.give_back()
        return message

    def _take_first(self) -> list[tuple[Message, Receipt]]:
        return [self._items.popleft()] if self._items else []

    def _take_all(self) -> list[tuple[Message, Receipt]]:
        # What is appended between the two assignments is in the queue that was taken, and not lost.
        taken, self._items = self._items, deque()
        return list(taken)


class Inbox:
    """The queues of an agent, and the one place for a reply to a run that parks.

    Steering enters at the start of a turn, follow-ups where the run would end, a reply where it is parked.
    `on_change` is called after each change of a queue; it must not block.

    Threads: every method may be called from any thread and from a signal handler, which may interrupt another
    of them on the same thread. The reentrant `_lock` guards everything against other threads; `_Queue` is
    written for the interruptions. Only the worker calls `wait`.
    """

    def __init__(
        self, steering_mode: str, follow_up_mode: str, on_change: Callable[[], object] = lambda: None
    ) -> None:
        self._lock = threading.RLock()
        self._steering = _Queue(checked_mode("steering_mode", steering_mode))
        self._follow_ups = _Queue(checked_mode("follow_up_mode", follow_up_mode))
        self._reply: Message | None = None
        self._takes_replies = False
        self._is_changed = False
        self._on_change = on_change
        self._waiter: SimpleQueue[None] | None = None

    @property
    def steering_mode(self) -> str:
        return self._steering.mode

    @steering_mode.setter
    def steering_mode(self, mode: str) -> None:
        self._steering.mode = checked_mode("steering_mode", mode)

    @property
    def follow_up_mode(self) -> str:
        return self._follow_ups.mode

    @follow_up_mode.setter
    def follow_up_mode(self, mode: str) -> None:
        self._follow_ups.mode = checked_mode("follow_up_mode", mode)

    # -- putting in, taking back -----------------------------------------------------------------------

    def steer(self, message: Message) -> Receipt:
        """Queue a message for the next turn."""
        return self._put(self._steering, message)

    def follow_up(self, message: Message) -> Receipt:
        """Queue a message for when the run would end."""
        return self._put(self._follow_ups, message)

    def has_messages(self) -> bool:
        """True while a message waits in either queue."""
        with self._lock:
            return bool(self._steering or self._follow_ups)

    def follow_ups(self) -> list[Message]:
        """A copy of the waiting follow-ups, oldest first."""
        with self._lock:
            return self._follow_ups.messages()

    def remove_follow_up(self, index: int) -> Message | None:
        """Take the follow-up at an index back; None when there is none."""
        with self._lock:
            message = self._follow_ups.remove(index)
            if message is not None:
                self._changed()
            return message

    def take_follow_ups(self) -> list[Message]:
        """Take all follow-ups back, oldest first."""
        with self._lock:
            return self._give_back(self._follow_ups)

    def clear_steering(self) -> None:
        """Drop the steering messages."""
        with self._lock:
            self._give_back(self._steering)

    def clear(self) -> None:
        """Drop the messages of both queues."""
        with self._lock:
            self._give_back(self._steering)
            self._give_back(self._follow_ups)

    def take_change(self) -> tuple[list[Message], list[Message]] | None:
        """The messages of the two queues if one has changed since the last call, else None."""
        with self._lock:
            if not self._is_changed:
                return None
            self._is_changed = False
            return self._steering.messages(), self._follow_ups.messages()

    # -- what a run takes ------------------------------------------------------------------------------

    def poll_steering(self, turn: int = 1) -> list[Message]:
        """Take the messages that the turn starts with, by the steering mode."""
        return self._deliver(self._steering, turn)

    def poll_follow_ups(self, turn: int = 1) -> list[Message]:
        """Take the messages that continue the run where it would end, by the follow-up mode."""
        return self._deliver(self._follow_ups, turn)

    # -- replies ---------------------------------------------------------------------------------------

    def open_replies(self) -> None:
        """Accept a reply from now on: a run that parks begins."""
        with self._lock:
            self._takes_replies = True

    def close_replies(self) -> None:
        """Accept no reply any more; one that the run did not use is dropped, never kept for the next."""
        with self._lock:
            self._takes_replies = False
            self._reply = None

    def reply(self, message: Message) -> bool:
        """Leave a reply; False when there is no run to take it, or one waits already."""
        with self._lock:
            if not self._takes_replies or self._reply is not None:
                return False
            self._reply = message
            self._wake()
            return True

    def take_reply(self) -> Message | None:
        """Take the reply, if there is one."""
        with self._lock:
            reply, self._reply = self._reply, None
            return reply

    def wait(self, cancel: CancelToken) -> bool:
        """Wait for a reply or a queued message; False once cancelled."""
        arrivals: SimpleQueue[None] = SimpleQueue()
        self._waiter = arrivals  # before the first look: what arrives after it is announced
        remove = cancel.on_cancel(lambda: arrivals.put(None))
        try:
            while not (self._reply or self.has_messages() or cancel.is_set()):
                arrivals.get()
            return not cancel.is_set()
        finally:
            self._waiter = None
            remove()

    # -- under the lock --------------------------------------------------------------------------------

    def _put(self, queue: _Queue, message: Message) -> Receipt:
        with self._lock:
            receipt = queue.append(message)
            self._changed()
        return receipt

    def _deliver(self, queue: _Queue, turn: int) -> list[Message]:
        with self._lock:
            messages = queue.deliver(turn)
            if messages:
                self._changed()
            return messages

    def _give_back(self, queue: _Queue) -> list[Message]:
        messages = queue.give_back()
        if messages:
            self._changed()
        return messages

    def _changed(self) -> None:
        self._is_changed = True
        self._on_change()
        self._wake()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None:
            waiter.put(None)


def checked_mode(name: str, mode: str) -> str:
    """The mode; empty stands for the default. Raises ConfigurationError for anything else."""
    if mode == "":
        return QUEUE_MODES[0]
    if mode not in QUEUE_MODES:
        raise ConfigurationError(f"{name} must be one of {', '.join(QUEUE_MODES)}, not {mode!r}")
    return mode
