"""Converts the events of a run into updates of the Agent Client Protocol."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeAlias

from agent.cli.display.call_text import title
from agent.cli.display.clean_text import clean, one_line
from agent.cli.permissions.gate import Question
from agent.cli.permissions.planned_change import Change, planned_change
from agent.cli.permissions.question_text import question_rows
from agent.events import (
    AgentEnd,
    AutoResume,
    Event,
    MessageUpdate,
    StreamRetry,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from agent.messages import ImageContent
from agent.stream import TextDelta, ThinkingDelta
from agent.tools import ToolDisplayHint, ToolResult

# Types of the acp package. It is optional, and imported when it is used.
Update: TypeAlias = Any
Content: TypeAlias = Any

Arguments = Mapping[str, object]

_KINDS: dict[str, Any] = {
    "read": "read",
    "ls": "read",
    "grep": "search",
    "find": "search",
    "edit": "edit",
    "write": "edit",
    "bash": "execute",
    "plan": "think",
}


class Updates:
    """Converts events; remembers the announced calls and their planned changes. Not thread-safe."""

    def __init__(self, cwd: str) -> None:
        self._cwd = cwd
        self._changes: dict[str, Change | None] = {}
        self._titles: dict[str, str] = {}

    def for_event(self, event: Event) -> list[Update]:
        """The updates for an event."""
        import acp

        match event:
            case MessageUpdate(stream_event=TextDelta(delta=delta)):
                return [acp.update_agent_message_text(delta)]
            case MessageUpdate(stream_event=ThinkingDelta(delta=delta)):
                return [acp.update_agent_thought_text(delta)]
            case ToolExecutionStart():
                if event.tool_call_id in self._changes:
                    return [acp.update_tool_call(event.tool_call_id, status="in_progress")]
                call = (event.tool_call_id, event.tool_name, event.arguments, event.label)
                return [self.announce(*call, hint=event.display_hint, status="in_progress")]
            case ToolExecutionUpdate():
                content = _content(event.partial_result)
                return [acp.update_tool_call(event.tool_call_id, content=content)] if content else []
            case ToolExecutionEnd():
                return [self._end(event)]
            case StreamRetry() | AutoResume():
                return [acp.update_agent_thought_text(f"\n[{one_line(event.error_message)}; trying again]\n")]
            case AgentEnd():
                self._changes.clear()
                self._titles.clear()
        return []

    def announce(
        self,
        id: str,
        tool: str,
        arguments: Arguments,
        label: str = "",
        hint: ToolDisplayHint | None = None,
        status: Any = "pending",
    ) -> Update:
        """The update that announces a call."""
        import acp
        from acp.schema import ToolCallLocation

        self._changes[id] = planned_change(tool, arguments, self._cwd)
        self._titles[id] = self._title(label or tool, arguments, hint)
        path = arguments.get("path")
        locations = [ToolCallLocation(path=os.path.join(self._cwd, path))] if isinstance(path, str) else None
        return acp.start_tool_call(
            id,
            title=self._titles[id],
            kind=_KINDS.get(tool, "other"),
            status=status,
            content=self.change(id) or None,
            locations=locations,
            raw_input=dict(arguments),
        )

    def _title(self, name: str, arguments: Arguments, hint: ToolDisplayHint | None) -> str:
        shown = arguments if hint else _main_arguments(arguments)
        return f"{clean(name)} {title(shown, hint, self._cwd)}".strip()

    def title_of(self, question: Question) -> str:
        """The title of a call, as it was announced."""
        return self._titles.get(question.id) or self._title(question.tool, question.arguments, None)

    def change(self, id: str) -> list[Content]:
        """The change that a call would make, as content of the call."""
        import acp

        change = self._changes.get(id)
        if change is None or change.problem:
            return []
        return [acp.tool_diff_content(change.path, change.new, change.old)]

    def _end(self, event: ToolExecutionEnd) -> Update:
        import acp

        content = self.change(event.tool_call_id) if not event.is_error else []
        self._changes.pop(event.tool_call_id, None)  # some servers reuse the id for the next call
        return acp.update_tool_call(
            event.tool_call_id,
            status="failed" if event.is_error else "completed",
            content=content or _content(event.result),
        )


def call_update(updates: Updates, question: Question) -> Update:
    """The call of a question, for a request for permission; with all of a command and its circumstances."""
    import acp
    from acp.schema import ToolCallUpdate

    content = updates.change(question.id)
    if question.command:
        text = "\n".join(row.text for row in question_rows(question))
        content = [acp.tool_content(acp.text_block(text))]
    return ToolCallUpdate(
        tool_call_id=question.id,
        title=updates.title_of(question),
        kind=_KINDS.get(question.tool, "other"),
        status="pending",
        content=content or None,
        raw_input=dict(question.arguments),
    )


def _main_arguments(arguments: Arguments) -> Arguments:
    """The arguments that identify a call when there is no display hint."""
    main = {key: arguments[key] for key in ("command", "path", "pattern") if key in arguments}
    return main or dict(arguments)


def _content(result: ToolResult) -> list[Content]:
    import acp

    blocks = [
        acp.image_block(block.data, block.mime_type)
        if isinstance(block, ImageContent)
        else acp.text_block(block.text)
        for block in result.content
    ]
    return [acp.tool_content(block) for block in blocks]
