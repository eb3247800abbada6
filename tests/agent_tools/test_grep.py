"""grep: the right lines with either engine, and an answer a model can go on from."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from support.engines import ENGINES, use_engine

from agent_tools.grep import grep_tool
from agent_tools.tool import Context, Result

Grep = Any


@pytest.fixture(params=ENGINES)
def grep(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Grep:
    use_engine(request.param, monkeypatch)
    return grep_tool(tmp_path)


def write(root: Path, **files: bytes) -> None:
    """Files by keyword: `a__b_txt` is a/b.txt."""
    put(root, {name.replace("__", "/").replace("_", "."): data for name, data in files.items()})


def put(root: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        path = os.path.join(os.fsencode(root), os.fsencode(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)


def rows(result: Result) -> list[str]:
    assert not result.is_error, result.text
    return result.text.split("\n\n[")[0].split("\n")


# Matches and rows


def test_matches_come_by_path_and_line(tmp_path: Path, grep: Grep) -> None:
    write(tmp_path, b_txt=b"x\nhit two\n", a__z_txt=b"hit one", a_txt=b"\n\nthird hit\n")
    assert rows(grep(pattern="hit")) == ["a.txt:3: third hit", "a/z.txt:1: hit one", "b.txt:2: hit two"]


def test_nothing_found_is_no_error(tmp_path: Path, grep: Grep) -> None:
    write(tmp_path, a_txt=b"x\n")
    assert grep(pattern="hit") == Result("No matches found")


def test_ignore_case_and_literal_do_what_they_say(tmp_path: Path, grep: Grep) -> None:
    write(tmp_path, a_txt=b"Foo.Bar\nfooXbar\n")
    assert rows(grep(pattern="foo.bar", ignoreCase=True)) == ["a.txt:1: Foo.Bar", "a.txt:2: fooXbar"]
    assert rows(grep(pattern="foo.bar", ignoreCase=True, literal=True)) == ["a.txt:1: Foo.Bar"]
    assert rows(grep(pattern="foo.bar")) == ["a.txt:2: fooXbar"]


def test_a_single_file_is_named_by_its_base_name(tmp_path: Path, grep: Grep) -> None:
    write(tmp_path, sub__example_txt=b"one\na match line\n")
    assert rows(grep(pattern="match", path="sub/example.txt")) == ["example.txt:2: a match line"]


def test_paths_are_relative_to_the_folder_that_was_searched(tmp_path: Path, grep: Grep) -> None:
    write(tmp_path, sub__deep__a_txt=b"hit\n")
    assert rows(grep(pattern="hit", path="sub")) == ["deep/a.txt:1: hit"]
    assert rows(grep(pattern="hit", path=str(tmp_path / "sub"))) == ["deep/a.txt:1: hit"]


def test_anchors_mean_a_line_whatever_its_ending(tmp_path: Path, grep: Grep) -> None:
    put(tmp_path, {"a": b"x\r\nxx\r\nx", "b": b"\xef\xbb\xbfx\n", "c": b"x\r"})
    assert rows(grep(pattern="^x$")) == ["a:1: x", "a:3: x", "b:1: x", "c:1: x"]


def test_a_lone_carriage_return_ends_no_line(tmp_path: Path, grep: Grep) -> None:
    write(tmp_path, a_txt=b"10%\r20%\rdone\nhit\n")
    assert rows(grep(pattern="hit")) == ["a.txt:2: hit"]
    assert rows(grep(pattern="20%.done")) == ["a.txt:1: 10%\r20%\rdone"]


def test_hidden_files_are_searched_and_repository_internals_are_not(tmp_path: Path, grep: Grep) -> None:
    """G18"""
    put(
        tmp_path,
        {
            ".env": b"needle\n",
            ".git/config": b"needle\n",
            "node_modules/p/i.js": b"needle\n",
            "x.txt": b"needle\n",
        },
    )
    assert rows(grep(pattern="needle")) == [".env:1: needle", "x.txt:1: needle"]


def test_lookaround_and_backreferences_work_with_both_engines(tmp_path: Path, grep: Grep) -> None:
    write(tmp_path, a_txt=b"foobar\nfoobaz\nabab\n")
    assert rows(grep(pattern="foo(?!bar)")) == ["a.txt:2: foobaz"]
    assert rows(grep(pattern=r"(ab)\1")) == ["a.txt:3: abab"]


# Context


def test_context_clips_at_both_ends_and_joins_what_touches(tmp_path: Path, grep: Grep) -> None:
    write(tmp_path, a_txt=b"hit 1\n2\n3\nhit 4\nhit 5\n6\n7\n8\n9\n10\nhit 11")
    assert rows(grep(pattern="hit", context=1)) == [
        *("a.txt:1: hit 1", "a.txt-2- 2", "a.txt-3- 3", "a.txt:4: hit 4", "a.txt:5: hit 5", "a.txt-6- 6"),
        *("--", "a.txt-10- 10", "a.txt:11: hit 11"),
    ]


def test_a_limit_of_one_with_context_shows_one_block(tmp_path: Path, grep: Grep) -> None:
    write(tmp_path, a_txt=b"before\nmatch one\nafter\nx\ny\nmatch two\n")
    result = grep(pattern="match", limit=1, context=1)
    assert rows(result) == ["a.txt-1- before", "a.txt:2: match one", "a.txt-3- after"]
    assert "limit=2" in result.text
    assert result.details == {"matchLimitReached": 1}


def test_context_crosses_the_windows_of_a_large_file(
    tmp_path: Path, grep: Grep, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "".join(f"line {n}\n" if n % 10 else f"hit {n}\n" for n in range(1, 200))
    write(tmp_path, a_txt=text.encode())
    whole = grep(pattern="hit", context=3)
    monkeypatch.setattr("agent_tools.search.line_finder._WINDOW_BYTES", 64)
    monkeypatch.setattr("agent_tools.search.engine._FIRST_READ", 16)
    assert grep(pattern="hit", context=3) == whole
    assert len(rows(whole)) == 19 * 7 + 18


def test_negative_context_and_a_limit_below_one_are_corrected(tmp_path: Path, grep: Grep) -> None:
    write(tmp_path, a_txt=b"hit\nhit\nx\n")
    assert rows(grep(pattern="hit", context=-3, limit=0)) == ["a.txt:1: hit"]


# Limits


def test_the_limit_is_reported_only_when_there_is_more(tmp_path: Path, grep: Grep) -> None:
    write(tmp_path, a_txt=b"hit\n" * 3, b_txt=b"hit\n" * 2)
    assert grep(pattern="hit", limit=5).details is None
    more = grep(pattern="hit", limit=4)
    assert len(rows(more)) == 4
    assert more.details == {"matchLimitReached": 4}
    assert "4 matches limit reached" in more.text
    assert "limit=8" in more.text
    assert grep(pattern="hit", limit=3).details == {"matchLimitReached": 3}


def test_an_answer_keeps_whole_rows_within_its_bytes(tmp_path: Path, grep: Grep) -> None:
    write(tmp_path, a_txt=(b"hit " + b"y" * 96 + b"\n") * 800)
    result = grep(pattern="hit", limit=1000)
    assert "50.0KB limit reached" in result.text
    assert result.details["truncation"]["outputBytes"] <= 51200
    assert all(row.endswith("y") for row in rows(result))
    assert "matchLimitReached" not in result.details


def test_a_limit_beyond_all_reason_costs_no_memory(tmp_path: Path, grep: Grep) -> None:
    write(tmp_path, a_txt=b"x\n" * 100_000)
    result = grep(pattern="x", limit=10**12, context=10**12)
    assert "50.0KB limit reached" in result.text


def test_a_long_line_is_cut_around_its_match(tmp_path: Path, grep: Grep) -> None:
    """G10"""
    write(tmp_path, a_txt=b"x" * 5000 + b"NEEDLE" + b"y" * 5000 + b"\n")
    result = grep(pattern="NEEDLE", context=1)
    (row,) = rows(result)
    assert "xNEEDLEy" in row
    assert row.startswith("a.txt:1: [truncated] ...")
    assert row.endswith("... [truncated]")
    assert len(row) < 560
    assert result.details == {"linesTruncated": True}
    assert "Some lines truncated" in result.text


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("N" + "x" * 599, "N" + "x" * 499 + "... [truncated]"),
        ("x" * 599 + "N", "[truncated] ..." + "x" * 499 + "N"),
        ("x" * 499 + "N", "x" * 499 + "N"),
        ("é" * 499 + "N" + "é", "é" * 499 + "N... [truncated]"),
        ("x" * 10 + "N" * 900, "[truncated] ..." + "N" * 500 + "... [truncated]"),
    ],
)
def test_where_a_long_line_is_cut(tmp_path: Path, grep: Grep, line: str, shown: str) -> None:
    write(tmp_path, a_txt=line.encode())
    assert rows(grep(pattern="N+")) == [f"a.txt:1: {shown}"]


def test_a_match_in_a_line_of_megabytes_comes_back(tmp_path: Path, grep: Grep) -> None:
    write(tmp_path, a_txt=b"a\n" + b"x" * (3 << 20) + b"NEEDLE" + b"y" * (2 << 20) + b"\nNEEDLE\n")
    assert [row[:9] for row in rows(grep(pattern="NEEDLE"))] == ["a.txt:2: ", "a.txt:3: "]
    assert "xNEEDLEy" in grep(pattern=r"NEEDLE\w").text


# Encodings and binary files


def test_utf_16_is_found_and_shown_as_text(tmp_path: Path, grep: Grep) -> None:
    """G11"""
    put(
        tmp_path,
        {
            "be": b"\xfe\xff" + "x\nhello needle é\n".encode("utf-16-be"),
            "le": "hello needle é\r\n".encode("utf-16"),
        },
    )
    assert rows(grep(pattern="needle")) == ["be:2: hello needle é", "le:1: hello needle é"]
    assert rows(grep(pattern="^hello.*é$")) == ["be:2: hello needle é", "le:1: hello needle é"]


def test_a_line_that_is_not_utf_8_is_read_as_latin_1(tmp_path: Path, grep: Grep) -> None:
    put(tmp_path, {"a": b"caf\xe9 needle\ncaf\xc3\xa9 needle\n"})
    assert rows(grep(pattern="needle")) == ["a:1: café needle", "a:2: café needle"]
    assert rows(grep(pattern="café")) == ["a:1: café needle", "a:2: café needle"]
    assert rows(grep(pattern=r"CAF. \w+$", ignoreCase=True)) == ["a:1: café needle", "a:2: café needle"]


def test_a_binary_file_is_only_named(tmp_path: Path, grep: Grep) -> None:
    """G19"""
    put(tmp_path, {"f": b"\x00\x01needle\x00" + b"\xff" * 100_000, "t": b"needle\n"})
    result = grep(pattern="needle")
    assert rows(result) == ["f: binary file matches", "t:1: needle"]
    assert rows(grep(pattern="needle", path="f")) == ["f: binary file matches"]
    assert rows(grep(pattern="needle", limit=1)) == ["f: binary file matches"]


def test_names_of_any_bytes_make_one_row_each(tmp_path: Path, grep: Grep) -> None:
    put(
        tmp_path,
        {
            os.fsdecode(b"bad\xff"): b"hit\n",
            "line\nfeed": b"hit\n",
            " blank ": b"hit\n",
            "-dash": b"hit\n",
            "é": b"hit\n",
        },
    )
    result = grep(pattern="hit")
    assert rows(result) == [
        *(" blank :1: hit", "-dash:1: hit", r"bad\xff:1: hit", r"line\nfeed:1: hit", "é:1: hit"),
    ]
    result.text.encode()


# Which files


def test_gitignore_is_honoured_without_a_repository(tmp_path: Path, grep: Grep) -> None:
    """G15"""
    put(tmp_path, {"one/.gitignore": b"*\n!*.txt\n", "one/foo.txt": b"hit\n", "one/foo.py": b"hit\n"})
    put(
        tmp_path,
        {"two/.gitignore": b"dir/*\n!dir/*/\n", "two/dir/y.txt": b"hit\n", "two/dir/sub/x.txt": b"hit\n"},
    )
    assert rows(grep(pattern="hit")) == ["one/foo.txt:1: hit", "two/dir/sub/x.txt:1: hit"]


def test_a_named_file_is_searched_though_ignored(tmp_path: Path, grep: Grep) -> None:
    """G07"""
    put(tmp_path, {".gitignore": b"s.txt\n", "s.txt": b"a\n"})
    assert rows(grep(pattern="a", path="s.txt")) == ["s.txt:1: a"]


def test_a_named_file_is_searched_whatever_the_glob(tmp_path: Path, grep: Grep) -> None:
    """G08"""
    write(tmp_path, t_txt=b"123\n")
    assert rows(grep(pattern="123", path="t.txt", glob="*.py")) == ["t.txt:1: 123"]


def test_a_root_inside_an_ignored_folder_is_searched(tmp_path: Path, grep: Grep) -> None:
    """G09"""
    put(tmp_path, {"venv/.gitignore": b"*\n", "venv/lib/a.py": b"needle\n"})
    assert rows(grep(pattern="needle", path="venv/lib")) == ["a.py:1: needle"]
    assert "ignored files" in grep(pattern="needle", path="venv").text


def test_a_link_that_leads_up_is_not_followed(tmp_path: Path, grep: Grep) -> None:
    """G17"""
    put(tmp_path, {"a/f": b"needle\n"})
    (tmp_path / "a/link").symlink_to("..")
    assert rows(grep(pattern="needle")) == ["a/f:1: needle"]


@pytest.mark.parametrize(
    ("glob", "found"),
    [
        ("*.md", ["docs/g.md", "docs/sub/h.md", "r.md"]),
        ("docs/*.md", ["docs/g.md"]),
        ("docs/**/*.md", ["docs/g.md", "docs/sub/h.md"]),
        ("*.{py,txt}", ["a.py", "b.txt"]),
        ("!*.md", ["a.py", "b.txt"]),
        ("--pre=touch MARK", []),
    ],
)
def test_a_glob_is_read_from_the_searched_folder(
    tmp_path: Path, grep: Grep, glob: str, found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """G13"""
    names = ("docs/g.md", "docs/sub/h.md", "r.md", "a.py", "b.txt")
    put(tmp_path, dict.fromkeys(names, b"hello\n"))
    monkeypatch.chdir("/")
    result = grep(pattern="hello", path=str(tmp_path), glob=glob)
    assert rows(result) == ([f"{name}:1: hello" for name in found] or ["No matches found"])


def test_an_ignored_file_stays_ignored_when_a_glob_names_it_and_the_answer_says_so(
    tmp_path: Path, grep: Grep
) -> None:
    put(tmp_path, {".gitignore": b"*.log\n", "a.log": b"hit\n"})
    assert grep(pattern="hit", glob="*.log").text.startswith("No matches found (ignored files")


# Patterns that look like something else


@pytest.mark.parametrize(
    ("content", "arguments"),
    [
        (b"x = -77\n", {"pattern": "-77"}),
        (b"x = -foo\n", {"pattern": "-foo"}),
        (b"- [ ] a->b\n", {"pattern": "->", "literal": True}),
        (b"- [ ] a->b\n", {"pattern": "- [ ]", "literal": True}),
        (b"a -- b\n", {"pattern": "--"}),
        (b"-e\n", {"pattern": "-e"}),
    ],
)
def test_a_pattern_with_a_dash_is_a_pattern(
    tmp_path: Path, grep: Grep, content: bytes, arguments: dict[str, Any]
) -> None:
    """G04, G06"""
    write(tmp_path, f=content)
    assert rows(grep(**arguments)) == [f"f:1: {content.decode().rstrip()}"]


@pytest.mark.parametrize("literal", [False, True])
def test_a_pattern_or_a_glob_never_is_an_option(tmp_path: Path, grep: Grep, literal: bool) -> None:
    """G05"""
    mark, script = tmp_path / "MARK", tmp_path / "pre.sh"
    script.write_text(f"#!/bin/sh\ntouch {mark}\n")
    script.chmod(0o755)
    write(tmp_path, f=b"text\n")
    assert "No matches found" in grep(pattern=f"--pre={script}", literal=literal).text
    assert "No matches found" in grep(pattern="text", glob=f"--pre={script}", literal=literal).text
    assert not mark.exists()


def test_a_broken_regex_is_explained_with_a_way_out(tmp_path: Path, grep: Grep) -> None:
    """G01"""
    write(tmp_path, f=b"foo(bar)\n")
    result = grep(pattern="foo(")
    assert result.is_error
    assert "invalid regex" in result.text
    assert "literal=true" in result.text
    assert rows(grep(pattern="foo(", literal=True)) == ["f:1: foo(bar)"]


def test_a_regex_that_misses_its_own_text_proposes_literal(tmp_path: Path, grep: Grep) -> None:
    """G02"""
    put(tmp_path, {"a": b"nothing\n", "f": b"x\n$(q).html(json.data)\n"})
    text = grep(pattern=".html(json.data)").text
    assert text.startswith("No matches found")
    assert "literal=true" in text
    assert "f:2" in text
    assert grep(pattern="q(json)").text == "No matches found"


def test_habits_of_other_dialects_are_answered_with_a_hint(tmp_path: Path, grep: Grep) -> None:
    write(tmp_path, f=b"foo\nbar\n")
    assert "a|b" in grep(pattern=r"foo\|bar").text
    assert "one line at a time" in grep(pattern="foo\nbar").text
    assert "one line at a time" in grep(pattern=r"foo\nbar").text


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="only Linux has /proc")
def test_a_file_without_a_size_is_read_to_its_end(grep: Grep) -> None:
    assert rows(grep(pattern="^Name:", path="/proc/self/status"))[0].startswith("status:1: Name:")


def test_a_pattern_that_backtracks_for_ever_ends_in_an_explanation(
    tmp_path: Path, grep: Grep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_tools.search.line_finder._MATCH_SECONDS", (0.01, 0.02))
    write(tmp_path, f=b"a" * 60 + b"b\n")
    result = grep(pattern=r"(?s:x?)(a|aa)+$")
    assert result.is_error
    assert "simplify" in result.text


# Arguments


def test_missing_arguments_and_paths_are_named(tmp_path: Path, grep: Grep) -> None:
    assert grep(pattern="").text == "pattern is required"
    assert grep().text == "pattern is required"
    missing = grep(pattern="x", path="nope")
    assert missing.is_error
    assert f"path not found: {tmp_path}/nope" in missing.text


def test_a_pipe_is_refused_instead_of_waited_for(tmp_path: Path, grep: Grep) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert grep(pattern="x", path="pipe").is_error


def test_the_schema_names_the_wire_arguments() -> None:
    tool = grep_tool()
    assert [*tool.parameters["properties"]] == [
        "pattern",
        "path",
        "glob",
        "ignoreCase",
        "literal",
        "context",
        "limit",
    ]
    assert tool.parameters["required"] == ["pattern"]
    assert all(item["description"] for item in tool.parameters["properties"].values())
    assert tool.parallel


# Ending early


class CancelledAfter:
    """A stop signal that is set from its n-th look on."""

    def __init__(self, looks: int) -> None:
        self.left = looks

    def is_set(self) -> bool:
        self.left -= 1
        return self.left < 0

    def wait(self, timeout: float | None = None, /) -> bool:
        return self.is_set()


@pytest.mark.parametrize("looks", [0, 1, 2, 4])
def test_a_cancelled_search_is_an_error_and_never_half_an_answer(
    tmp_path: Path, grep: Grep, looks: int
) -> None:
    put(tmp_path, {f"d{n}/f": b"hit\n" for n in range(5)})
    result = grep.execute({"pattern": "hit"}, Context(cancel=CancelledAfter(looks)))
    assert result.is_error
    assert "aborted" in result.text


def test_a_search_of_one_large_file_can_be_cancelled(
    tmp_path: Path, grep: Grep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_tools.search.line_finder._WINDOW_BYTES", 100)
    write(tmp_path, f=b"line\n" * 10_000)
    cancel = CancelledAfter(50)
    result = grep.execute({"pattern": "miss", "path": "f"}, Context(cancel=cancel))
    assert result.is_error
    assert "aborted" in result.text
    assert cancel.left == -1


def test_a_search_past_its_time_is_an_error_that_says_what_to_try(tmp_path: Path, grep: Grep) -> None:
    write(tmp_path, f=b"hit\n")
    result = grep_tool(tmp_path, time_limit=-1)(pattern="hit")
    assert result.is_error
    assert "timed out after" in result.text
    assert "path" in result.text


def test_one_tool_serves_many_threads(tmp_path: Path, grep: Grep) -> None:
    put(tmp_path, {f"f{n}": f"word{n}\n".encode() for n in range(20)})
    found: dict[int, str] = {}

    def search(n: int) -> None:
        found[n] = grep(pattern=f"word{n}$").text

    threads = [threading.Thread(target=search, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: f"f{n}:1: word{n}" for n in range(20)}


@pytest.mark.parametrize(("path", "glob"), [(".", "app/[id]/*"), ("app", "[id]/**"), ("app/[id]", "*")])
def test_the_glob_meets_a_folder_named_like_a_class(path: str, glob: str, tmp_path: Path) -> None:
    """Z24"""
    (tmp_path / "app" / "[id]").mkdir(parents=True)
    (tmp_path / "app" / "[id]" / "page.tsx").write_text("hit")

    assert grep_tool(tmp_path)(pattern="hit", path=path, glob=glob).text.endswith("page.tsx:1: hit")


def test_many_lines_that_are_each_slow_end_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_tools.search.line_finder._MATCH_SECONDS", (0.0001, 60, 60))
    monkeypatch.setattr("agent_tools.search.line_finder._MAX_SLOW_SECONDS", 0.2)
    (tmp_path / "f").write_text(("a" * 23 + "c\n") * 1000)

    result = grep_tool(tmp_path)(pattern=r"\m(?:a|a)*[b!]")

    assert result.is_error
    assert "takes too long" in result.text
