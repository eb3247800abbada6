"""Limits the number and the size of the images in one request; a note replaces each image that is left out.

The stored history keeps all images. Which ones are left out is decided for each request, from the messages
alone and in steps, so that the beginning of a conversation, which servers cache, rarely changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent.cancel import CancelToken
from agent.messages import ImageContent, Message, TextContent, ToolResultMessage, UserMessage, encoded_once
from agent.models import Model
from agent.providers.history_transform import until_cancelled
from agent.providers.images import image_size


@dataclass(frozen=True, slots=True)
class ImageBudget:
    """A server's limits: images per request, characters of base64 together, longest side in pixels.

    With more images than `crowd`, none may have a side above `crowd_side`. 0 means no limit.
    """

    count: int
    chars: int
    side: int = 0
    crowd: int = 0
    crowd_side: int = 0


# The part of the body that is left for everything else: about two million tokens of text.
_TEXT = 8_000_000

# https://platform.claude.com/docs/en/build-with-claude/vision (General limits, 2026-03): 600 images, 100 for
# models with a window of 200,000 tokens, 32 MB per request, 8000 pixels, 2000 with more than 20 images.
_CLAUDE = ImageBudget(600, 32_000_000 - _TEXT, 8000, 20, 2000)
_CLAUDE_200K = replace(_CLAUDE, count=100)
# https://platform.openai.com/docs/guides/images-vision (Image input requirements, 2026-03): 1500 images,
# 512 MB per request; pictures are scaled by the server.
_OPENAI = ImageBudget(1500, 512_000_000 - _TEXT)
# https://ai.google.dev/gemini-api/docs/file-input-methods: 100 MB of inline data; Vertex' model pages: 3,000
# images per prompt; pictures are scaled by the server.
_GEMINI = ImageBudget(3000, 100_000_000 - _TEXT)

_BY_FORMAT: Mapping[str, ImageBudget] = {
    "openai-completions": _OPENAI,
    "openai-responses": _OPENAI,
    "google-generative-ai": _GEMINI,
}
_CLAUDE_API = "anthropic-messages"
# One step leaves out a quarter of the budget, so that the conversation's beginning stays the same for a
# while.
_STEPS = 4


def image_budget(model: Model) -> ImageBudget:
    """The budget for the model. Claude has the same limits in every wire format."""
    if model.api == _CLAUDE_API or "claude" in model.id.lower():
        return _CLAUDE_200K if model.context_window <= 200_000 else _CLAUDE
    return _BY_FORMAT.get(model.api, _OPENAI)


def within_budget(
    messages: Sequence[Message], model: Model, cancel: CancelToken | None = None
) -> Sequence[Message]:
    """The messages, with a note in place of each image that exceeds the budget.

    The same sequence when all images fit. Left out are, in this order: images with too long a side, the
    oldest until number and size fit, and images too large for a request of many.
    """
    if not model.supports_images:  # all are left out elsewhere
        return messages
    numbered = enumerate(until_cancelled(messages, cancel))
    images = [(place, image) for place, m in numbered for image in images_of(m)]
    if not images:
        return messages
    notes: dict[int, dict[int, str]] = {}
    for place, image, note in _left_out(images, image_budget(model)):
        notes.setdefault(place, {})[image.index] = note
    if not notes:
        return messages
    changed = list(messages)
    for place, by_index in notes.items():
        changed[place] = with_notes(messages[place], by_index)
    return changed


# --- the images of a message -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Image:
    """One image of a message: its index in the content, characters of base64, size (0: unknown)."""

    index: int
    chars: int
    width: int = 0
    height: int = 0


def images_of(message: Message) -> tuple[Image, ...]:
    """The images of a message, measured once."""
    if not isinstance(message, UserMessage | ToolResultMessage) or isinstance(message.content, str):
        return ()
    found: tuple[Image, ...] = encoded_once(message, images_of, _measured)
    return found


def _measured(message: UserMessage | ToolResultMessage) -> tuple[Image, ...]:
    return tuple(
        Image(index, len(block.data), *(image_size(block.data) or (0, 0)))
        for index, block in enumerate(message.content)
        if isinstance(block, ImageContent)
    )


def with_notes(message: Message, notes: Mapping[int, str]) -> Message:
    """A copy of the message with texts in place of its images at these indexes; made once per set of notes.

    Equal notes that follow each other are one.
    """

    def make(message: Any) -> Message:
        copy: Message = replace(message, content=tuple(_noted(message.content, notes)))
        return copy

    changed: Message = encoded_once(message, (with_notes, tuple(notes.items())), make)
    return changed


def _noted(content: Iterable[Any], notes: Mapping[int, str]) -> Iterator[Any]:
    last = ""
    for index, block in enumerate(content):
        note = notes.get(index, "")
        if not note:
            yield block
        elif note != last:
            yield TextContent(note)
        last = note


# --- what is left out --------------------------------------------------------------------------------------

_Placed = tuple[int, Image]


def _left_out(images: Sequence[_Placed], budget: ImageBudget) -> Iterator[tuple[int, Image, str]]:
    kept = list(images)
    if budget.side:
        kept, large = _split(kept, lambda image: max(image.width, image.height) <= budget.side)
        yield from ((*placed, _too_large(placed[1], budget.side)) for placed in large)
    gone = _oldest_over(budget.chars, [image.chars for _, image in kept])
    gone = max(gone, _oldest_over(budget.count, [1] * len(kept)))
    yield from ((*placed, _NO_ROOM) for placed in kept[:gone])
    kept = kept[gone:]
    if budget.crowd and len(kept) > budget.crowd:
        _, large = _split(kept, lambda image: max(image.width, image.height) <= budget.crowd_side)
        yield from ((*placed, _too_large(placed[1], budget.crowd_side, budget.crowd)) for placed in large)


def _split(images: list[_Placed], fits: Callable[[Image], bool]) -> tuple[list[_Placed], list[_Placed]]:
    return [p for p in images if fits(p[1])], [p for p in images if not fits(p[1])]


def _oldest_over(limit: int, amounts: Sequence[int]) -> int:
    """How many of the oldest have to be left out so that the rest is within the limit."""
    excess = sum(amounts) - limit
    if excess <= 0:
        return 0
    step = max(1, limit // _STEPS)
    needed = -(-excess // step) * step
    gone = 0
    while needed > 0 and gone < len(amounts):
        needed -= amounts[gone]
        gone += 1
    return gone


_NO_ROOM = "[An older image was left out here: the request has no room for more images.]"


def _too_large(image: Image, side: int, crowd: int = 0) -> str:
    where = f"in a request with more than {crowd} images " if crowd else ""
    return (
        f"[An image of {image.width}x{image.height} pixels was left out here: {where}no side may be longer "
        f"than {side} pixels.]"
    )
