"""The definition of a tool, its display hint and the context of a call."""

from __future__ import annotations

import copy
import inspect
from dataclasses import replace
from typing import Any

import pytest
from support.tools import ForeignTool, raw_tool

from agent.tools import AgentTool, TitleArg, ToolContext, ToolDisplayHint, ToolLike, ToolResult
from agent.usage import Usage


def test_the_positions_of_the_arguments_are_the_pinned_ones() -> None:
    pinned = {
        AgentTool: "name description parameters execute label display_hint parallel timeout read_only",
        ToolResult: "content details meta is_error terminate status_message",
        ToolDisplayHint: "title_args result_max_lines use_box",
        TitleArg: "name style label",
    }
    for kind, names in pinned.items():
        assert list(inspect.signature(kind).parameters) == names.split()
    assert ToolDisplayHint() == ToolDisplayHint((), 10, False)
    assert ToolDisplayHint([TitleArg("a")]).title_args == (TitleArg("a"),)  # type: ignore[arg-type]
    result = ToolResult("x", {"d": 1}, {"h": "1"}, True, True, "s")
    assert (result.text, result.details, result.meta) == ("x", {"d": 1}, {"h": "1"})
    assert (result.is_error, result.terminate, result.status_message) == (True, True, "s")


def test_tools_and_results_are_values() -> None:
    result = ToolResult("x", details={"a": 1}, meta={"b": "c"})
    assert result == copy.deepcopy(result)
    assert len({result, copy.deepcopy(result)}) == 1
    made = raw_tool("a")
    assert len({made, replace(made), replace(made, name="b")}) == 2
    with pytest.raises(AttributeError):
        result.is_error = True  # type: ignore[misc]
    assert replace(result, is_error=True).details == {"a": 1}


def test_a_context_without_a_callback_drops_updates_and_one_with_it_passes_results() -> None:
    ToolContext().update("dropped")
    updates: list[ToolResult] = []
    context = ToolContext("c", on_update=updates.append)
    context.update("half")
    context.update(ToolResult("more", status_message="50 %"))
    assert updates == [ToolResult("half"), ToolResult("more", status_message="50 %")]
    assert not context.cancel.is_set()
    assert not context.cancel.wait(0)


def test_usage_that_a_tool_adds_reaches_the_callback_and_anything_else_is_a_type_error() -> None:
    ToolContext().add_usage(Usage(input=1))
    added: list[Usage] = []
    context = ToolContext(on_usage=added.append)
    context.add_usage(Usage(input=1, output=2))
    foreign: Any
    for foreign in (None, {"input": 1}, 3):
        with pytest.raises(TypeError, match=r"add_usage takes an agent\.Usage"):
            context.add_usage(foreign)
    assert added == [Usage(input=1, output=2)]


def test_tools_of_any_class_with_the_four_attributes_are_tool_like() -> None:
    assert isinstance(raw_tool("a"), ToolLike)
    assert isinstance(ForeignTool(), ToolLike)
    assert not isinstance(ToolResult("x"), ToolLike)
