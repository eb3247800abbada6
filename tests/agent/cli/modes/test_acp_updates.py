"""Events as updates of the Agent Client Protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

acp = pytest.importorskip("acp", reason="needs agent-client-protocol, the extra [acp]")

from agent.cli.modes.acp_updates import Updates  # noqa: E402
from agent.events import (  # noqa: E402
    MessageUpdate,
    StreamRetry,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from agent.messages import ImageContent, TextContent  # noqa: E402
from agent.stream import PartialMessage, TextDelta, ThinkingDelta  # noqa: E402
from agent.tools import ToolResult  # noqa: E402


@pytest.fixture
def updates(tmp_path: Path) -> Updates:
    return Updates(str(tmp_path))


def _delta(delta: Any) -> MessageUpdate:
    return MessageUpdate(PartialMessage([], 0), delta)


def test_text_and_thoughts_are_chunks(updates: Updates) -> None:
    (text,) = updates.for_event(_delta(TextDelta(0, "a")))
    (thought,) = updates.for_event(_delta(ThinkingDelta(0, "b")))
    (retry,) = updates.for_event(StreamRetry(1, "broken\x1b[2J"))
    assert (text.session_update, text.content.text) == ("agent_message_chunk", "a")
    assert (thought.session_update, thought.content.text) == ("agent_thought_chunk", "b")
    assert "\x1b" not in retry.content.text


def test_a_call_is_announced_updated_and_ended(updates: Updates, tmp_path: Path) -> None:
    (start,) = updates.for_event(ToolExecutionStart("c1", "read", {"path": "a.txt", "limit": 3}))
    assert (start.title, start.kind, start.status) == ("read path=a.txt", "read", "in_progress")
    assert start.locations[0].path == str(tmp_path / "a.txt")
    result = ToolResult([TextContent("half"), ImageContent("QQ==", "image/png")])
    (progress,) = updates.for_event(ToolExecutionUpdate("c1", "read", {}, None, result))
    assert [block.content.type for block in progress.content] == ["text", "image"]
    (end,) = updates.for_event(ToolExecutionEnd("c1", "read", ToolResult([TextContent("no")]), True))
    assert end.status == "failed"


def test_a_change_is_a_diff_from_the_start_to_a_good_end(updates: Updates, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    write = {"path": "a.txt", "content": "two\n"}
    (start,) = updates.for_event(ToolExecutionStart("c1", "write", write))
    (end,) = updates.for_event(ToolExecutionEnd("c1", "write", ToolResult([TextContent("ok")]), False))
    for update in (start, end):
        (diff,) = update.content
        assert (diff.old_text, diff.new_text) == ("one\n", "two\n")
    assert updates.change("c1") == []
