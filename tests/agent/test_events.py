"""The events of a run: their fields, their JSON, and that they stay correct when kept."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from agent import Agent
from agent.events import (
    AgentEnd,
    AgentParked,
    AgentStart,
    AutoResume,
    CandidateDiscarded,
    Event,
    MaxTurnsReached,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    QueueUpdate,
    StreamRetry,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
    TurnStart,
    event_to_json,
)
from agent.messages import (
    AssistantMessage,
    CustomMessage,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from agent.runs import RunMetadata
from agent.stream import PartialMessage, StreamDone, StreamStart, TextDelta, ToolCallEnd
from agent.testing import ScriptedModel, error, tool_call
from agent.tools import AgentTool, TitleArg, ToolContext, ToolDisplayHint, ToolResult
from agent.usage import Usage

PINNED = [
    (AgentStart, "agent_start", ""),
    (AgentEnd, "agent_end", "messages"),
    (TurnStart, "turn_start", ""),
    (TurnEnd, "turn_end", "message tool_results usage"),
    (MessageStart, "message_start", "message"),
    (MessageUpdate, "message_update", "message stream_event"),
    (MessageEnd, "message_end", "message"),
    (ToolExecutionStart, "tool_execution_start", "tool_call_id tool_name arguments display_hint"),
    (
        ToolExecutionUpdate,
        "tool_execution_update",
        "tool_call_id tool_name arguments display_hint partial_result status_message",
    ),
    (ToolExecutionEnd, "tool_execution_end", "tool_call_id tool_name result is_error display_hint"),
    (StreamRetry, "stream_retry", "attempt error_message"),
    (AutoResume, "auto_resume", "attempt error_message"),
    (CandidateDiscarded, "candidate_discarded", "turn"),
    (MaxTurnsReached, "max_turns_reached", "turns"),
    (AgentParked, "agent_parked", "payload"),
    (QueueUpdate, "queue_update", "steering follow_ups"),
]


@pytest.mark.parametrize(("kind", "wire", "fields"), PINNED)
def test_events_have_the_pinned_type_and_positions(kind: Any, wire: str, fields: str) -> None:
    names = fields.split()
    positional = [
        name for name, p in inspect.signature(kind).parameters.items() if p.kind is not p.KEYWORD_ONLY
    ]
    assert positional[: len(names)] == names
    values = [f"value {n}" for n, _ in enumerate(names)]
    event = kind(*values)
    assert [getattr(event, name) for name in names] == values
    assert event.type == kind.type == wire


@pytest.mark.parametrize(("kind", "wire", "fields"), PINNED)
def test_every_event_tells_its_time_and_its_run(kind: Any, wire: str, fields: str) -> None:
    run = RunMetadata("run_1", "run_0", "helper")
    event = kind(*fields.split(), time=12.5, run=run)
    assert (event.time, event.run) == (12.5, run)
    assert (event.run_id, event.parent_run_id, event.agent_name) == ("run_1", "run_0", "helper")
    bare = kind(*fields.split())
    assert bare.time > 0
    assert (bare.run, bare.run_id, bare.parent_run_id, bare.agent_name) == (None, "", "", "")


def test_the_json_of_an_event_names_its_run_and_leaves_out_what_is_empty() -> None:
    run = RunMetadata("run_1")
    assert event_to_json(AgentStart(time=1.0, run=run)) == {
        "type": "agent_start",
        "time": 1.0,
        "run_id": "run_1",
    }
    child = AgentStart(time=1.0, run=RunMetadata("run_2", "run_1", "child"))
    assert event_to_json(child) == {
        "type": "agent_start",
        "time": 1.0,
        "run_id": "run_2",
        "parent_run_id": "run_1",
        "agent_name": "child",
    }


def own_json(event: Event) -> dict[str, Any]:
    return {
        key: value for key, value in event_to_json(event).items() if key not in ("type", "time", "run_id")
    }


USER = {"role": "user", "content": "hi", "timestamp": 1}
RESULT_MESSAGE = {
    "role": "toolResult",
    "toolCallId": "c",
    "toolName": "t",
    "content": [{"type": "text", "text": "ok"}],
    "isError": False,
    "timestamp": 2,
}


def test_the_json_of_each_event() -> None:
    user, result = UserMessage("hi", 1), ToolResultMessage("c", "t", "ok", timestamp=2)
    hint = ToolDisplayHint((TitleArg("path", "path", "file"), TitleArg("n")), 0, True)
    shown_hint = {
        "title_args": [{"name": "path", "style": "path", "label": "file"}, {"name": "n"}],
        "result_max_lines": 10,
        "use_box": True,
    }
    call = {"tool_call_id": "c", "tool_name": "t"}
    call_block = {"type": "toolCall", "id": "c", "name": "t", "arguments": {"a": 1}}
    partial = ToolResult("half", status_message="working")
    nothing = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
    usage = {**nothing, "input": 3, "totalTokens": 3, "cost": {**nothing, "total": 0}}
    log: list[Any] = [TextDelta(0, "x")]
    expected: list[tuple[Event, dict[str, Any]]] = [
        (AgentEnd((user,), "end_turn"), {"messages": [USER], "stop": "end_turn"}),
        (AgentEnd((), "error", "boom"), {"messages": [], "stop": "error", "error": "boom"}),
        (
            AgentEnd((), "paused", "", (ToolCall("c", "t", {"a": 1}),)),
            {"messages": [], "stop": "paused", "pending_calls": [call_block]},
        ),
        (TurnStart(), {}),
        (
            TurnEnd(user, (result,), Usage(3)),
            {"message": USER, "tool_results": [RESULT_MESSAGE], "usage": usage},
        ),
        (TurnEnd(None, (), Usage(3)), {"message": None, "tool_results": [], "usage": usage}),
        (MessageStart(user), {"message": USER}),
        (MessageStart(PartialMessage(log, 0)), {"message": {"role": "assistant", "content": []}}),
        (MessageEnd(user), {"message": USER}),
        (
            MessageUpdate(PartialMessage(log, 1), log[0]),
            {"stream_event": {"type": "text_delta", "contentIndex": 0, "delta": "x"}},
        ),
        (ToolExecutionStart("c", "t", {"a": 1}), {**call, "arguments": {"a": 1}}),
        (ToolExecutionStart("c", "t", {}, hint), {**call, "display_hint": shown_hint, "arguments": {}}),
        (
            ToolExecutionUpdate("c", "t", {"a": 1}, None, partial, "working"),
            {
                **call,
                "arguments": {"a": 1},
                "partial_result": {"content": [{"type": "text", "text": "half"}], "isError": False},
                "status_message": "working",
            },
        ),
        (
            ToolExecutionEnd("c", "t", ToolResult("ok", {"d": 1}, {"h": "x"}, True, True), True),
            {
                **call,
                "result": {
                    "content": [{"type": "text", "text": "ok"}],
                    "details": {"d": 1},
                    "meta": {"h": "x"},
                    "isError": True,
                    "terminate": True,
                },
                "is_error": True,
            },
        ),
        (StreamRetry(1, "x"), {"attempt": 1, "error_message": "x"}),
        (AutoResume(2, "y"), {"attempt": 2, "error_message": "y"}),
        (CandidateDiscarded(3), {"turn": 3}),
        (MaxTurnsReached(4), {"turns": 4}),
        (AgentParked({"a": object}), {"payload": {"a": str(object)}}),
        (QueueUpdate([user], []), {"steering": [USER], "follow_ups": []}),
    ]
    for event, data in expected:
        assert own_json(event) == data, event.type
        assert json.loads(json.dumps(event_to_json(event))) == event_to_json(event)


def test_a_whole_run_can_be_written_as_json_lines() -> None:
    def report(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        context.update("working")
        return ToolResult("done", details={"path": Path("/tmp/x"), ("a", 1): {1, 2}, "self": report})

    model = ScriptedModel(
        ["let me see", tool_call("report", {"n": 12345678901234567890})],
        [tool_call("missing", {})],
        error("connection reset by peer"),
        "fine",
    )
    seen: list[Event] = []
    slow = AgentTool("report", "Reports.", {"type": "object"}, report)
    with Agent(model.model, stream_fn=model.stream, tools=[slow], name="writer") as agent:
        agent.subscribe(seen.append)
        agent.run("go")
    lines = [json.loads(json.dumps(event_to_json(event), allow_nan=False)) for event in seen]
    assert [line["type"] for line in lines] == [event.type for event in seen]
    assert {line["run_id"] for line in lines} == {seen[0].run_id}
    assert {line["agent_name"] for line in lines} == {"writer"}
    assert {"tool_execution_update", "tool_execution_end", "message_update", "turn_end"} <= {
        e.type for e in seen
    }
    details = next(line["result"]["details"] for line in lines if line["type"] == "tool_execution_end")
    assert details["path"] == "/tmp/x"


def test_the_json_of_a_run_grows_with_its_length() -> None:
    """Not with the square of it: each update holds its delta and not the text so far."""

    def written(deltas: int) -> int:
        def stream(model: Any, context: Any, options: Any) -> Any:
            yield StreamStart()
            yield from (TextDelta(0, "word ") for _ in range(deltas))
            yield StreamDone()

        total = 0

        def count(event: Event) -> None:
            nonlocal total
            if event.type == "message_update":
                total += len(json.dumps(event_to_json(event)))

        with Agent(ScriptedModel().model, stream_fn=stream) as agent:
            agent.subscribe(count)
            agent.run("go")
        return total

    # The time has a few digits more or less.
    assert written(2000) == pytest.approx(10 * written(200), rel=0.05)


def test_kept_events_still_show_the_state_at_their_emission() -> None:
    model = ScriptedModel(["one two three", tool_call("missing", {"path": "a/b/c/d/e/f/g"})], "four")
    seen: list[Event] = []
    at_once: list[tuple[str, Any]] = []

    def keep(event: Event) -> None:
        seen.append(event)
        if isinstance(event, MessageUpdate):
            at_once.append((event.message.text, event.message.tool_calls))

    with Agent(model.model, stream_fn=model.stream) as agent:
        agent.subscribe(seen.append)
        agent.run("go")
    model = ScriptedModel(["one two three", tool_call("missing", {"path": "a/b/c/d/e/f/g"})], "four")
    later = list(seen)
    with Agent(model.model, stream_fn=model.stream) as agent:
        agent.subscribe(keep)
        agent.run("go")
    kept = [(e.message.text, e.message.tool_calls) for e in later if isinstance(e, MessageUpdate)]
    assert kept == at_once
    assert kept[1][0] == "one "


def test_changing_the_json_changes_no_event() -> None:
    call = ToolCall("c", "t", {"list": [1]})
    message = AssistantMessage([call], timestamp=0)
    details = {"list": [1]}
    events: list[Event] = [
        MessageEnd(message),
        ToolExecutionStart("c", "t", call.arguments),
        ToolExecutionEnd("c", "t", ToolResult("", details), False),
        MessageUpdate(PartialMessage([], 0), ToolCallEnd(0, call.arguments)),
        MessageEnd(CustomMessage("note", details)),
    ]
    for event in events:
        stack: list[Any] = [event_to_json(event)]
        while stack:
            item = stack.pop()
            if isinstance(item, dict):
                stack.extend(item.values())
                item["spoiled"] = True
            elif isinstance(item, list):
                stack.extend(item)
                item.append("spoiled")
    assert call.arguments == details == {"list": [1]}


def test_content_of_a_message_is_not_lost_on_the_way() -> None:
    message = AssistantMessage(
        [TextContent("x", "sig"), ToolCall("c", "t", {"a": {"b": [1, None]}})], timestamp=0
    )
    data = event_to_json(MessageEnd(message))["message"]
    assert data["content"] == [
        {"type": "text", "text": "x", "textSignature": "sig"},
        {"type": "toolCall", "id": "c", "name": "t", "arguments": {"a": {"b": [1, None]}}},
    ]
