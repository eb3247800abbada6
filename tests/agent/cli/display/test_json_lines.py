"""What `--json` writes is what docs/events.schema.json describes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.command import arguments, call_chunks, chunk, run_command, text_chunks
from support.json_schema import schema_errors
from support.sse_server import SseServer, cut

from agent import events
from agent.cli.display.json_lines import VERSION, event_line
from agent.messages import (
    AssistantMessage,
    CustomMessage,
    ImageContent,
    ServerContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from agent.models import get_model
from agent.runs import RunMetadata
from agent.stream import (
    ServerBlock,
    StreamDone,
    StreamError,
    StreamStart,
    TextDelta,
    ThinkingEnd,
    ToolCallEnd,
    ToolCallStart,
)
from agent.tools import TitleArg, ToolDisplayHint, ToolResult

DOCS = Path(__file__).parents[4] / "docs"
SCHEMA = json.loads((DOCS / "events.schema.json").read_text("utf-8"))

_ANSWER = AssistantMessage(
    [
        ThinkingContent("hm", "sig", True),
        TextContent("a", "sig"),
        ToolCall("c", "bash", {"command": "ls"}, "sig"),
        ServerContent("web_search", "{}", {"title": "x"}),
    ],
    response_id="r",
    response_model="m",
    error_message="e",
    stop_reason="error",
)
_RESULT = ToolResultMessage(
    "c", "bash", [TextContent("x"), ImageContent("QQ==", "image/png")], True, {"a": object()}, {"h": "1"}
)
_OUTCOME = ToolResult("x", {"diff": "+1 x"}, {"h": "1"}, True, True, "half done")
_HINT = ToolDisplayHint((TitleArg("path", "path", "in"), TitleArg("x")), 5, True)
_CALL = ("c", "bash", {"command": "ls"})


def _update(stream_event: Any) -> events.Event:
    return events.MessageUpdate(None, stream_event)  # type: ignore[arg-type]


EVENTS = [
    events.AgentStart(run=RunMetadata("r", "p", "name")),
    events.AgentEnd((UserMessage("x"), _ANSWER, _RESULT, CustomMessage("k", {"a": 1})), "error", "it failed"),
    events.AgentEnd((), "paused", pending_calls=(ToolCall("c", "bash", {}),)),
    events.TurnStart(),
    events.TurnEnd(_ANSWER, (_RESULT,)),
    events.TurnEnd(None),
    events.MessageStart(UserMessage([TextContent("x"), ImageContent("QQ==", "image/png")])),
    events.MessageEnd(_ANSWER),
    *map(
        _update,
        (
            StreamStart("r", "m"),
            TextDelta(0, "x"),
            ThinkingEnd(0, "sig", True),
            ToolCallStart(1, "c", "bash"),
            ToolCallEnd(1, {"command": "ls"}),
            ServerBlock(2, ServerContent("web_search", "{}")),
            StreamDone("toolUse"),
            StreamError("broken"),
        ),
    ),
    events.ToolExecutionStart(*_CALL, _HINT),
    events.ToolExecutionUpdate(*_CALL, None, _OUTCOME, "half done"),
    events.ToolExecutionEnd("c", "bash", _OUTCOME, True, _HINT),
    events.StreamRetry(1, "broken"),
    events.AutoResume(1, "broken"),
    events.ModelFallback(get_model("ollama/a"), get_model("ollama/b"), "broken"),
    events.CandidateDiscarded(1),
    events.MaxTurnsReached(3),
    events.AgentParked({"a": object()}),
    events.QueueUpdate([UserMessage("x")], []),
]


def _types() -> set[str]:
    return {kind.type for kind in events.Event.__subclasses__()}


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.type)
def test_every_event_fits_the_schema(event: events.Event) -> None:
    line = json.loads(json.dumps(event_line(event)))
    assert schema_errors(line, SCHEMA) == []


def test_the_schema_and_the_page_know_every_event() -> None:
    listed = {ref["$ref"].rpartition("/")[2] for ref in SCHEMA["oneOf"]}
    page = (DOCS / "json.md").read_text("utf-8")
    assert {event.type for event in EVENTS} == _types() == listed
    assert set(re.findall(r"^\| `(\w+)` \|", page.partition("## Events")[2], re.MULTILINE)) == _types()


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.type)
def test_the_schema_names_every_field(event: events.Event) -> None:
    line = event_line(event)
    assert set(line) <= set(SCHEMA["$defs"][event.type]["properties"])


@pytest.mark.parametrize(
    "line",
    [
        {"type": "agent_start", "time": 1, "run_id": "r"},
        {"type": "agent_start", "time": 1, "run_id": "r", "version": 2},
        {"type": "other", "time": 1, "run_id": "r"},
        {"type": "turn_start", "time": "now", "run_id": "r"},
        {"type": "message_end", "time": 1, "run_id": "r", "message": {"role": "user"}},
    ],
)
def test_what_is_no_event_does_not_fit(line: dict[str, Any]) -> None:
    assert schema_errors(line, SCHEMA)


def test_the_lines_of_a_real_run_fit_the_schema(sse_server: SseServer, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    sse_server.play(chunk({"reasoning_content": "Let me see."}), *call_chunks("read", {"path": "a.txt"}))
    sse_server.play(
        *call_chunks("edit", {"path": "a.txt", "oldText": "one", "newText": "zwei \u2028 \U0001f600"})
    )
    sse_server.play(chunk({"content": "I am "}), cut())
    sse_server.play(*text_chunks("done."))
    ended = run_command(arguments(sse_server.url, "--json", "--cwd", str(tmp_path), "-p", "x"))
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    wrong = {line["type"]: errors for line in lines if (errors := schema_errors(line, SCHEMA))}
    assert wrong == {}
    assert lines[0]["version"] == VERSION == 1
    seen = {line["type"] for line in lines}
    assert {"auto_resume", "tool_execution_end", "message_update", "agent_end"} <= seen
    (edited,) = (x for x in lines if x["type"] == "tool_execution_end" and x["tool_name"] == "edit")
    assert "+1 zwei" in edited["result"]["details"]["diff"]
    assert ended.stdout.isascii()
