"""Content that a server refuses for good: an image it can't process, a signed block it no longer accepts.

A conversation that contains such content would fail at every later turn. So the request is sent once more
without it. When that succeeds, later requests to the same model leave the content out at once. The stored
history keeps everything. Only errors that mention images or signed blocks count: with any other error the
same request would fail again, or its author has to fix it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent.messages import AssistantMessage, Message, ServerContent, ThinkingContent, encoded_once
from agent.models import Model
from agent.providers.http.failure import ProviderError
from agent.providers.image_budget import images_of, with_notes

_NOTE = "[An image was left out here: the provider could not process it.]"

# The kinds of error that servers answer with; llama.cpp answers 500 to an image that its model can't see.
_KINDS = ("invalid", "request_too_large", "server", "unknown")

_IMAGE = r"(?<![\w-])(?:input[_ ])?(?:images?|image_url|inline_?data)(?![\w-])"
_FAULT = (
    r"process|pars(?:e|ing)|decod|download|fetch|support|valid|format|exceed|dimension|corrupt|empty|missing|"
    r"too\s+(?:large|small|big|many|much)|media[_ ]type|mime|policy|safety|not\s+(?:allowed|enabled)|"
    r"at\s+most|unknown\s+variant"
)
_is_about_images = re.compile(
    rf"{_IMAGE}[^\n]{{0,160}}(?:{_FAULT})|(?:{_FAULT})[^\n]{{0,160}}{_IMAGE}"
    r"|image_(?:parse_error|too_large|too_small|file_too_large|content_policy_violation)"
    r"|(?:unsupported|invalid|empty)_(?:base64_)?image|too\s+much\s+media|not\s+a\s+multimodal\s+model|图片",
    re.IGNORECASE,
).search
# Errors about a tool that works on images or about a setting of the request are something else.
_is_about_the_request = re.compile(
    r"input_schema|\btools?[.\[]\d|function_?declarations|\bschema\b|\bfunction\s+'|"
    r"unrecogni[sz]ed\s+request\s+argument|unknown\s+(?:field|name|parameter|argument)",
    re.IGNORECASE,
).search
_is_about_signed_blocks = re.compile(
    r"signature`?\s+in\s+`?thinking|in\s+`?redacted_thinking|thinking`?\s+blocks[^\n]{0,80}cannot\s+be\s+modified"
    r"|invalid_encrypted_content|encrypted\s+content[^\n]{0,200}could\s+not\s+be"
    r"|of\s+type\s+'(?:reasoning|function_call|message)'\s+was\s+provided\s+without"
    r"|item\s+with\s+id\s+'(?:rs|msg|fc)_[^\n]{0,200}not\s+found|thought[_ ]?signature",
    re.IGNORECASE,
).search


@dataclass(frozen=True, slots=True)
class Retry:
    """A second try of a refused request.

    `messages` are those to send, `dropped` names what they no longer contain, `suspects` are the messages
    whose content was probably at fault.
    """

    messages: Sequence[Message]
    dropped: str
    suspects: tuple[Message, ...]


def retry_without(
    failure: ProviderError, messages: Sequence[Message], model: Model, body_size: int
) -> Retry | None:
    """The second try after a refusal; None when the error blames nothing that could be left out."""
    if failure.kind not in _KINDS:
        return None
    text = str(failure)
    with_images = [m for m in messages if images_of(m)] if model.supports_images else []
    if with_images and _blames_images(failure, text, with_images, body_size):
        return _retry(messages, with_images, "images", _after_last_answer(messages, model) or with_images)
    signed = [m for m in messages if _is_signed_by(m, model)]
    if signed and _is_about_signed_blocks(text):
        return _retry(messages, signed, "signed thinking", signed)
    return None


def remember(retry: Retry, model: Model) -> None:
    """Leave the suspects' content out of later requests: the request without it succeeded."""
    for message in retry.suspects:
        _mark(message, model).append(True)


def without_refused(messages: Sequence[Message], model: Model) -> Sequence[Message]:
    """The messages without the content that the model's server has refused; the same sequence if none."""
    refused = [place for place, m in enumerate(messages) if _may_be_refused(m) and _mark(m, model)]
    if not refused:
        return messages
    changed = list(messages)
    for place in refused:
        changed[place] = _without(messages[place])
    return changed


def _blames_images(failure: ProviderError, text: str, with_images: Sequence[Message], body_size: int) -> bool:
    if _is_about_images(text) and not _is_about_the_request(text):
        return True
    chars = sum(image.chars for m in with_images for image in images_of(m))
    return failure.kind == "request_too_large" and chars * 2 >= body_size


def _retry(
    messages: Sequence[Message], without: list[Message], dropped: str, suspects: Sequence[Message]
) -> Retry:
    gone = {id(message) for message in without}
    changed = [_without(m) if id(m) in gone else m for m in messages]
    return Retry(changed, dropped, tuple(suspects))


def _after_last_answer(messages: Sequence[Message], model: Model) -> list[Message]:
    """The messages with images since the model's last answer: it accepted those before it."""
    found: list[Message] = []
    for message in reversed(messages):
        if isinstance(message, AssistantMessage):
            if message.stop_reason not in ("error", "aborted") and _made_by(message, model):
                break
        elif images_of(message):
            found.append(message)
    return found


def _without(message: Message) -> Message:
    """The message without images; an answer as if another model had made it, so without signatures."""
    if isinstance(message, AssistantMessage):
        unsigned: Message = encoded_once(message, _without, _without_origin)
        return unsigned
    return with_notes(message, {image.index: _NOTE for image in images_of(message)})


def _without_origin(message: AssistantMessage) -> Message:
    return replace(message, provider="", api="", model="")


def _made_by(message: AssistantMessage, model: Model) -> bool:
    return message.provider == model.provider and message.api == model.api


def _is_signed_by(message: Message, model: Model) -> bool:
    return isinstance(message, AssistantMessage) and _made_by(message, model) and _has_signature(message)


def _has_signature(message: AssistantMessage) -> bool:
    return any(
        isinstance(block, ServerContent | ThinkingContent) or getattr(block, "signature", None)
        for block in message.content
    )


def _may_be_refused(message: Message) -> bool:
    return bool(images_of(message)) or isinstance(message, AssistantMessage)


def _mark(message: Message, model: Model) -> list[bool]:
    """Not empty when the model's server has refused content of the message."""
    key = ("refused", model.provider, model.api, model.id)
    mark: list[bool] = encoded_once(message, key, _unmarked)
    return mark


def _unmarked(message: Any) -> list[bool]:
    return []
