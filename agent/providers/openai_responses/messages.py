"""Encodes messages as input items of the Responses format, each message once per model.

An answer of the same model is sent back unchanged: its reasoning items with their encrypted content, and the
ids by which the server relates items. An id that would refer to reasoning that is not sent is left out: the
server refuses one without the other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import lru_cache, partial
from typing import Any

from agent.cancel import CancelToken
from agent.messages import (
    AssistantBlock,
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
from agent.providers.history_transform import (
    ID_LIMIT,
    arrange,
    assistant_blocks,
    clean,
    legal_id,
    result_blocks,
    to_json,
    to_json_text,
    until_cancelled,
    user_blocks,
    wire_name,
)
from agent.providers.images import as_still_png

_CALL_PREFIX = "fc"
_MESSAGE_PREFIX = "msg_"
# Stands in encoded answers for the position of the answer. JSON text contains no other byte of this value.
_PLACE = b"\x00"
_PHASES = ("commentary", "final_answer")


def encode_messages(
    messages: Iterable[Message], model: Model, cancel: CancelToken | None = None
) -> list[bytes]:
    """The encoded items of each message that has any, in order."""
    encoder = _encoder_of(model.id, model.api, model.provider, model.input)
    out: list[bytes] = []
    placed = until_cancelled(arrange(messages, call_half), cancel)
    for position, (message, ids) in enumerate(placed):
        if isinstance(message, AssistantMessage):
            fragment = encoded_once(message, (encoder, ids), partial(encoder.encode_turn, ids))
            # A text without an id gets one made of its position, which stays the same while the history
            # grows.
            fragment = fragment.replace(_PLACE, b"%d" % position)
        elif isinstance(message, ToolResultMessage):
            fragment = encoded_once(message, (encoder, ids), partial(encoder.encode_result, ids[0]))
        else:
            fragment = encoded_once(message, encoder, encoder.encode_user)
        if fragment:
            out.append(fragment)
    return out


# --- ids and signatures ----------------------------------------------------------------------------------


def joined_id(call_id: str, item_id: str) -> str:
    """The id of a call in our messages: the id that results refer to, and the id of the call's item."""
    return f"{call_id}|{item_id}" if item_id else call_id


def call_half(raw: str) -> str:
    """The part of a call's id that its result refers to, in the characters that the server accepts."""
    return legal_id(raw.partition("|")[0]).rstrip("_") or "call"


def _item_half(raw: str) -> str:
    item = raw.partition("|")[2]
    if not item:
        return ""
    if not item.startswith(_CALL_PREFIX):
        item = f"{_CALL_PREFIX}_{item}"
    return legal_id(item).rstrip("_")


def text_signature(id: str, phase: str) -> str | None:
    """The signature of a text block: the id and the phase of its message item; None without an id."""
    if not id:
        return None
    return to_json_text({"v": 1, "id": id} | ({"phase": phase} if phase else {}))


def _identity(signature: str | None) -> tuple[str, str]:
    """The id and the phase in the signature of a text block; one that is not JSON is an id alone."""
    if not signature:
        return "", ""
    if not signature.startswith("{"):
        return signature, ""
    kept = _object(signature)
    id, phase = kept.get("id"), kept.get("phase")
    return id if isinstance(id, str) else "", phase if phase in _PHASES else ""


def _object(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text or "null")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


# --- items -----------------------------------------------------------------------------------------------


