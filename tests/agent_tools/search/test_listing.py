"""What grep, find and ls share: excluded files, displayed names, notices and the time limit."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from agent_tools import coding_tools
from agent_tools.search.listing import Notices, SearchGuard, shown_name
from agent_tools.tool import Result, Tool, ToolFailure


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("src/app.py", "src/.env", ".ssh/id_rsa", ".ssh/config", "readme"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"KEY of {name}\n")
    return tmp_path


def _exclude(real: str) -> bool:
    return real.endswith(("/.env", "/.ssh/"))


def _tool(root: Path, name: str, **options: Any) -> Tool[Any]:
    return next(tool for tool in coding_tools(root, exclude=_exclude, **options) if tool.name == name)


def _search(root: Path, tool: str, **arguments: Any) -> Result:
    given = {} if tool == "ls" else {"pattern": "KEY" if tool == "grep" else "*"}
    return _tool(root, tool).run(**{**given, **arguments})


@pytest.mark.parametrize("confine", [False, True])
@pytest.mark.parametrize("tool", ["grep", "find"])
def test_excluded_files_and_folders_are_left_out_and_counted(tool: str, confine: bool, root: Path) -> None:
    result = _tool(root, tool, confine=confine).run(pattern="KEY" if tool == "grep" else "*")

    assert "src/app.py" in result.text
    assert ".env" not in result.text
    assert "id_rsa" not in result.text
    assert "[1 file and 1 folder left out by rules]" in result.text
    assert result.details["excluded"] == 2


def test_ls_leaves_out_what_is_excluded(root: Path) -> None:
    assert _search(root, "ls").text == "readme\nsrc/\n\n[1 folder left out by rules]"
    assert _search(root, "ls", path="src").text == "app.py\n\n[1 file left out by rules]"


@pytest.mark.parametrize("tool", ["grep", "find", "ls"])
@pytest.mark.parametrize("path", [".ssh", ".ssh/", "link", "src/../.ssh", "link/../.ssh"])
def test_a_search_that_starts_in_an_excluded_folder_is_refused(tool: str, path: str, root: Path) -> None:
    (root / "link").symlink_to(".ssh")

    result = _search(root, tool, path=path)

    assert result.is_error
    assert "left out by rules" in result.text
    assert "KEY" not in result.text


@pytest.mark.parametrize("path", [".ssh/config", "src/.env", "link"])
def test_grep_in_an_excluded_file_is_refused(path: str, root: Path) -> None:
    (root / "link").symlink_to(".ssh/config")

    assert "left out by rules" in _search(root, "grep", path=path).text


@pytest.mark.parametrize("tool", ["grep", "find"])
def test_a_search_that_finds_nothing_says_what_was_left_out(tool: str, root: Path) -> None:
    result = _search(root, tool, pattern=".env")

    assert result.text.startswith("No ")
    assert "1 file and 1 folder left out by rules" in result.text


def test_the_glob_of_grep_does_not_bring_an_excluded_file_back(root: Path) -> None:
    assert "KEY" not in _search(root, "grep", glob=".env").text


def test_a_folder_that_only_links_lead_to_is_judged_by_its_real_path(root: Path) -> None:
    (root / "sub").mkdir()
    (root / "sub" / "link").symlink_to(root / "src")

    result = _search(root, "grep", path="sub/link")

    assert result.text == "app.py:1: KEY of src/app.py\n\n[1 file left out by rules]"
    assert os.path.islink(root / "sub" / "link")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("plain.txt", "plain.txt"),
        ("a\nb", "a\\nb"),
        ("tab\there", "tab\\there"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\udcff", "\\xff"),
        ("line\u2028end", "line\\u2028end"),
        ("\u2713", "\u2713"),
    ],
)
def test_a_name_is_one_line(name: str, shown: str) -> None:
    assert shown_name(name) == shown


def test_notices_are_text_and_data() -> None:
    notices = Notices()
    notices.add_limit(5, "matches", matchLimitReached=5)
    notices.add_excluded(1, 2)
    notices.add_unreadable(["a", "b"])

    result = notices.result(["row"])

    assert result.text == (
        "row\n\n[5 matches limit reached. Use limit=10 for more, or narrow the request. "
        "1 file and 2 folders left out by rules. Could not read 2: a, b]"
    )
    assert result.details == {"matchLimitReached": 5, "excluded": 3, "unreadable": 2}


def test_the_guard_ends_a_search_that_was_cancelled_or_takes_too_long() -> None:
    cancel = threading.Event()
    SearchGuard(cancel, 60, "find")()
    with pytest.raises(ToolFailure, match="find timed out after 0 seconds"):
        SearchGuard(cancel, 0, "find")()
    cancel.set()
    with pytest.raises(ToolFailure, match="find was aborted"):
        SearchGuard(cancel, 60, "find")()
