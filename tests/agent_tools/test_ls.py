"""ls: what one folder holds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from agent_tools.ls import ls_tool


@pytest.fixture
def ls(tmp_path: Path) -> Any:
    return ls_tool(tmp_path)


def test_entries_come_without_regard_to_case_folders_with_a_slash(tmp_path: Path, ls: Any) -> None:
    for name in ("b.txt", "C.txt", ".hidden-file"):
        (tmp_path / name).write_text("")
    for name in (".hidden-dir", "A", ".git", "node_modules"):
        (tmp_path / name).mkdir()
    (tmp_path / ".gitignore").write_text("b.txt\n")
    assert ls().text.split("\n") == [
        *(".git/", ".gitignore", ".hidden-dir/", ".hidden-file", "A/", "b.txt", "C.txt", "node_modules/"),
    ]


def test_links_show_where_they_lead(tmp_path: Path, ls: Any) -> None:
    (tmp_path / "dir").mkdir()
    (tmp_path / "to-dir").symlink_to("dir")
    (tmp_path / "nowhere").symlink_to("missing")
    assert ls().text.split("\n") == ["dir/", "to-dir/"]


def test_an_empty_folder_says_so(tmp_path: Path, ls: Any) -> None:
    assert ls(path=".").text == "(empty directory)"


def test_the_limit_is_reported_only_when_there_is_more(tmp_path: Path, ls: Any) -> None:
    for number in range(5):
        (tmp_path / f"f{number}").write_text("")
    assert ls(limit=5).details is None
    more = ls(limit=2)
    assert more.text.startswith("f0\nf1\n\n[2 entries limit reached")
    assert "limit=4" in more.text
    assert more.details == {"entryLimitReached": 2}


def test_an_answer_keeps_whole_rows_within_its_bytes(tmp_path: Path, ls: Any) -> None:
    for number in range(400):
        (tmp_path / f"{'n' * 200}{number:03}").write_text("")
    result = ls()
    assert "50.0KB limit reached" in result.text
    assert result.details["truncation"]["outputBytes"] <= 51200


def test_what_is_no_folder_is_an_error(tmp_path: Path, ls: Any) -> None:
    (tmp_path / "f").write_text("")
    assert "not a directory" in ls(path="f").text
    assert ls(path="f").is_error
    assert f"path not found: {tmp_path}/nope" in ls(path="nope").text


def test_a_name_with_a_line_feed_is_one_row(tmp_path: Path, ls: Any) -> None:
    (tmp_path / "line\nfeed").write_text("")
    with open(os.fsencode(tmp_path) + b"/bad\xff", "wb"):
        pass
    assert ls().text.split("\n") == [r"bad\xff", r"line\nfeed"]


def test_the_schema_names_the_wire_arguments() -> None:
    tool = ls_tool()
    assert [*tool.parameters["properties"]] == ["path", "limit"]
    assert tool.parameters["required"] == []
    assert tool.parallel
