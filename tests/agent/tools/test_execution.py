"""Tools of every kind in the runs of an agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.tools import ForeignTool, raw_tool

from agent import Agent
from agent.messages import TextContent, ToolResultMessage
from agent.stream import StreamDone, StreamStart, ToolCallDelta, ToolCallEnd, ToolCallStart
from agent.testing import ScriptedModel, tool_call
from agent.tools import (
    AgentTool,
    ToolSet,
    tool,
)
from agent_tools import all_tools

# -- tools in an agent ------------------------------------------------------------------------------------

# Small real work for every tool of the toolbox.
CALLS: dict[str, dict[str, Any]] = {
    "read": {"path": "a.txt"},
    "write": {"path": "new.txt", "content": "hello\n"},
    "edit": {"path": "a.txt", "oldText": "one", "newText": "two"},
    "editdiff": {"path": "a.txt", "oldText": "two", "newText": "one"},
    "bash": {"command": "echo hi"},
    "grep": {"pattern": "two"},
    "find": {"pattern": "*.txt"},
    "ls": {},
    "imageresize": {"path": "absent.png"},
    "plan": {"entries": [{"content": "do it"}]},
}


def test_every_tool_of_the_toolbox_runs_through_an_agent(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    tools = ToolSet(all_tools(tmp_path))
    assert sorted(tools.names()) == sorted(CALLS)
    model = ScriptedModel(*([tool_call(name, arguments)] for name, arguments in CALLS.items()), "done")
    with Agent(model.model, stream_fn=model.stream, tools=tools) as agent:
        result = agent.run("go")
    model.assert_finished()
    assert result.stop == "end_turn"
    answers = {m.tool_name: m for m in result.messages if m.role == "toolResult"}
    assert set(answers) == set(CALLS)
    failed = {name: answer.text for name, answer in answers.items() if answer.is_error}
    assert set(failed) == {"imageresize"}
    assert (tmp_path / "a.txt").read_text() == "two\n"
    assert (tmp_path / "new.txt").read_text() == "hello\n"
    assert "hi" in answers["bash"].text
    assert all(isinstance(block, TextContent) for answer in answers.values() for block in answer.content)


def test_a_broken_call_to_any_tool_of_the_toolbox_is_an_error_result(tmp_path: Path) -> None:
    names = [name for name in CALLS if name != "ls"]
    model = ScriptedModel(*([tool_call(name, {"path": 5, "unknown": []})] for name in names), "done")
    with Agent(model.model, stream_fn=model.stream, tools=all_tools(tmp_path)) as agent:
        result = agent.run("go")
    answers = [m for m in result.messages if m.role == "toolResult"]
    assert [answer.tool_name for answer in answers] == names
    assert all(answer.is_error and answer.text for answer in answers)


def test_functions_foreign_tools_and_raw_tools_run_through_an_agent() -> None:
    @tool
    def add(a: int, b: int) -> int:
        return a + b

    def raw(arguments: dict[str, Any], context: Any) -> list[Any]:
        return [TextContent("raw "), TextContent(str(arguments["n"]))]

    model = ScriptedModel(
        [
            tool_call("add", {"a": "1", "b": 2}),
            tool_call("foreign", {}),
            tool_call("raw", {"n": 7}),
            tool_call("add", {}),
        ],
        "done",
    )
    tools = [add, ForeignTool(), raw_tool("raw", execute=raw)]
    with Agent(model.model, stream_fn=model.stream, tools=tools) as agent:
        result = agent.run("go")
    answers = [(m.text, m.is_error) for m in result.messages if m.role == "toolResult"]
    assert answers == [
        ("3", False),
        ("hello", False),
        ("raw 7", False),
        ("invalid arguments for add: a is required; b is required", True),
    ]


def test_an_integer_beyond_two_to_the_53_reaches_the_tool_and_the_next_request() -> None:
    """J10: every digit, in the tool and on replay."""
    seen: list[int] = []

    @tool
    def look(id: int) -> str:
        seen.append(id)
        return str(id)

    model = ScriptedModel([tool_call("look", {"id": 12345678901234567890})], "done")
    with Agent(model.model, stream_fn=model.stream, tools=[look]) as agent:
        agent.run("go")
    assert seen == [12345678901234567890]
    replayed = [m for m in model.contexts[1].messages if m.role == "assistant"]
    assert replayed[0].tool_calls[0].arguments == {"id": 12345678901234567890}


def answer_to(arguments: str, *tools: Any, name: str = "echo") -> ToolResultMessage:
    """What a call with that text of arguments, in deltas of three characters, is answered."""
    deltas = [ToolCallDelta(0, arguments[i : i + 3]) for i in range(0, len(arguments), 3)]
    call = [StreamStart(), ToolCallStart(0, "c1", name), *deltas, ToolCallEnd(0), StreamDone("toolUse")]
    model = ScriptedModel(call, "done")
    with Agent(model.model, stream_fn=model.stream, tools=tools) as agent:
        result = agent.run("go")
    model.assert_finished()
    assert result.stop == "end_turn"
    (answer,) = [m for m in result.messages if isinstance(m, ToolResultMessage)]
    return answer


def echo_tool(seen: list[Any]) -> AgentTool:
    def execute(arguments: dict[str, Any], context: Any) -> str:
        seen.append(arguments)
        return "ok"

    return raw_tool("echo", execute=execute)


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", {}),
        ("null", {}),
        ('{"path":"f","content":"l1\nl2\tx"}', {"path": "f", "content": "l1\nl2\tx"}),
        (json.dumps('{"path":"f","content":"l1\nl2\tx"}'), {"path": "f", "content": "l1\nl2\tx"}),
    ],
)
def test_odd_texts_of_arguments_still_reach_the_tool(text: str, arguments: dict[str, Any]) -> None:
    """J02: empty; J07: raw control characters; E23: the object encoded once more."""
    seen: list[Any] = []
    answer = answer_to(text, echo_tool(seen))
    assert (answer.text, answer.is_error) == ("ok", False)
    assert seen == [arguments]


@pytest.mark.parametrize("text", ["[1,2]", '"s"', "42", "true"])
def test_arguments_that_are_no_object_are_answered_with_what_was_expected(text: str) -> None:
    """J09: the tool does not run, the result says that an object was expected."""
    seen: list[Any] = []
    answer = answer_to(text, echo_tool(seen))
    assert answer.is_error
    assert "object" in answer.text
    assert seen == []


def test_an_edit_whose_arguments_came_as_a_string_is_made(tmp_path: Path) -> None:
    """E23: with a real line feed and tab inside the inner string."""
    (tmp_path / "f").write_text("a")
    text = json.dumps('{"path":"f","oldText":"a","newText":"l1\nl\t2"}')
    answer = answer_to(text, *all_tools(tmp_path), name="edit")
    assert not answer.is_error
    assert (tmp_path / "f").read_text() == "l1\nl\t2"
