"""What a hostile repository or a mad model may hand to the file tools: no hang, no crash, no lost memory."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_tools.edit import edit_tool
from agent_tools.files.atomic_write import RegularFile, atomic_write, read_regular
from agent_tools.find import find_tool
from agent_tools.grep import grep_tool
from agent_tools.read import read_tool
from agent_tools.search.globs import expand_braces, matcher
from agent_tools.search.line_finder import windows_of_file
from agent_tools.tool import ToolFailure
from agent_tools.write import write_tool

# Runs a call in a process of its own: an expression that runs away holds the interpreter's lock, and then no
# thread of this process could notice.
ALONE = "import sys; from agent_tools.{0} import {0}_tool; print({0}_tool(sys.argv[1])(**{1!r}).text)"


def alone(root: Path, tool: str, **arguments: Any) -> str:
    code = ALONE.format(tool, arguments)
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", code, str(root)],
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
        env=os.environ | {"PYTHONPATH": path},
    )
    return done.stdout.strip()


@pytest.mark.parametrize("pattern", ["*a" * 60 + "b", "**/*a" * 40 + "/**/b", "**/" * 200 + "*a*a*a*a*a*b"])
def test_a_glob_with_many_stars_does_not_run_away(tmp_path: Path, pattern: str) -> None:
    folder = tmp_path.joinpath(*["a" * 20] * 20)
    folder.mkdir(parents=True)
    (folder / ("a" * 200)).touch()
    assert alone(tmp_path, "find", pattern=pattern) == "No files found"
    assert alone(tmp_path, "grep", pattern="x", glob=pattern) == "No matches found"


def test_a_gitignore_with_many_stars_does_not_run_away(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*a" * 60 + "b\n/" + "**/*a*a*a/" * 20 + "b\n")
    folder = tmp_path.joinpath(*["a" * 20] * 20)
    folder.mkdir(parents=True)
    (folder / ("a" * 200)).touch()
    assert "a" * 200 in alone(tmp_path, "find", pattern="a" * 200)


@pytest.mark.parametrize(
    ("pattern", "named", "other"),
    [
        ("*ab*abc", ["xabyabc", "ababc"], ["abxab", "abc"]),
        ("*aab", ["aaab", "aab"], ["aaa"]),
        ("**/a/**/b/c", ["a/b/c", "a/b/x/b/c", "x/a/a/y/b/c"], ["a/b", "b/c", "a/c/b"]),
        ("x/**/a*b*/**", ["x/ab/c", "x/y/axb/c/d", "x/aa/ab/c"], ["x/ab", "x/a/b"]),
        ("**/a/*/b/**/c", ["a/a/x/b/c", "a/x/b/y/c"], ["a/b/c"]),
    ],
)
def test_the_first_place_where_a_part_of_a_glob_fits_is_enough(
    pattern: str, named: list[str], other: list[str]
) -> None:
    matches = matcher(pattern)
    assert [path for path in named if not matches(path)] == []
    assert [path for path in other if matches(path)] == []


@pytest.mark.parametrize("pattern", ["{a," * 1500 + "}" * 1500, "{a," * 5000, "{a,b}" + "x" * 20_000])
def test_braces_too_many_to_read_are_taken_as_they_are(pattern: str) -> None:
    assert expand_braces(pattern) == [pattern]


def test_a_gitignore_of_gigabytes_is_no_list_of_rules(tmp_path: Path) -> None:
    with open(tmp_path / ".gitignore", "wb") as file:
        file.write(b"*.txt\n")
        file.truncate(1 << 40)
    (tmp_path / "a.txt").touch()
    assert "a.txt" in find_tool(tmp_path)(pattern="*").text


def test_a_file_that_grows_while_it_is_read_is_given_up(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 10)
    assert read_regular(str(tmp_path / "f"), max_bytes=10) == b"x" * 10
    with pytest.raises(ToolFailure, match="more than 9B"):
        read_regular(str(tmp_path / "f"), max_bytes=9)


def test_a_file_that_has_nothing_yet_reads_as_one_that_has_ended() -> None:
    """As /proc/kmsg does; a pipe stands in for it here."""
    ours, theirs = os.pipe()
    os.set_blocking(ours, False)

    class Filesystem:
        def open(self, path: str, flags: int) -> int:
            return ours

    try:
        with RegularFile(os.dup(ours)) as file:
            assert file.read() == file.read(10) == b""
        assert list(windows_of_file("", Filesystem())) == []  # type: ignore[arg-type]
    finally:
        os.close(theirs)


@pytest.mark.skipif(not os.path.exists("/proc/self/comm"), reason="needs /proc")
def test_a_file_whose_folder_takes_no_other_is_rewritten_in_place() -> None:
    path = f"/proc/self/task/{os.getpid()}/comm"
    old = Path(path).read_bytes()
    try:
        atomic_write(path, b"renamed")
        assert Path(path).read_bytes() == b"renamed\n"
    finally:
        atomic_write(path, old.rstrip())


@pytest.mark.parametrize("confine", [False, True])
def test_a_file_below_more_folders_than_python_may_recurse_is_written(tmp_path: Path, confine: bool) -> None:
    name = "d/" * 1100 + "f"
    result = write_tool(tmp_path, confine=confine)(path=name, content="x")
    assert not result.is_error, result.text[-200:]
    assert (tmp_path / name).read_text() == "x"
    # pytest's own removal of the folder recurses.
    subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)


def test_an_answer_that_names_a_path_of_broken_text_can_be_sent(tmp_path: Path) -> None:
    for tool, arguments in (
        (write_tool(tmp_path), {"content": "a"}),
        (edit_tool(tmp_path), {"oldText": "a", "newText": "b"}),
        (read_tool(tmp_path), {}),
    ):
        result = tool.execute({"path": "x\udcff", **arguments})
        assert not result.is_error
        result.text.encode()


@pytest.mark.parametrize(
    "arguments",
    ['{"path": ' * 20_000 + "1" + "}" * 20_000, {"path": "f", "edits": "[" * 20_000 + "]" * 20_000}],
    ids=["as text", "in a list"],
)
def test_arguments_nested_too_deeply_are_an_error_and_no_crash(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, arguments: Any
) -> None:
    with caplog.at_level(logging.ERROR):
        result = edit_tool(tmp_path).execute(arguments)
    assert result.is_error
    assert "nested too deeply" in result.text
    assert caplog.records == []


def test_values_nested_too_deeply_are_an_error_and_no_crash(tmp_path: Path) -> None:
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    assert "nested too deeply" in write_tool(tmp_path)(path=deep, content="x").text


def test_a_chain_of_links_longer_than_python_may_recurse_is_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(1100):
        os.symlink(f"link{number + 1}", tmp_path / f"link{number}")
    with caplog.at_level(logging.ERROR):
        assert write_tool(tmp_path)(path="link0", content="x").is_error
    assert caplog.records == []


class TestGrepPatterns:
    def test_one_too_long_to_be_read_in_time_is_refused(self, tmp_path: Path) -> None:
        for literal in (True, False):
            result = grep_tool(tmp_path)(pattern="[" * 100_000, literal=literal)
            assert "the pattern has 100000 characters; at most 4000" in result.text

    @pytest.mark.parametrize("pattern", ["(" * 300 + "a" + ")" * 300, "\\x{" * 10])
    def test_one_that_cannot_be_widened_is_still_searched_for(self, tmp_path: Path, pattern: str) -> None:
        (tmp_path / "f").write_text("a\n")
        result = grep_tool(tmp_path)(pattern=pattern)
        assert not result.is_error or "invalid regex" in result.text

    def test_one_that_calls_itself_without_end_is_named_as_the_cause(self, tmp_path: Path) -> None:
        (tmp_path / "f").write_text("a" * 1000 + "\n")
        assert "takes too long" in alone(tmp_path, "grep", pattern="(?R)*a")
