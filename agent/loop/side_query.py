"""Side queries: one question beside the conversation, without tools, queues or state.

A side query runs on the caller's thread and may overlap a run. An attempt that fails for a transient reason,
or that returns no usable answer, is repeated with the same messages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent.block_summary import arguments_json, render_summary, summarize_blocks, with_error_text
from agent.errors import SideQueryError
from agent.events import Event
from agent.limits import TIME_IS_UP, Stopwatch
from agent.loop.config import LoopConfig
from agent.loop.model_call import call_once
from agent.messages import (
    AssistantMessage,
    Message,
    ServerContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
)
from agent.retry import ABORTED_TEXT, is_retryable
from agent.stream import AgentContext, StreamFn


@dataclass(frozen=True, slots=True)
class SideQuery:
    """One question: its messages, the options of its requests, and the seconds that it may take in all."""

    system_prompt: str
    messages: Sequence[Message]
    config: LoopConfig
    stream_fn: StreamFn
    on_event: Callable[[Event], object] | None = None
    timeout: float | None = None

    def ask(self) -> tuple[str, AssistantMessage]:
        """The answer as text, and its message.

        Raises SideQueryError, and RuntimeError when the system gives out no thread for the timeout.
        """
        stopwatch = Stopwatch(self.timeout, self.config.cancel)
        stopwatch.start()
        try:
            return self._ask()
        except SideQueryError as error:
            if self.config.cancel.reason != TIME_IS_UP:
                raise
            text = f"the answer did not come within {self.timeout:g} seconds"
            raise SideQueryError(text, error.message, error.blocks) from error
        finally:
            stopwatch.stop()

    def _ask(self) -> tuple[str, AssistantMessage]:
        reasoning = self.config.reasoning or "off"
        waits = self.config.retry.side_query
        cancel = self.config.cancel
        for attempt in range(len(waits) + 1):
            message = self._attempt(reasoning)
            text, problem = render_answer(message)
            if not problem:
                return text, message
            failed = message.stop_reason in ("error", "aborted") or bool(message.error_message)
            if failed and not is_retryable(message.error_message):
                break
            reasoning = (self.config.reasoning or "off") if failed else "off"
            if attempt < len(waits) and cancel.wait(waits[attempt]):
                problem = ABORTED_TEXT
                break
        raise SideQueryError(problem, message, summarize_blocks(message.content))

    def _attempt(self, reasoning: str) -> AssistantMessage:
        context = AgentContext(self.system_prompt, list(self.messages))
        emit = self.on_event or (lambda event: None)
        message = call_once(context, replace(self.config, reasoning=reasoning), self.stream_fn, emit)
        return with_error_text(message)


def render_answer(message: AssistantMessage) -> tuple[str, str]:
    """The answer as text, "" if there is none; and the reason why there is none."""
    if message.stop_reason in ("error", "aborted") or message.error_message:
        return "", message.error_message or f"the answer ended as {message.stop_reason}"
    parts = [part for block in message.content if (part := _render(block))]
    if parts:
        return "\n".join(parts), ""
    summary = render_summary(message.content)
    return "", f"response had no usable content (blocks: {summary}) (stop_reason={message.stop_reason})"


def _render(block: Any) -> str:
    match block:
        case TextContent():
            return block.text
        case ThinkingContent():
            return f"[think] {block.thinking}" if block.thinking else ""
        case ToolCall():
            return f"[tool {block.name} {arguments_json(block.arguments)}]"
    return ""


def strip_unmatched_tool_calls(messages: Sequence[Message]) -> Sequence[Message]:
    """The messages without tool calls that no result anywhere in the list answers.

    A message that would be empty, or thinking alone, is dropped. Unchanged messages are the same objects; the
    list given is not changed.
    """
    answered = {m.tool_call_id for m in messages or () if isinstance(m, ToolResultMessage)}
    if all(_is_matched(m, answered) for m in messages or ()):
        return messages
    kept: list[Message] = []
    for message in messages:
        if not isinstance(message, AssistantMessage) or _is_matched(message, answered):
            kept.append(message)
            continue
        content = tuple(b for b in message.content if not isinstance(b, ToolCall) or b.id in answered)
        if any(isinstance(block, (TextContent, ToolCall, ServerContent)) for block in content):
            kept.append(replace(message, content=content))
    return kept


def _is_matched(message: Message, answered: set[str]) -> bool:
    return not isinstance(message, AssistantMessage) or all(c.id in answered for c in message.tool_calls)
