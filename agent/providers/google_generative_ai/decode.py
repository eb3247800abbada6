"""Decodes the chunks of a Gemini stream.

A chunk holds parts. A text continues over many of them, a call comes whole. Any part may carry a signature,
which the server wants back on it.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Mapping
from typing import Any, ClassVar

from agent.json_values import JsonObject
from agent.messages import ServerContent
from agent.providers.decoder import Decoder, OpenCall, StopReason, normalized, split_total
from agent.providers.history_transform import to_json_text
from agent.providers.json_fields import as_count, as_list, as_object, as_text, error_text, first_object
from agent.stream import ServerBlock, StreamEvent, TextDelta
from agent.usage import Usage

# What other finish reasons mean, as `normalized` writes them. The error text quotes the reason: by the word
# MALFORMED `agent.retry` knows that asking again may help.
_FAILURES: Mapping[str, str] = {
    "safety": "the provider's safety filter stopped the answer",
    "recitation": "the provider stopped the answer because it recites a source",
    "language": "the provider stopped the answer because of its language",
    "blocklist": "the provider stopped the answer because of a blocked word",
    "prohibitedcontent": "the provider stopped the answer because of prohibited content",
    "spii": "the provider stopped the answer because it may hold personal data",
    "malformedfunctioncall": "the model made a tool call that can't be read",
    "malformedresponse": "the model made an answer that can't be read",
    "unexpectedtoolcall": "the model called a tool it was not offered",
    "toomanytoolcalls": "the model made too many tool calls",
    "missingthoughtsignature": "a thought signature is missing from the history",
}
_DETAIL_CHARACTERS = 500  # a finish message may quote a whole response

# The parts that only the server understands.
_SERVER_PARTS = (
    "executableCode",
    "codeExecutionResult",
    "inlineData",
    "fileData",
    "toolCall",
    "toolResponse",
)
# A prefix that models put before the name of a function at times.
_NAMESPACES = ("default_api:", "default_api.")

_call_numbers = itertools.count(1)


class GeminiDecoder(Decoder):
    """Decodes one response of the Gemini format."""

    ended_early = "stream ended unexpectedly: the server sent no finishReason"
    stop_words: ClassVar[Mapping[str, StopReason]] = {"continuation": "length"}

    def set_up(self) -> None:
        self._finish_message = ""
        self._sources: set[str] = set()  # as JSON, to find those that come again
        self._calls: dict[str, OpenCall] = {}  # by id

    @classmethod
    def opening_error(cls, event: JsonObject) -> str | None:
        error = error_text(event)
        if error:
            return error
        candidate = first_object(event.get("candidates"))
        has_content = candidate.get("content") or candidate.get("finishReason") or event.get("promptFeedback")
        return None if has_content or event.get("usageMetadata") else ""

    def feed(self, event: JsonObject) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        self.count(event.get("usageMetadata"))
        if "error" in event or "promptFeedback" in event:
            self.failure = error_text(event) or _prompt_block(event)
            if self.failure:
                self.is_over = True
                return events
        candidates = event.get("candidates")
        if not self.has_started and (candidates or event.get("responseId")):
            model = as_text(event.get("modelVersion")).removeprefix("models/")
            self.start(event.get("responseId"), model, events)
        candidate = first_object(candidates)
        content = candidate.get("content")
        parts = content.get("parts") if type(content) is dict else None
        for part in parts if type(parts) is list else ():
            if type(part) is dict:
                self._part(part, events)
        if "groundingMetadata" in candidate or "citationMetadata" in candidate:
            self._cite(candidate)
        word = candidate.get("finishReason")
        if word:
            self._finish_message = as_text(candidate.get("finishMessage")).strip()
            self.stop(str(word))
        return events

    def _part(self, part: JsonObject, events: list[StreamEvent]) -> None:
        text = part.get("text")
        if text and len(part) == 1 and self.open_kind == "text" and type(text) is str:  # the usual part
            events.append(TextDelta(self.open_index, text))
            return
        call = part.get("functionCall")
        signature = as_text(part.get("thoughtSignature"))
        if isinstance(call, dict):
            self._call(call, signature, events)
            return
        if not isinstance(text, str):
            kind = next((name for name in _SERVER_PARTS if part.get(name)), "")
            if kind:
                self._server(kind, part, events)
                return
            text = ""
        if not text and not signature:
            return
        if part.get("thought") is True:  # this alone marks thinking: a signature is found on any part
            self.add_thinking(text, events)
        else:
            self.add_text(text, events)
        self.open_signature = signature or self.open_signature

    def _call(self, body: JsonObject, signature: str, events: list[StreamEvent]) -> None:
        self.close_text(events)
        name = self._own_name(as_text(body.get("name")))
        call = OpenCall(as_text(body.get("id")), name)
        arguments = body.get("args")
        call.pieces.append("{}" if arguments is None else _arguments_text(arguments))
        earlier = self._calls.get(call.id)
        if earlier is not None and call.repeats(earlier):
            return
        call.id = self._new_id(call.id, name)
        self._calls[call.id] = call
        self.announce(call, events)
        self.end_call(call, events, None, signature or None)

    def _cite(self, candidate: JsonObject) -> None:
        """Take in the sources of the text. Each chunk that has some repeats those before it."""
        grounding = as_object(candidate.get("groundingMetadata"))
        quoted = as_object(candidate.get("citationMetadata"))
        quotations = quoted.get("citationSources") or quoted.get("citations")
        for source in (*as_list(grounding.get("groundingChunks")), *as_list(quotations)):
            text = to_json_text(source) if source and isinstance(source, dict) else ""
            if text and text not in self._sources:
                self._sources.add(text)
                self.citations.append(source)

    def _server(self, kind: str, part: JsonObject, events: list[StreamEvent]) -> None:
        self.close_text(events)
        block = ServerContent(kind, to_json_text(part), _display(kind, part[kind]))
        events.append(ServerBlock(self.new_index(), block))

    def _new_id(self, id: str, name: str) -> str:
        """The id the server gave, unless another call of this response has it; else one of our own."""
        while not id or id in self._calls:
            id = f"{name}_{int(time.time() * 1000)}_{next(_call_numbers)}"
        return id

    def _own_name(self, name: str) -> str:
        for namespace in _NAMESPACES:
            bare = name.removeprefix(namespace)
            if bare in self.names and name not in self.names:
                return bare
        return name

    # --- usage and the end ---

    def usage_of(self, raw: JsonObject) -> Usage:
        return usage_of(raw)

    def stop_error(self, word: str) -> str:
        meaning = _FAILURES.get(normalized(word), "the provider stopped the answer")
        return _with_detail(f"{meaning} (finishReason {word})", self._finish_message)


def usage_of(raw: JsonObject) -> Usage:
    """The usage in a chunk. Cached tokens are taken out of the input, thoughts are part of the output."""
    total, thoughts = as_count(raw.get("totalTokenCount")), as_count(raw.get("thoughtsTokenCount"))
    prompt = as_count(raw.get("promptTokenCount")) + as_count(raw.get("toolUsePromptTokenCount"))
    prompt, output = split_total(prompt, as_count(raw.get("candidatesTokenCount")) + thoughts, total)
    cached = min(as_count(raw.get("cachedContentTokenCount")), prompt)
    return Usage(prompt - cached, output, cached, 0, total, reasoning=thoughts)


def _prompt_block(event: JsonObject) -> str:
    """Why the prompt was blocked; empty when it was not."""
    feedback = as_object(event.get("promptFeedback"))
    reason = feedback.get("blockReason")
    is_reason = normalized(as_text(reason)) not in ("", "blockreasonunspecified")
    if not is_reason or as_list(event.get("candidates")):
        return ""
    text = f"the provider blocked the prompt (blockReason {reason})"
    return _with_detail(text, as_text(feedback.get("blockReasonMessage")).strip())


def _with_detail(text: str, detail: str) -> str:
    return f"{text}: {detail[:_DETAIL_CHARACTERS]}" if detail else text


def _arguments_text(arguments: Any) -> str:
    """The arguments as JSON text; half a surrogate pair is kept, but escaped, for a delta may be printed."""
    text = json.dumps(arguments, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(arguments)
    return text


def _display(kind: str, value: Any) -> str | None:
    """What can be displayed of a part that only the server understands."""
    value = as_object(value)
    if kind == "executableCode":
        return f"```{as_text(value.get('language')).lower()}\n{as_text(value.get('code'))}\n```"
    if kind == "codeExecutionResult":
        return as_text(value.get("output")) or None
    return None


decode = GeminiDecoder.decode
first_error = GeminiDecoder.first_error
