"""The frame of every decoder: turns the payloads of one response into stream events.

A wire format subclasses `Decoder` and fills in what its events mean: `feed` (one event), `usage`, the words
for its stop reasons, and `opening_error` (the first events of a response). The frame reads the payloads,
parses them, notices the end and an early end, and closes with exactly one `StreamDone` or `StreamError`.

Servers that speak a format leave fields out, send null, other types or other words. So nothing here raises
for what a server sends: what can be understood is used, the rest is skipped.
"""

from __future__ import annotations

import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

from agent.json_values import JsonObject
from agent.partial_json import parse_arguments
from agent.providers.http.failure import ProviderError
from agent.providers.json_fields import as_text
from agent.stream import (
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

# Usage and the end mark follow the stop reason at once. A server that keeps the connection open and forgets
# the end mark must not delay the response by the whole timeout.
LAST_EVENT_SECONDS = 5.0

# The words of all formats and of the servers that imitate them, as `normalized` writes them.
_STOP_WORDS: Mapping[str, StopReason] = {
    **dict.fromkeys(("stop", "stopped", "stopsequence", "stoptoken"), "stop"),
    **dict.fromkeys(("end", "endturn", "endofturn", "endoftext", "eos", "eostoken"), "stop"),
    **dict.fromkeys(("complete", "completed", "done", "finish", "finished", "success"), "stop"),
    **dict.fromkeys(("length", "maxlength", "modellength", "tokenlimit", "incomplete"), "length"),
    **dict.fromkeys(("maxtokens", "maxoutputtokens", "maxcompletiontokens", "maxnewtokens"), "length"),
    **dict.fromkeys(("tooluse", "toolcall", "toolcalls", "functioncall", "functioncalls"), "toolUse"),
}
# What servers send in chunks before the last one instead of null.
_NO_STOP_WORDS = frozenset(("", "none", "null", "unspecified"))

# Faster than `json.loads`, which searches for white space around the value.
_parse = json.JSONDecoder().raw_decode


class OpenCall:
    """A tool call while its pieces arrive."""

    __slots__ = (
        "_parsed", "_parsed_pieces", "earlier", "has_made_up_id", "id", "index", "name", "pieces", "whole"
    )  # fmt: skip

    def __init__(self, id: str = "", name: str = "") -> None:
        self.index = -1  # of its block; -1 until the call is announced
        self.earlier: OpenCall | None = None  # another call with the same id and name, which this may repeat
        self.id = id
        self.has_made_up_id = False
        self.name = name
        self.pieces: list[str] = []  # of the JSON text of its arguments
        self.whole: JsonObject | None = None  # its arguments, where the server sent them so
        self._parsed_pieces = -1
        self._parsed: Any = None

    def repeats(self, other: OpenCall) -> bool:
        """True for the same name and arguments, however they are written."""
        return self.name == other.name and self.arguments() == other.arguments()

    def arguments(self) -> Any:
        """The arguments, or their text when that is no JSON object. Parsed once for the pieces so far."""
        if self.whole is not None:
            return self.whole
        if self._parsed_pieces != len(self.pieces):
            text = "".join(self.pieces)
            arguments, problem = parse_arguments(text)
            self._parsed_pieces, self._parsed = len(self.pieces), text if problem else arguments
        return self._parsed


class Decoder(ABC):
    """Decodes one response. Used by one thread, once.

    `cost` is the model's price, `names` maps tool names on the wire to the tools' own. `expect_end(seconds)`
    is called when a stop reason has come and only the end mark should be missing: the rest may take that
    long. `expect_end(None)` is called when content came after it: the normal timeout applies again.
    """

    ended_early: ClassVar[str]
    """The error of a stream that ends without a stop reason or an end mark."""

    stop_words: ClassVar[Mapping[str, StopReason]] = {}
    """The format's own words for a normal end, as `normalized` writes them, beside those of all formats."""

    pause_words: ClassVar[frozenset[str]] = frozenset()
    """The words for a pause: the response continues when it is sent back."""

    has_done_mark: ClassVar[bool] = False
    """True for formats that end with the payload `[DONE]`."""

    call_id_prefix: ClassVar[str] = "call_"
    """How the ids begin that are made up for calls without one."""

    def __init__(
        self,
        cost: ModelCost | None = None,
        names: Mapping[str, str] | None = None,
        expect_end: Callable[[float | None], object] | None = None,
    ) -> None:
        self.is_done = False  # the end mark came
        self.is_over = False  # nothing that follows may be read
        self.stop_word = ""  # the server's word for the stop reason
        self.failure = ""  # the error that the server reported
        self.has_calls = False
        self.cost = cost
        self.names: Mapping[str, str] = names or {}
        self._expect_end = expect_end
        self.has_started = False
        self._had_stop = False
        self._is_stop_new = False
        self._continued = False  # content came after the latest stop reason
        self._usage: JsonObject | None = None
        self._next_index = 0
        self._half: TextDelta | ThinkingDelta | ToolCallDelta | None = None  # the first of a surrogate pair
        self._calls_by_id: dict[str, OpenCall] = {}  # by the id on the wire
        self._held_calls: dict[OpenCall, None] = {}  # in order
        # The open block of formats that do not number theirs: "text", "thinking", or "" for none.
        self.open_kind = ""
        self.open_index = -1
        self.open_signature: str | None = None
        self._latest_text = -1  # the index of the text block opened last
        self.citations: list[JsonObject] = []  # of the open text, or of the latest when none is open
        self._sent_citations = 0  # how many of them an event contained

        self.set_up()

    # --- what a wire format fills in ---

    @abstractmethod
    def set_up(self) -> None:
        """Set the format's own attributes; called once, by the constructor."""

    @abstractmethod
    def feed(self, event: JsonObject) -> Iterable[StreamEvent]:
        """Take in one event of the server; returns the stream events that it means."""

    @abstractmethod
    def usage_of(self, raw: JsonObject) -> Usage:
        """The tokens in the format's usage object."""

    @abstractmethod
    def stop_error(self, word: str) -> str:
        """The error text of a stop reason that is no normal end."""

    @classmethod
    @abstractmethod
    def opening_error(cls, event: JsonObject) -> str | None:
        """The error in an event at the start of a stream, "" for one without content yet, else None."""

    def close_blocks(self, events: list[StreamEvent], whole: bool) -> None:
        """End the open blocks. Unless the response is whole, calls stay open: they may lack something."""
        self.close_text(events)

    def has_ended(self) -> bool:
        """True when the server said that the response is complete."""
        return self.is_done or bool(self.stop_word)

    # --- the stream ---

    @classmethod
    def decode(
        cls,
        payloads: Iterable[str | bytes],
        cost: ModelCost | None = None,
        names: Mapping[str, str] | None = None,
        expect_end: Callable[[float | None], object] | None = None,
    ) -> Iterator[StreamEvent]:
        """The events of a response. The last one, and no other, is a `StreamDone` or `StreamError`.

        A `ProviderError` raised by `payloads` becomes the last event, unless the stop reason had come.
        """
        return cls(cost, names, expect_end)._decode(payloads)

    def _decode(self, payloads: Iterable[str | bytes]) -> Iterator[StreamEvent]:
        feed = self.feed
        has_half = False
        try:
            for payload in payloads:
                try:
                    event, length = _parse(payload)  # type: ignore[arg-type]
                    if length != len(payload):
                        raise ValueError
                    may_be_half = "\\u" in payload
                except (ValueError, TypeError, RecursionError):
                    event, may_be_half = _parse_odd(payload), True
                    if event is None and self.has_done_mark and _is_done_mark(payload):
                        self.is_done = True
                        break
                if type(event) is dict:
                    events = feed(event)
                    if self.stop_word:
                        self._after_stop(events)
                    if may_be_half or has_half:
                        events = self._whole_characters(events)
                        has_half = self._half is not None
                    yield from events
                elif type(event) is list:  # a server that does not stream sends all events in one list
                    for item in event:
                        if type(item) is dict and not self.is_over:
                            yield from feed(item)
                if self.is_over:
                    break
        except ProviderError as failure:
            if failure.aborted or not self.stop_word or self._continued:
                last = StreamError(str(failure), "aborted" if failure.aborted else "error")
                yield from self._end(last, whole=False)
                return
        if self.failure or not self.has_ended():
            yield from self._end(StreamError(self.failure or self.ended_early), whole=False)
        else:
            stop = self._stop_event()
            yield from self._end(stop, whole=isinstance(stop, StreamDone))

    def _whole_characters(self, events: Iterable[StreamEvent]) -> list[StreamEvent]:
        """The events with the surrogate pairs joined that a server sent in two deltas.

        Half a pair can be neither printed nor written to a file.
        """
        found: list[StreamEvent] = []
        for event in events:
            half, self._half = self._half, None
            kind = type(event)
            if kind is not TextDelta and kind is not ThinkingDelta and kind is not ToolCallDelta:
                found += [event] if half is None else [half, event]
                continue
            assert isinstance(event, TextDelta | ThinkingDelta | ToolCallDelta)
            if half is not None and type(half) is kind and half.index == event.index:
                pair = (half.delta + event.delta[:1]).encode("utf-16-le", "surrogatepass")
                event.delta = pair.decode("utf-16-le", "surrogatepass") + event.delta[1:]
            elif half is not None:
                found.append(half)
            if event.delta and "\ud800" <= event.delta[-1] <= "\udbff":
                self._half = replace(event, delta=event.delta[-1])
                event.delta = event.delta[:-1]
            if event.delta:
                found.append(event)
        return found

    def _end(self, last: StreamDone | StreamError, whole: bool) -> list[StreamEvent]:
        events: list[StreamEvent] = [] if self._half is None else [self._half]
        self.close_blocks(events, whole)
        if (
            len(self.citations) > self._sent_citations and self._latest_text >= 0
        ):  # after the end of their text
            events.append(TextEnd(self._latest_text, None, tuple(self.citations)))
        for call in self._held_calls:  # not ended, so perhaps not whole
            self._begin(call, events)
        last.usage = self.usage()
        return [*events, last]

    def _stop_event(self) -> StreamDone | StreamError:
        word = normalized(self.stop_word or "stop")
        stop = self.stop_words.get(word) or _STOP_WORDS.get(word)
        if stop is None:
            return StreamError(self.stop_error(self.stop_word))
        if stop != "length":  # whether there are calls decides, whatever the server says of them
            stop = "toolUse" if self.has_calls else "stop"
        return StreamDone(stop, paused=word in self.pause_words)

    @classmethod
    def first_error(cls, payload: str | bytes) -> str | None:
        """The error that a stream opens with, "" for no content yet, else None. For `post_sse`."""
        event = _parse_odd(payload)
        if event is None and cls.has_done_mark and _is_done_mark(payload):
            return None
        for item in event if isinstance(event, list) else [event]:
            error = cls.opening_error(item) if isinstance(item, dict) else ""
            if error != "":
                return error
        return ""

    def start(self, id: Any, model: Any, events: list[StreamEvent]) -> None:
        """Begin the message, once, with the response's id and the model that answers."""
        if not self.has_started:
            self.has_started = True
            events.append(StreamStart(as_text(id), as_text(model)))

    def stop(self, word: str) -> None:
        """Note the server's word for the stop reason, if it means one."""
        if normalized(word) in _NO_STOP_WORDS:
            return
        self.stop_word, self._is_stop_new = word, True

    def _after_stop(self, events: Iterable[StreamEvent]) -> None:
        """Note an event that came with or after a stop reason.

        Some servers send a reason with each chunk, or before the last one. Content after a reason shows that
        it was not the end: then the normal timeout applies again. Only silence after a reason is cut short.
        """
        has_content = bool(events)
        had_stop, self._had_stop = self._had_stop, True
        self._continued = has_content and not self._is_stop_new
        self._is_stop_new = False
        if self._expect_end is None:
            return
        if not had_stop:
            self._expect_end(LAST_EVENT_SECONDS)
        elif has_content:
            self._expect_end(None)

    # --- usage ---

    def count(self, usage: Any) -> None:
        """Take in a usage object. Counts are totals: each replaces the one before.

        One that is left out, null or zero replaces nothing: some servers send the counts in parts, or end
        with an object of zeros.
        """
        if type(usage) is not dict or not usage:
            return
        known = self._usage
        if known is None or (usage.keys() == known.keys() and all(usage.values())):
            self._usage = usage  # the usual case, which may come with each event
        else:
            self._usage = _merged(known, usage)

    def price(self) -> ModelCost | None:
        """The price of this response."""
        return self.cost

    def usage(self) -> Usage | None:
        """The tokens that the server reported, priced; None when it reported none."""
        return None if self._usage is None else priced(self.usage_of(self._usage), self.price())

    # --- blocks ---

    def new_index(self) -> int:
        """The index of the next block."""
        self._next_index += 1
        return self._next_index - 1

    @property
    def has_blocks(self) -> bool:
        """True once a block was opened."""
        return self._next_index > 0

    # --- text and thinking of formats that do not number their blocks ---

    def add_text(self, text: str, events: list[StreamEvent]) -> None:
        """More text; ends an open block of thinking."""
        if self.open_kind != "text":
            self.close_text(events)
            self.open_kind, self.open_index = "text", self.new_index()
            self._latest_text = self.open_index
            del self.citations[: self._sent_citations]  # of the text before
            self._sent_citations = 0
            events.append(TextStart(self.open_index))
        if text:
            events.append(TextDelta(self.open_index, text))

    def add_thinking(self, thinking: str, events: list[StreamEvent], signature: str | None = None) -> None:
        """More thinking; ends an open block of text. `signature` is that of a block which this begins."""
        if self.open_kind != "thinking":
            self.close_text(events)
            self.open_kind, self.open_index = "thinking", self.new_index()
            self.open_signature = signature
            events.append(ThinkingStart(self.open_index))
        if thinking:
            events.append(ThinkingDelta(self.open_index, thinking))

    def close_text(self, events: list[StreamEvent]) -> None:
        """End the open block of text or thinking, if any."""
        if self.open_kind == "text":
            events.append(TextEnd(self.open_index, self.open_signature, tuple(self.citations)))
            self._sent_citations = len(self.citations)
        elif self.open_kind:
            events.append(ThinkingEnd(self.open_index, self.open_signature))
        self.open_kind, self.open_signature = "", None

    # --- tool calls ---

    def announce(self, call: OpenCall, events: list[StreamEvent], wire_id: str = "") -> None:
        """Begin the block of a call, with the pieces that came before its name.

        `wire_id` is the server's id if it is only a part of `call.id`. A call under the id and name of an
        earlier one is held back until its end, for some servers send a call twice.
        """
        if not call.id:
            call.id, call.has_made_up_id = self.new_call_id(), True
        wire_id = wire_id or call.id
        earlier = self._calls_by_id.get(wire_id)
        if earlier is not None and earlier.name == call.name:
            call.earlier = earlier
            self._held_calls[call] = None
            return
        self._calls_by_id[wire_id] = call
        self._begin(call, events)

    def _begin(self, call: OpenCall, events: list[StreamEvent]) -> None:
        self.has_calls = True
        call.earlier = None
        call.index = self.new_index()
        events.append(ToolCallStart(call.index, call.id, self.names.get(call.name, call.name)))
        events.extend(ToolCallDelta(call.index, piece) for piece in call.pieces)

    def add_arguments(self, call: OpenCall, piece: str, events: list[StreamEvent]) -> None:
        """More of a call's arguments; kept until the call is announced."""
        if piece:
            call.pieces.append(piece)
            if call.index >= 0:
                events.append(ToolCallDelta(call.index, piece))

    def end_call(
        self,
        call: OpenCall,
        events: list[StreamEvent],
        arguments: JsonObject | None = None,
        signature: str | None = None,
    ) -> None:
        """End the block of a call; `arguments`, when given, replace those of the pieces."""
        if arguments is not None:
            call.whole = arguments
        if call.earlier is not None:
            del self._held_calls[call]
            if call.repeats(call.earlier):
                return
            self._begin(call, events)
        events.append(ToolCallEnd(call.index, arguments, signature))

    def new_call_id(self) -> str:
        """An id for a call that came without one."""
        return self.call_id_prefix + secrets.token_hex(12)


def normalized(word: str) -> str:
    """A stop reason in lower case, without separators and the prefix of the enumeration."""
    return "".join(filter(str.isalnum, word)).lower().removeprefix("finishreason")


def _parse_odd(payload: str | bytes) -> Any:
    """The JSON value of a payload that may be bytes or have white space around it; None when it is none."""
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        return None


def _merged(known: JsonObject, given: JsonObject) -> JsonObject:
    merged = dict(known)
    for name, value in given.items():
        old = known.get(name)
        if isinstance(value, dict) and isinstance(old, dict):
            merged[name] = _merged(old, value)
        elif value or not old:
            merged[name] = value
    return merged


def split_total(prompt: int, output: int, total: int) -> tuple[int, int]:
    """The tokens of the prompt and the output; one that the server left out is the rest of the total."""
    if not prompt:
        prompt = max(0, total - output)
    elif not output:
        output = max(0, total - prompt)
    return prompt, output


def _is_done_mark(payload: str | bytes) -> bool:
    return payload.strip() in ("[DONE]", b"[DONE]")
