"""The types and sizes of content blocks, for error texts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from agent.messages import AssistantMessage, ServerContent, TextContent, ThinkingContent, ToolCall


@dataclass(frozen=True, slots=True)
class BlockSummary:
    """The type of a block and its length in UTF-8 bytes; `sig_len` is the length of a thinking signature."""

    type: str
    len: int
    sig_len: int = 0

    def __str__(self) -> str:
        if self.type == "thinking":
            return f"thinking(th={self.len},sig={self.sig_len})"
        return f"{self.type}(len={self.len})"


def summarize_blocks(content: Iterable[Any] | None) -> list[BlockSummary]:
    """One summary per block, in order; other values are left out."""
    return [summary for block in content or () if (summary := _summary(block)) is not None]


def render_summary(content: Iterable[Any] | None) -> str:
    """The summaries as text: `[text(len=5), thinking(th=0,sig=16)]`."""
    return f"[{', '.join(str(summary) for summary in summarize_blocks(content))}]"


def arguments_json(arguments: Any) -> str:
    """Arguments as compact JSON with sorted keys; `{}` for what JSON can't hold."""
    try:
        return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    except (TypeError, ValueError):
        return "{}"


def with_error_text(message: AssistantMessage) -> AssistantMessage:
    """The message; one that failed without a text gets one that describes what is known.

    The text matches no retry pattern: what failed for no stated reason is not tried again.
    """
    if message.stop_reason != "error" or message.error_message.strip():
        return message
    text = (
        f"stop_reason=error, no error message (provider={message.provider}, model={message.model}, "
        f"blocks: {render_summary(message.content)})"
    )
    return replace(message, error_message=text)


def with_calls_as_text(message: AssistantMessage) -> AssistantMessage:
    """The message with the arguments of its calls as text blocks too, for hooks that read the text."""
    if not message.tool_calls:
        return message
    texts = (TextContent(arguments_json(call.arguments)) for call in message.tool_calls)
    return replace(message, content=(*message.content, *texts))


def _summary(block: Any) -> BlockSummary | None:
    match block:
        case TextContent():
            return BlockSummary("text", _bytes(block.text))
        case ThinkingContent():
            return BlockSummary("thinking", _bytes(block.thinking), _bytes(block.signature or ""))
        case ToolCall():
            return BlockSummary("toolCall", _bytes(arguments_json(block.arguments)))
        case ServerContent():
            return BlockSummary("server", _bytes(block.raw))
    return None


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
