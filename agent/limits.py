"""How far a run may go: turns, tokens, money, time."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass
from typing import Literal

from agent.cancel import CancelToken
from agent.errors import ConfigurationError
from agent.models import Model
from agent.threads import start_thread
from agent.usage import Usage

TIME_IS_UP = "max_seconds"
"""The reason with which a run's own stop signal is set when its time is up."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one run; None means no limit.

    `max_turns` counts answers of the model, discarded ones too; with `turns_since_input` those since the
    prompt or the last `reply`. `max_total_tokens` counts `usage.total_tokens`, `max_cost` US dollars. These
    are looked at after each turn, in this order, so a run may pass them by one turn. `max_seconds` bounds the
    wall time: what still streams or runs then is cut.

    `tool_timeout` bounds each call, in seconds; a tool's own shorter one stays. At most `parallel_tools` of
    the tools marked `parallel` run side by side (None: all that can; less than 1 counts as 1).

    A natural end beats a limit: an answer on the last allowed turn ends the run as usual. With `final_answer`
    a run that reaches its turns, tokens or money in the midst of its work is asked once more, without tools;
    it still ends with that limit. Time that is up leaves none for that.
    """

    max_turns: int | None = None
    max_total_tokens: int | None = None
    max_cost: float | None = None
    max_seconds: float | None = None
    tool_timeout: float | None = None
    parallel_tools: int | None = 4
    final_answer: bool = False
    turns_since_input: bool = False

    def __post_init__(self) -> None:
        for name in ("max_turns", "max_total_tokens"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise ConfigurationError(
                    f"{name} must be a whole number of at least 1, or None, not {value!r}"
                )
        for name in ("max_cost", "max_seconds", "tool_timeout"):
            value = getattr(self, name)
            if value is not None and not _is_positive(value):
                raise ConfigurationError(f"{name} must be a number above 0, or None, not {value!r}")
        if self.parallel_tools is not None and type(self.parallel_tools) is not int:
            raise ConfigurationError(
                f"parallel_tools must be a whole number, or None, not {self.parallel_tools!r}"
            )

    def check_model(self, model: Model) -> None:
        """Raise ConfigurationError when `max_cost` is set and the price of the model is not known."""
        if self.max_cost is not None and model.cost is None:
            raise ConfigurationError(
                f"max_cost needs the price of {model.id}, which is not known; "
                "give it: Model(..., cost=ModelCost(input, output))"
            )

    def timeout_of(self, timeout: float | None) -> float | None:
        """The seconds that a call of a tool with this time limit of its own may take."""
        given = [seconds for seconds in (timeout, self.tool_timeout) if seconds is not None]
        return min(given) if given else None

    def reached(self, turns: int, usage: Usage) -> Literal["max_turns", "budget"] | None:
        """The first of turns, tokens and money that is used up."""
        if self.max_turns is not None and turns >= self.max_turns:
            return "max_turns"
        if self.max_total_tokens is not None and usage.total_tokens >= self.max_total_tokens:
            return "budget"
        if self.max_cost is not None and usage.cost.total >= self.max_cost:
            return "budget"
        return None


def _is_positive(value: object) -> bool:
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0
    )


class Stopwatch:
    """Sets a run's stop signal when its time is up; does nothing where there is no limit.

    Threads: used by the run's thread; a timer thread, while it runs, does no more than set the signal.
    """

    __slots__ = ("_cancel", "_left", "_started", "_timer")

    def __init__(self, seconds: float | None, cancel: CancelToken) -> None:
        self._left = seconds
        self._cancel = cancel
        self._started = 0.0
        self._timer: threading.Timer | None = None

    def start(self) -> None:
        """Count from now on, with what was left when it was stopped."""
        if self._left is None:
            return
        self._started = time.monotonic()
        self._timer = threading.Timer(
            min(self._left, threading.TIMEOUT_MAX), self._cancel.cancel, (TIME_IS_UP,)
        )
        self._timer.name, self._timer.daemon = "agent-stopwatch", True
        start_thread(self._timer)

    def stop(self) -> None:
        """Stop counting: while nothing works, as in a parked run, and at the end."""
        timer, self._timer = self._timer, None
        if timer is not None and self._left is not None:
            timer.cancel()
            self._left = max(0.0, self._left - (time.monotonic() - self._started))
