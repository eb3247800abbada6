"""The change that a call of `edit` or `write` would make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.cli.permissions.planned_change import Change, planned_change


def change(tool: str, arguments: dict[str, Any], cwd: Path) -> Change:
    planned = planned_change(tool, arguments, str(cwd))
    assert planned is not None
    return planned


def test_a_write_of_a_new_file_has_no_old_text(tmp_path: Path) -> None:
    planned = change("write", {"path": "new.txt", "content": "one\n"}, tmp_path)
    assert planned == Change(str(tmp_path / "new.txt"), None, "one\n")
    assert "one" in planned.diff
    assert not (tmp_path / "new.txt").exists()


def test_a_write_over_a_file_shows_both_texts_and_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old\n")
    planned = change("write", {"path": "a.txt", "content": "new\n"}, tmp_path)
    assert (planned.old, planned.new, planned.problem) == ("old\n", "new\n", "")
    assert "old" in planned.diff
    assert "new" in planned.diff
    assert (tmp_path / "a.txt").read_text() == "old\n"


def test_an_edit_shows_the_whole_file_before_and_after(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    arguments = {"path": "a.txt", "oldText": "two", "newText": "2"}
    planned = change("edit", arguments, tmp_path)
    assert (planned.old, planned.new) == ("one\ntwo\nthree\n", "one\n2\nthree\n")
    assert (tmp_path / "a.txt").read_text() == "one\ntwo\nthree\n"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("edit", {"path": "absent.txt", "oldText": "a", "newText": "b"}),
        ("edit", {"path": "a.txt", "oldText": "absent", "newText": "b"}),
        ("edit", {"path": "a.txt"}),
        ("edit", {}),
        ("edit", {"path": "a.txt", "oldText": 3, "newText": []}),
        ("write", {"path": ".", "content": "x"}),
    ],
)
def test_a_call_that_would_fail_has_the_problem_in_place_of_the_diff(
    tool: str, arguments: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    planned = change(tool, arguments, tmp_path)
    assert planned.problem
    assert planned.diff == planned.problem
    assert (planned.old, planned.new) == (None, "")


@pytest.mark.parametrize("is_old", [True, False], ids=["file", "content"])
def test_a_change_of_more_than_two_megabytes_is_not_compared(is_old: bool, tmp_path: Path) -> None:
    large = "x" * 2_000_001
    (tmp_path / "a.txt").write_text(large if is_old else "small")
    planned = change("write", {"path": "a.txt", "content": "small" if is_old else large}, tmp_path)
    assert "too many to show" in planned.diff


@pytest.mark.parametrize("tool", ["read", "bash", "ls", "", "Edit"])
def test_other_tools_plan_no_change(tool: str, tmp_path: Path) -> None:
    assert planned_change(tool, {"path": "a.txt", "content": "x"}, str(tmp_path)) is None
