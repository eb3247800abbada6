"""What other threads leave for a run: steering, follow-ups, a reply, and the events of runs inside it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Literal

from agent.cancel import CancelToken
from agent.errors import ConfigurationError
from agent.events import Event
from agent.messages import Message

QUEUE_MODES = ("one-at-a-time", "all")


class Receipt:
    """What became of a message given to `steer()` or `follow_up()`.

    `state` is `queued`; then `delivered`, once it is part of a run (`turn` says in which of its turns, from
    1); or `returned`, once it was taken back or dropped from the queue. Threads: any may read it.
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
        """Called by the inbox, once."""
        self._turn = turn
        self._state = "delivered"

    def give_back(self) -> None:
        """Called by the inbox, once."""
        self._state = "returned"

    def __repr__(self) -> str:
        return f"<Receipt {self._state}{f' in turn {self._turn}' if self._turn else ''}>"


_Queue = deque[tuple[Message, Receipt]]


class Inbox:
    """Messages that wait to enter a run, and the events of other runs that its listeners should hear.

    Steering enters at the next turn, follow-ups when the run would end, a reply where it is parked. The two
    queues have a mode each: a poll takes the oldest message (`one-at-a-time`) or everything (`all`). There is
    one place for a reply, and only while a run that parks is active.

    `news` is true once there is something to tell: a queue has changed, or an event was heard.

    Threads: every method may be called from any thread and from a signal handler, which may interrupt another
    of them on the same thread; the reentrant `_lock` guards everything. Only the worker waits.
    """

    def __init__(self, steering_mode: str, follow_up_mode: str) -> None:
        self._lock = threading.RLock()
        self._arrived = threading.Condition(self._lock)
        self._steering: _Queue = deque()
        self._follow_ups: _Queue = deque()
        self._reply: Message | None = None
        self._takes_replies = False
        self._heard: list[Event] = []
        self._queues_changed = False
        self._wake_listener: Callable[[], object] | None = None
        self.news = False
        self._steering_mode = checked_mode("steering_mode", steering_mode)
        self._follow_up_mode = checked_mode("follow_up_mode", follow_up_mode)

    @property
    def steering_mode(self) -> str:
        return self._steering_mode

    @steering_mode.setter
    def steering_mode(self, mode: str) -> None:
        self._steering_mode = checked_mode("steering_mode", mode)

    @property
    def follow_up_mode(self) -> str:
        return self._follow_up_mode

    @follow_up_mode.setter
    def follow_up_mode(self, mode: str) -> None:
        self._follow_up_mode = checked_mode("follow_up_mode", mode)

    # -- putting in, taking back -----------------------------------------------------------------------

    def steer(self, message: Message) -> Receipt:
        return self._put(self._steering, message)

    def follow_up(self, message: Message) -> Receipt:
        return self._put(self._follow_ups, message)

    def has_messages(self) -> bool:
        with self._lock:
            return bool(self._steering or self._follow_ups)

    def follow_ups(self) -> list[Message]:
        """A copy of the waiting follow-ups, oldest first."""
        with self._lock:
            return [message for message, _ in self._follow_ups]

    def remove_follow_up(self, index: int) -> Message | None:
        """Take the follow-up at an index back; None when there is none (negative ones never match)."""
        with self._lock:
            if not 0 <= index < len(self._follow_ups):
                return None
            message, receipt = self._follow_ups[index]
            del self._follow_ups[index]
            receipt.give_back()
            self._changed()
            return message

    def take_follow_ups(self) -> list[Message]:
        """Take all follow-ups back, oldest first."""
        with self._lock:
            return self._give_back(self._follow_ups)

    def clear_steering(self) -> None:
        with self._lock:
            self._give_back(self._steering)

    def clear_follow_ups(self) -> None:
        with self._lock:
            self._give_back(self._follow_ups)

    def clear(self) -> None:
        with self._lock:
            self._give_back(self._steering)
            self._give_back(self._follow_ups)

    # -- what a run takes ------------------------------------------------------------------------------

    def poll_steering(self, turn: int = 1) -> list[Message]:
        """What that turn begins with, by the steering mode."""
        with self._lock:
            return self._deliver(self._steering, self._steering_mode, turn)

    def poll_follow_ups(self, turn: int = 1) -> list[Message]:
        """What goes on after the run would have ended, by the follow-up mode."""
        with self._lock:
            return self._deliver(self._follow_ups, self._follow_up_mode, turn)

    # -- replies ---------------------------------------------------------------------------------------

    def open_replies(self) -> None:
        """A run that parks begins."""
        with self._lock:
            self._takes_replies = True

    def close_replies(self) -> None:
        """It is over; a reply that it did not use is dropped, never kept for the next."""
        with self._lock:
            self._takes_replies = False
            self._reply = None

    def reply(self, message: Message) -> bool:
        """Leave a reply; False when there is no run to take it, or one waits already."""
        with self._lock:
            if not self._takes_replies or self._reply is not None:
                return False
            self._reply = message
            self._arrived.notify_all()
            return True

    def take_reply(self) -> Message | None:
        """The reply, if there is one."""
        with self._lock:
            reply, self._reply = self._reply, None
            return reply

    def wait(self, cancel: CancelToken) -> bool:
        """Wait for a reply or a queued message; False once cancelled."""
        remove = cancel.on_cancel(self._wake)
        try:
            with self._lock:
                while not (self._reply or self._steering or self._follow_ups or cancel.is_set()):
                    self._arrived.wait()
            return not cancel.is_set()
        finally:
            remove()

    # -- news ------------------------------------------------------------------------------------------

    def listen(self, wake: Callable[[], object] | None) -> None:
        """Call `wake` when there is news, at once if there is some now; None ends that. It must not block."""
        with self._lock:
            self._wake_listener = wake
            if self.news and wake is not None:
                wake()

    def hear(self, event: Event) -> None:
        """Keep an event of a run that was started inside one of this agent's, to be told by its worker."""
        with self._lock:
            self._heard.append(event)
            self._tell_listener()

    def take_news(self) -> tuple[list[Event], tuple[list[Message], list[Message]] | None]:
        """The events heard since, and the two queues if they have changed."""
        with self._lock:
            events, self._heard = self._heard, []
            changed, self._queues_changed = self._queues_changed, False
            self.news = False
            queues = [message for message, _ in self._steering], [message for message, _ in self._follow_ups]
            return events, queues if changed else None

    # -- under the lock --------------------------------------------------------------------------------

    def _put(self, queue: _Queue, message: Message) -> Receipt:
        receipt = Receipt()
        with self._lock:
            queue.append((message, receipt))
            self._changed()
        return receipt

    def _deliver(self, queue: _Queue, mode: str, turn: int) -> list[Message]:
        if not queue:
            return []
        taken = [queue.popleft() for _ in range(len(queue) if mode == "all" else min(1, len(queue)))]
        for _, receipt in taken:
            receipt.deliver(turn)
        self._changed()
        return [message for message, _ in taken]

    def _give_back(self, queue: _Queue) -> list[Message]:
        returned = list(queue)
        queue.clear()
        for _, receipt in returned:
            receipt.give_back()
        if returned:
            self._changed()
        return [message for message, _ in returned]

    def _changed(self) -> None:
        self._queues_changed = True
        self._tell_listener()
        self._arrived.notify_all()

    def _tell_listener(self) -> None:
        self.news = True
        if self._wake_listener is not None:
            self._wake_listener()

    def _wake(self) -> None:
        with self._lock:
            self._arrived.notify_all()


def checked_mode(name: str, mode: str) -> str:
    """The mode; empty stands for the default. Raises ConfigurationError for any other word."""
    if mode == "":
        return QUEUE_MODES[0]
    if mode not in QUEUE_MODES:
        raise ConfigurationError(f"{name} must be one of {', '.join(QUEUE_MODES)}, not {mode!r}")
    return mode
