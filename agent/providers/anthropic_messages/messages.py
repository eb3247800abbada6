"""Encodes messages in Anthropic's format, each message once per model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from agent.cancel import CancelToken
from agent.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    ServerContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserBlock,
    UserMessage,
    encoded_once,
)
from agent.models import Model
from agent.providers.anthropic_messages.compat import Compat
from agent.providers.history_transform import (
    OPENING,
    Placed,
    arrange,
    assistant_blocks,
    clean,
    result_blocks,
    to_json,
    until_cancelled,
    user_blocks,
    wire_name,
)

# Anthropic accepts four cache marks; the system prompt and the tools have one each.
_MARKED_MESSAGES = 2

_SEE_IMAGE = "(see attached image)"
_USER_LIST = b'{"role":"user","content":['
_USER_TEXT = b'{"role":"user","content":"'
_TURN = b'{"role":"assistant","content":['
_OPENING = to_json({"role": "user", "content": OPENING})


def encode_messages(
    messages: Iterable[Message], model: Model, compat: Compat, cancel: CancelToken | None = None
) -> tuple[list[bytes], bool]:
    """The encoded messages in order; True when one of them contains the summary of a server-side compaction.

    All results of one answer are in one user message, which some servers require.
    """
    placed = arrange(messages)
    facts = _facts_by_position(placed, model)
    dropped = _unpaired(placed, facts)
    encoder = _encoder(model, compat)
    out: list[bytes] = []
    results: list[bytes] = []
    images: list[bytes] = []
    for position, (message, ids) in enumerate(until_cancelled(placed, cancel)):
        key = (encoder, ids, dropped.get(position))
        if isinstance(message, ToolResultMessage):
            result, pictures = encoded_once(message, key, partial(encoder.encode_result, ids=ids))
            results.append(result)
            images += pictures
            continue
        if isinstance(message, UserMessage):
            fragment = encoded_once(message, key, encoder.encode_user)
        else:
            fragment = encoded_once(message, key, partial(encoder.encode_turn, ids=ids, dropped=key[2] or ()))
        if fragment:
            _add_results(out, results, images)
            out.append(fragment)
    _add_results(out, results, images)
    _trim_last_answer(out)
    if out and out[0].startswith(
        _TURN
    ):  # Bedrock and gateways refuse a conversation that begins with an answer
        out.insert(0, _OPENING)
    return out, any(fact.compacted for fact in facts.values())


def _add_results(out: list[bytes], results: list[bytes], images: list[bytes]) -> None:
    """Append one user message that begins with the collected results."""
    if results:
        out.append(_USER_LIST + b",".join(results + images) + b"]}")
        results.clear()
        images.clear()


def _trim_last_answer(out: list[bytes]) -> None:
    """Remove thinking and blanks at the end of a last message that is an answer to be continued."""
    while out and out[-1].startswith(_TURN):
        content = json.loads(out.pop())["content"]
        while content and content[-1]["type"] in ("thinking", "redacted_thinking"):
            content.pop()
        if content and content[-1]["type"] == "text":
            content[-1]["text"] = content[-1]["text"].rstrip()
        if content:
            out.append(_TURN + b",".join(map(to_json, content)) + b"]}")
            return


class _Encoder:
    """Encodes single messages for one model and server; part of the cache key of what it encodes."""

    def __init__(self, model: Model, allow_unsigned_thinking: bool) -> None:
        self._model = model
        self._allow_unsigned_thinking = allow_unsigned_thinking

    def encode_user(self, message: UserMessage) -> bytes:
        """A user message; empty when there is nothing to send."""
        blocks = user_blocks(message, self._model)
        if not blocks:
            return b""
        if isinstance(message.content, str):
            return to_json({"role": "user", "content": clean(message.content)})
        return _USER_LIST + b",".join(to_json(_part(block)) for block in blocks) + b"]}"

    def encode_result(
        self, message: ToolResultMessage, ids: tuple[str, ...]
    ) -> tuple[bytes, tuple[bytes, ...]]:
        """A tool result, and the images to send after it: a result that is an error accepts only text."""
        blocks = result_blocks(message, self._model)
        texts = [block.text for block in blocks if isinstance(block, TextContent)]
        images = [to_json(_part(block)) for block in blocks if isinstance(block, ImageContent)]
        inside = bool(images) and not message.is_error
        text = "\n".join(texts) or _SEE_IMAGE
        body = {
            "type": "tool_result",
            "tool_use_id": ids[0],
            "content": [_part(block) for block in blocks] if inside else text,
            "is_error": message.is_error,
        }
        return to_json(body), () if inside else tuple(images)

    def encode_turn(self, message: AssistantMessage, ids: tuple[str, ...], dropped: Iterable[str]) -> bytes:
        """An answer without the server blocks whose ids are in `dropped`; empty when nothing is left."""
        blocks = assistant_blocks(message, self._model)
        wire_ids = iter(ids)
        pieces: list[bytes] = []
        calls: list[bytes] = []
        bound = False  # the server signed the answer as a whole: its blocks keep their order
        for block in blocks:
            match block:
                case TextContent():
                    body: dict[str, Any] = {"type": "text", "text": block.text}
                    if block.citations and not dropped:  # else they may cite what is not sent
                        body["citations"] = block.citations
                    pieces.append(to_json(body))
                case ThinkingContent():
                    bound = bound or bool(block.signature)
                    pieces += self._thinking(block, pieces)
                case ServerContent() if not _names_any(block, dropped):
                    bound = True
                    pieces.append(clean(block.raw).encode())
                case ToolCall():
                    calls.append(_call(block, next(wire_ids)))
                    pieces.append(calls[-1])
        if calls and not bound:
            # Nothing may stand between a call and its result.
            pieces = [piece for piece in pieces if not piece.startswith(_CALL)] + calls
        return _TURN + b",".join(pieces) + b"]}" if pieces else b""

    def _thinking(self, block: ThinkingContent, before: Sequence[bytes]) -> list[bytes]:
        if block.redacted:
            if not block.signature:
                return []
            return [to_json({"type": "redacted_thinking", "data": block.signature})]
        if not block.signature and not self._allow_unsigned_thinking:
            return [to_json({"type": "text", "text": block.thinking})]
        # Anthropic itself sends two in a row at times, and refuses them when they are sent back.
        if block.signature and before and before[-1].startswith(_THINKING):
            return []
        body = {"type": "thinking", "thinking": block.thinking, "signature": block.signature or ""}
        return [to_json(body)]


_CALL = b'{"type":"tool_use",'
_THINKING = b'{"type":"thinking",'


def _encoder(model: Model, compat: Compat) -> _Encoder:
    """The encoder that all requests to a model share, and with it the encoded messages."""
    return _encoder_of(model.id, model.api, model.provider, model.input, compat.allow_unsigned_thinking)


@lru_cache(maxsize=64)
def _encoder_of(id: str, api: str, provider: str, input: tuple[str, ...], unsigned: bool) -> _Encoder:
    return _Encoder(Model(id, api, provider, input=input), unsigned)


def _part(block: UserBlock) -> dict[str, Any]:
    if isinstance(block, ImageContent):
        source = {"type": "base64", "media_type": block.mime_type, "data": block.data}
        return {"type": "image", "source": source}
    return {"type": "text", "text": block.text}


def _call(call: ToolCall, id: str) -> bytes:
    return to_json({"type": "tool_use", "id": id, "name": wire_name(call.name), "input": call.arguments})


# --- calls of server tools ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _ServerFacts:
    """The server tool calls and results in one answer, by id; `compacted`: it contains a compaction block."""

    calls: frozenset[str]
    results: frozenset[str]
    compacted: bool


def _facts_by_position(placed: Sequence[Placed], model: Model) -> dict[int, _ServerFacts]:
    found: dict[int, _ServerFacts] = {}
    for position, (message, _) in enumerate(placed):
        if not isinstance(message, AssistantMessage):
            continue
        if message.provider != model.provider or message.api != model.api:
            continue
        facts: _ServerFacts | None = encoded_once(message, _server_facts, _server_facts)
        if facts is not None:
            found[position] = facts
    return found


def _server_facts(message: AssistantMessage) -> _ServerFacts | None:
    raws = [_parsed(block) for block in message.content if isinstance(block, ServerContent)]
    if not raws:
        return None
    return _ServerFacts(
        frozenset(str(raw["id"]) for raw in raws if _is_call(raw)),
        frozenset(str(raw["tool_use_id"]) for raw in raws if "tool_use_id" in raw),
        any(raw.get("type") == "compaction" for raw in raws),
    )


def _is_call(raw: dict[str, Any]) -> bool:
    return "id" in raw and str(raw.get("type")).endswith("tool_use")


def _parsed(block: ServerContent) -> dict[str, Any]:
    try:
        raw = json.loads(block.raw)
    except ValueError:
        return {}
    return raw if isinstance(raw, dict) else {}


def _names_any(block: ServerContent, ids: Iterable[str]) -> bool:
    """True for a block to leave out: the call or the result of one of these ids, or no JSON object."""
    raw = _parsed(block)
    return not raw or str(raw.get("tool_use_id", raw.get("id"))) in ids


def _unpaired(placed: Sequence[Placed], facts: dict[int, _ServerFacts]) -> dict[int, frozenset[str]]:
    """By position the ids of server tool calls without a result and of results without a call.

    The server sends the missing results of a paused answer, or of one that calls our tools too, in its next
    answer. So the open calls of the last answer are kept while only results of our tools follow it.
    """
    if not facts:
        return {}
    called = frozenset[str]().union(*(fact.calls for fact in facts.values()))
    answered = frozenset[str]().union(*(fact.results for fact in facts.values()))
    last = max(p for p, (message, _) in enumerate(placed) if isinstance(message, AssistantMessage))
    goes_on = all(isinstance(message, ToolResultMessage) for message, _ in placed[last + 1 :])
    unpaired: dict[int, frozenset[str]] = {}
    for position, fact in facts.items():
        open_calls = frozenset() if goes_on and position == last else fact.calls - answered
        if ids := open_calls | (fact.results - called):
            unpaired[position] = ids
    return unpaired


# --- cache marks -----------------------------------------------------------------------------------------


def mark_cache(messages: list[bytes], mark: bytes) -> None:
    """Put the cache mark (an encoded `cache_control` value) on the last two user messages.

    Two, because the server searches only some twenty blocks back from a mark for a cached prefix.
    """
    left = _MARKED_MESSAGES
    for position in range(len(messages) - 1, -1, -1):
        if messages[position].startswith(b'{"role":"user"'):
            messages[position] = _marked(messages[position], mark)
            left -= 1
            if not left:
                return


def _marked(message: bytes, mark: bytes) -> bytes:
    """The encoded message with the mark on its last block; a string becomes a block."""
    end = b',"cache_control":' + mark + b"}]}"
    if message.startswith(_USER_TEXT):
        return _USER_LIST + b'{"type":"text","text":' + message[len(_USER_TEXT) - 1 : -1] + end
    return message[: -len(b"}]}")] + end
