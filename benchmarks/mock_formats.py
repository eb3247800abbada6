"""The wire formats the mock server speaks: what a request asks for, and its answer as server-sent events.

An answer is the same in each: a text in deltas, or one call of a tool. Events have the fields that the real
servers send, for reading them is part of the cost; Gemini alone sends a call's arguments whole.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

CREATED = 1_700_000_000
OBFUSCATION = "a1B2c3D4e5"  # OpenAI pads each delta, so that its size reveals nothing
Json = dict[str, Any]


# --- scripts ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """One answer of a script: its text in pieces, or the call of `tool` with its arguments in pieces."""

    turn: int
    script: str
    tool: str
    pieces: list[str]
    calls: bool = False

    @property
    def whole(self) -> str:
        return "".join(self.pieces)


def answer(script: str, turn: int, tool: str) -> Answer:
    kind, _, size = script.partition("-")
    if kind == "text":
        return Answer(turn, script, tool, [f" w{i % 100:02}" for i in range(int(size))])
    if turn >= (int(size) if kind == "tools" else 1):
        return Answer(turn, script, tool, ["All ", "done", "."])
    value = "x" * 20 if kind == "tools" else source_code(int(size.removesuffix("k")) * 1000)
    return Answer(turn, script, tool, split(orjson.dumps({"value": value}).decode()), calls=True)


def split(text: str) -> list[str]:
    """`text` in pieces of 4 to 16 characters, as tokens come; the same ones every time."""
    sizes, pieces, at = random.Random(7), [], 0
    while at < len(text):
        size = sizes.randint(4, 16)
        pieces.append(text[at : at + size])
        at += size
    return pieces


def source_code(size: int) -> str:
    """Python text whose JSON form has about `size` bytes, with much in it to escape."""
    lines, length, number = [], 0, 0
    while length < size:
        line = f'def f{number}(a, b):\n    """doc \\ {number}"""\n    return a + b  # "quoted"\n'
        lines.append(line)
        length += len(orjson.dumps(line)) - 2
        number += 1
    return "".join(lines)


# --- OpenAI Chat Completions ------------------------------------------------------------------------------


def completions_request(path: str, body: Json) -> tuple[str, int, str]:
    tool = body["tools"][0]["function"]["name"] if body.get("tools") else ""
    return body["model"], sum(1 for message in body["messages"] if message.get("tool_calls")), tool


def completions(answer: Answer) -> Iterator[bytes]:
    shared = {"id": _id("chatcmpl-", answer), "object": "chat.completion.chunk", "created": CREATED}
    shared |= {"model": answer.script, "service_tier": "default", "system_fingerprint": "fp_44709d6fcb"}

    def chunk(delta: Json, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _event({**shared, "choices": [choice], "usage": None, "obfuscation": OBFUSCATION})

    def call(**more: Any) -> bytes:
        return chunk({"tool_calls": [{"index": 0, **more}]})

    yield chunk({"role": "assistant", "content": ""})
    if answer.calls:
        function = {"name": answer.tool, "arguments": ""}
        yield call(id=_id("call_", answer), type="function", function=function)
        yield from (call(function={"arguments": piece}) for piece in answer.pieces)
    else:
        yield from (chunk({"content": piece}) for piece in answer.pieces)
    yield chunk({}, "tool_calls" if answer.calls else "stop")
    usage = {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105}
    yield _event({**shared, "choices": [], "usage": usage})
    yield b"data: [DONE]\n\n"


# --- OpenAI Responses -------------------------------------------------------------------------------------


def responses_request(path: str, body: Json) -> tuple[str, int, str]:
    tool = body["tools"][0]["name"] if body.get("tools") else ""
    return body["model"], sum(1 for item in body["input"] if item.get("type") == "function_call"), tool


def responses(answer: Answer) -> Iterator[bytes]:
    number = -1

    def event(kind: str, **more: Any) -> bytes:
        nonlocal number
        number += 1
        return _event({"type": kind, "sequence_number": number, **more}, name=kind)

    response = {"id": _id("resp_", answer), "object": "response", "created_at": CREATED}
    response |= {"status": "in_progress", "model": answer.script, "output": [], "usage": None}
    yield event("response.created", response=response)
    yield event("response.in_progress", response=response)
    encode = _encode_call if answer.calls else _encode_message
    item = yield from encode(answer, event)
    usage = {"input_tokens": 100, "output_tokens": 5, "total_tokens": 105}
    whole = response | {"status": "completed", "output": [item], "usage": usage}
    yield event("response.completed", response=whole)


def _encode_call(answer: Answer, event: Callable[..., bytes]) -> Iterator[bytes]:
    """One function call; returns it whole."""
    item = {"id": _id("fc_", answer), "type": "function_call", "status": "in_progress", "arguments": ""}
    item |= {"call_id": _id("call_", answer), "name": answer.tool}
    at: Json = {"item_id": item["id"], "output_index": 0}
    yield event("response.output_item.added", output_index=0, item=item)
    for piece in answer.pieces:
        yield event("response.function_call_arguments.delta", **at, delta=piece, obfuscation=OBFUSCATION)
    yield event("response.function_call_arguments.done", **at, arguments=answer.whole)
    item = item | {"status": "completed", "arguments": answer.whole}
    yield event("response.output_item.done", output_index=0, item=item)
    return item


def _encode_message(answer: Answer, event: Callable[..., bytes]) -> Iterator[bytes]:
    """One message; returns it whole."""
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
    item: Json = {"id": _id("msg_", answer), "type": "message", "status": "in_progress", "content": []}
    item |= {"role": "assistant"}
    at: Json = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    yield event("response.output_item.added", output_index=0, item=item)
    yield event("response.content_part.added", **at, part=part)
    for piece in answer.pieces:
        yield event("response.output_text.delta", **at, delta=piece, logprobs=[], obfuscation=OBFUSCATION)
    part = part | {"text": answer.whole}
    yield event("response.output_text.done", **at, text=answer.whole, logprobs=[])
    yield event("response.content_part.done", **at, part=part)
    item = item | {"status": "completed", "content": [part]}
    yield event("response.output_item.done", output_index=0, item=item)
    return item


# --- Anthropic Messages -----------------------------------------------------------------------------------


def messages_request(path: str, body: Json) -> tuple[str, int, str]:
    tool = body["tools"][0]["name"] if body.get("tools") else ""
    turn = sum(
        1
        for message in body["messages"]
        if message["role"] == "assistant" and any(block["type"] == "tool_use" for block in message["content"])
    )
    return body["model"], turn, tool


def messages(answer: Answer) -> Iterator[bytes]:
    def event(kind: str, **more: Any) -> bytes:
        return _event({"type": kind, **more}, name=kind)

    usage = {"input_tokens": 100, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    message = {"id": _id("msg_", answer), "type": "message", "role": "assistant", "content": []}
    message |= {"model": answer.script, "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield event("message_start", message=message)
    block: Json = {"type": "text", "text": ""}
    kind, field = "text_delta", "text"
    if answer.calls:
        block = {"type": "tool_use", "id": _id("toolu_", answer), "name": answer.tool, "input": {}}
        kind, field = "input_json_delta", "partial_json"
    yield event("content_block_start", index=0, content_block=block)
    yield event("ping")
    for piece in answer.pieces:
        yield event("content_block_delta", index=0, delta={"type": kind, field: piece})
    yield event("content_block_stop", index=0)
    reason = "tool_use" if answer.calls else "end_turn"
    ended = {"stop_reason": reason, "stop_sequence": None}
    yield event("message_delta", delta=ended, usage={**usage, "output_tokens": 5})
    yield event("message_stop")


# --- Google's Gemini --------------------------------------------------------------------------------------


def gemini_request(path: str, body: Json) -> tuple[str, int, str]:
    script = path.partition("/models/")[2].partition(":")[0]
    tool = body["tools"][0]["functionDeclarations"][0]["name"] if body.get("tools") else ""
    turn = sum(1 for content in body["contents"] for part in content["parts"] if "functionCall" in part)
    return script, turn, tool


def gemini(answer: Answer) -> Iterator[bytes]:
    def chunk(part: Json, **more: Any) -> bytes:
        candidate = {"content": {"parts": [part], "role": "model"}, **more, "index": 0}
        details = [{"modality": "TEXT", "tokenCount": 100}]
        usage = {"promptTokenCount": 100, "totalTokenCount": 105, "promptTokensDetails": details}
        shared = {"modelVersion": answer.script, "responseId": _id("", answer)}
        return _event({"candidates": [candidate], "usageMetadata": usage, **shared}, end=b"\r\n\r\n")

    if answer.calls:
        yield chunk({"functionCall": {"name": answer.tool, "args": orjson.loads(answer.whole)}})
    else:
        yield from (chunk({"text": piece}) for piece in answer.pieces)
    yield chunk({"text": ""}, finishReason="STOP")


def _id(prefix: str, answer: Answer) -> str:
    return f"{prefix}{answer.turn:024}"


def _event(data: Json, name: str = "", end: bytes = b"\n\n") -> bytes:
    head = b"event: " + name.encode() + b"\n" if name else b""
    return head + b"data: " + orjson.dumps(data) + end


@dataclass(frozen=True)
class Format:
    """How to read a request (script, turn, the first tool's name) and how to answer it."""

    request: Callable[[str, Json], tuple[str, int, str]]
    events: Callable[[Answer], Iterator[bytes]]


# By what the request's path ends in, without its query.
FORMATS = {
    "/chat/completions": Format(completions_request, completions),
    "/responses": Format(responses_request, responses),
    "/messages": Format(messages_request, messages),
    ":streamGenerateContent": Format(gemini_request, gemini),
}
