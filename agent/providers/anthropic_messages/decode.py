"""Decodes the events of an Anthropic stream.

The server numbers its blocks. Ours have numbers of their own, because blocks we leave out make gaps. Gateways
that speak the format leave events out, so a block or an index that is missing is supplied.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from agent.json_values import JsonObject
from agent.messages import ServerContent
from agent.providers.decoder import Decoder, OpenCall, StopReason, normalized
from agent.providers.history_transform import to_json_text
from agent.providers.json_fields import as_count, as_index, as_list, as_object, as_text, error_text
from agent.stream import (
    ServerBlock,
    StreamEvent,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
)
from agent.usage import Usage

_REFUSALS: Mapping[str, str] = {
    "refusal": "the model refused to answer (stop_reason refusal)",
    "sensitive": "the provider's content filter stopped the answer (stop_reason sensitive)",
}

_KINDS = {"text": "text", "thinking": "thinking", "redacted_thinking": "redacted", "tool_use": "tool"}


def _error(event: JsonObject) -> str:
    """The error in an event, also in a bare one, as llama.cpp sends it; empty if there is none."""
    is_error = "code" in event or "error" in as_text(event.get("type"))
    bare = is_error and isinstance(event.get("message"), str)
    return error_text({"error": event} if bare else event)


class _Block:
    """One block while its deltas arrive."""

    __slots__ = ("body", "call", "citations", "index", "input_pieces", "kind", "signature")

    def __init__(self, kind: str, index: int, body: JsonObject) -> None:
        self.kind = kind
        self.index = index  # of the block in our events, not the server's index
        self.body = body  # as the server opened it
        self.call: OpenCall | None = None
        self.input_pieces: list[str] = []  # of a server tool
        self.signature: list[str] = []
        self.citations: list[JsonObject] = []

    def is_announced_by(self, kind: str, body: JsonObject) -> bool:
        """True for a start that announces this block once more: with its kind, and its id if it has one."""
        return kind == self.kind and body.get("id") == self.body.get("id")


class AnthropicDecoder(Decoder):
    """Decodes one response of the Anthropic Messages format."""

    ended_early = "Anthropic stream ended before message_stop"
    call_id_prefix = "toolu_"
    stop_words: ClassVar[Mapping[str, StopReason]] = {
        "pauseturn": "stop",
        "compaction": "stop",
        "modelcontextwindowexceeded": "length",
    }
    pause_words = frozenset(("pauseturn",))

    def set_up(self) -> None:
        self._refusal: JsonObject = {}
        self._open: dict[int, _Block] = {}  # by the server's index
        self._latest = 0  # the server's index of the block opened last

    @classmethod
    def opening_error(cls, event: JsonObject) -> str | None:
        if error := _error(event):
            return error
        return "" if event.get("type") in ("message_start", "ping") else None

    def feed(self, event: JsonObject) -> Iterable[StreamEvent]:
        match event.get("type"):
            case "content_block_delta":
                return self._delta(event)
            case "content_block_start":
                return self._start(self._number(event), as_object(event.get("content_block")))
            case "content_block_stop":
                return self._stop(self._number(event, self._latest))
            case "message_start":
                return self._message(as_object(event.get("message")))
            case "message_delta":
                self._message_delta(as_object(event.get("delta")), event.get("usage"))
            case "message_stop":
                self.is_done = self.is_over = True
            case "message":  # a server that does not stream
                return self._whole(event)
            case "ping":
                pass
            case _:
                self.failure = _error(event)
                self.is_over = bool(self.failure)
        return ()

    def _message(self, message: JsonObject) -> list[StreamEvent]:
        self.count(message.get("usage"))
        events: list[StreamEvent] = []
        self.start(message.get("id"), message.get("model"), events)
        return events

    def _whole(self, message: JsonObject) -> list[StreamEvent]:
        events = self._message(message)
        for number, block in enumerate(as_list(message.get("content"))):
            events += self._start(number, as_object(block))
            events += self._stop(number)
        self._message_delta(message, None)
        self.is_done = self.is_over = True
        return events

    def _message_delta(self, delta: JsonObject, usage: Any) -> None:
        self.count(usage)
        if word := as_text(delta.get("stop_reason")):
            self.stop(word)
            self._refusal = as_object(delta.get("stop_details"))

    # --- blocks ---

    def _number(self, event: JsonObject, missing: int | None = None) -> int:
        """The server's index of a block. For one that is missing: `missing`, or an unused one if None."""
        number = event.get("index")
        if type(number) is int:
            return number
        number = as_index(number)
        if number is not None:
            return number
        return self._next_index if missing is None else missing

    def _start(self, number: int, body: JsonObject) -> list[StreamEvent]:
        kind = _KINDS.get(as_text(body.get("type")), "server")
        if number in self._open and self._open[number].is_announced_by(kind, body):
            return []
        events = self._stop(number)
        self._latest = number
        if kind == "tool":
            call = OpenCall(as_text(body.get("id")), as_text(body.get("name")))
            self.announce(call, events)
            block = self._open[number] = _Block(kind, call.index, body)
            block.call = call
            return events
        block = self._open[number] = _Block(kind, self.new_index(), body)
        match kind:
            case "text":
                events.append(TextStart(block.index))
                if text := as_text(body.get("text")):
                    events.append(TextDelta(block.index, text))
            case "thinking":
                block.signature.append(as_text(body.get("signature")))
                events.append(ThinkingStart(block.index))
                if thinking := as_text(body.get("thinking")):
                    events.append(ThinkingDelta(block.index, thinking))
            case "redacted":
                events.append(ThinkingStart(block.index))
        return events

    def _delta(self, event: JsonObject) -> Iterable[StreamEvent]:
        delta = event.get("delta")
        if type(delta) is not dict:
            return ()
        number = self._number(event, self._latest)
        match delta.get("type"):
            case "text_delta":
                block, events = self._expect("text", number)
                if text := as_text(delta.get("text")):
                    events.append(TextDelta(block.index, text))
                return events
            case "thinking_delta":
                block, events = self._expect("thinking", number)
                if thinking := as_text(delta.get("thinking")):
                    events.append(ThinkingDelta(block.index, thinking))
                return events
            case "input_json_delta":
                return self._input(number, as_text(delta.get("partial_json")))
            case "citations_delta":
                block, events = self._expect("text", number)
                block.citations.append(as_object(delta.get("citation")))
                return events
            case "signature_delta":
                if number in self._open:
                    self._open[number].signature.append(as_text(delta.get("signature")))
            case "compaction_delta":
                if number in self._open:
                    self._open[number].body |= {k: v for k, v in delta.items() if k != "type"}
        return ()

    def _expect(self, kind: str, number: int) -> tuple[_Block, list[StreamEvent]]:
        """The open block of that kind; opened here if a gateway did not."""
        block = self._open.get(number)
        if block is not None and block.kind == kind:
            return block, []
        events = self._start(number, {"type": kind})
        return self._open[number], events

    def _input(self, number: int, text: str) -> Iterable[StreamEvent]:
        block = self._open.get(number)
        events: list[StreamEvent] = []
        if block is not None and block.call is not None:
            self.add_arguments(block.call, text, events)
        elif block is not None and block.kind == "server":
            block.input_pieces.append(text)
        return events

    def _stop(self, number: int) -> list[StreamEvent]:
        block = self._open.pop(number, None)
        if block is None:
            return []
        if block.call is not None:
            events: list[StreamEvent] = []
            arguments = as_object(block.body.get("input"))
            self.end_call(block.call, events, arguments if arguments and not block.call.pieces else None)
            return events
        match block.kind:
            case "text":
                given = [*as_list(block.body.get("citations")), *block.citations]
                return [
                    TextEnd(block.index, None, [item for item in given if item and isinstance(item, dict)])
                ]
            case "thinking":
                return [ThinkingEnd(block.index, "".join(block.signature) or None)]
            case "redacted":
                return [ThinkingEnd(block.index, as_text(block.body.get("data")) or None, redacted=True)]
        return [ServerBlock(block.index, _server_content(block))] if block.body else []

    # --- usage and the end ---

    def usage_of(self, raw: JsonObject) -> Usage:
        return usage_of(raw)

    def close_blocks(self, events: list[StreamEvent], whole: bool) -> None:
        if whole:
            for number in list(self._open):
                events += self._stop(number)

    def stop_error(self, word: str) -> str:
        text = _REFUSALS.get(normalized(word), f"the provider stopped with stop_reason {word!r}")
        details = [as_text(self._refusal.get(name)) for name in ("category", "explanation")]
        return ": ".join([text, *filter(None, details)])


