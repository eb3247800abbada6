"""A run as plain lines."""

from __future__ import annotations

import io
from typing import Any

import pytest

from agent import Agent, tool
from agent.cli.display.plain import PlainRenderer
from agent.errors import ToolError
from agent.events import ToolExecutionEnd, ToolExecutionStart
from agent.messages import ImageContent, TextContent
from agent.testing import ScriptedModel, error, tool_call
from agent.tools import ToolResult


def _shown(*turns: Any, tools: Any = (), quiet: bool = False) -> tuple[list[str], list[str]]:
    """The lines on standard output and on standard error."""
    out, err = io.StringIO(), io.StringIO()
    model = ScriptedModel(*turns)
    with Agent(model.model, stream_fn=model.stream, tools=tools) as agent:
        agent.subscribe(PlainRenderer(out, quiet=quiet, err=err, on_closed=agent.abort))
        agent.prompt("do it").wait()
    return out.getvalue().splitlines(), err.getvalue().splitlines()


@tool
def fails() -> str:
    """Fail."""
    raise ToolError("\n".join(f"line {number}" for number in range(20)))


@tool
def draw() -> list[Any]:
    """Draw."""
    return [TextContent("a picture"), ImageContent("QUJD", "image/png")]


def test_text_and_calls_stand_on_lines_of_their_own() -> None:
    out, _ = _shown(["I draw.", tool_call("draw")], "Done.", tools=[draw])
    assert out == ["I draw.", "[draw]", "  | a picture", "  | (image/png image)", "Done."]


def test_the_end_of_an_error_is_shown() -> None:
    out, _ = _shown([tool_call("fails")], "Done.", tools=[fails])
    assert out[:3] == ["[fails]", "  ! ... 10 more lines", "  ! line 10"]


def test_quiet_shows_the_answers_only() -> None:
    assert _shown(["I draw.", tool_call("draw")], "Done.", tools=[draw], quiet=True)[0] == [
        "I draw.",
        "Done.",
    ]


def test_a_resumed_stream_is_reported_on_standard_error() -> None:
    out, err = _shown(["Half an", error("connection reset by peer")], " answer.")
    assert out == ["Half an", " answer."]
    assert err == ["[connection reset by peer; trying again]"]


@pytest.mark.parametrize("quiet", [False, True])
def test_a_retry_is_reported_unless_quiet(quiet: bool) -> None:
    err = io.StringIO()
    renderer = PlainRenderer(io.StringIO(), quiet=quiet, err=err, on_closed=lambda: None)
    renderer.on_retry(2, 4.0, "429 too\nmany")
    assert err.getvalue() == ("" if quiet else "retry 2 in 4.0s: 429 too many\n")


def test_a_closed_stream_is_reported_once_and_not_written_again() -> None:
    closed: list[bool] = []
    out = io.StringIO()
    out.close()
    model = ScriptedModel("one", "two")
    with Agent(model.model, stream_fn=model.stream) as agent:
        renderer = PlainRenderer(out, on_closed=lambda: closed.append(True))
        agent.subscribe(renderer)
        agent.prompt("a").wait()
        agent.prompt("b").wait()
    assert renderer.closed
    assert closed == [True]


def test_each_result_of_parallel_calls_stands_under_its_own_call() -> None:
    """N24"""
    out = io.StringIO()
    renderer = PlainRenderer(out, on_closed=lambda: None)
    renderer(ToolExecutionStart("c1", "read", {"path": "a.py"}))
    renderer(ToolExecutionStart("c2", "grep", {"pattern": "def"}))
    renderer(ToolExecutionEnd("c1", "read", ToolResult([TextContent("of read")]), False))
    renderer(ToolExecutionEnd("c2", "grep", ToolResult([TextContent("of grep")]), False))
    assert out.getvalue().splitlines() == [
        "[read] path=a.py",
        "[grep] pattern=def",
        "[read] path=a.py",
        "  | of read",
        "[grep] pattern=def",
        "  | of grep",
    ]
