"""Decodes the chunks of a Chat Completions stream.

Many servers speak this format, each in its own way: fields are missing, doubled, empty or of another type,
calls are interleaved, ids come late or never.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.json_values import JsonObject
from agent.partial_json import parse_arguments
from agent.providers.decoder import Decoder, OpenCall, normalized, split_total
from agent.providers.history_transform import to_json_text
from agent.providers.json_fields import (
    as_count,
    as_dollars,
    as_list,
    as_object,
    as_text,
    error_text,
    first_object,
)
from agent.providers.openai_completions.object_scan import ObjectScan
from agent.stream import StreamEvent, TextDelta, ToolCallDelta
from agent.usage import Cost, Usage

# Where servers put reasoning, in order of preference: some send the same text in two of them.
REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")

# What other finish reasons mean, in words by which `agent.retry` recognises the kind of failure.
_FAILURES: Mapping[str, str] = {
    "contentfilter": "the provider's content filter stopped the answer",
    "contentfiltered": "the provider's content filter stopped the answer",
    "safety": "the provider's content filter stopped the answer",
    "sensitive": "the provider's content filter stopped the answer",
    "modelcontextwindowexceeded": "the request exceeds the context window",
    "insufficientsystemresource": "the server is overloaded",
}
# Ids that some servers send where they mean none.
_NO_ID = frozenset(("", "null", "None", "undefined"))


class _Call(OpenCall):
    """A tool call while its fragments arrive."""

    __slots__ = ("_scan", "_scanned", "signature")

    def __init__(self) -> None:
        super().__init__()
        self.signature: str | None = None  # what Google sends along (`extra_content`) and wants back
        self._scan = ObjectScan()
        self._scanned = 0  # pieces

    @property
    def characters_scanned(self) -> int:
        return self._scan.characters

    def is_complete(self) -> bool:
        """True when the arguments are a whole JSON object. Scans what came since it was last asked."""
        for piece in self.pieces[self._scanned :]:
            self._scan.add(piece)
        self._scanned = len(self.pieces)
        return self._scan.is_whole

    def is_repeated_by(self, id: str, name: str, arguments: str) -> bool:
        """True for a fragment that sends this whole call once more."""
        if (id and id != self.id) or (name and name != self.name) or not arguments.strip():
            return False
        if not self.is_complete():
            return False
        return bool(parse_arguments(arguments)[0] == self.arguments())


def _begins_another(call: _Call, id: str, name: str, arguments: str) -> bool:
    """True when a fragment that seems to continue a call begins a new one: the server reuses index or id."""
    other_id = bool(id and call.id and id != call.id and not call.has_made_up_id)
    if other_id and name:
        return True
    # Servers that give each fragment an id of its own, or repeat the name with it, continue a call that is
    # not whole yet. A whole one can't be continued.
    named_again = bool(name and call.name) and (name != call.name or bool(arguments.strip()))
    return (other_id or named_again) and call.is_complete()


class CompletionsDecoder(Decoder):
    """Decodes one response of the Chat Completions format."""

    ended_early = "stream ended unexpectedly: the server sent neither a finish_reason nor [DONE]"
    has_done_mark = True

    def set_up(self) -> None:
        self.calls: list[_Call] = []
        self._by_index: dict[int | str, _Call] = {}
        self._by_id: dict[str, _Call] = {}
        self._signatures: dict[str, str] = {}  # encrypted reasoning by the id of its call

    @classmethod
    def opening_error(cls, event: JsonObject) -> str | None:
        error = error_text(event)
        if error:
            return error
        choice = first_object(event.get("choices"))
        if choice.get("finish_reason") or choice.get("message") or event.get("usage"):
            return None
        delta = as_object(choice.get("delta"))
        return None if any(value for key, value in delta.items() if key != "role") else ""

    # --- chunks ---

    def feed(self, event: JsonObject) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        if "error" in event or event.get("object") == "error":
            self.failure = error_text(event)
            if self.failure:
                self.is_over = True
                return events
        usage = event.get("usage")
        if usage:
            self.count(usage)
        choices = event.get("choices")
        if not self.has_started and (choices or event.get("id")):
            self.start(event.get("id"), event.get("model"), events)
        if not choices:
            # By the protocol this chunk is the last one before [DONE], which some servers forget.
            self.is_over = bool(usage and self.stop_word)
            return events
        choice = first_object(choices)
        delta = choice.get("delta")
        if delta is None and not self.has_blocks:
            delta = choice.get("message")  # a server that does not stream
        if delta and type(delta) is dict:
            self._delta(delta, events)
        word = choice.get("finish_reason")
        if word:
            self.stop(str(word))
        if "usage" in choice:
            self.count(choice["usage"])
        return events

    def _delta(self, delta: JsonObject, events: list[StreamEvent]) -> None:
        content = delta.get("content")
        if len(delta) == 1:  # nearly every chunk
            if self.open_kind == "text" and content and type(content) is str:
                events.append(TextDelta(self.open_index, content))
                return
            if "tool_calls" in delta:
                self._fragments(delta["tool_calls"], events)
                return
        for name in REASONING_FIELDS:
            reasoning = delta.get(name)
            if reasoning and type(reasoning) is str:
                self.add_thinking(reasoning, events, name)
                break
        if content:
            self._content(content, events)
        refusal = delta.get("refusal")
        if refusal and type(refusal) is str:
            self.add_text(refusal, events)
        fragments = delta.get("tool_calls")
        if fragments:
            self._fragments(fragments, events)
        legacy = delta.get("function_call")
        if legacy and type(legacy) is dict:
            self._fragment({"index": "function_call", "function": legacy}, events)  # there is only one
        if "annotations" in delta:
            self.citations += [
                each for each in as_list(delta["annotations"]) if each and isinstance(each, dict)
            ]
        if "reasoning_details" in delta:
            self._details(delta["reasoning_details"])

    def _content(self, content: Any, events: list[StreamEvent]) -> None:
        """Content as a string, or as the parts that some servers send."""
        for part in content if isinstance(content, list) else [content]:
            text = part
            if isinstance(part, dict):
                thinking = part.get("thinking")
                for inner in thinking if isinstance(thinking, list) else [thinking]:
                    thought = inner.get("text") if isinstance(inner, dict) else inner
                    if thought and isinstance(thought, str):
                        self.add_thinking(thought, events, REASONING_FIELDS[0])
                text = as_text(part.get("text")) or as_text(part.get("refusal"))
            if text and isinstance(text, str):
                self.add_text(text, events)

    # --- tool calls ---

    def _fragments(self, fragments: Any, events: list[StreamEvent]) -> None:
        for fragment in fragments if type(fragments) is list else [fragments]:
            if type(fragment) is dict:
                self._fragment(fragment, events)

    def _fragment(self, fragment: JsonObject, events: list[StreamEvent]) -> None:
        """A fragment of a tool call. Calls stay open to the end, because fragments may be interleaved."""
        function = fragment.get("function")
        if type(function) is not dict:
            function = {}
        arguments = function.get("arguments")
        if len(fragment) == 2 and len(function) == 1 and type(arguments) is str:  # nearly every fragment
            index = fragment.get("index")
            call = self._by_index.get(index) if type(index) is int else None
            if call is not None and call.index >= 0:
                # A server that sends the whole arguments once more begins with a bracket, or a quoted one.
                first = arguments[:1]
                may_repeat = first == "{" or (first == '"' and arguments[1:2] == "{")
                if may_repeat and call.is_repeated_by("", "", arguments):
                    return
                if arguments:
                    call.pieces.append(arguments)
                    events.append(ToolCallDelta(call.index, arguments))
                return
        if arguments is None:
            arguments = ""
        elif type(arguments) is not str:
            arguments = to_json_text(arguments)
        call = self._call_of(
            fragment.get("index"), fragment.get("id"), as_text(function.get("name")), arguments
        )
        if call is None:
            return
        if isinstance(fragment.get("extra_content"), dict):
            call.signature = to_json_text({"extra_content": fragment["extra_content"]})
        self.add_arguments(call, arguments, events)
        if call.index < 0 and call.name and call.earlier is None:
            self.close_text(events)
            self.announce(call, events)

    def _call_of(self, index: Any, id: Any, name: str, arguments: str) -> _Call | None:
        """The call a fragment belongs to, a new one if it begins one; None for a fragment without content."""
        if type(index) is not int and type(index) is not str:
            index = None
        if type(id) is not str or id in _NO_ID:
            id = ""
        call = self._by_index.get(index) if index is not None else None
        if call is not None and call.is_repeated_by(id, name, arguments):
            return None
        if not id and not name and call is not None:
            return call
        if call is None:
            call = self._without_index(index, id, name)
            if call is not None and id and call.is_repeated_by(id, name, arguments):
                return None
        if call is None or _begins_another(call, id, name, arguments):
            if not (id or name or arguments):
                return None
            call = _Call()
            self.calls.append(call)
        if index is not None:
            self._by_index[index] = call
        if id and not call.id:
            call.id = id
            self._by_id[id] = call
        call.name = call.name or name
        return call

    def _without_index(self, index: Any, id: str, name: str) -> _Call | None:
        """The call of a fragment whose index is missing or new."""
        if id:
            # A known id that comes with a new index and a name is another call: some servers reuse ids.
            return None if index is not None and name else self._by_id.get(id)
        last = self.calls[-1] if self.calls else None
        if last is None or (index is not None and (name or last.is_complete())):
            return None
        return last

    def _details(self, details: Any) -> None:
        """Encrypted reasoning that belongs to a call, to be sent back with it."""
        for detail in details if isinstance(details, list) else [details]:
            if not isinstance(detail, dict) or detail.get("type") != "reasoning.encrypted":
                continue
            if isinstance(detail.get("id"), str) and detail.get("data"):
                self._signatures[detail["id"]] = to_json_text(detail)

    # --- usage and the end ---

    def close_blocks(self, events: list[StreamEvent], whole: bool) -> None:
        self.close_text(events)
        for call in self.calls:
            if call.index < 0 and call.earlier is None:
                self.announce(call, events)
        if whole:
            for call in self.calls:
                self.end_call(call, events, None, self._signatures.get(call.id, call.signature))

    def stop_error(self, word: str) -> str:
        meaning = _FAILURES.get(normalized(word))
        if meaning is None:
            return f"the provider stopped with finish_reason {word!r}"
        return f"{meaning} (finish_reason {word})"

    def usage_of(self, raw: JsonObject) -> Usage:
        return usage_of(raw)


def usage_of(raw: JsonObject) -> Usage:
    """The usage in a chunk, in the names of OpenAI and of the servers that imitate it.

    Cached tokens are taken out of the input. What a server says that the request cost is kept.
    """
    total = as_count(raw.get("total_tokens"))
    prompt = as_count(raw.get("prompt_tokens")) or as_count(raw.get("input_tokens"))
    completion = as_count(raw.get("completion_tokens")) or as_count(raw.get("output_tokens"))
    details = as_object(raw.get("completion_tokens_details"))
    reasoning = as_count(details.get("reasoning_tokens")) or as_count(raw.get("reasoning_tokens"))
    # Most servers count reasoning among the completion tokens; the total shows when one does not.
    if reasoning and total == prompt + completion + reasoning:
        completion += reasoning
    prompt, completion = split_total(prompt, completion, total)
    read, written, hour = _cached(raw)
    fresh = max(0, prompt - read - written)
    return Usage(
        fresh,
        completion,
        read,
        written,
        fresh + completion + read + written,
        _stated_cost(raw),
        reasoning=min(reasoning, completion),
        cache_write_1h=min(hour, written),
        web_searches=as_count(as_object(raw.get("server_tool_use")).get("web_search_requests")),
    )


def _cached(raw: JsonObject) -> tuple[int, int, int]:
    """The tokens read from the cache, written to it, and how many of those for an hour."""
    details = as_object(raw.get("prompt_tokens_details")) or as_object(raw.get("input_tokens_details"))
    cached = (
        as_count(details.get("cached_tokens"))
        or as_count(raw.get("prompt_cache_hit_tokens"))  # DeepSeek
        or as_count(raw.get("cached_tokens"))  # Kimi
        or as_count(raw.get("cache_read_input_tokens"))  # LiteLLM, for models of Anthropic
    )
    by_time = as_object(details.get("cache_creation_token_details"))
    hour = as_count(by_time.get("ephemeral_1h_input_tokens"))
    if written := as_count(details.get("cache_write_tokens")):  # these are among the cached ones
        return max(0, cached - written), written, hour
    written = as_count(details.get("cache_creation_tokens")) or as_count(
        raw.get("cache_creation_input_tokens")
    )
    return cached, written, hour


def _stated_cost(raw: JsonObject) -> Cost:
    """What OpenRouter says that the request cost, in dollars.

    With a provider key of one's own (`is_byok`) that is OpenRouter's fee; the provider's share comes on top.
    """
    fee = as_dollars(raw.get("cost"))
    if raw.get("is_byok") is not True:
        return Cost(total=fee)
    share = as_dollars(as_object(raw.get("cost_details")).get("upstream_inference_cost"))
    return Cost(total=round(fee + share, 12), is_estimate=bool(fee) and not share)


decode = CompletionsDecoder.decode
first_error = CompletionsDecoder.first_error
