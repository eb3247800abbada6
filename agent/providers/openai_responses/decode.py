"""Decodes the events of a Responses stream.

A response is a list of items (reasoning, messages, calls, the work of server tools). Each is announced, sent
in deltas and then sent whole. Items are told apart by `output_index`. Servers that leave out an announcement,
the deltas or the whole item are understood as long as one of them comes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from agent.json_values import JsonObject
from agent.messages import ServerContent
from agent.partial_json import parse_arguments
from agent.providers.decoder import Decoder, OpenCall, normalized, split_total
from agent.providers.history_transform import to_json_text
from agent.providers.json_fields import as_count, as_index, as_list, as_object, as_text, error_text
from agent.providers.openai_responses.messages import joined_id, text_signature
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
from agent.usage import ModelCost, Usage

# What the service tiers cost, compared with the listed price.
_TIER_FACTORS = {"flex": 0.5, "priority": 2.0}

_KINDS = {"message": "text", "reasoning": "thinking", "function_call": "call"}


def failure_text(response: JsonObject) -> str:
    """Why a response failed: its error, what it lacks, or at least its status."""
    error = as_object(response.get("error"))
    code, message = as_text(error.get("code")), as_text(error.get("message"))
    if code or message:
        return f"{code}: {message}" if code and message else code or message
    reason = _incomplete_reason(response)
    if reason:
        return f"incomplete: {reason}"
    return (
        f"the provider ended the response as {as_text(response.get('status')) or 'failed'} without a reason"
    )


def _incomplete_reason(response: JsonObject) -> str:
    return as_text(as_object(response.get("incomplete_details")).get("reason"))


def _is_error(event: JsonObject) -> bool:
    bare = "type" not in event and bool(event.get("error")) and not _is_whole(event)
    return bare or event.get("type") == "error"


def _error(event: JsonObject) -> str:
    """`Error Code <code>: <message>` of an error event, whose fields some servers put into an object."""
    nested = event.get("error")
    if event.get("type") != "error":
        return error_text(event)
    error = nested if isinstance(nested, dict) else event
    code = error.get("code") or (error.get("type") if error is nested else None)
    message = as_text(error.get("message")) or as_text(nested) or to_json_text(error)
    return f"Error Code {code}: {message}" if code else message


def _is_whole(data: JsonObject) -> bool:
    """True for a response that came as one JSON body instead of a stream."""
    return data.get("object") == "response" or "output" in data


class _Item:
    """One item while its deltas arrive."""

    __slots__ = (
        "annotations", "call", "call_id", "has_text", "id", "index", "is_announced", "is_closed", "kind",
        "part", "source", "whole",
    )  # fmt: skip

    def __init__(self, kind: str, index: int) -> None:
        self.kind = kind  # text, thinking, call or server
        self.index = index  # of its block; a call has its own
        self.id = ""
        self.is_announced = False  # came with its id and kind, not just opened by a delta
        self.has_text = False
        self.is_closed = False
        self.part: Any = None  # the part of the reasoning that the latest delta belongs to
        self.source = ""  # what the reasoning is taken from: its summary, or its own text
        self.call = OpenCall()
        self.call_id = ""
        self.whole = ""  # all arguments of a call, if the server sent them
        self.annotations: list[JsonObject] = []

    def is_described_by(self, kind: str, data: JsonObject) -> bool:
        """True when `data` has the kind and the id of this item; a call may be known by its own id."""
        if kind != self.kind:
            return False
        if self.id or data.get("id"):
            return self.id == data.get("id")
        return bool(self.call_id) and self.call_id == data.get("call_id")


class ResponsesDecoder(Decoder):
    """Decodes one response of the Responses format."""

    ended_early = "stream ended unexpectedly: the server did not say that the response is complete"
    has_done_mark = True

    def set_up(self) -> None:
        self._tier = ""
        self._items: list[_Item] = []
        self._by_place: dict[int, _Item] = {}
        self._by_id: dict[str, _Item] = {}
        self._searches = 0  # that the server ran
        self._handlers: Mapping[str, Callable[[JsonObject], list[StreamEvent]]] = {
            "response.created": self._start,
            "response.in_progress": self._start,
            "response.queued": self._start,
            "response.output_item.added": self._added,
            "response.output_text.delta": self._text,
            "response.refusal.delta": self._text,
            "response.output_text.done": self._text_done,
            "response.refusal.done": self._text_done,
            "response.output_text.annotation.added": self._annotation,
            "response.reasoning_summary_text.delta": self._summary,
            "response.reasoning_text.delta": self._reasoning,
            "response.function_call_arguments.delta": self._arguments,
            "response.function_call_arguments.done": self._arguments_done,
            "response.output_item.done": self._item_done,
            "response.completed": self._finished,
            "response.incomplete": self._finished,
            "response.failed": self._finished,
            "response.cancelled": self._finished,
            "response.canceled": self._finished,
            "response.done": self._finished,
        }

    @classmethod
    def opening_error(cls, event: JsonObject) -> str | None:
        if event.get("type") in ("response.created", "response.in_progress", "response.queued"):
            return ""
        if _is_error(event):
            return _error(event)
        if event.get("type") == "response.failed":
            return failure_text(as_object(event.get("response")))
        return None

    def feed(self, event: JsonObject) -> list[StreamEvent]:
        kind = event.get("type")
        handler = self._handlers.get(kind) if type(kind) is str else None
        if handler is not None:
            return handler(event)
        if _is_error(event):
            self.failure, self.is_over = _error(event), True
        elif kind is None and _is_whole(event):
            return self._finished({"response": event})
        return []

    def has_ended(self) -> bool:
        """True after the final event; a done mark alone will do if all items are whole."""
        return bool(self.stop_word) or (
            self.is_done and bool(self._items) and all(item.is_closed for item in self._items)
        )

    # --- the response ---

    def _start(self, event: JsonObject) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        if not self.has_started:
            response = as_object(event.get("response"))
            self.start(response.get("id"), response.get("model"), events)
        return events

    def _finished(self, event: JsonObject) -> list[StreamEvent]:
        self.is_over = True
        response = as_object(event.get("response"))
        self.count(response.get("usage"))
        self._tier = as_text(response.get("service_tier"))
        word = as_text(response.get("status")) or as_text(event.get("type")).removeprefix("response.")
        status = normalized(word)
        if status in ("failed", "cancelled", "canceled"):
            self.failure = failure_text(response)
            return []
        events = [*self._start(event), *self._fill(response.get("output"))]
        for item in self._items:
            if not item.is_closed:
                self._close(item, {}, events)
        if status == "incomplete" and normalized(_incomplete_reason(response)) == "contentfilter":
            self.failure = "the provider's content filter stopped the answer (incomplete: content_filter)"
        self.stop_word = "incomplete" if status == "incomplete" else "stop"
        return events

    def _fill(self, output: Any) -> list[StreamEvent]:
        """Add from the whole output, which comes with the end, what no event before it contained."""
        events: list[StreamEvent] = []
        in_place = len(self._by_place) == len(self._items)  # otherwise it is unknown what is missing
        for place, data in enumerate(as_list(output)):
            event = {"output_index": place, "item": data}
            item = self._find(event)
            if (item is None and in_place) or (item is not None and not item.is_closed):
                events += self._item_done(event)
        return events

    def price(self) -> ModelCost | None:
        factor = _TIER_FACTORS.get(self._tier)
        return self.cost if self.cost is None or factor is None else self.cost.times(factor)

    def usage_of(self, raw: JsonObject) -> Usage:
        return replace(usage_of(raw), web_searches=self._searches)

    def stop_error(self, word: str) -> str:
        return f"the provider ended the response as {word}"

    # --- items ---

    def _find(self, event: JsonObject) -> _Item | None:
        """The item an event belongs to. Its place outranks its id, which some servers change on the way."""
        place = event.get("output_index")
        if type(place) is not int:
            place = as_index(place)
        item = None if place is None else self._by_place.get(place)
        if item is None:
            id = event.get("item_id") or as_object(event.get("item")).get("id")
            item = self._by_id.get(id) if type(id) is str else None
            if item is None and place is None and not id and self._items:
                item = self._items[-1]
        return item

    def _new(self, kind: str, event: JsonObject, events: list[StreamEvent]) -> _Item:
        item = _Item(kind, -1 if kind == "call" else self.new_index())
        self._items.append(item)
        place, id = as_index(event.get("output_index")), event.get("item_id")
        if place is not None:
            self._by_place[place] = item
        if id and type(id) is str:
            self._by_id[id] = item
        if kind == "text":
            events.append(TextStart(item.index))
        elif kind == "thinking":
            events.append(ThinkingStart(item.index))
        return item

    def _open(self, kind: str, event: JsonObject, events: list[StreamEvent]) -> _Item:
        """The item a delta belongs to; opened here if it was not announced."""
        item = self._find(event)
        return item if item is not None and item.kind == kind else self._new(kind, event, events)

    def _announce(self, item: _Item, data: JsonObject, events: list[StreamEvent]) -> None:
        """Take in the id and name of an item. The block of a call begins here."""
        item.is_announced, item.id = True, as_text(data.get("id"))
        if item.id:
            self._by_id[item.id] = item
        if item.kind == "call":
            call = item.call
            call.name = as_text(data.get("name"))
            item.call_id = as_text(data.get("call_id")) or self.new_call_id()
            call.id = joined_id(item.call_id, item.id)
            self.announce(call, events, item.call_id)

    def _added(self, event: JsonObject) -> list[StreamEvent]:
        events = self._start(event)
        data = as_object(event.get("item"))
        kind = _KINDS.get(as_text(data.get("type")))
        if kind is not None:
            item = self._find(event)
            if item is None or item.is_announced or item.kind != kind:
                if item is not None and not item.is_closed and item.is_described_by(kind, data):
                    return events  # announced twice
                item = self._new(kind, event, events)
            self._announce(item, data, events)
        return events

    def _text(self, event: JsonObject) -> list[StreamEvent]:
        delta = event.get("delta")
        if not delta or type(delta) is not str:
            return []
        events = self._start(event)
        item = self._open("text", event, events)
        if not item.is_closed:
            item.has_text = True
            events.append(TextDelta(item.index, delta))
        return events

    def _text_done(self, event: JsonObject) -> list[StreamEvent]:
        """The whole text of a part; repeats its deltas, if there were any."""
        item = self._find(event)
        if item is not None and (item.kind != "text" or item.has_text or item.is_closed):
            return []
        return self._text(event | {"delta": event.get("text") or event.get("refusal")})

    def _annotation(self, event: JsonObject) -> list[StreamEvent]:
        events = self._start(event)
        if annotation := as_object(event.get("annotation")):
            self._open("text", event, events).annotations.append(annotation)
        return events

    def _summary(self, event: JsonObject) -> list[StreamEvent]:
        return self._think(event, "summary", event.get("summary_index"))

    def _reasoning(self, event: JsonObject) -> list[StreamEvent]:
        return self._think(event, "content", event.get("content_index"))

    def _think(self, event: JsonObject, source: str, part: Any) -> list[StreamEvent]:
        """Reasoning, with a blank line between its parts; from one source, for the summary repeats it."""
        delta = event.get("delta")
        if not delta or type(delta) is not str:
            return []
        events = self._start(event)
        item = self._open("thinking", event, events)
        item.source = item.source or source
        if item.is_closed or item.source != source:
            return events
        if item.has_text and part != item.part:
            events.append(ThinkingDelta(item.index, "\n\n"))
        item.has_text, item.part = True, part
        events.append(ThinkingDelta(item.index, delta))
        return events

    def _arguments(self, event: JsonObject) -> list[StreamEvent]:
        delta = event.get("delta")
        if not delta or type(delta) is not str:
            return []
        events = self._start(event)
        item = self._open("call", event, events)
        if not item.is_closed:
            self.add_arguments(item.call, delta, events)
        return events

    def _arguments_done(self, event: JsonObject) -> list[StreamEvent]:
        events = self._start(event)
        self._open("call", event, events).whole = as_text(event.get("arguments"))
        return events

    def _item_done(self, event: JsonObject) -> list[StreamEvent]:
        events = self._start(event)
        data = as_object(event.get("item"))
        type_ = as_text(data.get("type"))
        kind = _KINDS.get(type_, "server")
        item = self._find(event)
        if not type_ or (item is not None and item.is_closed and item.is_described_by(kind, data)):
            return events  # sent twice
        if item is None or item.is_closed or item.kind != kind:
            item = self._new(kind, event, events)
        self._close(item, data, events)
        return events

    def _close(self, item: _Item, data: JsonObject, events: list[StreamEvent]) -> None:
        """End an item. `data` is the whole of it, if the server sent that."""
        if not item.is_announced:
            self._announce(item, data, events)
        item.is_closed = True
        match item.kind:
            case "text":
                events += _text_end(item, data)
            case "thinking":
                events += _thinking_end(item, data)
            case "call":
                self._end_call(item, data, events)
            case _:
                self._searches += _is_search(data)
                block = ServerContent(as_text(data.get("type")), to_json_text(data))
                events.append(ServerBlock(item.index, block))

    def _end_call(self, item: _Item, data: JsonObject, events: list[StreamEvent]) -> None:
        """End a call. Its whole arguments, if they came, outrank the deltas."""
        call = item.call
        streamed = "".join(call.pieces)
        whole = item.whole or as_text(data.get("arguments")) or streamed
        if whole.startswith(streamed):
            self.add_arguments(call, whole[len(streamed) :], events)
            self.end_call(call, events)
        else:
            arguments, problem = parse_arguments(whole)
            self.end_call(call, events, None if problem else arguments)


def _is_search(data: JsonObject) -> bool:
    """True for a search of the web; opening a page and finding text in it have the same type."""
    action = as_text(as_object(data.get("action")).get("type"))
    return data.get("type") == "web_search_call" and action in ("", "search")


def _text_end(item: _Item, data: JsonObject) -> list[StreamEvent]:
    text = "" if item.has_text else _joined(data.get("content"), "", "text", "refusal")
    events: list[StreamEvent] = [TextDelta(item.index, text)] if text else []
    is_kept = bool(text) or item.has_text
    signature = text_signature(as_text(data.get("id")), as_text(data.get("phase"))) if is_kept else None
    return [*events, TextEnd(item.index, signature, _annotations(data.get("content")) or item.annotations)]


def _thinking_end(item: _Item, data: JsonObject) -> list[StreamEvent]:
    text = ""
    if not item.has_text:
        text = _joined(data.get("summary"), "\n\n", "text") or _joined(data.get("content"), "\n\n", "text")
    events: list[StreamEvent] = [ThinkingDelta(item.index, text)] if text else []
    return [*events, ThinkingEnd(item.index, to_json_text(data) if data else None)]


def _annotations(parts: Any) -> list[JsonObject]:
    """The annotations of all parts of a text. The parts are joined, so the places in later ones move."""
    found: list[JsonObject] = []
    offset = 0
    for part in map(as_object, as_list(parts)):
        for annotation in as_list(part.get("annotations")):
            if annotation and isinstance(annotation, dict):
                found.append(_moved(annotation, offset))
        offset += len(as_text(part.get("text")) or as_text(part.get("refusal")))
    return found


def _moved(annotation: JsonObject, offset: int) -> JsonObject:
    if not offset:
        return annotation
    places = ((name, annotation.get(name)) for name in ("start_index", "end_index"))
    return annotation | {name: place + offset for name, place in places if type(place) is int}


def _joined(parts: Any, separator: str, *fields: str) -> str:
    texts = (as_text(as_object(part).get(field)) for part in as_list(parts) for field in fields)
    return separator.join([text for text in texts if text])


def usage_of(raw: JsonObject) -> Usage:
    """The usage of a response. Tokens read from the cache and written to it are taken out of the input."""
    details = as_object(raw.get("input_tokens_details"))
    total = as_count(raw.get("total_tokens"))
    prompt = as_count(raw.get("input_tokens"))
    prompt, output = split_total(prompt, as_count(raw.get("output_tokens")), total)
    read = min(as_count(details.get("cached_tokens")), prompt)
    written = min(as_count(details.get("cache_write_tokens")), prompt - read)
    reasoning = as_count(as_object(raw.get("output_tokens_details")).get("reasoning_tokens"))
    return Usage(prompt - read - written, output, read, written, total, reasoning=min(reasoning, output))


decode = ResponsesDecoder.decode
first_error = ResponsesDecoder.first_error
