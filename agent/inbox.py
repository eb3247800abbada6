"""The steering and follow-up queues of an agent, their modes and their lock."""

from __future__ import annotations

import threading
from collections import deque

from agent.errors import ConfigurationError
from agent.messages import Message

QUEUE_MODES = ("one-at-a-time", "all")


class Inbox:
    """Messages that wait to enter a run.

    Steering enters at the next turn, follow-ups when the run would end. Each queue has a mode: a poll takes
    the oldest message (`one-at-a-time`) or everything (`all`).

    Threads: every method may be called from any thread and from a signal handler, which may interrupt another
    of them on the same thread; `_lock` guards both queues and modes.
    """

    def __init__(self, steering_mode: str, follow_up_mode: str) -> None:
        self._lock = threading.RLock()
        self._steering: deque[Message] = deque()
        self._follow_ups: deque[Message] = deque()
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

    def steer(self, message: Message) -> None:
        with self._lock:
            self._steering.append(message)

    def follow_up(self, message: Message) -> None:
        with self._lock:
            self._follow_ups.append(message)

    def poll_steering(self) -> list[Message]:
        """What the next turn begins with, by the steering mode."""
        with self._lock:
            return _take(self._steering, self._steering_mode)

    def poll_follow_ups(self) -> list[Message]:
        """What goes on after the run would have ended, by the follow-up mode."""
        with self._lock:
            return _take(self._follow_ups, self._follow_up_mode)

    def has_messages(self) -> bool:
        with self._lock:
            return bool(self._steering or self._follow_ups)

    def follow_ups(self) -> list[Message]:
        """A copy of the waiting follow-ups, oldest first."""
        with self._lock:
            return list(self._follow_ups)

    def remove_follow_up(self, index: int) -> Message | None:
        """Take the follow-up at an index back; None when there is none (negative ones never match)."""
        with self._lock:
            if not 0 <= index < len(self._follow_ups):
                return None
            message = self._follow_ups[index]
            del self._follow_ups[index]
            return message

    def take_follow_ups(self) -> list[Message]:
        """Take all follow-ups back, oldest first."""
        with self._lock:
            return _take(self._follow_ups, "all")

    def clear_steering(self) -> None:
        with self._lock:
            self._steering.clear()

    def clear_follow_ups(self) -> None:
        with self._lock:
            self._follow_ups.clear()

    def clear(self) -> None:
        with self._lock:
            self._steering.clear()
            self._follow_ups.clear()


def checked_mode(name: str, mode: str) -> str:
    """The mode; empty stands for the default. Raises ConfigurationError for any other word."""
    if mode == "":
        return QUEUE_MODES[0]
    if mode not in QUEUE_MODES:
        raise ConfigurationError(f"{name} must be one of {', '.join(QUEUE_MODES)}, not {mode!r}")
    return mode


def _take(queue: deque[Message], mode: str) -> list[Message]:
    if mode == "all":
        taken = list(queue)
        queue.clear()
        return taken
    return [queue.popleft()] if queue else []
