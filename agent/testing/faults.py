"""Injects faults into any stream function: chosen ones, or random ones from a seed."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Literal

from agent.cancel import CancelToken
from agent.models import Model
from agent.retry import ABORTED_TEXT
from agent.stream import (
    AgentContext,
    StreamError,
    StreamEvent,
    StreamFn,
    StreamOptions,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)

FaultKind = Literal["cut", "error", "stall", "corrupt", "delay", "duplicate"]


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of the given kind before event number `at` (from 0) of request `call` (None: every request).

    `cut`: the stream ends without an end event. `error`: it fails with `text`. `stall`: no event arrives
    until the call is cancelled, or for `seconds`, after which the stream fails with a timeout. `corrupt`: a
    delta is garbled. `delay`: the event arrives `seconds` late. `duplicate`: the event arrives twice.
    """

    kind: FaultKind
    at: int = 0
    call: int | None = None
    text: str = "connection reset by peer"
    seconds: float = 0.0


class FaultInjector:
    """Wraps a stream function and injects faults: chosen ones, or random ones from a seed.

        faulty = FaultInjector(model.stream, [Fault("error", at=3, call=0)])
        agent = Agent(model.model, stream_fn=faulty.stream)

    With a seed, each request fails with probability `rate`, at a random event, with a random kind of `kinds`;
    the same seed gives the same faults. `injected` lists the faults so far. Threads: may serve several at
    once.
    """

    def __init__(
        self,
        stream_fn: StreamFn,
        faults: Sequence[Fault] = (),
        *,
        seed: int | None = None,
        rate: float = 0.3,
        kinds: Sequence[FaultKind] = ("cut", "error", "corrupt", "duplicate"),
    ) -> None:
        self.injected: list[Fault] = []
        self._stream_fn = stream_fn
        self._faults = tuple(faults)
        self._random = None if seed is None else random.Random(seed)
        self._rate = rate
        self._kinds = tuple(kinds)
        self._calls = count()
        self._lock = threading.Lock()

    def stream(self, model: Model, context: AgentContext, options: StreamOptions) -> Iterator[StreamEvent]:
        """The stream function to give to an agent."""
        with self._lock:
            faults = self._plan(next(self._calls))
        events = self._stream_fn(model, context, options)
        try:
            for number, event in enumerate(events):
                for fault in faults.get(number, ()):
                    self.injected.append(fault)
                    changed = _apply(fault, event, options.cancel)
                    yield from changed
                    if fault.kind in ("cut", "error") or any(isinstance(e, StreamError) for e in changed):
                        return
                    if fault.kind in ("corrupt", "duplicate"):
                        break
                else:
                    yield event
        finally:
            close = getattr(events, "close", None)
            if close is not None:
                close()

    def _plan(self, call: int) -> dict[int, list[Fault]]:
        chosen = [fault for fault in self._faults if fault.call in (None, call)]
        if self._random is not None and self._random.random() < self._rate:
            chosen.append(Fault(self._random.choice(self._kinds), self._random.randrange(12), call))
        planned: dict[int, list[Fault]] = {}
        for fault in chosen:
            planned.setdefault(fault.at, []).append(fault)
        return planned


def _apply(fault: Fault, event: StreamEvent, cancel: CancelToken) -> list[StreamEvent]:
    """The events that replace `event`."""
    match fault.kind:
        case "error":
            return [StreamError(fault.text)]
        case "stall":
            if cancel.wait(fault.seconds or None):
                return [StreamError(ABORTED_TEXT, "aborted")]
            return [StreamError("i/o timeout: nothing came")]
        case "delay":
            cancel.wait(fault.seconds)
        case "duplicate":
            return [event, event]
        case "corrupt":
            return [_garbled(event)]
    return []


def _garbled(event: StreamEvent) -> StreamEvent:
    if isinstance(event, (TextDelta, ThinkingDelta, ToolCallDelta)):
        return replace(event, delta=event.delta[::-1] + "\ufffd")
    return event
