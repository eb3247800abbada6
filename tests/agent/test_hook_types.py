"""The arguments and the return values of hooks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.tools import raw_tool

from agent.errors import ConfigurationError
from agent.hook_types import KEEP, Candidate, RequestUpdate, RunInfo, ToolCallInfo, ToolDecision, ToolOverride
from agent.messages import TextContent
from agent.tools import ToolResult, ToolSet


def test_a_decision_holds_its_action_reason_and_arguments() -> None:
    assert ToolDecision.allow() == ToolDecision("allow", "", None)
    assert ToolDecision.allow({"a": 1}).updated_input == {"a": 1}
    assert ToolDecision.deny("no", {"a": 1}) == ToolDecision("deny", "no", {"a": 1})
    assert ToolDecision.deny().reason == ""
    assert ToolDecision.pause({"a": 1}) == ToolDecision("pause", "", {"a": 1})


def test_an_override_changes_what_is_given_and_keeps_the_rest() -> None:
    result = ToolResult("x", {"d": 1}, {"h": "1"}, False, False)
    assert ToolOverride().apply(result) == result
    assert ToolOverride("y").apply(result) == ToolResult("y", {"d": 1}, {"h": "1"})
    assert ToolOverride(content=[TextContent("z")]).apply(result).text == "z"
    assert ToolOverride(is_error=True, terminate=True).apply(result) == ToolResult(
        "x", {"d": 1}, {"h": "1"}, True, True
    )
    assert ToolOverride(content="").apply(result).text == ""
    assert ToolOverride(is_error=False).apply(replace(result, is_error=True)).is_error is False


def test_of_two_overrides_the_later_wins_and_omitted_parts_are_kept() -> None:
    first, later = ToolOverride("a", is_error=True), ToolOverride("b")
    assert first.then(later) == ToolOverride("b", is_error=True)
    assert later.then(first) == ToolOverride("a", is_error=True)
    assert first.then(ToolOverride()) == ToolOverride().then(first) == first
    assert first.then(ToolOverride(is_error=False)).is_error is False
    assert ToolOverride().then(ToolOverride()).content is KEEP


@pytest.mark.parametrize("later", [True, False, KEEP])
def test_a_request_to_terminate_survives_a_later_override(later: Any) -> None:
    assert ToolOverride(terminate=True).then(ToolOverride(terminate=later)).terminate is True
    assert ToolOverride(terminate=False).then(ToolOverride(terminate=True)).terminate is True


def test_a_rejected_answer_is_requested_again_with_an_empty_constraint_unless_one_is_given() -> None:
    assert Candidate.retry().request == RequestUpdate()
    constraint = RequestUpdate(tool_choice="none")
    assert Candidate.retry(constraint) == Candidate("retry", None, constraint)
    assert Candidate.abort("no") == Candidate("abort", "no")
    assert Candidate.accept() == Candidate("accept")


def test_each_hook_argument_has_a_cancel_token_of_its_own() -> None:
    first, second = ToolCallInfo("c", "n", {}), ToolCallInfo("c", "n", {})
    assert first.cancel is not second.cancel
    assert RunInfo().cancel is not RunInfo().cancel


@pytest.mark.parametrize("choice", [None, "", "auto", "none", "required", "read"])
def test_a_request_update_that_fits_the_tools_is_accepted(choice: str | None) -> None:
    checked = RequestUpdate(tool_choice=choice, system_suffix="s").checked(ToolSet([raw_tool("read")]))
    assert checked == RequestUpdate(None, choice, "s")


def test_the_tools_of_a_request_update_become_a_set() -> None:
    checked = RequestUpdate(tools=[raw_tool("b"), raw_tool("a")]).checked(ToolSet([raw_tool("read")]))
    assert isinstance(checked.tools, ToolSet)
    assert checked.tools.names() == ["b", "a"]


@pytest.mark.parametrize(
    ("update", "error"),
    [
        (RequestUpdate(tools=[], tool_choice="required"), "'required' needs a tool"),
        (RequestUpdate(tool_choice="write"), "'write' is neither .* available: read"),
        (RequestUpdate(tools=[], tool_choice="read"), "available: none"),
        (RequestUpdate(tools=[raw_tool("a")], tool_choice="read"), "available: a"),
        (RequestUpdate(tools=[raw_tool("a"), raw_tool("a")]), "a"),
    ],
)
def test_a_request_update_that_does_not_fit_the_tools_is_a_configuration_error(
    update: RequestUpdate, error: str
) -> None:
    with pytest.raises(ConfigurationError, match=error):
        update.checked(ToolSet([raw_tool("read")]))
