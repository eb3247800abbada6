"""The payloads of one response in each wire format, so that one test can run on all four decoders."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from agent.models import Model
from agent.providers.anthropic_messages import decode as anthropic_decode
from agent.providers.google_generative_ai import decode as gemini_decode
from agent.providers.openai_completions import decode as completions_decode
from agent.providers.openai_responses import decode as responses_decode
from agent.stream import BuiltMessage, StreamDone, StreamError, StreamEvent, build_message


@dataclass(frozen=True)
class Dialect:
    """A wire format: its payloads and its decoder. `closes_calls`: the server marks the end of a call."""

    api: str
    module: ModuleType
    closes_calls: bool = True

    def events(self, payloads: Iterable[str | bytes], **options: Any) -> list[StreamEvent]:
        return list(self.module.decode(payloads, **options))

    def built(self, payloads: Iterable[str | bytes], **options: Any) -> BuiltMessage:
        *log, end = self.events(payloads, **options)
        assert isinstance(end, StreamDone | StreamError)
        return build_message(log, end, Model("m", self.api, "local"), 0)

    # Each returns payloads; the index is that of the block.

    def opening(self) -> list[str]:
        return []

    def text(self, index: int, *pieces: str) -> list[str]:
        raise NotImplementedError

    def call(self, index: int, id: str, name: str, *pieces: str, closed: bool = True) -> list[str]:
        raise NotImplementedError

    def end(self, word: str = "", usage: dict[str, Any] | None = None) -> list[str]:
        raise NotImplementedError

    def error(self, text: str) -> list[str]:
        return [_json({"error": {"message": text}})]


class Completions(Dialect):
    def text(self, index: int, *pieces: str) -> list[str]:
        return [self._chunk({"content": piece}) for piece in pieces]

    def call(self, index: int, id: str, name: str, *pieces: str, closed: bool = True) -> list[str]:
        first = {"index": index, "id": id, "function": {"name": name, "arguments": ""}}
        rest = [{"index": index, "function": {"arguments": piece}} for piece in pieces]
        return [self._chunk({"tool_calls": [fragment]}) for fragment in (first, *rest)]

    def end(self, word: str = "stop", usage: dict[str, Any] | None = None) -> list[str]:
        chunks = [self._chunk({}, word)]
        return chunks + ([_json({"choices": [], "usage": usage})] if usage else []) + ["[DONE]"]

    def _chunk(self, delta: dict[str, Any], word: str | None = None) -> str:
        return _json({"id": "c1", "choices": [{"index": 0, "delta": delta, "finish_reason": word}]})


class Responses(Dialect):
    def text(self, index: int, *pieces: str) -> list[str]:
        item = {
            "type": "message",
            "id": f"msg_{index}",
            "content": [{"type": "output_text", "text": "".join(pieces)}],
        }
        deltas = [_event("response.output_text.delta", output_index=index, delta=piece) for piece in pieces]
        return [
            _event("response.output_item.added", output_index=index, item=item | {"content": []}),
            *deltas,
            _event("response.output_item.done", output_index=index, item=item),
        ]

    def call(self, index: int, id: str, name: str, *pieces: str, closed: bool = True) -> list[str]:
        item = {"type": "function_call", "id": f"fc_{index}", "call_id": id, "name": name}
        kind = "response.function_call_arguments.delta"
        payloads = [
            _event("response.output_item.added", output_index=index, item=item | {"arguments": ""}),
            *(_event(kind, output_index=index, delta=piece) for piece in pieces),
        ]
        if closed:
            whole = item | {"arguments": "".join(pieces)}
            payloads.append(_event("response.output_item.done", output_index=index, item=whole))
        return payloads

    def end(self, word: str = "completed", usage: dict[str, Any] | None = None) -> list[str]:
        return [_event("response.completed", response={"status": word, "usage": usage})]


class Anthropic(Dialect):
    def opening(self) -> list[str]:
        return [_event("message_start", message={"id": "m1", "usage": {"input_tokens": 1}})]

    def text(self, index: int, *pieces: str) -> list[str]:
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
        return self._block(index, {"type": "text", "text": ""}, deltas, closed=True)

    def call(self, index: int, id: str, name: str, *pieces: str, closed: bool = True) -> list[str]:
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        return self._block(index, {"type": "tool_use", "id": id, "name": name, "input": {}}, deltas, closed)

    def end(self, word: str = "end_turn", usage: dict[str, Any] | None = None) -> list[str]:
        delta = _event("message_delta", delta={"stop_reason": word}, usage=usage or {})
        return [delta, _event("message_stop")]

    def error(self, text: str) -> list[str]:
        return [_event("error", error={"type": "api_error", "message": text})]

    def _block(
        self, index: int, body: dict[str, Any], deltas: Sequence[dict[str, Any]], closed: bool
    ) -> list[str]:
        payloads = [_event("content_block_start", index=index, content_block=body)]
        payloads += [_event("content_block_delta", index=index, delta=delta) for delta in deltas]
        return payloads + ([_event("content_block_stop", index=index)] if closed else [])


class Gemini(Dialect):
    def text(self, index: int, *pieces: str) -> list[str]:
        return [self._chunk([{"text": piece}]) for piece in pieces]

    def call(self, index: int, id: str, name: str, *pieces: str, closed: bool = True) -> list[str]:
        arguments = json.loads("".join(pieces) or "{}")
        return [self._chunk([{"functionCall": {"id": id, "name": name, "args": arguments}}])]

    def end(self, word: str = "STOP", usage: dict[str, Any] | None = None) -> list[str]:
        chunk: dict[str, Any] = {"candidates": [{"finishReason": word}]}
        return [_json(chunk | ({"usageMetadata": usage} if usage else {}))]

    def _chunk(self, parts: list[dict[str, Any]]) -> str:
        return _json({"candidates": [{"content": {"role": "model", "parts": parts}}]})


DIALECTS: dict[str, Dialect] = {
    "completions": Completions("openai-completions", completions_decode, closes_calls=False),
    "responses": Responses("openai-responses", responses_decode),
    "anthropic": Anthropic("anthropic-messages", anthropic_decode),
    "gemini": Gemini("google-generative-ai", gemini_decode),
}


def _json(value: Any) -> str:
    return json.dumps(value)


def _event(kind: str, **fields: Any) -> str:
    return _json({"type": kind} | fields)
