"""Encodes messages in Google's format, each message once per model."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Sequence
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
from agent.providers.google_generative_ai.compat import Compat
from agent.providers.history_transform import (
    OPENING,
    arrange,
    assistant_blocks,
    result_blocks,
    to_json,
    until_cancelled,
    user_blocks,
    wire_name,
)
from agent.providers.images import as_still_png

# Google's documented value for the signature of a call that no Gemini model made.
UNSIGNED = "skip_thought_signature_validator"
# Signatures are base64; the server refuses a request with any other.
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")

_SEE_IMAGE = "(see attached image)"
_IMAGES_FOLLOW = to_json({"text": "Tool result image:"})
# A conversation must begin with the user: a call in a first message is refused.
_OPENING = to_json({"text": OPENING})


def encode_messages(
    messages: Iterable[Message], model: Model, compat: Compat, cancel: CancelToken | None = None
) -> list[bytes]:
    """The encoded contents in order.

    An answer is one content, and all its results are the next one. For models without images in results,
    these follow in a content of their own. Consecutive answers become one content.
    """
    encoder = _encoder(model, compat)
    contents = _Contents()
    called: deque[str] = deque()
    for message, ids in until_cancelled(arrange(messages), cancel):
        if isinstance(message, ToolResultMessage):
            # Google pairs responses with calls by name and order; `arrange` has put them in order.
            name = called.popleft()
            response = partial(encoder.encode_response, id=ids[0], name=name)
            contents.add_response(*encoded_once(message, (encoder, ids, name), response))
        elif isinstance(message, AssistantMessage):
            called = deque(call.name for call in message.tool_calls)
            contents.add(
                "model", encoded_once(message, (encoder, ids), partial(encoder.encode_turn, ids=ids))
            )
        else:
            contents.add("user", encoded_once(message, encoder, encoder.encode_user))
    return contents.encoded()


def wire_tool_name(name: str) -> str:
    """The tool name in the form that Google accepts: it must not begin with a digit or a dash."""
    name = wire_name(name)
    return name if name[0].isalpha() or name[0] == "_" else wire_name(f"_{name}")


class _Contents:
    """The contents of a request while they are collected."""

    def __init__(self) -> None:
        self._contents: list[tuple[str, list[bytes]]] = []
        self._responses: list[bytes] = []
        self._images: list[bytes] = []

    def add(self, role: str, parts: Sequence[bytes]) -> None:
        """Add a message, unless it has no parts."""
        if not parts:
            return
        self._end_responses()
        if role == "model" and self._contents and self._contents[-1][0] == "model":
            self._contents[-1][1].extend(parts)
        else:
            self._contents.append((role, list(parts)))

    def add_response(self, response: bytes, images: Sequence[bytes]) -> None:
        """Add a tool result; consecutive ones become one content."""
        self._responses.append(response)
        self._images += images

    def encoded(self) -> list[bytes]:
        self._end_responses()
        if self._contents and self._contents[0][0] == "model":
            self._contents.insert(0, ("user", [_OPENING]))
        return [
            b'{"role":"' + role.encode() + b'","parts":[' + b",".join(parts) + b"]}"
            for role, parts in self._contents
        ]

    def _end_responses(self) -> None:
        if self._responses:
            self._contents.append(("user", self._responses))
            if self._images:
                self._contents.append(("user", [_IMAGES_FOLLOW, *self._images]))
            self._responses, self._images = [], []


class _Encoder:
    """Encodes single messages for one model. It is a part of the cache key of each encoded message."""

    def __init__(self, model: Model, signs: bool, images_inside: bool, sends_ids: bool) -> None:
        self._model = model
        self._signs = signs
        self._images_inside = images_inside
        self._sends_ids = sends_ids

    def encode_user(self, message: UserMessage) -> tuple[bytes, ...]:
        """The parts of a user message; none when there is nothing to send."""
        return tuple(to_json(_part(block)) for block in user_blocks(message, self._model))

    def encode_response(
        self, message: ToolResultMessage, id: str, name: str
    ) -> tuple[bytes, tuple[bytes, ...]]:
        """A tool result, and the images to send after it."""
        blocks = result_blocks(message, self._model)
        text = "\n".join([block.text for block in blocks if isinstance(block, TextContent)])
        images = [_part(block) for block in blocks if isinstance(block, ImageContent)]
        outcome = {"error" if message.is_error else "output": text or _SEE_IMAGE}
        body: dict[str, Any] = {"name": wire_tool_name(name), "response": outcome}
        if self._sends_ids:
            body["id"] = id
        if images and self._images_inside:
            body["parts"], images = images, []
        return to_json({"functionResponse": body}), tuple(map(to_json, images))

    def encode_turn(self, message: AssistantMessage, ids: tuple[str, ...]) -> tuple[bytes, ...]:
        """The parts of an answer; none when they are all blank."""
        model = self._model
        same_model = (message.api, message.provider, message.model) == (model.api, model.provider, model.id)
        wire_ids = iter(ids)
        parts: list[dict[str, Any]] = []
        for block in assistant_blocks(message, model, signed_blanks=True):
            match block:
                case TextContent():
                    parts += _signed({"text": block.text}, block.signature)
                case ThinkingContent() if not block.redacted:
                    text = {"text": block.thinking}
                    parts += (
                        _signed({"thought": True} | text, block.signature) if same_model else _signed(text)
                    )
                case ServerContent():
                    parts += _server_part(block, same_model)
                case ToolCall():
                    parts.append(self._call(block, next(wire_ids)))
        if not any(_has_content(part) for part in parts):
            return ()
        if not any("thoughtSignature" in part or _is_server_part(part) for part in parts):
            # Nothing may stand between a call and its result. Signed parts keep their order.
            parts.sort(key=lambda part: "functionCall" in part)
        if self._signs:
            _mark_unsigned(parts)
        return tuple(map(to_json, parts))

    def _call(self, call: ToolCall, id: str) -> dict[str, Any]:
        body = {"name": wire_tool_name(call.name), "args": call.arguments or {}}
        if self._sends_ids:
            body["id"] = id
        (part,) = _signed({"functionCall": body}, call.signature)
        return part


def _encoder(model: Model, compat: Compat) -> _Encoder:
    """The encoder that all requests to a model share, and with it the encoded messages."""
    return _encoder_of(
        model.id,
        model.api,
        model.provider,
        model.input,
        compat.requires_thought_signatures,
        compat.supports_images_in_results,
        compat.requires_tool_call_ids,
    )


@lru_cache(maxsize=64)
def _encoder_of(
    id: str,
    api: str,
    provider: str,
    input: tuple[str, ...],
    signs: bool,
    images_inside: bool,
    sends_ids: bool,
) -> _Encoder:
    return _Encoder(Model(id, api, provider, input=input), signs, images_inside, sends_ids)


# --- parts -----------------------------------------------------------------------------------------------


def _part(block: UserBlock) -> dict[str, Any]:
    if isinstance(block, ImageContent):
        image = as_still_png(block)  # Google accepts no GIF
        return {"inlineData": {"mimeType": image.mime_type, "data": image.data}}
    return {"text": block.text}


def _signed(part: dict[str, Any], signature: str | None = None) -> list[dict[str, Any]]:
    """The part, with its signature if that is valid; nothing for a blank text without a signature."""
    if signature and len(signature) % 4 == 0 and _BASE64.fullmatch(signature):
        return [part | {"thoughtSignature": signature}]
    return [part] if _has_content(part) else []


def _has_content(part: dict[str, Any]) -> bool:
    return "text" not in part or bool(part["text"].strip())


def _is_server_part(part: dict[str, Any]) -> bool:
    return "text" not in part and "functionCall" not in part


def _server_part(block: ServerContent, same_model: bool) -> list[dict[str, Any]]:
    """A part that only the server understands, unchanged, without the signature of another model."""
    try:
        part = json.loads(block.raw)
    except ValueError:
        return []
    if not isinstance(part, dict) or not part:
        return []
    if not same_model:
        part.pop("thoughtSignature", None)
    return [part]


def _mark_unsigned(parts: list[dict[str, Any]]) -> None:
    """Mark the unsigned calls before the first signed one: the model signs only the first of several."""
    for part in parts:
        if "functionCall" not in part:
            continue
        if "thoughtSignature" in part:
            return
        part["thoughtSignature"] = UNSIGNED
