"""The usual sets: which tools, for which directory, with which options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_tools import all_tools, coding_tools, read_only_tools


def names(tools: list[Any]) -> list[str]:
    return [tool.name for tool in tools]


def test_the_sets_hold_their_tools() -> None:
    assert names(coding_tools()) == ["read", "bash", "edit", "write", "grep", "find", "ls"]
    assert names(read_only_tools(".")) == ["read", "grep", "find", "ls"]
    assert sorted(names(all_tools("."))) == sorted(
        ["read", "bash", "edit", "write", "grep", "find", "ls", "editdiff", "imageresize", "plan"]
    )


def test_every_tool_of_a_set_works_in_its_directory(tmp_path: Path) -> None:
    (tmp_path / "here.txt").write_text("needle\n")
    by_name = {tool.name: tool for tool in all_tools(tmp_path)}
    assert by_name["read"](path="here.txt").text == "needle\n"
    assert "here.txt" in by_name["ls"]().text
    assert "here.txt" in by_name["find"](pattern="*.txt").text
    assert "needle" in by_name["grep"](pattern="needle").text
    assert "here.txt" in by_name["bash"](command="ls").text


def test_an_option_goes_to_the_tools_that_take_it(tmp_path: Path) -> None:
    def reader(context: Any, path: str) -> str:
        return "from the editor"

    by_name = {tool.name: tool for tool in coding_tools(tmp_path, reader=reader, prefix="x=1")}
    assert by_name["read"](path="f").text == "from the editor"
    assert by_name["bash"](command="echo $x").text == "1\n"


def test_an_unknown_option_is_refused_with_the_known_ones() -> None:
    with pytest.raises(TypeError, match=r"unknown option colour; known are .*timeout"):
        coding_tools(".", colour="red")


def test_plans_reach_the_sink(tmp_path: Path) -> None:
    got: list[Any] = []
    arguments = {"entries": [{"content": "look"}]}
    for sink in (lambda *plan: got.append(plan), None):
        by_name = {tool.name: tool for tool in all_tools(tmp_path, plan_sink=sink)}
        assert not by_name["plan"].execute(arguments).is_error
    assert len(got) == 1