class _Encoder:
    """Encodes single messages for one model. It is a part of the cache key of each encoded message."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def encode_user(self, message: UserMessage) -> bytes:
        """A user message; empty when there is nothing to send."""
        parts = [_part(block) for block in user_blocks(message, self._model)]
        return to_json({"role": "user", "content": parts}) if parts else b""

    def encode_result(self, call_id: str, message: ToolResultMessage) -> bytes:
        """A tool result: text, or a list of parts when it has images that the model can see."""
        blocks = result_blocks(message, self._model)
        output: Any = "\n".join([block.text for block in blocks if isinstance(block, TextContent)])
        if any(isinstance(block, ImageContent) for block in blocks):
            output = [_part(block) for block in blocks]
        return to_json({"type": "function_call_output", "call_id": call_id, "output": output})

    def encode_turn(self, ids: tuple[str, ...], message: AssistantMessage) -> bytes:
        """The items of an answer. Calls are last: nothing may stand between a call and its result."""
        blocks = assistant_blocks(message, self._model)
        turn = _Turn(message, blocks, self._model, ids)
        items: list[bytes] = []
        calls: list[bytes] = []
        reasoning: list[bytes] = []
        for block in blocks:
            item = turn.item(block)
            if isinstance(block, ThinkingContent):
                reasoning += [item] if item else []
            elif item:
                (calls if isinstance(block, ToolCall) else items).extend([*reasoning, item])
                reasoning = []
        # Reasoning without a following item (the answer was truncated) is left out: the server refuses it.
        return b",".join(items + calls)


class _Turn:
    """One answer while its items are encoded."""

    def __init__(
        self,
        message: AssistantMessage,
        blocks: list[AssistantBlock],
        model: Model,
        ids: tuple[str, ...],
    ) -> None:
        same_provider = message.provider == model.provider and message.api == model.api
        self._same_model = same_provider and message.model == model.id
        # For another model of the provider the ids refer to reasoning that it has not; another provider does
        # not interpret them.
        self._keeps_call_ids = self._same_model or not same_provider
        if self._same_model and _lost_reasoning(message, blocks):
            self._same_model = self._keeps_call_ids = False
        self._ids = iter(ids)
        self._made_up = 0

    def item(self, block: AssistantBlock) -> bytes:
        """The item of a block; empty when there is none."""
        match block:
            case TextContent():
                return self._message(block)
            case ThinkingContent():
                return _reasoning(block)
            case ToolCall():
                return self._call(block)
            case ServerContent():
                return clean(block.raw).encode()

    def _message(self, block: TextContent) -> bytes:
        id, phase = _identity(block.signature)
        body: dict[str, Any] = {"type": "message", "role": "assistant", "status": "completed"}
        if phase:
            body["phase"] = phase
        body["content"] = [{"type": "output_text", "text": block.text, "annotations": list(block.citations)}]
        if not id or not self._same_model:
            self._made_up += 1
            number = f"_{self._made_up}" if self._made_up > 1 else ""
            return (
                b'{"id":"' + _MESSAGE_PREFIX.encode() + _PLACE + number.encode() + b'",' + to_json(body)[1:]
            )
        if len(id) > ID_LIMIT:
            id = _MESSAGE_PREFIX + hashlib.sha256(id.encode("utf-8", "replace")).hexdigest()[:16]
        return to_json({"id": id} | body)

    def _call(self, call: ToolCall) -> bytes:
        call_id = next(self._ids)
        body: dict[str, Any] = {"type": "function_call"}
        item_id = _item_half(call.id)
        # A call that got another id, because the server used one twice, has no item id either.
        if item_id and self._keeps_call_ids and call_id == call_half(call.id):
            body["id"] = item_id
        arguments = to_json_text(call.arguments)
        return to_json(body | {"call_id": call_id, "name": wire_name(call.name), "arguments": arguments})


def _lost_reasoning(message: AssistantMessage, blocks: list[AssistantBlock]) -> bool:
    """True when some reasoning of the answer can't be sent back unchanged."""
    kept = sum(isinstance(block, ThinkingContent) and bool(_reasoning(block)) for block in blocks)
    return kept < sum(isinstance(block, ThinkingContent) for block in message.content)


def _reasoning(block: ThinkingContent) -> bytes:
    """The reasoning item, unchanged but for its null fields, which the server does not accept."""
    item = _object(block.signature)
    if item.get("type") != "reasoning":
        return b""
    kept = {key: value for key, value in item.items() if value is not None or key == "encrypted_content"}
    return to_json({"summary": []} | kept)


def _part(block: UserBlock) -> dict[str, Any]:
    if isinstance(block, ImageContent):
        image = as_still_png(block, only_animated=True)  # OpenAI accepts no animated GIF
        url = f"data:{image.mime_type};base64,{image.data}"
        return {"type": "input_image", "detail": "auto", "image_url": url}
    return {"type": "input_text", "text": block.text}


@lru_cache(maxsize=64)
def _encoder_of(id: str, api: str, provider: str, input: tuple[str, ...]) -> _Encoder:
    """The encoder that all requests to a model share, and with it the encoded messages."""
    return _Encoder(Model(id, api, provider, input=input))
