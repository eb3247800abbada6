"""What a server refuses for ever: an image it can't process, a signed block it does not accept any more.

A conversation that holds one would fail at every later turn. So the request is made once more without, and
when that succeeds, what was refused is left out of later requests to the same model at once. The stored
history keeps everything. Only errors that speak of images or of signed blocks count; with all others the same
request would fail again, or should be mended by whoever made it.
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

# The kinds under which servers file it; llama.cpp answers 500 to an image that its model can't see.
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
# A tool that works on images, or a setting of the request that is about them, is another matter.
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
class Remedy:
    """How a refused request can be made again: its messages, what they lack, and what to leave out later."""

    messages: Sequence[Message]
    lacks: str
    suspects: tuple[Message, ...]


def remedy_for(
    failure: ProviderError, messages: Sequence[Message], model: Model, body_size: int
) -> Remedy | None:
    """The request that may succeed where this one was refused; None when nothing it holds was at fault."""
    if failure.kind not in _KINDS:
        return None
    text = str(failure)
    with_images = [m for m in messages if images_of(m)] if model.supports_images else []
    if with_images and _blames_images(failure, text, with_images, body_size):
        return _remedy(messages, with_images, "images", _after_last_answer(messages, model) or with_images)
    signed = [m for m in messages if _is_signed_by(m, model)]
    if signed and _is_about_signed_blocks(text):
        return _remedy(messages, signed, "signed thinking", signed)
    return None


def remember(remedy: Remedy, model: Model) -> None:
    """The request without these went through: leave them out of what follows."""
    for message in remedy.suspects:
        _mark(message, model).append(True)


def without_refused(messages: Sequence[Message], model: Model) -> Sequence[Message]:
    """The messages without what the model's server has refused before; the same sequence if that's none."""
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
    return failure.kind == "request_too_large" and chars * 2 >= body_size  # they are most of it


def _remedy(
    messages: Sequence[Message], without: list[Message], lacks: str, suspects: Sequence[Message]
) -> Remedy:
    gone = {id(message) for message in without}
    changed = [_without(m) if id(m) in gone else m for m in messages]
    return Remedy(changed, lacks, tuple(suspects))


def _after_last_answer(messages: Sequence[Message], model: Model) -> list[Message]:
    """The messages with images that the model has not answered yet: those before were taken."""
    found: list[Message] = []
    for message in reversed(messages):
        if isinstance(message, AssistantMessage):
            if message.stop_reason not in ("error", "aborted") and _made_by(message, model):
                break
        elif images_of(message):
            found.append(message)
    return found


def _without(message: Message) -> Message:
    """The message without images; a model's turn as if another model had made it, thus without signatures."""
    if isinstance(message, AssistantMessage):
        unsigned: Message = encoded_once(message, _without, _of_nobody)
        return unsigned
    return with_notes(message, {image.index: _NOTE for image in images_of(message)})


def _of_nobody(message: AssistantMessage) -> Message:
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
    """Not empty once the model's server has refused what the message holds."""
    key = ("refused", model.provider, model.api, model.id)
    mark: list[bool] = encoded_once(message, key, _unmarked)
    return mark


def _unmarked(message: Any) -> list[bool]:
    return []
