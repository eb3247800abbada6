"""Records and emits what happens in a run."""

from __future__ import annotations

from agent.events import Event, MessageEnd, MessageStart
from agent.loop.config import Emit, LoopConfig
from agent.loop.history import History
from agent.messages import Message
from agent.usage import ZERO_USAGE


class RunRecorder:
    """The history, the usage and the event output of one run. Used by the run's thread alone.

    `forward(event)` emits an event that has its time and run already. `relay` emits what other threads
    forwarded to the run; None without other threads.
    """

    __slots__ = ("_clock", "_run", "forward", "history", "relay", "usage")

    def __init__(self, history: History, config: LoopConfig, emit: Emit) -> None:
        self.history = history
        self.usage = ZERO_USAGE
        self.relay = config.relay
        self.forward = emit
        self._clock = config.clock
        self._run = config.run

    def emit(self, event: Event) -> None:
        """Emit an event, stamped with the time and the run it belongs to."""
        event.time = self._clock()
        event.run = self._run
        self.forward(event)

    def add_whole(self, message: Message) -> None:
        """Add a message that is complete from the start, between its start and end events."""
        self.emit(MessageStart(message))
        self.history.add(message)
        self.emit(MessageEnd(message))

    def now_ms(self) -> int:
        """The time in Unix milliseconds, as messages state it."""
        return int(self._clock() * 1000)
