"""The result of a tool, and the conversion of everything that a tool may return into one."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.messages import ImageContent, TextContent, UserBlock


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call.

    `content` (a string, or text and image blocks) goes to the model; `details` only to screens and logs;
    `meta` is a small mapping of texts that the model reads after the content. `terminate` asks to end the run
    after this batch, which happens when every result of the batch asks for it. `status_message` labels a
    partial result.
    """

    content: tuple[UserBlock, ...]
    details: Any = field(default=None, hash=False)
    meta: Mapping[str, str] | None = field(default=None, hash=False)
    is_error: bool = False
    terminate: bool = False
    status_message: str = ""

    def __init__(
        self,
        content: str | Sequence[UserBlock] = (),
        details: Any = None,
        meta: Mapping[str, str] | None = None,
        is_error: bool = False,
        terminate: bool = False,
        status_message: str = "",
    ) -> None:
        put = object.__setattr__
        put(self, "content", (TextContent(content),) if isinstance(content, str) else tuple(content))
        put(self, "details", details)
        put(self, "meta", meta)
        put(self, "is_error", is_error)
        put(self, "terminate", terminate)
        put(self, "status_message", status_message)

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return "".join(block.text for block in self.content if isinstance(block, TextContent))


def to_result(value: Any) -> ToolResult:
    """The `ToolResult` for a tool's return value.

    Accepts a result of this package or of another one (`.content` and `.is_error`), text, a content block,
    several blocks, and None. Raises TypeError for anything else.
    """
    if isinstance(value, ToolResult):
        return value
    if value is None:
        return ToolResult(())
    if isinstance(value, str):
        return ToolResult(value)
    if isinstance(value, (TextContent, ImageContent)):
        return ToolResult((value,))
    if hasattr(value, "content") and hasattr(value, "is_error"):
        content = value.content if isinstance(value.content, str) else content_blocks(value.content or ())
        return ToolResult(
            content,
            getattr(value, "details", None),
            getattr(value, "meta", None),
            bool(value.is_error),
            bool(getattr(value, "terminate", False)),
            getattr(value, "status_message", "") or "",
        )
    if isinstance(value, Iterable) and not isinstance(value, (bytes, Mapping)):
        return ToolResult(content_blocks(value))
    raise TypeError(f"a tool must return a ToolResult, text or content blocks, not {type(value).__name__}")


def content_blocks(items: Iterable[Any]) -> list[UserBlock]:
    """Text and image blocks of strings, blocks, and objects or mappings in their form.

    Raises TypeError for anything else.
    """
    return [_content_block(item) for item in items]


def _content_block(item: Any) -> UserBlock:
    if isinstance(item, (TextContent, ImageContent)):
        return item
    if isinstance(item, str):
        return TextContent(item)
    read = item.get if isinstance(item, Mapping) else functools.partial(getattr, item)
    match read("type", None):
        case "text" if isinstance(text := read("text", None), str):
            return TextContent(text)
        case "image" if (data := read("data", None)) and isinstance(data, str):
            return ImageContent(data, read("mime_type", None) or read("mimeType", ""))
    raise TypeError(f"a tool's content must be text and image blocks, not {type(item).__name__}")
