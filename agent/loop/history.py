"""The messages and the usage of one run; every event that tells of them passes here."""

from __future__ import annotations

from collections.abc import Sequence

from agent.events import Event, MessageEnd, MessageStart
from agent.loop.config import Emit, LoopConfig
from agent.messages import Message
from agent.usage import ZERO_USAGE


class Record:
    """What a run was given, said and cost. Used by the run's thread alone.

    `messages` is the whole conversation, `new` what this run added to it. `emit` tells an event that has
    its time and run already.
    """

    __slots__ = ("_clock", "_mirror", "_replace", "_run", "emit", "messages", "new", "news", "usage")

    def __init__(self, history: Sequence[Message], config: LoopConfig, emit: Emit) -> None:
        self.messages: list[Message] = list(history)
        self.new: list[Message] = []
        self.usage = ZERO_USAGE
        self.news = config.news
        self._clock = config.clock
        self._run = config.run
        self._mirror = config.mirror
        self._replace = config.replace_history
        self.emit = emit

    def tell(self, event: Event) -> None:
        """Emit an event, with the time and the run it belongs to."""
        event.time = self._clock()
        event.run = self._run
        self.emit(event)

    def announce(self, message: Message) -> None:
        """Tell and record a message that is whole from the start."""
        self.tell(MessageStart(message))
        self.add(message)
        self.tell(MessageEnd(message))

    def add(self, message: Message, to_context: bool = True) -> None:
        """Record a message; without `to_context` it is never sent to a model again."""
        if to_context:
            self.messages.append(message)
        self.new.append(message)
        if self._mirror is not None:
            self._mirror(None, message)

    def drop(self, message: Message) -> None:
        """Take a message back."""
        _replace_last(self.messages, message, ())
        _replace_last(self.new, message, ())
        if self._mirror is not None:
            self._mirror(message, None)

    def swap(self, old: Message, new: Message) -> None:
        """Put a mended message in the place of another."""
        _replace_last(self.messages, old, (new,))
        _replace_last(self.new, old, (new,))
        if self._mirror is not None:
            self._mirror(old, new)

    def replace_all(self, messages: Sequence[Message]) -> None:
        """Begin anew with another history; `new` counts from here on."""
        self.messages = list(messages)
        self.new = []
        if self._replace is not None:
            self._replace(tuple(self.messages))

    def now_ms(self) -> int:
        """The time, as messages state it."""
        return int(self._clock() * 1000)


def _replace_last(messages: list[Message], old: Message, new: Sequence[Message]) -> None:
    for position in range(len(messages) - 1, -1, -1):
        if messages[position] is old:
            messages[position : position + 1] = new
            return
