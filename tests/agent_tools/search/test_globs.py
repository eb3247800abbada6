"""Globs: what a pattern names."""

from __future__ import annotations

import re

import pytest

from agent_tools.search.globs import BadGlob, below, expand_braces, matcher, translate


@pytest.mark.parametrize(
    ("pattern", "named", "other"),
    [
        ("*.ts", ["a.ts", "deep/er/a.ts", ".ts"], ["a.tsx", "a.ts/b"]),
        ("src/**/*.ts", ["src/a.ts", "src/x/y/a.ts"], ["a.ts", "lib/src/a.ts"]),
        (
            "**/parent/child/*",
            ["parent/child/f", "some/parent/child/f"],
            ["parent/child", "parent/child/x/f"],
        ),
        ("some/child/**", ["some/child/f", "some/child/x/f"], ["some/child", "some/children/f"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["ab", "a/xb"]),
        ("*/*/x.txt", ["a/b/x.txt"], ["a/x.txt", "a/b/c/x.txt"]),
        ("**", ["a", "a/b", "dir/"], []),
        ("*", ["a", "a/b", "dir/"], []),
        ("dir/", ["dir/", "a/dir/"], ["dir"]),
        ("dir/*", ["dir/a", "dir/sub/"], ["dir/", "dir/sub/a"]),
        ("./src/*.py", ["src/a.py"], ["a.py"]),
        ("/src/*.py", ["src/a.py"], ["x/src/a.py"]),
        ("file?.c", ["file1.c", "fileé.c"], ["file.c", "file12.c"]),
        ("[a-c]x", ["ax", "cx"], ["dx", "-x"]),
        ("[!a-c]x", ["dx"], ["ax", "/x"]),
        ("[^a]x", ["bx"], ["ax"]),
        ("[]a]", ["]", "a"], ["b"]),
        ("[[:digit:]]x", ["1x"], ["ax"]),
        ("*.{ts,tsx}", ["a.ts", "a.tsx"], ["a.t", "a.{ts,tsx"]),
        ("{src,test}/**/*.py", ["src/a.py", "test/x/a.py"], ["lib/a.py"]),
        ("a{b,{c,d}e}f", ["abf", "acef", "adef"], ["af", "abef"]),
        (r"\*.txt", ["*.txt"], ["a.txt"]),
        ("A.txt", ["A.txt"], ["a.txt"]),
        ("a\nb*", ["a\nb.txt"], ["a"]),
        ("app/[id]/*.tsx", ["app/[id]/page.tsx", "app/i/x.tsx"], ["app/id/page.tsx", "app/[i]/x.tsx"]),
        ("app/[id]/[a-c]*.tsx", ["app/[id]/a.tsx"], ["app/[id]/d.tsx"]),
        ("[...slug]/**", ["[...slug]/a", "[...slug]/b/c"], ["slug/a"]),
        ("**/[[...slug]]/{a,b}.ts", ["x/[[...slug]]/a.ts"], ["x/[[...slug]]/c.ts"]),
        ("[!a].ts", ["[!a].ts", "b.ts"], ["a.ts"]),
        ("[id]/", ["[id]/"], ["[id]"]),
    ],
)
def test_a_glob_names_what_it_says(pattern: str, named: list[str], other: list[str]) -> None:
    matches = matcher(pattern)
    assert [path for path in named if not matches(path)] == []
    assert [path for path in other if matches(path)] == []


@pytest.mark.parametrize("name", ["[id].tsx", "{a,b}.txt", "a[b", "{x", r"back\slash", "a(b)+.c"])
def test_a_name_with_marks_in_it_is_found_by_itself(name: str) -> None:
    assert matcher(name)(name)
    assert matcher(f"src/{name}")(f"src/{name}")


def test_braces_that_multiply_without_end_are_taken_as_they_are() -> None:
    pattern = "{a,b}" * 40
    assert expand_braces(pattern) == [pattern]


@pytest.mark.parametrize("pattern", ["[a", "a\\", "[a\\"])
def test_a_glob_that_can_match_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(BadGlob):
        translate(pattern)


def test_stars_side_by_side_do_not_explode() -> None:
    expression = re.compile(translate("*a" * 3 + "*" * 5000 + "b"), re.DOTALL)
    assert not expression.fullmatch("a" * 200)


def test_an_absolute_pattern_is_read_from_the_folder_it_lies_in() -> None:
    assert below("/home/x/src/*.py", "/home/x") == "src/*.py"
    assert below("/other/*.py", "/home/x") == "/other/*.py"


def test_a_class_of_a_gitignore_is_only_a_class() -> None:
    assert not re.fullmatch(translate("[id]"), "[id]")
