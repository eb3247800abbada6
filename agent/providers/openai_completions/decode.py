"""From the chunks of a Chat Completions stream to stream events.

The format is one server's, spoken by many: fields are missing, doubled, empty or of another type, calls are
interleaved, ids come late or never. What can be understood is understood, nothing raises.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

from agent.providers.history_transform import to_json_text
from agent.providers.http.failure import ProviderError
from agent.providers.json_reading import count_of, error_text, object_of, text_of
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
from agent.usage import Cost, ModelCost, Usage, priced

# Where servers put reasoning, in order of preference: some send the same text in two of them.
REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")

StopReason = Literal["stop", "length", "toolUse"]
_STOP_REASONS: Mapping[str, StopReason] = {
    "stop": "stop",
    "end": "stop",
    "eos": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "toolUse",
    "function_call": "toolUse",
    "tool_use": "toolUse",
}
# What other finish reasons mean, in words by which `agent.retry` knows the kind of failure.
_FAILURES: Mapping[str, str] = {
    "content_filter": "the provider's content filter stopped the answer (finish_reason content_filter)",
    "model_context_window_exceeded": "the request exceeds the context window (model_context_window_exceeded)",
    "insufficient_system_resource": "the server is overloaded (finish_reason insufficient_system_resource)",
}
ENDED_EARLY = "stream ended unexpectedly: the server sent neither a finish_reason nor [DONE]"
# Ids some servers send where they mean none.
_NO_ID = frozenset(("", "null", "None", "undefined"))

_loads = json.loads


def decode(
    payloads: Iterable[str | bytes],
    cost: ModelCost | None = None,
    names: Mapping[str, str] | None = None,
    on_finish: Callable[[], object] | None = None,
) -> Iterator[StreamEvent]:
    """The events of an answer, ending in exactly one `StreamDone` or `StreamError`.

    Pure over the `data` payloads. `names` maps tool names on the wire to the tools' own. `on_finish` is
    called when the answer is complete and only its usage and the end mark are to come. A `ProviderError`
    raised by `payloads` becomes the last event, unless the answer was complete by then.
    """
    answer = _Answer(cost, names or {}, on_finish)
    feed = answer.feed
    try:
        for payload in payloads:
            try:
                chunk = _loads(payload)
            except (ValueError, RecursionError):
                if payload.strip() in ("[DONE]", b"[DONE]"):
                    answer.done = True
                    break
                continue
            if type(chunk) is dict:
                yield from feed(chunk)
                if answer.over:
                    break
    except ProviderError as failure:
        if failure.aborted or not answer.finish_reason:
            yield StreamError(str(failure), "aborted" if failure.aborted else "error", answer.usage())
            return
    yield from answer.end()


def first_error(payload: str) -> str | None:
    """For `post_sse`: the error a stream opens with, "" for a chunk that says nothing yet, else None."""
    try:
        chunk = _loads(payload)
    except (ValueError, RecursionError):
        return None if payload.strip() == "[DONE]" else ""
    if type(chunk) is not dict:
        return ""
    error = error_text(chunk)
    if error:
        return error
    choice = _first(chunk.get("choices"))
    if choice.get("finish_reason") or choice.get("message") or chunk.get("usage"):
        return None
    delta = choice.get("delta")
    says = isinstance(delta, dict) and any(value for key, value in delta.items() if key != "role")
    return None if says else ""


class _Call:
    """A tool call while it is spelled."""

    __slots__ = ("id", "index", "made_up", "name", "parts", "signature")

    def __init__(self) -> None:
        self.index = -1  # of its block; -1 until it is announced, for which its name is needed
        self.id = ""
        self.made_up = False
        self.name = ""
        self.parts: list[str] = []
        self.signature: str | None = None  # what Google sends along (`extra_content`) and wants back

    def is_complete(self) -> bool:
        """True when the arguments are a whole JSON object; parsed only when they may be."""
        if not self.parts or not any(part.rstrip().endswith("}") for part in self.parts[-2:]):
            return False
        try:
            return isinstance(_loads("".join(self.parts)), dict)
        except ValueError:
            return False


def _begins_another(call: _Call, id: str, name: str, arguments: str) -> bool:
    """True when a piece that seems to go on a call begins a new one: the server reuses index or id."""
    other_id = bool(id and call.id and id != call.id and not call.made_up)
    if other_id and name:
        return True
    # Servers that give each piece an id of its own, or repeat the name with it, go on with a call that is
    # not whole yet; a whole one can't be gone on with.
    named_again = bool(name and call.name) and (name != call.name or bool(arguments.strip()))
    return (other_id or named_again) and call.is_complete()


class _Answer:
    """One answer while its chunks arrive; each block has a stream index of its own, in order of arrival."""

    def __init__(
        self, cost: ModelCost | None, names: Mapping[str, str], on_finish: Callable[[], object] | None
    ) -> None:
        self.done = False
        self.over = False
        self.finish_reason = ""
        self._cost = cost
        self._names = names
        self._on_finish = on_finish
        self._failure = ""
        self._usage: dict[str, Any] | None = None
        self._started = False
        self._next_index = 0
        # The open text or thinking block: "text", a reasoning field, or "" when there is none.
        self._open = ""
        self._open_index = -1
        self._calls: list[_Call] = []
        self._by_index: dict[int | str, _Call] = {}
        self._by_id: dict[str, _Call] = {}
        self._signatures: dict[str, str] = {}

    # --- chunks ---

    def feed(self, chunk: dict[str, Any]) -> list[StreamEvent]:
        """The events of one chunk."""
        events: list[StreamEvent] = []
        if "error" in chunk or chunk.get("object") == "error":
            self._failure = error_text(chunk)
            if self._failure:
                self.over = True
                return events
        usage = chunk.get("usage")
        if usage and isinstance(usage, dict):
            self._usage = usage
        choices = chunk.get("choices")
        if not self._started and (choices or chunk.get("id")):
            self._started = True
            events.append(StreamStart(text_of(chunk.get("id")), text_of(chunk.get("model"))))
        if not choices:
            # By the protocol this chunk is the last one before [DONE], which some servers forget.
            self.over = bool(usage and self.finish_reason)
            return events
        choice = _first(choices)
        delta = choice.get("delta")
        if delta is None and not self._next_index:
            delta = choice.get("message")  # a server that does not stream
        if delta and type(delta) is dict:
            self._delta(delta, events)
        finish_reason = choice.get("finish_reason")
        if finish_reason:
            if self._on_finish is not None and not self.finish_reason:
                self._on_finish()
            self.finish_reason = str(finish_reason)
        if "usage" in choice and isinstance(choice["usage"], dict):
            self._usage = choice["usage"]
        return events

    def _delta(self, delta: dict[str, Any], events: list[StreamEvent]) -> None:
        content = delta.get("content")
        if len(delta) == 1:  # nearly every chunk of nearly every answer
            if self._open == "text" and content and type(content) is str:
                events.append(TextDelta(self._open_index, content))
                return
            if "tool_calls" in delta:
                self._fragments(delta["tool_calls"], events)
                return
        for name in REASONING_FIELDS:
            reasoning = delta.get(name)
            if reasoning and type(reasoning) is str:
                self._say(name, reasoning, events)
                break
        if content:
            self._content(content, events)
        refusal = delta.get("refusal")
        if refusal and type(refusal) is str:
            self._say("text", refusal, events)
        fragments = delta.get("tool_calls")
        if fragments:
            self._fragments(fragments, events)
        legacy = delta.get("function_call")
        if legacy and type(legacy) is dict:
            self._fragment({"function": legacy}, events)
        if "reasoning_details" in delta:
            self._details(delta["reasoning_details"])

    def _content(self, content: Any, events: list[StreamEvent]) -> None:
        """Content as a string, or as the parts that some servers send."""
        if isinstance(content, str):
            self._say("text", content, events)
            return
        for part in content if isinstance(content, list) else [content]:
            if isinstance(part, str):
                self._say("text", part, events)
            elif isinstance(part, dict):
                thinking = part.get("thinking")
                for inner in thinking if isinstance(thinking, list) else [thinking]:
                    text = inner.get("text") if isinstance(inner, dict) else inner
                    self._say(REASONING_FIELDS[0], text_of(text), events)
                self._say("text", text_of(part.get("text")) or text_of(part.get("refusal")), events)

    def _say(self, kind: str, text: str, events: list[StreamEvent]) -> None:
        """Text of a kind; a switch of kind ends the open block."""
        if not text:
            return
        is_text = kind == "text"
        # Reasoning may wander from one field to another and stays one block.
        if not self._open or (self._open == "text") != is_text:
            self._close(events)
            self._open, self._open_index = kind, self._new_index()
            events.append(TextStart(self._open_index) if is_text else ThinkingStart(self._open_index))
        delta = TextDelta if is_text else ThinkingDelta
        events.append(delta(self._open_index, text))

    def _close(self, events: list[StreamEvent]) -> None:
        if self._open == "text":
            events.append(TextEnd(self._open_index))
        elif self._open:
            events.append(ThinkingEnd(self._open_index, self._open))
        self._open = ""

    def _new_index(self) -> int:
        self._next_index += 1
        return self._next_index - 1

    # --- tool calls ---

    def _fragments(self, fragments: Any, events: list[StreamEvent]) -> None:
        for fragment in fragments if type(fragments) is list else [fragments]:
            if type(fragment) is dict:
                self._fragment(fragment, events)

    def _fragment(self, fragment: dict[str, Any], events: list[StreamEvent]) -> None:
        """A piece of a tool call. Calls stay open to the end, for their pieces may be interleaved."""
        function = fragment.get("function")
        if type(function) is not dict:
            function = {}
        arguments = function.get("arguments")
        if len(fragment) == 2 and len(function) == 1 and type(arguments) is str:  # nearly every piece
            index = fragment.get("index")
            call = self._by_index.get(index) if type(index) is int else None
            if call is not None and call.index >= 0:
                if arguments:
                    call.parts.append(arguments)
                    events.append(ToolCallDelta(call.index, arguments))
                return
        if arguments is None:
            arguments = ""
        elif type(arguments) is not str:
            arguments = to_json_text(arguments)
        name = function.get("name")
        if type(name) is not str:
            name = ""
        call = self._call_of(fragment.get("index"), fragment.get("id"), name, arguments)
        if call is None:
            return
        if "extra_content" in fragment and isinstance(fragment["extra_content"], dict):
            call.signature = to_json_text({"extra_content": fragment["extra_content"]})
        if arguments:
            call.parts.append(arguments)
        if call.index >= 0:
            if arguments:
                events.append(ToolCallDelta(call.index, arguments))
        elif call.name:
            self._announce(call, events)

    def _call_of(self, index: Any, id: Any, name: str, arguments: str) -> _Call | None:
        """The call a piece belongs to, a new one where it begins one; None for a piece that says nothing."""
        if type(index) is not int and type(index) is not str:
            index = None
        if type(id) is not str or id in _NO_ID:
            id = ""
        call = self._by_index.get(index) if index is not None else None
        if not id and not name and call is not None:
            return call
        if call is None:
            call = self._without_index(index, id, name)
        if call is None or _begins_another(call, id, name, arguments):
            if not (id or name or arguments):
                return None
            call = _Call()
            self._calls.append(call)
        if index is not None:
            self._by_index[index] = call
        if id and not call.id:
            call.id = id
            self._by_id[id] = call
        call.name = call.name or name
        return call

    def _without_index(self, index: Any, id: str, name: str) -> _Call | None:
        """The call of a piece whose index is missing or new."""
        if id:
            # A known id that comes with a new index and a name is another call: some servers reuse ids.
            return None if index is not None and name else self._by_id.get(id)
        last = self._calls[-1] if self._calls else None
        if last is None or (index is not None and (name or last.is_complete())):
            return None
        return last

    def _announce(self, call: _Call, events: list[StreamEvent]) -> None:
        self._close(events)
        if not call.id:
            call.id, call.made_up = f"call_{secrets.token_hex(12)}", True
        call.index = self._new_index()
        events.append(ToolCallStart(call.index, call.id, self._names.get(call.name, call.name)))
        events.extend(ToolCallDelta(call.index, part) for part in call.parts)

    def _details(self, details: Any) -> None:
        """Encrypted reasoning that belongs to a call, to be sent back with it."""
        for detail in details if isinstance(details, list) else [details]:
            if not isinstance(detail, dict) or detail.get("type") != "reasoning.encrypted":
                continue
            if isinstance(detail.get("id"), str) and detail.get("data"):
                self._signatures[detail["id"]] = to_json_text(detail)

    # --- the end ---

    def end(self) -> list[StreamEvent]:
        """The events that close what is open, and the last one."""
        events: list[StreamEvent] = []
        failure = self._failure
        if not failure and not self.finish_reason and not self.done:
            failure = ENDED_EARLY
        self._close(events)
        for call in self._calls:
            if call.index < 0:
                self._announce(call, events)
        if failure:  # calls stay open: nothing says that they are whole
            return [*events, StreamError(failure, usage=self.usage())]
        for call in self._calls:
            events.append(ToolCallEnd(call.index, None, self._signatures.get(call.id, call.signature)))
        return [*events, self._last()]

    def _last(self) -> StreamEvent:
        reason = self.finish_reason or "stop"
        stop = _STOP_REASONS.get(reason)
        if stop is None:
            text = _FAILURES.get(reason, f"the provider stopped with finish_reason {reason!r}")
            return StreamError(text, usage=self.usage())
        if stop != "length":
            stop = "toolUse" if self._calls else "stop"
        return StreamDone(stop, self.usage())

    def usage(self) -> Usage | None:
        """What the server reported last, priced; None when it reported nothing."""
        return None if self._usage is None else priced(usage_of(self._usage), self._cost)


def usage_of(raw: dict[str, Any]) -> Usage:
    """The usage in a chunk. Cached tokens are taken out of the input; a total in dollars is kept as cost."""
    details = object_of(raw.get("prompt_tokens_details"))
    prompt, completion = count_of(raw.get("prompt_tokens")), count_of(raw.get("completion_tokens"))
    cached = count_of(details.get("cached_tokens")) or count_of(raw.get("prompt_cache_hit_tokens"))
    written = count_of(details.get("cache_write_tokens"))
    read = max(0, cached - written)
    reasoning = count_of(object_of(raw.get("completion_tokens_details")).get("reasoning_tokens"))
    # Most servers count reasoning among the completion tokens; the total tells when one does not.
    if count_of(raw.get("total_tokens")) == prompt + completion + reasoning:
        completion += reasoning
    fresh = max(0, prompt - read - written)
    # OpenRouter says what the request cost, in dollars.
    dollars = raw.get("cost")
    cost = Cost(total=dollars) if isinstance(dollars, float) and dollars > 0 else Cost()
    return Usage(fresh, completion, read, written, fresh + completion + read + written, cost)


def _first(choices: Any) -> dict[str, Any]:
    choice = choices[0] if isinstance(choices, list) and choices else None
    return choice if isinstance(choice, dict) else {}
