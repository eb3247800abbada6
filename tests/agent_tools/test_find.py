"""find: files and folders by name, one contract without any program."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from agent_tools.find import find_tool
from agent_tools.tool import Context, Result


@pytest.fixture
def find(tmp_path: Path) -> Any:
    return find_tool(tmp_path)


def touch(root: Path, *names: str) -> None:
    for name in names:
        path = os.path.join(os.fsencode(root), os.fsencode(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not name.endswith("/"):
            with open(path, "wb"):
                pass


def rows(result: Result) -> list[str]:
    assert not result.is_error, result.text
    return result.text.split("\n\n[")[0].split("\n")


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.ts", ["src/foo/bar/e.spec.ts", "src/top.ts"]),
        ("src/**/*.spec.ts", ["src/foo/bar/e.spec.ts"]),
        ("src/*.ts", ["src/top.ts"]),
        ("foo", ["src/foo/"]),
        ("src/*", ["src/foo/", "src/top.ts"]),
        ("**/*.md", ["2026/07/26.md"]),
        ("2026/07/26.md", ["2026/07/26.md"]),
        ("2026/07/*.md", ["2026/07/26.md"]),
        ("*/", ["2026/", "2026/07/", "src/", "src/foo/", "src/foo/bar/"]),
        ("*.{md,spec.ts}", ["2026/07/26.md", "src/foo/bar/e.spec.ts"]),
        ("TOP.ts", []),
        ("", None),
    ],
)
def test_a_pattern_names_entries_or_paths(
    tmp_path: Path, find: Any, pattern: str, found: list[str] | None
) -> None:
    """F01, F03"""
    touch(tmp_path, "src/foo/bar/e.spec.ts", "src/top.ts", "2026/07/26.md")
    result = find(pattern=pattern)
    if found is None:
        assert result.is_error
        assert "pattern is required" in result.text
    else:
        assert rows(result) == (found or ["No files found"])


def test_patterns_may_begin_or_end_in_the_middle_of_a_path(tmp_path: Path, find: Any) -> None:
    """F02"""
    touch(tmp_path, "some/parent/child/file.ext", "some/parent/child/t.ts")
    both = ["some/parent/child/file.ext", "some/parent/child/t.ts"]
    assert rows(find(pattern="some/parent/child/**")) == both
    assert rows(find(pattern="**/parent/child/*")) == both


def test_folders_are_found_with_a_trailing_slash(tmp_path: Path, find: Any) -> None:
    """F05"""
    touch(tmp_path, "dir/foo/", "dir/bar/", "dir/readme.md")
    assert rows(find(pattern="dir/*")) == ["dir/bar/", "dir/foo/", "dir/readme.md"]


def test_a_link_that_leads_up_ends_nowhere(tmp_path: Path, find: Any) -> None:
    """F06"""
    touch(tmp_path, "a/x.txt")
    (tmp_path / "a/link").symlink_to("..")
    assert rows(find(pattern="**/*.txt")) == ["a/x.txt"]


@pytest.mark.parametrize("pattern", ["*/*/alma.txt", "a/*/*.txt", "*.txt"])
def test_a_star_stands_for_one_folder(tmp_path: Path, find: Any, pattern: str) -> None:
    """F08"""
    touch(tmp_path, "a/b/alma.txt")
    assert rows(find(pattern=pattern)) == ["a/b/alma.txt"]


def test_a_pattern_with_a_dash_is_a_pattern(tmp_path: Path, find: Any) -> None:
    """F09"""
    touch(tmp_path, "-x.md")
    assert rows(find(pattern="-x.md")) == ["-x.md"]
    assert find(pattern="--exec=touch M").text == "No files found"
    assert not (tmp_path / "M").exists()


def test_ignored_files_and_repository_internals_are_left_out_hidden_ones_not(
    tmp_path: Path, find: Any
) -> None:
    touch(tmp_path, ".secret/hidden.txt", "ignored.txt", "a.txt", ".git/x.txt", "sub/node_modules/b.txt")
    (tmp_path / ".gitignore").write_text("ignored.txt\n")
    assert rows(find(pattern="**/*.txt")) == [".secret/hidden.txt", "a.txt"]
    assert "ignored" in find(pattern="ignored.txt").text


def test_a_root_inside_node_modules_is_searched(tmp_path: Path, find: Any) -> None:
    touch(tmp_path, "node_modules/p/index.js")
    assert rows(find(pattern="*.js", path="node_modules")) == ["p/index.js"]


def test_the_root_itself_is_never_found(tmp_path: Path, find: Any) -> None:
    touch(tmp_path, "a")
    assert rows(find(pattern="*")) == ["a"]
    assert rows(find(pattern="**")) == ["a"]
    assert rows(find(pattern=".")) == ["No files found"]


def test_an_absolute_pattern_is_read_from_the_root(tmp_path: Path, find: Any) -> None:
    touch(tmp_path, "src/a.py")
    assert rows(find(pattern=f"{tmp_path}/src/*.py")) == ["src/a.py"]


def test_the_limit_is_reported_only_when_there_is_more(tmp_path: Path, find: Any) -> None:
    touch(tmp_path, *(f"f{n}" for n in range(5)))
    assert find(pattern="f*", limit=5).details is None
    more = find(pattern="f*", limit=3)
    assert rows(more) == ["f0", "f1", "f2"]
    assert "3 results limit reached" in more.text
    assert "limit=6" in more.text
    assert more.details == {"resultLimitReached": 3}
    assert rows(find(pattern="f*", limit=0)) == ["f0"]


def test_an_answer_keeps_whole_rows_within_its_bytes(tmp_path: Path, find: Any) -> None:
    touch(tmp_path, *(f"{'n' * 110}{n:03}" for n in range(800)))
    result = find(pattern="*")
    assert "50.0KB limit reached" in result.text
    assert result.details["truncation"]["outputBytes"] <= 51200
    assert {len(row) for row in rows(result)} == {113}


def test_names_of_any_bytes_make_one_row_each(tmp_path: Path, find: Any) -> None:
    touch(tmp_path, " blank ", "line\nfeed", os.fsdecode(b"bad\xff"), "cr\r", "é", "tab\t")
    result = find(pattern="*")
    assert rows(result) == [" blank ", r"bad\xff", r"cr\r", r"line\nfeed", r"tab\t", "é"]
    result.text.encode()


def test_a_path_that_is_missing_or_a_file_is_an_error(tmp_path: Path, find: Any) -> None:
    touch(tmp_path, "f")
    missing = find(pattern="*", path="nope")
    assert missing.is_error
    assert f"path not found: {tmp_path}/nope" in missing.text
    assert find(pattern="*", path="f").is_error


def test_a_cancelled_or_endless_search_is_a_plain_error(tmp_path: Path, find: Any) -> None:
    class Set:
        looks = 0

        def is_set(self) -> bool:
            self.looks += 1
            return self.looks > 2

        def wait(self, timeout: float | None = None, /) -> bool:
            return True

    touch(tmp_path, "a/b/c/d")
    assert find.execute({"pattern": "*"}, Context(cancel=Set())) == Result("find was aborted", is_error=True)
    late = find_tool(tmp_path, time_limit=-1)(pattern="*")
    assert late.is_error
    assert "timed out" in late.text


def test_no_program_is_needed(tmp_path: Path, find: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    touch(tmp_path, "a.txt")
    assert rows(find(pattern="*.txt")) == ["a.txt"]


def test_the_schema_names_the_wire_arguments() -> None:
    tool = find_tool()
    assert [*tool.parameters["properties"]] == ["pattern", "path", "limit"]
    assert tool.parameters["required"] == ["pattern"]
    assert tool.parallel


def test_a_glob_longer_than_a_path_is_refused(tmp_path: Path) -> None:
    result = find_tool(tmp_path)(pattern="[a-z]" * 60_000)

    assert result.is_error
    assert "300000 characters" in result.text


@pytest.mark.parametrize("pattern", ["app/[id]/*.tsx", "app/[id]/page.tsx", "[id]/**", "**/[id]/*"])
def test_a_folder_named_like_a_class_is_found(pattern: str, tmp_path: Path) -> None:
    """Z24"""
    (tmp_path / "app" / "[id]").mkdir(parents=True)
    (tmp_path / "app" / "[id]" / "page.tsx").touch()
    root, shown = (
        (tmp_path / "app", "[id]/page.tsx") if pattern == "[id]/**" else (tmp_path, "app/[id]/page.tsx")
    )

    assert find_tool(root)(pattern=pattern).text == shown
