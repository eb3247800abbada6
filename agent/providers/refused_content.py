"""Content that a server refuses for good: an image it can't process, a signed block it no longer accepts.

A conversation that contains such content would fail at every later turn. So the request is sent again without
the image at fault, if the error or the images tell which one it is, then without those since the model's last
answer, then without all. When that succeeds, later requests to the same model leave the content out at once.
The stored history keeps everything. Only errors that mention images or signed blocks count: with any other
error the same request would fail again, or its author has to fix it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

from agent.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    ServerContent,
    ThinkingContent,
    ToolResultMessage,
    UserMessage,
    encoded_once,
)
from agent.models import Model
from agent.providers.http.failure import ProviderError
from agent.providers.image_budget import images_of, with_notes
from agent.providers.images import is_broken

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


# The place of an image in the request, as servers name it: `messages.0.content.1.image.source`,
# `messages[0].content[1].image_url`, `input[0].content[1]`, `contents[0].parts[1]`.
_PATH = re.compile(r"\b(?:messages|input|contents)(?:[.\[]\w+\]?)+")
_MIME_TYPE = re.compile(r"\bimage/[a-z0-9.+-]*[a-z0-9]", re.IGNORECASE)

_Place: TypeAlias = tuple[int, int]  # the index of a message, and of an image in its content
_ANSWER = -1  # in place of the index of an image: the whole message, an answer with signed blocks


@dataclass(frozen=True, slots=True)
class Retry:
    """A retry of a refused request: its messages, a name for the content they lack, and where that was."""

    messages: Sequence[Message]
    dropped: str
    places: tuple[tuple[Message, int], ...]


def retries_without(
    failure: ProviderError, messages: Sequence[Message], model: Model, body: bytes
) -> Iterator[Retry]:
    """The retries that may succeed after a refusal; the one that leaves out the least is first.

    There are none when the error blames nothing that could be left out. The next one makes sense only while
    the server's error `blames_content`.
    """
    if not blames_content(failure):
        return
    images = _images(messages) if model.supports_images else []
    if images and _blames_images(failure, messages, images, len(body)):
        for places in _least_first(failure, messages, model, images, body):
            yield _without(messages, places, "image" if len(places) == 1 else "images")
        return
    signed = [(place, _ANSWER) for place, m in enumerate(messages) if _is_signed_by(m, model)]
    if signed and _is_about_signed_blocks(str(failure)):
        yield _without(messages, signed, "signed thinking")


def blames_content(failure: ProviderError) -> bool:
    """True when the error may be about an image or a signed block."""
    if failure.kind not in _KINDS:
        return False
    if failure.kind == "request_too_large":
        return True
    text = str(failure)
    return bool(_is_about_images(text) or _is_about_signed_blocks(text))


def remember(retry: Retry, model: Model) -> None:
    """Leave the same content out of later requests: the request without it succeeded."""
    for message, index in retry.places:
        _marks(message, model).add(index)


def without_refused(messages: Sequence[Message], model: Model) -> Sequence[Message]:
    """The messages without the content that the model's server has refused; the same sequence if none."""
    refused = [
        (place, index) for place, m in enumerate(messages) if _may_be_refused(m) for index in _marks(m, model)
    ]
    return _without(messages, refused, "").messages if refused else messages


def _blames_images(
    failure: ProviderError, messages: Sequence[Message], images: Sequence[_Place], body_size: int
) -> bool:
    text = str(failure)
    if _is_about_images(text) and not _is_about_the_request(text):
        return True
    chars = sum(len(_data(messages, place)) for place in images)
    return failure.kind == "request_too_large" and chars * 2 >= body_size


def _images(messages: Sequence[Message]) -> list[_Place]:
    return [(place, image.index) for place, m in enumerate(messages) for image in images_of(m)]


def _data(messages: Sequence[Message], place: _Place) -> str:
    return _image(messages, place).data