def usage_of(raw: JsonObject) -> Usage:
    """The usage of a response. The server counts cached tokens apart from the input."""
    input, output, read, written, hour = _counts(raw)
    # The requests that summarise the history on the server are billed and not part of the counts.
    for iteration in map(as_object, as_list(raw.get("iterations"))):
        if iteration.get("type") == "compaction":
            more = _counts(iteration)
            input, output, read = input + more[0], output + more[1], read + more[2]
            written, hour = written + more[3], hour + more[4]
    details = as_object(raw.get("output_tokens_details"))
    reasoning = as_count(details.get("reasoning_tokens")) or as_count(details.get("thinking_tokens"))
    searches = as_count(as_object(raw.get("server_tool_use")).get("web_search_requests"))
    return Usage(
        input,
        output,
        read,
        written,
        reasoning=min(reasoning, output),
        cache_write_1h=hour,
        web_searches=searches,
    )


def _counts(raw: JsonObject) -> tuple[int, int, int, int, int]:
    """Input, output, read from the cache, written to it, and how much of that for an hour."""
    by_time = as_object(raw.get("cache_creation"))
    short, hour = (as_count(by_time.get(f"ephemeral_{time}_input_tokens")) for time in ("5m", "1h"))
    return (
        as_count(raw.get("input_tokens")),
        as_count(raw.get("output_tokens")),
        as_count(raw.get("cache_read_input_tokens")),
        max(as_count(raw.get("cache_creation_input_tokens")), short + hour),
        hour,
    )


def _server_content(block: _Block) -> ServerContent:
    """A block as it is to be sent back to the server. The summary of a compaction is its text to display."""
    body = block.body
    if block.input_pieces:
        with contextlib.suppress(ValueError):
            body = body | {"input": json.loads("".join(block.input_pieces))}
    summary = body.get("content") if body.get("type") == "compaction" else None
    return ServerContent(as_text(body.get("type")), to_json_text(body), as_text(summary) or None)


decode = AnthropicDecoder.decode
first_error = AnthropicDecoder.first_error
