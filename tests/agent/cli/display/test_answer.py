"""A run whose output is piped."""

from __future__ import annotations

import io
from typing import Any

import pytest

from agent import Agent, tool
from agent.cli.display.answer import AnswerRenderer
from agent.testing import ScriptedModel, error, tool_call


@tool
def draw() -> str:
    """Draw."""
    return "a picture"


def _shown(*turns: Any, prompts: int = 1, quiet: bool = False) -> tuple[str, list[str]]:
    """What is on standard output, and the lines on standard error."""
    out, err = io.StringIO(), io.StringIO()
    model = ScriptedModel(*turns)
    with Agent(model.model, stream_fn=model.stream, tools=[draw]) as agent:
        agent.subscribe(AnswerRenderer(out, err, quiet=quiet, on_closed=agent.abort))
        for _ in range(prompts):
            agent.prompt("do it").wait()
    return out.getvalue(), err.getvalue().splitlines()


def test_only_the_last_answer_is_output_and_the_rest_is_the_trace() -> None:
    """N23"""
    assert _shown(["I draw.", tool_call("draw")], "Done.") == (
        "Done.\n",
        ["I draw.", "[draw]", "  | a picture"],
    )


def test_quiet_leaves_the_trace_out() -> None:
    """N23"""
    assert _shown(["I draw.", tool_call("draw")], "Done.", quiet=True) == ("Done.\n", [])


def test_an_answer_in_two_parts_is_whole_again() -> None:
    out, err = _shown(["Half an", error("connection reset by peer")], " answer.")
    assert out == "Half an answer.\n"
    assert err == ["[connection reset by peer; trying again]"]


def test_an_answer_that_was_dropped_is_not_output() -> None:
    out, _ = _shown([" "], "Two")
    assert out == "Two\n"


@pytest.mark.parametrize("quiet", [False, True])
def test_a_failed_run_outputs_nothing(quiet: bool) -> None:
    out, err = _shown(["Half an", error("400 no")], quiet=quiet)
    assert out == ""
    assert err == ([] if quiet else ["Half an"])


def test_control_characters_and_the_final_newline_are_seen_to() -> None:
    assert _shown("a\x1b[2Jb\n")[0] == "a[2Jb\n"


def test_each_run_has_its_answer() -> None:
    assert _shown("One", "Two", prompts=2)[0] == "One\nTwo\n"


def test_a_closed_output_is_reported_once() -> None:
    closed: list[bool] = []
    out = io.StringIO()
    out.close()
    model = ScriptedModel("one")
    with Agent(model.model, stream_fn=model.stream) as agent:
        renderer = AnswerRenderer(out, io.StringIO(), on_closed=lambda: closed.append(True))
        agent.subscribe(renderer)
        agent.prompt("a").wait()
    assert (renderer.closed, closed) == (True, [True])
