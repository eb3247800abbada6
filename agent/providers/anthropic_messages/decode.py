"""From the events of an Anthropic stream to stream events.

The server names each block by an index; blocks it sends and we leave out make ours another one. Gateways that
speak the format leave events out, so what can be understood is understood, and nothing raises.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

from agent.messages import ServerContent
from agent.providers.history_transform import to_json_text
from agent.providers.http.failure import ProviderError
from agent.providers.json_reading import count_of, error_text, object_of, text_of
from agent.stream import (
    ServerBlock,
    StreamDone,
    StreamError,
    StreamEvent,
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
from agent.usage import ModelCost, Usage, priced

StopReason = Literal["stop", "length", "toolUse"]
# A paused turn goes on when it is sent back; a compaction pauses only if it was asked to.
_STOP_REASONS: Mapping[str, StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "compaction": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "toolUse",
}
_REFUSALS: Mapping[str, str] = {
    "refusal": "the model refused to answer (stop_reason refusal)",
    "sensitive": "the provider's content filter stopped the answer (stop_reason sensitive)",
}
ENDED_EARLY = "Anthropic stream ended before message_stop"

_USAGE_FIELDS = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)
_KINDS = {"text": "text", "thinking": "thinking", "redacted_thinking": "redacted", "tool_use": "tool"}

_loads = json.loads


def decode(
    payloads: Iterable[str | bytes],
    cost: ModelCost | None = None,
    names: Mapping[str, str] | None = None,
    on_finish: Callable[[], object] | None = None,
) -> Iterator[StreamEvent]:
    """The events of an answer, ending in exactly one `StreamDone` or `StreamError`.

    Pure over the `data` payloads. `names` maps tool names on the wire to the tools' own. `on_finish` is
    called when the answer is complete and only the end mark is to come. A `ProviderError` raised by
    `payloads` becomes the last event, unless the answer was complete by then.
    """
    answer = _Answer(cost, names or {}, on_finish)
    try:
        for payload in payloads:
            try:
                event = _loads(payload)
            except (ValueError, RecursionError):
                continue
            if type(event) is dict:
                yield from answer.feed(event)
                if answer.over:
                    break
    except ProviderError as failure:
        if failure.aborted or not answer.stop_reason:
            yield StreamError(str(failure), "aborted" if failure.aborted else "error", answer.usage())
            return
    yield from answer.end()


def first_error(payload: str) -> str | None:
    """For `post_sse`: the error a stream opens with, "" for an event that says nothing yet, else None."""
    try:
        event = _loads(payload)
    except (ValueError, RecursionError):
        return ""
    if type(event) is not dict:
        return ""
    if error := _error(event):
        return error
    return "" if event.get("type") in ("message_start", "ping") else None


def _error(event: dict[str, Any]) -> str:
    """The error in an event, also in a bare one, as llama.cpp sends it; empty when there is none."""
    says_error = "code" in event or "error" in text_of(event.get("type"))
    bare = says_error and isinstance(event.get("message"), str)
    return error_text({"error": event} if bare else event)


class _Block:
    """One block while its deltas arrive; `index` is ours."""

    __slots__ = ("body", "index", "kind", "parts", "signature")

    def __init__(self, kind: str, index: int, body: dict[str, Any]) -> None:
        self.kind = kind
        self.index = index
        self.body = body  # as the server opened it
        self.parts: list[str] = []  # of the JSON text of an input
        self.signature: list[str] = []


class _Answer:
    """One answer while its events arrive."""

    def __init__(
        self, cost: ModelCost | None, names: Mapping[str, str], on_finish: Callable[[], object] | None
    ) -> None:
        self.over = False
        self.stop_reason = ""
        self._cost = cost
        self._names = names
        self._on_finish = on_finish
        self._done = False
        self._failure = ""
        self._refusal: dict[str, Any] = {}
        self._usage: dict[str, int] = {}
        self._next_index = 0
        self._called = False
        self._open: dict[int, _Block] = {}  # by the server's index
        self._latest = 0  # the server's index of the block opened last

    def feed(self, event: dict[str, Any]) -> Iterable[StreamEvent]:
        """What one event of the server means."""
        match event.get("type"):
            case "content_block_delta":
                return self._delta(event)
            case "content_block_start":
                return self._start(self._number(event), object_of(event.get("content_block")))
            case "content_block_stop":
                return self._stop(self._number(event, self._latest))
            case "message_start":
                return self._message(object_of(event.get("message")))
            case "message_delta":
                self._finish(object_of(event.get("delta")), event.get("usage"))
            case "message_stop":
                self._done = self.over = True
            case "message":  # a server that does not stream
                return self._whole(event)
            case "ping":
                pass
            case _:
                self._failure = _error(event)
                self.over = bool(self._failure)
        return ()

    def _message(self, message: dict[str, Any]) -> list[StreamEvent]:
        self._count(message.get("usage"))
        return [StreamStart(text_of(message.get("id")), text_of(message.get("model")))]

    def _whole(self, message: dict[str, Any]) -> list[StreamEvent]:
        events = self._message(message)
        content = message.get("content")
        for number, block in enumerate(content if isinstance(content, list) else ()):
            events += self._start(number, object_of(block))
            events += self._stop(number)
        self._finish(message, None)
        self._done = self.over = True
        return events

    def _finish(self, delta: dict[str, Any], usage: Any) -> None:
        self._count(usage)
        reason = text_of(delta.get("stop_reason"))
        if reason:
            if self._on_finish is not None and not self.stop_reason:
                self._on_finish()
            self.stop_reason = reason
            self._refusal = object_of(delta.get("stop_details"))

    # --- blocks ---

    def _number(self, event: dict[str, Any], missing: int | None = None) -> int:
        """The server's index of a block; `missing`, or one not used yet, when it sends none."""
        number = event.get("index")
        if type(number) is int:
            return number
        return self._next_index if missing is None else missing

    def _start(self, number: int, body: dict[str, Any]) -> list[StreamEvent]:
        events = self._stop(number) if number in self._open else []
        kind = _KINDS.get(text_of(body.get("type")), "server")
        block = self._open[number] = _Block(kind, self._next_index, body)
        self._latest = number
        self._next_index += 1
        index = block.index
        match kind:
            case "text":
                events.append(TextStart(index))
                if text := text_of(body.get("text")):
                    events.append(TextDelta(index, text))
            case "thinking":
                block.signature.append(text_of(body.get("signature")))
                events.append(ThinkingStart(index))
                if thinking := text_of(body.get("thinking")):
                    events.append(ThinkingDelta(index, thinking))
            case "redacted":
                events.append(ThinkingStart(index))
            case "tool":
                self._called = True
                name = text_of(body.get("name"))
                id = text_of(body.get("id")) or f"toolu_{secrets.token_hex(12)}"
                events.append(ToolCallStart(index, id, self._names.get(name, name)))
        return events

    def _delta(self, event: dict[str, Any]) -> Iterable[StreamEvent]:
        delta = event.get("delta")
        if type(delta) is not dict:
            return ()
        number = self._number(event, self._latest)
        match delta.get("type"):
            case "text_delta":
                block, events = self._expect("text", number)
                if text := text_of(delta.get("text")):
                    events.append(TextDelta(block.index, text))
                return events
            case "thinking_delta":
                block, events = self._expect("thinking", number)
                if thinking := text_of(delta.get("thinking")):
                    events.append(ThinkingDelta(block.index, thinking))
                return events
            case "input_json_delta":
                return self._input(number, text_of(delta.get("partial_json")))
            case "signature_delta":
                if number in self._open:
                    self._open[number].signature.append(text_of(delta.get("signature")))
            case "compaction_delta":
                if number in self._open:
                    self._open[number].body |= {k: v for k, v in delta.items() if k != "type"}
        return ()

    def _expect(self, kind: str, number: int) -> tuple[_Block, list[StreamEvent]]:
        """The open block of that kind; a gateway that opened none gets one."""
        block = self._open.get(number)
        if block is not None and block.kind == kind:
            return block, []
        events = self._start(number, {"type": kind})
        return self._open[number], events

    def _input(self, number: int, text: str) -> Iterable[StreamEvent]:
        block = self._open.get(number)
        if block is None or not text or block.kind not in ("tool", "server"):
            return ()
        block.parts.append(text)
        return (ToolCallDelta(block.index, text),) if block.kind == "tool" else ()

    def _stop(self, number: int) -> list[StreamEvent]:
        block = self._open.pop(number, None)
        if block is None:
            return []
        match block.kind:
            case "text":
                return [TextEnd(block.index)]
            case "thinking":
                return [ThinkingEnd(block.index, "".join(block.signature) or None)]
            case "redacted":
                return [ThinkingEnd(block.index, text_of(block.body.get("data")) or None, redacted=True)]
            case "tool":
                given = block.body.get("input")
                whole = given if isinstance(given, dict) and given and not block.parts else None
                return [ToolCallEnd(block.index, whole)]
        return [ServerBlock(block.index, _server_content(block))] if block.body else []

    # --- usage and the end ---

    def _count(self, usage: Any) -> None:
        """Counts are totals: each replaces the one before; what a gateway leaves out stays as it was."""
        given = object_of(usage)
        self._usage |= {name: count_of(given[name]) for name in _USAGE_FIELDS if given.get(name) is not None}

    def usage(self) -> Usage | None:
        """What the server reported last, priced; None when it reported nothing."""
        if not self._usage:
            return None
        input, output, read, written = (self._usage.get(name, 0) for name in _USAGE_FIELDS)
        return priced(Usage(input, output, read, written), self._cost)

    def end(self) -> list[StreamEvent]:
        """The events that close what is open, and the last one."""
        failure = self._failure
        if not failure and not self.stop_reason and not self._done:
            failure = ENDED_EARLY
        if failure:  # blocks stay open: nothing says that they are whole
            return [StreamError(failure, usage=self.usage())]
        events = [event for number in list(self._open) for event in self._stop(number)]
        return [*events, self._last()]

    def _last(self) -> StreamEvent:
        reason = self.stop_reason or "end_turn"
        stop = _STOP_REASONS.get(reason)
        if stop is None:
            text = _REFUSALS.get(reason, f"the provider stopped with stop_reason {reason!r}")
            details = [text_of(self._refusal.get(name)) for name in ("category", "explanation")]
            return StreamError(": ".join([text, *filter(None, details)]), usage=self.usage())
        if stop != "length":
            stop = "toolUse" if self._called else "stop"
        return StreamDone(stop, self.usage())


def _server_content(block: _Block) -> ServerContent:
    """A block as the server is to get it back; the summary of a compaction is its text for others."""
    body = block.body
    if block.parts:
        with contextlib.suppress(ValueError):
            body = body | {"input": _loads("".join(block.parts))}
    summary = body.get("content") if body.get("type") == "compaction" else None
    return ServerContent(text_of(body.get("type")), to_json_text(body), text_of(summary) or None)
