"""What to test an agent with: a scripted model, faults for any stream, a clock that does not wait.

model = ScriptedModel([tool_call("add", {"a": 2, "b": 3})], "The sum is 5.")
agent = Agent(model.model, stream_fn=model.stream, tools=[add])
assert agent.run("2 + 3?").text == "The sum is 5."
model.assert_finished()
"""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Literal

from agent.cancel import CancelToken
from agent.messages import AssistantMessage, ServerContent, TextContent, ThinkingContent, ToolCall
from agent.models import Model
from agent.retry import ABORTED_TEXT
from agent.stream import (
    STREAM_EVENTS,
    AgentContext,
    ServerBlock,
    StreamDone,
    StreamError,
    StreamEvent,
    StreamFn,
    StreamOptions,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from agent.summaries import arguments_json
from agent.usage import Usage

_WORDS = re.compile(r"\S+\s*|\s+")
_SLICE = 8  # characters of arguments per delta: small enough that real arguments come in several


def tool_call(name: str, arguments: Mapping[str, Any] | None = None, id: str = "") -> ToolCall:
    """A tool call for a script; without an id it gets the next of `call_1`, `call_2`, ..."""
    return ToolCall(id, name, dict(arguments or {}))


def text(content: str) -> TextContent:
    """A text block for a script."""
    return TextContent(content)


def thinking(content: str, signature: str | None = None) -> ThinkingContent:
    """A thinking block for a script."""
    return ThinkingContent(content, signature)


def error(
    message: str, stop_reason: Literal["error", "aborted"] = "error", usage: Usage | None = None
) -> StreamError:
    """An answer that fails, alone or at the end of a list of blocks."""
    return StreamError(message, stop_reason, usage)


def done(
    stop_reason: Literal["stop", "length", "toolUse"] = "stop", usage: Usage | None = None
) -> StreamDone:
    """The end of an answer, where its stop reason or usage matters."""
    return StreamDone(stop_reason, usage)


class ScriptedModel:
    """A model that answers by a script, one entry per request.

    An entry is a text; a list of texts and blocks (`tool_call(...)`, `thinking(...)`), which may end with
    `error(...)` or `done(...)`; an `error(...)`; an `AssistantMessage`; an exception, which is raised; or a
    function of the context that returns one of these. A list of raw stream events is played as it is, with
    nothing added, so that it may also break off. Past its end the script answers with an error.

    `contexts` and `options` hold what each request came with, in order. Threads: may serve several at once;
    `_lock` guards the script.
    """

    def __init__(self, *turns: Any, model: Model | None = None) -> None:
        self.model = model or Model(
            "scripted", "scripted", "scripted", name="Scripted model", reasoning=True, input=("text", "image")
        )
        self.contexts: list[AgentContext] = []
        self.options: list[StreamOptions] = []
        self._turns = list(turns)
        self._next = 0
        self._ids = count(1)
        self._lock = threading.Lock()

    @property
    def calls(self) -> int:
        """How many requests there were."""
        return len(self.contexts)

    def stream(self, model: Model, context: AgentContext, options: StreamOptions) -> Iterator[StreamEvent]:
        """The stream function to give to an agent."""
        with self._lock:
            self.contexts.append(replace(context, messages=list(context.messages)))
            self.options.append(options)
            number = self._next
            self._next += 1
        if number >= len(self._turns):
            yield StreamError(f"the script has no turn {number + 1}: it ends after {len(self._turns)}")
            return
        turn = self._turns[number]
        if callable(turn):
            turn = turn(context)
        for event in self._events(turn):
            if options.cancel.is_set():
                yield StreamError(ABORTED_TEXT, "aborted")
                return
            yield event

    def assert_finished(self) -> None:
        """Fail when the script has turns that were never asked for."""
        left = len(self._turns) - self._next
        if left > 0:
            raise AssertionError(f"{left} of {len(self._turns)} scripted turns were not used")

    def _events(self, turn: Any) -> Iterator[StreamEvent]:
        if isinstance(turn, BaseException):
            raise turn
        if isinstance(turn, StreamError):
            yield turn
            return
        if isinstance(turn, AssistantMessage):
            turn = [*turn.content, _end_of(turn)]
        blocks: list[Any] = [turn] if isinstance(turn, (str, *_BLOCKS)) else list(turn)
        if any(type(block) in STREAM_EVENTS and not isinstance(block, _ENDS) for block in blocks):
            yield from blocks
            return
        yield StreamStart()
        for index, block in enumerate(blocks):
            yield from (block,) if isinstance(block, _ENDS) else self._block(index, block)
        if not blocks or not isinstance(blocks[-1], _ENDS):
            called = any(isinstance(block, ToolCall) for block in blocks)
            yield StreamDone("toolUse" if called else "stop")

    def _block(self, index: int, block: Any) -> Iterator[StreamEvent]:
        match block:
            case str():
                yield from self._block(index, TextContent(block))
            case TextContent():
                yield TextStart(index)
                yield from (TextDelta(index, word) for word in _WORDS.findall(block.text))
                yield TextEnd(index, block.signature)
            case ThinkingContent():
                yield ThinkingStart(index)
                yield from (ThinkingDelta(index, word) for word in _WORDS.findall(block.thinking))
                yield ThinkingEnd(index, block.signature, block.redacted)
            case ToolCall():
                yield ToolCallStart(index, block.id or f"call_{next(self._ids)}", block.name)
                spelled = arguments_json(block.arguments)
                yield from (
                    ToolCallDelta(index, spelled[i : i + _SLICE]) for i in range(0, len(spelled), _SLICE)
                )
                yield ToolCallEnd(index, None, block.signature)
            case ServerContent():
                yield ServerBlock(index, block)
            case _:
                raise TypeError(f"a script can't hold a {type(block).__name__}")


def _end_of(message: AssistantMessage) -> StreamDone | StreamError:
    reason = message.stop_reason
    if reason == "error" or reason == "aborted":
        return StreamError(message.error_message, reason, message.usage)
    return StreamDone(reason, message.usage)


_BLOCKS = (TextContent, ThinkingContent, ToolCall, ServerContent)
_ENDS = (StreamDone, StreamError)


FaultKind = Literal["cut", "error", "stall", "corrupt", "delay", "duplicate"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong in a stream: `kind`, before event number `at` (from 0) of request `call`.

    `cut`: the stream just ends. `error`: it fails with `text`. `stall`: nothing more comes until it is
    cancelled, or for `seconds`, when it fails with a time-out. `corrupt`: a delta is garbled. `delay`: the
    event comes `seconds` late. `duplicate`: the event comes twice. `call=None` means every request.
    """

    kind: FaultKind
    at: int = 0
    call: int | None = None
    text: str = "connection reset by peer"
    seconds: float = 0.0


class FaultInjector:
    """Any stream function, with faults: chosen ones, or random ones from a seed.

        faulty = FaultInjector(model.stream, [Fault("error", at=3, call=0)])
        agent = Agent(model.model, stream_fn=faulty.stream)

    With a seed, each request breaks with probability `rate`, at a random event, in a random way of `kinds`;
    the same seed gives the same faults. `injected` lists what was done. Threads: may serve several at once.
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
    """What comes in place of the event."""
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
