"""A clock that does not wait."""

from __future__ import annotations

from dataclasses import dataclass, field

from agent.cancel import CancelToken


@dataclass(slots=True)
class FakeClock:
    """A clock that moves only when the test moves it: `LoopConfig(clock=clock.time, wait=clock.wait)`.

    `wait(seconds)` advances it without waiting and returns whether `cancel` is set; `waits` lists the seconds
    of every wait.
    """

    now: float = 1_000_000.0
    cancel: CancelToken = field(default_factory=CancelToken)
    waits: list[float] = field(default_factory=list)

    def time(self) -> float:
        """The current time of this clock, in Unix seconds."""
        return self.now

    def wait(self, seconds: float) -> bool:
        """Advance the clock by `seconds` without waiting; returns True when cancelled."""
        if self.cancel.is_set():
            return True
        self.waits.append(seconds)
        self.now += seconds
        return self.cancel.is_set()

    def advance(self, seconds: float) -> None:
        """Advance the clock by `seconds`."""
        self.now += seconds