def _image(messages: Sequence[Message], place: _Place) -> ImageContent:
    message, index = place
    image = cast(UserMessage | ToolResultMessage, messages[message]).content[index]
    return cast(ImageContent, image)


def _least_first(
    failure: ProviderError, messages: Sequence[Message], model: Model, images: list[_Place], body: bytes
) -> Iterator[list[_Place]]:
    """The images to leave out: the one at fault, those since the last answer, all; each choice once."""
    start = _after_last_answer(messages, model)
    recent = [place for place in images if place[0] >= start]
    tried: list[list[_Place]] = [[]]
    for places in (_at_fault(str(failure), messages, recent or images, body), recent, images):
        if places not in tried:
            tried.append(places)
            yield places


def _at_fault(text: str, messages: Sequence[Message], images: list[_Place], body: bytes) -> list[_Place]:
    """The images that the error names by place or MIME type, else those that are broken; empty if unknown."""
    named = _named_data(text, body)
    found = [place for place in images if _data(messages, place) in named]
    if not found:
        types = set(map(str.lower, _MIME_TYPE.findall(text)))
        is_named = {place: _image(messages, place).mime_type.lower() in types for place in images}
        # One type is the refused one; several are those that the server accepts.
        found = [place for place in images if types and is_named[place] == (len(types) == 1)]
    return found or [place for place in images if is_broken(_data(messages, place))]


def _named_data(text: str, body: bytes) -> set[str]:
    """The base64 of the images that the error names by their places in the request."""
    paths = [path[0] for path in _PATH.finditer(text)]
    if not paths:
        return set()
    request = json.loads(body)
    return {data for path in paths for data in _base64_in(_node(request, re.findall(r"\w+", path)))}


def _node(node: Any, path: Iterable[str]) -> Any:
    """The part of the request that the path leads to; names that it does not contain are skipped.

    None for a path without an index and for an index out of range.
    """
    has_index = False
    for step in path:
        if isinstance(node, dict) and step in node:
            node = node[step]
        elif isinstance(node, list) and step.isdecimal():
            if int(step) >= len(node):
                return None
            node, has_index = node[int(step)], True
    return node if has_index else None


def _base64_in(node: Any) -> Iterator[str]:
    """The base64 of the images in a part of a request."""
    if isinstance(node, str):
        yield node.partition(";base64,")[2] if node.startswith("data:") else node
    elif isinstance(node, dict):
        for value in node.values():
            yield from _base64_in(value)
    elif isinstance(node, list):
        for value in node:
            yield from _base64_in(value)


def _after_last_answer(messages: Sequence[Message], model: Model) -> int:
    """The index after the model's last answer: it accepted the images before it."""
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if not isinstance(message, AssistantMessage) or message.stop_reason in ("error", "aborted"):
            continue
        if _made_by(message, model):
            return place + 1
    return 0


def _without(messages: Sequence[Message], places: Sequence[_Place], dropped: str) -> Retry:
    """The messages without the images and the signatures at these places."""
    by_message: dict[int, list[int]] = {}
    for place, index in places:
        by_message.setdefault(place, []).append(index)
    changed = list(messages)
    for place, indexes in by_message.items():
        message = messages[place]
        if isinstance(message, AssistantMessage):
            # An answer as if another model had made it, so without signatures.
            changed[place] = encoded_once(message, _without, _without_origin)
        else:
            changed[place] = with_notes(message, dict.fromkeys(sorted(indexes), _NOTE))
    return Retry(changed, dropped, tuple((messages[place], index) for place, index in places))


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


def _marks(message: Message, model: Model) -> set[int]:
    """The images of the message that the model's server has refused, by index; `_ANSWER` for an answer."""
    key = ("refused", model.provider, model.api, model.id)
    marks: set[int] = encoded_once(message, key, _unmarked)
    return marks


def _unmarked(message: Message) -> set[int]:
    return set()
