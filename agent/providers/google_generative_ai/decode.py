"""From the chunks of a Gemini stream to stream events.

A chunk holds parts; a text goes on over many, a call comes whole. Any part may bear a signature, which the
server wants back on it. Fields may be missing or of another type; what can be understood is, nothing raises.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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

_STOP_REASONS: Mapping[str, Literal["stop", "length"]] = {
    "STOP": "stop",
    "FUNCTION_CALL": "stop",  # no word of Google's; stand-ins for its server end calls with it
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
}
# What other finish reasons mean. By the word MALFORMED `agent.retry` knows that asking again may help.
_FAILURES: Mapping[str, str] = {
    "SAFETY": "the provider's safety filter stopped the answer",
    "RECITATION": "the provider stopped the answer because it recites a source",
    "LANGUAGE": "the provider stopped the answer because of its language",
    "BLOCKLIST": "the provider stopped the answer because of a blocked word",
    "PROHIBITED_CONTENT": "the provider stopped the answer because of prohibited content",
    "SPII": "the provider stopped the answer because it may hold personal data",
    "MALFORMED_FUNCTION_CALL": "the model made a tool call that can't be read",
    "MALFORMED_RESPONSE": "the model made an answer that can't be read",
    "UNEXPECTED_TOOL_CALL": "the model called a tool it was not offered",
    "TOO_MANY_TOOL_CALLS": "the model made too many tool calls",
    "MISSING_THOUGHT_SIGNATURE": "a thought signature is missing from the history",
}
ENDED_EARLY = "stream ended unexpectedly: the server sent no finishReason"
_LONGEST_DETAIL = 500  # a finish message may quote a whole answer

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

_loads = json.loads
_call_numbers = itertools.count(1)


def decode(
    payloads: Iterable[str | bytes],
    cost: ModelCost | None = None,
    names: Mapping[str, str] | None = None,
    on_finish: Callable[[], object] | None = None,
) -> Iterator[StreamEvent]:
    """The events of an answer, ending in exactly one `StreamDone` or `StreamError`.

    Pure over the `data` payloads, but for ids of calls that came without one. `names` maps tool names on the
    wire to the tools' own. `on_finish` is called when the server has said why it stopped. A `ProviderError`
    raised by `payloads` becomes the last event, unless the answer was complete by then.
    """
    answer = _Answer(cost, names or {}, on_finish)
    feed = answer.feed
    try:
        for payload in payloads:
            for chunk in _chunks(payload):
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
    for chunk in _chunks(payload):
        error = error_text(chunk)
        if error:
            return error
        candidate = _first(chunk.get("candidates"))
        says = candidate.get("content") or candidate.get("finishReason") or chunk.get("promptFeedback")
        if says or chunk.get("usageMetadata"):
            return None
    return ""


def _chunks(payload: str | bytes) -> Sequence[dict[str, Any]]:
    """The chunks in a payload: one, or a list of them from a server that does not stream."""
    try:
        data = _loads(payload)
    except (ValueError, RecursionError):
        return ()
    if type(data) is dict:
        return (data,)
    return [chunk for chunk in data if isinstance(chunk, dict)] if isinstance(data, list) else ()


class _Answer:
    """One answer while its chunks arrive; each block has a stream index of its own, in order of arrival."""

    def __init__(
        self, cost: ModelCost | None, names: Mapping[str, str], on_finish: Callable[[], object] | None
    ) -> None:
        self.over = False
        self.finish_reason = ""
        self._cost = cost
        self._names = names
        self._on_finish = on_finish
        self._finish_message = ""
        self._failure = ""
        self._usage: dict[str, Any] | None = None
        self._started = False
        self._next_index = 0
        # The open block: "text", "thinking", or "" when there is none, and the last signature it was given.
        self._open = ""
        self._open_index = -1
        self._signature = ""
        self._ids: set[str] = set()

    # --- chunks ---

    def feed(self, chunk: dict[str, Any]) -> list[StreamEvent]:
        """The events of one chunk."""
        events: list[StreamEvent] = []
        if self.over:
            return events
        usage = chunk.get("usageMetadata")
        if usage and type(usage) is dict:
            self._usage = usage
        if "error" in chunk or "promptFeedback" in chunk:
            self._failure = error_text(chunk) or _block(chunk)
            if self._failure:
                self.over = True
                return events
        candidates = chunk.get("candidates")
        if not self._started and (candidates or chunk.get("responseId")):
            self._started = True
            model = text_of(chunk.get("modelVersion")).removeprefix("models/")
            events.append(StreamStart(text_of(chunk.get("responseId")), model))
        candidate = _first(candidates)
        content = candidate.get("content")
        parts = content.get("parts") if type(content) is dict else None
        for part in parts if type(parts) is list else ():
            if type(part) is dict:
                self._part(part, events)
        reason = candidate.get("finishReason")
        if reason:
            self._finish_message = text_of(candidate.get("finishMessage")).strip()
            if self._on_finish is not None and not self.finish_reason:
                self._on_finish()
            self.finish_reason = str(reason)
        return events

    def _part(self, part: dict[str, Any], events: list[StreamEvent]) -> None:
        text = part.get("text")
        if text and len(part) == 1 and self._open == "text" and type(text) is str:  # nearly every one
            events.append(TextDelta(self._open_index, text))
            return
        call = part.get("functionCall")
        signature = text_of(part.get("thoughtSignature"))
        if isinstance(call, dict):
            self._call(call, signature, events)
            return
        if not isinstance(text, str):
            kind = next((name for name in _SERVER_PARTS if part.get(name)), "")
            if kind:
                self._server(kind, part, events)
                return
            text = ""
        if text or signature:
            # `thought` alone marks thinking; a signature is found on any part.
            self._say("thinking" if part.get("thought") is True else "text", text, signature, events)

    def _say(self, kind: str, text: str, signature: str, events: list[StreamEvent]) -> None:
        """More text or thinking; another kind than the open one begins a block."""
        thinks = kind == "thinking"
        if self._open != kind:
            self._close(events)
            self._open, self._open_index = kind, self._new_index()
            events.append(ThinkingStart(self._open_index) if thinks else TextStart(self._open_index))
        if text:
            index = self._open_index
            events.append(ThinkingDelta(index, text) if thinks else TextDelta(index, text))
        self._signature = signature or self._signature

    def _call(self, call: dict[str, Any], signature: str, events: list[StreamEvent]) -> None:
        self._close(events)
        index, name = self._new_index(), self._own_name(text_of(call.get("name")))
        arguments = call.get("args")
        events.append(ToolCallStart(index, self._new_id(text_of(call.get("id")), name), name))
        events.append(ToolCallDelta(index, "{}" if arguments is None else _spelled(arguments)))
        events.append(ToolCallEnd(index, None, signature or None))

    def _server(self, kind: str, part: dict[str, Any], events: list[StreamEvent]) -> None:
        self._close(events)
        block = ServerContent(kind, to_json_text(part), _display(kind, part[kind]))
        events.append(ServerBlock(self._new_index(), block))

    def _close(self, events: list[StreamEvent]) -> None:
        """End the open block of text or thinking."""
        signature = self._signature or None
        if self._open == "text":
            events.append(TextEnd(self._open_index, signature))
        elif self._open == "thinking":
            events.append(ThinkingEnd(self._open_index, signature))
        self._open, self._signature = "", ""

    def _new_index(self) -> int:
        self._next_index += 1
        return self._next_index - 1

    def _new_id(self, id: str, name: str) -> str:
        """The id the server gave, unless another call of this answer has it; else one of our own."""
        while not id or id in self._ids:
            id = f"{name}_{int(time.time() * 1000)}_{next(_call_numbers)}"
        self._ids.add(id)
        return id

    def _own_name(self, name: str) -> str:
        if name in self._names:
            return self._names[name]
        for namespace in _NAMESPACES:
            bare = name.removeprefix(namespace)
            if bare in self._names:
                return self._names[bare]
        return name

    # --- the end ---

    def end(self) -> list[StreamEvent]:
        """The events that close what is open, and the last one."""
        events: list[StreamEvent] = []
        self._close(events)
        events.append(self._last())
        return events

    def _last(self) -> StreamEvent:
        failure = self._failure or ("" if self.finish_reason else ENDED_EARLY)
        if failure:
            return StreamError(failure, usage=self.usage())
        reason = self.finish_reason
        stop = _STOP_REASONS.get(reason)
        if stop is None:
            return StreamError(_stopped(reason, self._finish_message), usage=self.usage())
        if stop == "stop" and self._ids:
            return StreamDone("toolUse", self.usage())
        return StreamDone(stop, self.usage())

    def usage(self) -> Usage | None:
        """What the server reported last, priced; None when it reported nothing."""
        return None if self._usage is None else priced(usage_of(self._usage), self._cost)


def usage_of(raw: dict[str, Any]) -> Usage:
    """The usage in a chunk. Cached tokens are taken out of the input, thoughts are part of the output."""
    cached = count_of(raw.get("cachedContentTokenCount"))
    prompt = count_of(raw.get("promptTokenCount")) + count_of(raw.get("toolUsePromptTokenCount"))
    output = count_of(raw.get("candidatesTokenCount")) + count_of(raw.get("thoughtsTokenCount"))
    return Usage(max(0, prompt - cached), output, cached, 0, count_of(raw.get("totalTokenCount")))


# --- why an answer failed --------------------------------------------------------------------------------


def _block(chunk: dict[str, Any]) -> str:
    """Why the prompt was blocked; empty when it was not."""
    feedback = object_of(chunk.get("promptFeedback"))
    reason = feedback.get("blockReason")
    if not reason or chunk.get("candidates"):
        return ""
    text = f"the provider blocked the prompt (blockReason {reason})"
    return _with_detail(text, text_of(feedback.get("blockReasonMessage")).strip())


def _stopped(reason: str, message: str) -> str:
    meaning = _FAILURES.get(reason, "the provider stopped the answer")
    return _with_detail(f"{meaning} (finishReason {reason})", message)


def _with_detail(text: str, detail: str) -> str:
    return f"{text}: {detail[:_LONGEST_DETAIL]}" if detail else text


def _spelled(arguments: Any) -> str:
    """The arguments as JSON text; half a character stays, but escaped, for a delta may be printed."""
    text = json.dumps(arguments, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(arguments)
    return text


def _display(kind: str, value: Any) -> str | None:
    """What a person may see of a part only the server understands."""
    value = object_of(value)
    if kind == "executableCode":
        return f"```{text_of(value.get('language')).lower()}\n{text_of(value.get('code'))}\n```"
    if kind == "codeExecutionResult":
        return text_of(value.get("output")) or None
    return None


def _first(candidates: Any) -> dict[str, Any]:
    candidate = candidates[0] if isinstance(candidates, list) and candidates else None
    return candidate if isinstance(candidate, dict) else {}
