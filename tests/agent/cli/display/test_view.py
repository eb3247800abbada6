"""The view of a run: parts to print once, and parts to redraw."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from agent.cli.display.view import RunView, prompt_text
from agent.events import (
    AgentEnd,
    AgentStart,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from agent.messages import TextContent, UserMessage
from agent.stream import PartialMessage, TextDelta, ThinkingDelta, ToolCallStart
from agent.tools import ToolResult


class _Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def _delta(delta: Any) -> MessageUpdate:
    return MessageUpdate(PartialMessage([], 0), delta)


def _started(**options: Any) -> tuple[RunView, _Clock]:
    clock = _Clock()
    view = RunView(clock=clock, **options)
    view.feed(AgentStart())
    view.feed(MessageStart(PartialMessage([], 0)))
    return view, clock


def _activity(view: RunView) -> str:
    return view.status().plain.split(" ", 1)[1].partition(" ·")[0]


def test_the_status_names_what_happens() -> None:
    view, clock = _started()
    assert _activity(view) == "waiting for the model"
    view.retry(1, 2.0, "503")
    assert _activity(view) == "trying again in 2.0s"
    view.feed(_delta(ThinkingDelta(0, "hm")))
    assert _activity(view) == "thinking"
    view.feed(_delta(TextDelta(1, "an answer")))
    assert _activity(view) == "answering"
    view.feed(_delta(ToolCallStart(2, "c1", "bash")))
    assert _activity(view) == "preparing bash"
    view.feed(ToolExecutionStart("c1", "bash", {}, label="Run a command"))
    assert _activity(view) == "running Run a command"
    clock.now += 75
    assert view.status().plain.endswith("1m 15s")


def test_a_running_call_shows_its_progress_until_it_ends() -> None:
    view, _ = _started()
    view.feed(ToolExecutionStart("c1", "t", {}))
    view.feed(ToolExecutionUpdate("c1", "t", {}, None, ToolResult([TextContent("half")])))
    assert len(view.live()) == 1
    assert len(view.feed(ToolExecutionEnd("c1", "t", ToolResult([]), False))) == 1
    assert view.live() == []


def test_the_last_line_says_how_the_run_stopped() -> None:
    for stop, words in (
        ("end_turn", "0 turns"),
        ("aborted", "aborted"),
        ("truncated", "cut off at the output limit"),
    ):
        view, _ = _started()
        last = view.feed(AgentEnd((), stop))[-1]
        assert isinstance(last, Text)
        assert last.plain.startswith(words)


def test_a_long_prompt_is_cut_with_a_notice() -> None:
    lines = prompt_text("\n".join(str(number) for number in range(50)), "(steering)").plain.splitlines()
    assert lines[0] == "❯ 0"
    assert lines[-1] == "  ... 30 more lines  (steering)"


def test_a_message_that_describe_hides_is_not_shown() -> None:
    view, _ = _started(prompts=True, describe=lambda message: None)
    assert view.feed(MessageStart(UserMessage("hidden"))) == []


def test_the_status_tells_of_a_long_silence() -> None:
    """N37"""
    view, clock = _started()
    clock.now += 19
    assert _activity(view) == "waiting for the model"
    clock.now += 4
    assert _activity(view) == "waiting for the model, no data for 23s"
    view.feed(_delta(TextDelta(0, "an answer")))
    assert _activity(view) == "answering"
    view.retry(1, 30.0, "503")
    clock.now += 29
    assert _activity(view) == "trying again in 30s"
    clock.now += 22
    assert _activity(view) == "answering, no data for 21s"


def test_a_command_that_is_silent_is_no_silence_of_the_model() -> None:
    """N37"""
    view, clock = _started()
    view.feed(ToolExecutionStart("c1", "bash", {}))
    clock.now += 60
    assert _activity(view) == "running bash"
