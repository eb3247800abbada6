"""From the events of a Responses stream to stream events.

An answer is a list of items (reasoning, messages, calls, what the server's own tools did), each announced,
spelled in deltas and handed over whole. Items are told apart by `output_index`; servers that leave out an
announcement, the deltas or the whole item are understood as long as one of them is there. Nothing raises.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

from agent.messages import ServerContent
from agent.partial_json import parse_arguments
from agent.providers.history_transform import to_json_text
from agent.providers.http.failure import ProviderError
from agent.providers.json_reading import count_of, error_text, object_of, text_of
from agent.providers.openai_responses.messages import joined_id, text_signature
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

ENDED_EARLY = "stream ended unexpectedly: the server did not say that the response is complete"

# What the tiers cost, compared with the listed price.
_TIER_FACTORS = {"flex": 0.5, "priority": 2.0}

_loads = json.loads


def decode(
    payloads: Iterable[str | bytes], cost: ModelCost | None = None, names: Mapping[str, str] | None = None
) -> Iterator[StreamEvent]:
    """The events of an answer, ending in exactly one `StreamDone` or `StreamError`.

    Pure over the `data` payloads. `names` maps tool names on the wire to the tools' own. A `ProviderError`
    raised by `payloads` becomes the last event.
    """
    answer = _Answer(cost, names or {})
    try:
        for payload in payloads:
            try:
                event = _loads(payload)
            except (ValueError, RecursionError):
                if payload.strip() in ("[DONE]", b"[DONE]"):
                    answer.done = True
                    break
                continue
            if type(event) is dict:
                yield from answer.feed(event)
                if answer.over:
                    return
    except ProviderError as failure:
        yield StreamError(str(failure), "aborted" if failure.aborted else "error")
        return
    yield from answer.end()


def first_error(payload: str) -> str | None:
    """For `post_sse`: the error a stream opens with, "" for an event that says nothing yet, else None."""
    try:
        event = _loads(payload)
    except (ValueError, RecursionError):
        return None if payload.strip() == "[DONE]" else ""
    if type(event) is not dict:
        return ""
    if event.get("type") in ("response.created", "response.in_progress", "response.queued"):
        return ""
    if _is_error(event):
        return _error(event)
    if event.get("type") == "response.failed":
        return failure_text(object_of(event.get("response")))
    return None


def failure_text(response: dict[str, Any]) -> str:
    """Why a response failed: its error, what it lacks, or at least its status."""
    error = object_of(response.get("error"))
    code, message = text_of(error.get("code")), text_of(error.get("message"))
    if code or message:
        return f"{code}: {message}" if code and message else code or message
    reason = _incomplete_reason(response)
    if reason:
        return f"incomplete: {reason}"
    return (
        f"the provider ended the response as {text_of(response.get('status')) or 'failed'} without a reason"
    )


def _incomplete_reason(response: dict[str, Any]) -> str:
    return text_of(object_of(response.get("incomplete_details")).get("reason"))


def _is_error(event: dict[str, Any]) -> bool:
    bare = "type" not in event and bool(event.get("error")) and not _is_whole(event)
    return bare or event.get("type") == "error"


def _error(event: dict[str, Any]) -> str:
    """`Error Code <code>: <message>` of an error event, whose fields some servers put into an object."""
    nested = event.get("error")
    if event.get("type") != "error":
        return error_text(event)
    error = nested if isinstance(nested, dict) else event
    code = error.get("code") or (error.get("type") if error is nested else None)
    message = text_of(error.get("message")) or text_of(nested) or to_json_text(error)
    return f"Error Code {code}: {message}" if code else message


def _is_whole(data: dict[str, Any]) -> bool:
    """True for a response that came as one JSON body instead of a stream."""
    return data.get("object") == "response" or "output" in data


class _Item:
    """One item while it is spelled."""

    __slots__ = ("arguments", "closed", "id", "index", "kind", "named", "part", "pieces", "said", "source")

    def __init__(self, kind: str, index: int) -> None:
        self.kind = kind  # text, thinking, toolcall or server
        self.index = index  # of its block
        self.id = ""
        self.named = False  # announced with its id and kind, not just opened by a delta
        self.said = False
        self.closed = False
        self.part: Any = None  # the part of the reasoning that was spelled last
        self.source = ""  # what the reasoning is taken from: its summary, or its own text
        self.pieces: list[str] = []  # of a call's arguments
        self.arguments = ""  # the whole of them, when the server sent it


_KINDS = {"message": "text", "reasoning": "thinking", "function_call": "toolcall"}


class _Answer:
    """One answer while its events arrive; `over` once the last event was returned."""

    def __init__(self, cost: ModelCost | None, names: Mapping[str, str]) -> None:
        self.over = False
        self.done = False  # the mark that ends other formats came
        self._cost = cost
        self._names = names
        self._started = False
        self._items: list[_Item] = []
        self._by_place: dict[int, _Item] = {}
        self._by_id: dict[str, _Item] = {}
        self._handlers: Mapping[str, Callable[[dict[str, Any]], list[StreamEvent]]] = {
            "response.created": self._start,
            "response.in_progress": self._start,
            "response.queued": self._start,
            "response.output_item.added": self._added,
            "response.output_text.delta": self._text,
            "response.refusal.delta": self._text,
            "response.reasoning_summary_text.delta": self._summary,
            "response.reasoning_text.delta": self._reasoning,
            "response.function_call_arguments.delta": self._arguments,
            "response.function_call_arguments.done": self._arguments_done,
            "response.output_item.done": self._item_done,
            "response.completed": self._finished,
            "response.incomplete": self._finished,
            "response.failed": self._finished,
            "response.cancelled": self._finished,
        }

    def feed(self, event: dict[str, Any]) -> list[StreamEvent]:
        """The events of one event."""
        kind = event.get("type")
        handler = self._handlers.get(kind) if type(kind) is str else None
        if handler is not None:
            return handler(event)
        if _is_error(event):
            return self._fail(_error(event))
        if kind is None and _is_whole(event):
            return self._finished({"response": event})
        return []

    def end(self) -> list[StreamEvent]:
        """What follows when the stream just ended: an error, unless the answer looks whole all the same."""
        if self.done and self._items and all(item.closed for item in self._items):
            return [StreamDone(self._stop())]
        return self._fail(ENDED_EARLY)

    # --- the response ---

    def _start(self, event: dict[str, Any]) -> list[StreamEvent]:
        if self._started:
            return []
        self._started = True
        response = object_of(event.get("response"))
        return [StreamStart(text_of(response.get("id")), text_of(response.get("model")))]

    def _finished(self, event: dict[str, Any]) -> list[StreamEvent]:
        response = object_of(event.get("response"))
        usage = self._usage(response)
        status = text_of(response.get("status")) or text_of(event.get("type")).removeprefix("response.")
        if status in ("failed", "cancelled"):
            return self._fail(failure_text(response), usage)
        events = [*self._start(event), *self._fill(response.get("output"))]
        for item in self._items:
            if not item.closed:
                self._close(item, {}, events)
        incomplete = status == "incomplete"
        if incomplete and _incomplete_reason(response) == "content_filter":
            text = "the provider's content filter stopped the answer (incomplete: content_filter)"
            return events + self._fail(text, usage)
        self.over = True
        return [*events, StreamDone("length" if incomplete else self._stop(), usage)]

    def _stop(self) -> Literal["stop", "toolUse"]:
        return "toolUse" if any(item.kind == "toolcall" for item in self._items) else "stop"

    def _fill(self, output: Any) -> list[StreamEvent]:
        """What the whole answer, which comes with its end, knows beyond what was spelled."""
        events: list[StreamEvent] = []
        in_place = len(self._by_place) == len(self._items)  # otherwise nothing tells what is missing
        for place, data in enumerate(output if isinstance(output, list) else ()):
            event = {"output_index": place, "item": data}
            item = self._find(event)
            if (item is None and in_place) or (item is not None and not item.closed):
                events += self._item_done(event)
        return events

    def _fail(self, text: str, usage: Usage | None = None) -> list[StreamEvent]:
        """The last event of a failed answer; what is open stays open: nothing says that it is whole."""
        self.over = True
        return [StreamError(text, usage=usage)]

    def _usage(self, response: dict[str, Any]) -> Usage | None:
        raw = response.get("usage")
        if not raw or not isinstance(raw, dict):
            return None
        return priced(usage_of(raw), _at_tier(self._cost, response.get("service_tier")))

    # --- items ---

    def _find(self, event: dict[str, Any]) -> _Item | None:
        """The item an event speaks of. Its place outranks its id, which some servers change on the way."""
        place = event.get("output_index")
        item = self._by_place.get(place) if type(place) is int else None
        if item is None:
            id = event.get("item_id") or object_of(event.get("item")).get("id")
            item = self._by_id.get(id) if type(id) is str else None
            if item is None and place is None and not id and self._items:
                item = self._items[-1]
        return item

    def _new(self, kind: str, event: dict[str, Any], events: list[StreamEvent]) -> _Item:
        item = _Item(kind, len(self._items))
        self._items.append(item)
        place, id = event.get("output_index"), event.get("item_id")
        if type(place) is int:
            self._by_place[place] = item
        if id and type(id) is str:
            self._by_id[id] = item
        if kind == "text":
            events.append(TextStart(item.index))
        elif kind == "thinking":
            events.append(ThinkingStart(item.index))
        return item

    def _open(self, kind: str, event: dict[str, Any], events: list[StreamEvent]) -> _Item:
        """The item a delta belongs to; one that was not announced is opened by it."""
        item = self._find(event)
        return item if item is not None and item.kind == kind else self._new(kind, event, events)

    def _name(self, item: _Item, data: dict[str, Any], events: list[StreamEvent]) -> None:
        """Take in what an item says of itself; a call begins now, with the deltas that came too early."""
        item.named, item.id = True, text_of(data.get("id"))
        if item.id:
            self._by_id[item.id] = item
        if item.kind != "toolcall":
            return
        name = text_of(data.get("name"))
        call_id = text_of(data.get("call_id")) or f"call_{secrets.token_hex(12)}"
        events.append(ToolCallStart(item.index, joined_id(call_id, item.id), self._names.get(name, name)))
        events.extend(ToolCallDelta(item.index, piece) for piece in item.pieces)

    def _added(self, event: dict[str, Any]) -> list[StreamEvent]:
        events = self._start(event)
        data = object_of(event.get("item"))
        kind = _KINDS.get(text_of(data.get("type")))
        if kind is not None:
            item = self._find(event)
            if item is None or item.named or item.kind != kind:
                item = self._new(kind, event, events)
            self._name(item, data, events)
        return events

    def _text(self, event: dict[str, Any]) -> list[StreamEvent]:
        delta = event.get("delta")
        if not delta or type(delta) is not str:
            return []
        events = self._start(event)
        item = self._open("text", event, events)
        if not item.closed:
            item.said = True
            events.append(TextDelta(item.index, delta))
        return events

    def _summary(self, event: dict[str, Any]) -> list[StreamEvent]:
        return self._think(event, "summary", event.get("summary_index"))

    def _reasoning(self, event: dict[str, Any]) -> list[StreamEvent]:
        return self._think(event, "content", event.get("content_index"))

    def _think(self, event: dict[str, Any], source: str, part: Any) -> list[StreamEvent]:
        """Reasoning from one source, for the summary says the same again; a blank line between its parts."""
        delta = event.get("delta")
        if not delta or type(delta) is not str:
            return []
        events = self._start(event)
        item = self._open("thinking", event, events)
        item.source = item.source or source
        if item.closed or item.source != source:
            return events
        if item.said and part != item.part:
            events.append(ThinkingDelta(item.index, "\n\n"))
        item.said, item.part = True, part
        events.append(ThinkingDelta(item.index, delta))
        return events

    def _arguments(self, event: dict[str, Any]) -> list[StreamEvent]:
        delta = event.get("delta")
        if not delta or type(delta) is not str:
            return []
        events = self._start(event)
        item = self._open("toolcall", event, events)
        if not item.closed:
            item.pieces.append(delta)
            if item.named:
                events.append(ToolCallDelta(item.index, delta))
        return events

    def _arguments_done(self, event: dict[str, Any]) -> list[StreamEvent]:
        events = self._start(event)
        self._open("toolcall", event, events).arguments = text_of(event.get("arguments"))
        return events

    def _item_done(self, event: dict[str, Any]) -> list[StreamEvent]:
        events = self._start(event)
        data = object_of(event.get("item"))
        type_ = text_of(data.get("type"))
        kind = _KINDS.get(type_, "server")
        item = self._find(event)
        again = item is not None and item.closed and item.id and item.id == data.get("id")
        if again or not type_:
            return events
        if item is None or item.closed or item.kind != kind:
            item = self._new(kind, event, events)
        self._close(item, data, events)
        return events

    def _close(self, item: _Item, data: dict[str, Any], events: list[StreamEvent]) -> None:
        """End an item, with all that is known of it."""
        if not item.named:
            self._name(item, data, events)
        item.closed = True
        match item.kind:
            case "text":
                events += _text_end(item, data)
            case "thinking":
                events += _thinking_end(item, data)
            case "toolcall":
                events += _call_end(item, data)
            case _:
                block = ServerContent(text_of(data.get("type")), to_json_text(data))
                events.append(ServerBlock(item.index, block))


def _text_end(item: _Item, data: dict[str, Any]) -> list[StreamEvent]:
    text = "" if item.said else _joined(data.get("content"), "", "text", "refusal")
    events: list[StreamEvent] = [TextDelta(item.index, text)] if text else []
    kept = text_signature(text_of(data.get("id")), text_of(data.get("phase"))) if item.said or text else None
    return [*events, TextEnd(item.index, kept)]


def _thinking_end(item: _Item, data: dict[str, Any]) -> list[StreamEvent]:
    text = ""
    if not item.said:
        text = _joined(data.get("summary"), "\n\n", "text") or _joined(data.get("content"), "\n\n", "text")
    events: list[StreamEvent] = [ThinkingDelta(item.index, text)] if text else []
    return [*events, ThinkingEnd(item.index, to_json_text(data) if data else None)]


def _call_end(item: _Item, data: dict[str, Any]) -> list[StreamEvent]:
    """The end of a call. The whole arguments, if they came, count, whatever the deltas spelled."""
    spelled = "".join(item.pieces)
    whole = item.arguments or text_of(data.get("arguments")) or spelled
    if whole == spelled:
        return [ToolCallEnd(item.index)]
    if whole.startswith(spelled):
        return [ToolCallDelta(item.index, whole[len(spelled) :]), ToolCallEnd(item.index)]
    arguments, problem = parse_arguments(whole)
    return [ToolCallEnd(item.index, None if problem else arguments)]


def _joined(parts: Any, separator: str, *fields: str) -> str:
    found = (object_of(part) for part in (parts if isinstance(parts, list) else ()))
    texts = (text_of(part.get(field)) for part in found for field in fields)
    return separator.join([text for text in texts if text])


# --- what it cost ----------------------------------------------------------------------------------------


def usage_of(raw: dict[str, Any]) -> Usage:
    """The usage of a response. Tokens read from the cache and written to it are taken out of the input."""
    details = object_of(raw.get("input_tokens_details"))
    read, written = count_of(details.get("cached_tokens")), count_of(details.get("cache_write_tokens"))
    fresh = max(0, count_of(raw.get("input_tokens")) - read - written)
    return Usage(fresh, count_of(raw.get("output_tokens")), read, written, count_of(raw.get("total_tokens")))


def _at_tier(cost: ModelCost | None, tier: Any) -> ModelCost | None:
    factor = _TIER_FACTORS.get(text_of(tier))
    if cost is None or factor is None:
        return cost
    prices = (cost.input, cost.output, cost.cache_read, cost.cache_write)
    return ModelCost(*(price * factor for price in prices))
