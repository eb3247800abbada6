"""Encodes messages in the Chat Completions format, each message once per model and dialect."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from functools import lru_cache, partial
from typing import Any

from agent.cancel import CancelToken
from agent.messages import (
    AssistantMessage,
    ImageContent,
    Message,
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
    OPENING,
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
from agent.providers.openai_completions.compat import Compat
from agent.providers.openai_completions.decode import REASONING_FIELDS

_ID_LIMIT = 40  # OpenAI refuses a longer tool_call_id
_MISTRAL_ID_LIMIT = 9  # exactly so many letters and digits

_SEE_IMAGE = "(see attached image)"
_IMAGES_FOLLOW = {"type": "text", "text": "Attached image(s) from tool result:"}
_TURN = b'{"role":"assistant"'
_OPENING = to_json({"role": "user", "content": OPENING})
_AFTER_RESULTS = {"role": "assistant", "content": "I have the results of the tools."}


def encode_messages(
    messages: Iterable[Message], model: Model, compat: Compat, cancel: CancelToken | None = None
) -> list[bytes]:
    """The encoded messages in order. The images of consecutive results follow in one user message."""
    if compat.requires_mistral_tool_ids:
        placed = arrange(messages, _mistral_id, _MISTRAL_ID_LIMIT)
    else:
        placed = arrange(messages, _call_id, _ID_LIMIT)
    encoder = _encoder(model, compat)
    out: list[bytes] = []
    images: list[bytes] = []
    after_result = False
    for message, ids in until_cancelled(placed, cancel):
        key = (encoder, ids)
        if isinstance(message, ToolResultMessage):
            text, pictures = encoded_once(message, key, partial(encoder.result, ids=ids))
            out.append(text)
            if pictures:
                images.append(pictures)
            after_result = True
            continue
        fragment = encoded_once(message, key, partial(encoder.encode, ids=ids))
        if not fragment:
            continue
        if after_result:
            encoder.end_results(out, images, before_user=isinstance(message, UserMessage))
            images, after_result = [], False
        out.append(fragment)
    encoder.end_results(out, images, before_user=False)
    if out and out[0].startswith(_TURN) and "claude" in model.id.lower():
        out.insert(0, _OPENING)  # gateways pass the messages on to Anthropic's format
    return out


def _call_id(raw: str) -> str:
    """The call's part of a Responses id, in legal characters and cut to OpenAI's limit."""
    return legal_id(raw.partition("|")[0])[:_ID_LIMIT]


def _mistral_id(raw: str) -> str:
    if len(raw) == _MISTRAL_ID_LIMIT and raw.isascii() and raw.isalnum():
        return raw
    return hashlib.sha256(raw.encode("utf-8", "replace")).hexdigest()[:_MISTRAL_ID_LIMIT]


class _Encoder:
    """Encodes single messages for one model and dialect; part of the cache key of what it encodes."""

    def __init__(self, model: Model, compat: Compat) -> None:
        self._model = model
        self._compat = compat
        self._sends_reasoning = compat.requires_reasoning_content_on_assistant_messages

    def encode(self, message: UserMessage | AssistantMessage, ids: tuple[str, ...]) -> bytes:
        """A user message or an answer; empty when there is nothing to send."""
        if isinstance(message, AssistantMessage):
            return self._turn(message, ids)
        blocks = user_blocks(message, self._model)
        if not blocks:
            return b""
        if isinstance(message.content, str):
            return to_json({"role": "user", "content": clean(message.content)})
        return to_json({"role": "user", "content": [self._part(block) for block in blocks]})

    def result(self, message: ToolResultMessage, ids: tuple[str, ...]) -> tuple[bytes, bytes]:
        """A tool result, and its images as parts of a user message."""
        blocks = result_blocks(message, self._model)
        texts = [block.text for block in blocks if isinstance(block, TextContent)]
        images = [block for block in blocks if isinstance(block, ImageContent)]
        body = {"role": "tool", "tool_call_id": ids[0], "content": "\n".join(texts) or _SEE_IMAGE}
        if self._compat.requires_tool_result_name:
            body["name"] = wire_name(message.tool_name)
        return to_json(body), b",".join(to_json(self._part(image)) for image in images)

    def _part(self, block: UserBlock) -> dict[str, Any]:
        if isinstance(block, TextContent):
            return {"type": "text", "text": block.text}
        # OpenAI accepts no animated GIF, and Gemini, which some servers offer in this format, no GIF at all.
        image = as_still_png(block, only_animated="gemini" not in self._model.id.lower())
        return {"type": "image_url", "image_url": {"url": f"data:{image.mime_type};base64,{image.data}"}}

    def end_results(self, out: list[bytes], images: list[bytes], before_user: bool) -> None:
        """Append what the server needs between tool results and the next message."""
        if (images or before_user) and self._compat.requires_assistant_after_tool_result:
            out.append(to_json(_AFTER_RESULTS))
        if images:
            parts = b",".join([to_json(_IMAGES_FOLLOW), *images])
            out.append(b'{"role":"user","content":[' + parts + b"]}")

    def _turn(self, message: AssistantMessage, ids: tuple[str, ...]) -> bytes:
        blocks = assistant_blocks(message, self._model)
        text = "".join([block.text for block in blocks if isinstance(block, TextContent)])
        thinking = [b for b in blocks if isinstance(b, ThinkingContent) and not b.redacted and b.thinking]
        calls = [block for block in blocks if isinstance(block, ToolCall)]
        if thinking and self._compat.requires_thinking_as_text:
            text = "\n\n".join([*(block.thinking for block in thinking), *([text] if text else [])])
            thinking = []
        if not text and not calls:
            return b""
        nothing = "" if self._compat.requires_assistant_after_tool_result else None
        body: dict[str, Any] = {"role": "assistant", "content": text or nothing}
        body |= self._reasoning(thinking)
        if calls:
            opaque = [_opaque_data(call) for call in calls]
            body["tool_calls"] = list(map(_call, calls, ids, opaque))
            details = [extra for extra in opaque if extra and "extra_content" not in extra]
            if details:
                body["reasoning_details"] = details
        return to_json(body)

    def _reasoning(self, thinking: list[ThinkingContent]) -> dict[str, str]:
        always = self._sends_reasoning  # None: only to reasoning models, and only what they made
        text = "\n".join([block.thinking for block in thinking])
        if always:
            return {REASONING_FIELDS[0]: text}
        name = thinking[0].signature if thinking else None
        if always is None and self._model.reasoning and name in REASONING_FIELDS:
            return {name: text}
        return {}


# The flags that change the encoding of a message.
_MESSAGE_FLAGS = (
    "requires_tool_result_name",
    "requires_assistant_after_tool_result",
    "requires_thinking_as_text",
    "requires_reasoning_content_on_assistant_messages",
)


def _encoder(model: Model, compat: Compat) -> _Encoder:
    """The encoder that all requests to a model share, and with it the encoded messages."""
    flags = tuple(getattr(compat, name) for name in _MESSAGE_FLAGS)
    return _encoder_of(model.id, model.api, model.provider, model.reasoning, model.input, flags)


@lru_cache(maxsize=64)
def _encoder_of(
    id: str, api: str, provider: str, reasoning: bool, input: tuple[str, ...], flags: tuple[Any, ...]
) -> _Encoder:
    model = Model(id, api, provider, reasoning=reasoning, input=input)
    return _Encoder(model, Compat(**dict(zip(_MESSAGE_FLAGS, flags, strict=True))))


def _call(call: ToolCall, id: str, opaque: dict[str, Any]) -> dict[str, Any]:
    function = {"name": wire_name(call.name), "arguments": to_json_text(call.arguments)}
    body = {"id": id, "type": "function", "function": function}
    return body | opaque if "extra_content" in opaque else body


def _opaque_data(call: ToolCall) -> dict[str, Any]:
    """The opaque data of a call that is sent back: a reasoning detail, or Google's `extra_content`."""
    try:
        extra = json.loads(call.signature or "null")
    except ValueError:
        return {}
    return extra if isinstance(extra, dict) else {}


# --- cache marks ---


def mark_cache(messages: list[bytes], tools: list[dict[str, Any]], mark: dict[str, str]) -> None:
    """Put Anthropic's cache marks on the system prompt, the last tool and the last message with text."""
    if messages and re.match(rb'\{"role":"(?:system|developer)"', messages[0]):
        messages[0] = _marked(messages[0], mark)
    if tools:
        tools[-1] = tools[-1] | {"cache_control": mark}
    for position in range(len(messages) - 1, -1, -1):
        if not re.match(rb'\{"role":"(?:user|assistant)"', messages[position]):
            continue
        marked = _marked(messages[position], mark)
        if marked is not messages[position]:
            messages[position] = marked
            return


def _marked(fragment: bytes, mark: dict[str, str]) -> bytes:
    """The message with the mark on its last text part; the same object when it has none."""
    message = json.loads(fragment)
    content = message["content"]
    if isinstance(content, str) and content:
        content = message["content"] = [{"type": "text", "text": content}]
    parts = [part for part in content or () if isinstance(part, dict) and part["type"] == "text"]
    if not parts:
        return fragment
    parts[-1]["cache_control"] = mark
    return to_json(message)
