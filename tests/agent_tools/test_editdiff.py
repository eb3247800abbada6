"""editdiff: what an edit would do, and no change."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from agent_tools.edit import edit_tool
from agent_tools.editdiff import editdiff_tool
from agent_tools.tool import Context


@pytest.fixture
def editdiff(tmp_path: Path) -> Any:
    (tmp_path / "f").write_text("l1\nl2\nl3\nl4\n")
    return editdiff_tool(tmp_path)


def test_the_diff_is_shown_and_nothing_written(tmp_path: Path, editdiff: Any) -> None:
    before = (tmp_path / "f").stat()
    result = editdiff(path="f", oldText="l3", newText="X")
    assert result.text == " 1 l1\n 2 l2\n-3 l3\n+3 X\n 4 l4"
    assert result.details == {"diff": result.text, "firstChangedLine": 3}
    after = (tmp_path / "f").stat()
    assert (before.st_mtime_ns, before.st_ino) == (after.st_mtime_ns, after.st_ino)


def test_the_diff_is_the_one_that_the_edit_reports(tmp_path: Path, editdiff: Any) -> None:
    arguments: dict[str, Any] = {
        "path": "f",
        "edits": [{"oldText": "l1", "newText": "a\nb"}, {"oldText": "l4", "newText": ""}],
    }
    shown = editdiff.execute(arguments).details["diff"]
    assert edit_tool(tmp_path).execute(arguments).details["diff"] == shown


def test_a_large_diff_is_cut_for_the_model_and_whole_in_the_details(tmp_path: Path, editdiff: Any) -> None:
    """E27"""
    result = editdiff(path="f", oldText="l3", newText="\n".join(f"a longer line {n}" for n in range(5000)))
    assert len(result.text.encode()) <= 51200
    assert "of 5004" in result.text
    assert "+5000 -1 lines" in result.text
    assert result.details["diff"].count("\n") == 5003
    assert result.details["truncation"]["truncated"]


def test_a_row_too_long_to_show_is_cut_for_the_model_only(tmp_path: Path, editdiff: Any) -> None:
    result = editdiff(path="f", oldText="l3", newText="x" * 100_000)
    assert "+3 xxx" in result.text
    assert " 4 l4" in result.text
    assert len(result.text) < 5000
    assert "x" * 100_000 in result.details["diff"]


def test_a_final_newline_that_comes_or_goes_is_named(tmp_path: Path, editdiff: Any) -> None:
    """E25"""
    result = editdiff(path="f", oldText="l4\n", newText="l4")
    assert [row for row in result.text.split("\n") if row[0] != " "] == [
        "-4 l4",
        "+4 l4",
        "\\ No newline at end of file",
    ]


@pytest.mark.parametrize(
    ("old", "expected"), [("none", "Could not find"), ("l", "occurrences"), ("", "empty")]
)
def test_an_edit_that_would_fail_fails_here_too(editdiff: Any, old: str, expected: str) -> None:
    result = editdiff(path="f", oldText=old, newText="x")
    assert result.is_error
    assert expected in result.text


def test_a_cancelled_call_shows_nothing(editdiff: Any) -> None:
    stop = threading.Event()
    stop.set()
    assert editdiff.execute({"path": "f", "oldText": "l1", "newText": "x"}, Context(cancel=stop)).is_error


def test_it_takes_the_arguments_of_edit_and_may_run_beside_others(editdiff: Any) -> None:
    assert editdiff.parameters == edit_tool().parameters
    assert editdiff.parallel
