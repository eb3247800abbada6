"""The result of a tool, and the conversion of everything that a tool may return into one."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
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

    Raises TypeError for content that is not text, blocks, or mappings in the form of blocks, and for meta
    that is no mapping of texts.
    """

    content: tuple[UserBlock, ...]
    details: Any = field(default=None, hash=False)
    meta: Mapping[str, str] | None = field(default=None, hash=False)
    is_error: bool = False
    terminate: bool = False
    status_message: str = ""

    def __init__(
        self,
        content: str | UserBlock | Iterable[UserBlock | str | Mapping[str, str]] = (),
        details: Any = None,
        meta: Mapping[str, str] | None = None,
        is_error: bool = False,
        terminate: bool = False,
        status_message: str = "",
    ) -> None:
        put = object.__setattr__
        put(self, "content", tuple(content_blocks(content)))
        put(self, "details", details)
        put(self, "meta", _checked_meta(meta))
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
    if hasattr(value, "content") and hasattr(value, "is_error"):
        return ToolResult(
            value.content or (),
            getattr(value, "details", None),
            getattr(value, "meta", None),
            bool(value.is_error),
            bool(getattr(value, "terminate", False)),
            getattr(value, "status_message", "") or "",
        )
    return ToolResult(() if value is None else value)


def content_blocks(content: Any) -> list[UserBlock]:
    """Text and image blocks of a text, a block, or several of them; other objects and mappings in their form.

    Raises TypeError for anything else.
    """
    if isinstance(content, str | TextContent | ImageContent):
        return [_content_block(content)]
    if isinstance(content, bytes | bytearray | Mapping) or not isinstance(content, Iterable):
        name = type(content).__name__
        raise TypeError(f"a tool must return a ToolResult, text or content blocks, not {name}")
    return [_content_block(item) for item in content]


def _content_block(item: Any) -> UserBlock:
    if isinstance(item, str):
        return TextContent(item)
    read = item.get if isinstance(item, Mapping) else functools.partial(getattr, item)
    kind, text, data = read("type", None), read("text", None), read("data", None)
    if kind == "text" and isinstance(text, str):
        return item if isinstance(item, TextContent) else TextContent(text)
    if kind == "image" and data and isinstance(data, str):
        if not isinstance(item, ImageContent):
            return ImageContent(data, read("mime_type", None) or read("mimeType", ""))
        if isinstance(item.mime_type, str):
            return item
    raise TypeError(
        f"a tool's content must be text and image blocks, not {type(item).__name__}: {_shown(item)}"
    )


def _checked_meta(meta: Any) -> Mapping[str, str] | None:
    if meta is None:
        return None
    if isinstance(meta, Mapping) and all(
        isinstance(key, str) and isinstance(value, str | int | float) for key, value in meta.items()
    ):
        return meta
    raise TypeError(f"the meta of a result must be a mapping of texts, not {_shown(meta)}")


def _shown(value: object) -> str:
    try:
        return f"{value!r:.80}"
    except Exception:
        return "a value without a repr"
