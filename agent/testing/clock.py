"""A clock that does not wait."""

from __future__ import annotations

from dataclasses import dataclass, field

from agent.cancel import CancelToken


@dataclass(slots=True)
class FakeClock:
    """A clock that moves when told: `LoopConfig(clock=clock.time, wait=clock.wait)`.

    `wait(seconds)` moves it on at once and tells whether `cancel` is set; `waits` lists what was waited for.
    """

    now: float = 1_000_000.0
    cancel: CancelToken = field(default_factory=CancelToken)
    waits: list[float] = field(default_factory=list)

    def time(self) -> float:
        """The time it shows, in Unix seconds."""
        return self.now

    def wait(self, seconds: float) -> bool:
        """Let that much time pass without waiting; True when cancelled."""
        if self.cancel.is_set():
            return True
        self.waits.append(seconds)
        self.now += seconds
        return self.cancel.is_set()

    def advance(self, seconds: float) -> None:
        """Move the clock on."""
        self.now += seconds
