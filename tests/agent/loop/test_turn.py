"""A finished turn and the ending that follows from it."""

from __future__ import annotations

from typing import Any

import pytest

from agent.loop.tool_scheduler import ToolOutcome
from agent.loop.turn import Turn
from agent.messages import AssistantMessage, TextContent


def answer(stop_reason: Any) -> AssistantMessage:
    return AssistantMessage((TextContent("text"),), "scripted", "scripted", "m", stop_reason=stop_reason)


@pytest.mark.parametrize(
    ("turn", "ending"),
    [
        (Turn(answer("stop")), "end_turn"),
        (Turn(answer("length")), "truncated"),
        (Turn(answer("stop"), is_paused=True), "truncated"),
        (Turn(None), "end_turn"),
        (Turn(None, is_paused=True), "truncated"),
    ],
)
def test_a_turn_with_an_unfinished_text_ends_the_run_as_truncated(turn: Turn, ending: str) -> None:
    assert turn.natural_ending == ending


@pytest.mark.parametrize("ending", ["terminated", "paused", "aborted"])
@pytest.mark.parametrize("is_paused", [False, True])
def test_the_ending_of_the_calls_comes_before_a_truncated_text(ending: Any, is_paused: bool) -> None:
    turn = Turn(answer("length"), ToolOutcome(ending=ending), is_paused=is_paused)
    assert turn.natural_ending == ending
