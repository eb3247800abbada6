"""Patterns: the dialect, and the cheaper questions made from a pattern."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.real import require_or_skip

from agent_tools.pattern import Pattern, compile_pattern
from agent_tools.tool import ToolFailure


def regular(source: str, ignore_case: bool = False) -> Pattern:
    return compile_pattern(source, False, ignore_case)


def finds(source: str, line: str) -> bool:
    return regular(source).expression.search(line) is not None


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("interface{}", "var x interface{}"),
        ("${e}", "no dollar at an end"),
        (r"\$\{e\}", "x ${e}"),
        ("{", "if {"),
        ("a{2,3}b", "aab"),
        ("a{,2}b", "b"),
        (r"\x{e9}", "é"),
        (r"\p{Greek}+", "αβ"),
        ("[[:alpha:]]", "1a"),
        (r"(?i)foo", "FOO"),
        (r"(?<!x)y", "y"),
        (r"(a)\1", "aa"),
        (r"a++b", "aab"),
        ("[{}]", "{"),
        (r"a\{2\}", "a{2}"),
    ],
)
def test_the_dialect(source: str, line: str) -> None:
    assert finds(source, line) is (source != "${e}")


def test_braces_never_mean_a_fuzzy_match() -> None:
    assert not finds("foo{e}", "fox")
    assert not finds("foo{e<=1}", "fox")
    assert finds("foo{e<=1}", "foo{e<=1}")


@pytest.mark.parametrize(
    "source", ["foo(", "a)", "[a", "*a", "a**", r"\Q", "(?P<a", "a{9999999999999999999999}"]
)
def test_a_mistake_is_explained_with_a_way_out(source: str) -> None:
    """G01"""
    with pytest.raises(ToolFailure, match="invalid regex") as failure:
        regular(source)
    assert "literal=true" in str(failure.value)


@pytest.mark.parametrize(
    ("source", "needles"),
    [
        ("needle", ("needle",)),
        (r"def (\w+)_item\(", ("_item(",)),
        ("(foo|bar+)x", ("ba", "foo")),
        ("colou?r", ("colo",)),
        ("x(abc)*y", ("x",)),
        ("(abc)+", ("abc",)),
        (r"\d+", ()),
        ("foo|", ()),
        ("(?:foo)?", ()),
        (r"foo(?=bar)", ()),
        ("^$", ()),
    ],
)
def test_what_a_hit_must_hold_is_read_from_the_pattern(source: str, needles: tuple[str, ...]) -> None:
    assert regular(source).needles == needles


@pytest.mark.parametrize(
    "source", [r"(?=a)", r"(a)\1", r"\Aa", r"(?i)a", "[a[b]", "a++", r"\p{L}", "a\nb", r"a\nb"]
)
def test_what_the_engines_read_differently_is_not_asked_of_ripgrep(source: str) -> None:
    assert regular(source).for_ripgrep is None


@pytest.mark.parametrize(
    ("source", "itself"),
    [("foo", True), ("foo.bar", True), ("foo(bar)", False), ("a+b", False), ("^a", False), ("x*", False)],
)
def test_it_is_known_whether_a_pattern_finds_its_own_text(source: str, itself: bool) -> None:
    assert regular(source).finds_itself is itself
    assert compile_pattern(source, True, False).finds_itself


PIECES = [
    "a",
    "b",
    "i",
    "K",
    "s",
    "é",
    "日",
    "ß",
    ".",
    r"\w",
    r"\W",
    r"\d",
    r"\s",
    r"\S",
    "[a-c]",
    "[^a]",
    "[aé]",
    "[^é]",
]
PIECES += [
    "[i-k]",
    "[[:alpha:]]",
    r"\.",
    "-",
    "_",
    " ",
    "(?:ab|é)",
    "(a)",
    "ſ",
    "ı",
    "&",
    "[&&a]",
    r"\b",
    r"\B",
    "^",
    "$",
    "|",
]
REPEATS = ["", "", "", "*", "+", "?", "{2}", "{1,3}", "*?", "{,2}", "{2,}"]
sources = st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(REPEATS)), min_size=1, max_size=5).map(
    lambda parts: "".join(piece + repeat for piece, repeat in parts)
)
lines = st.text(st.sampled_from("abiIkKsx1 _-.éÉıİſ日ÿß\u212a\xa0\x85\t\r"), max_size=8)


@settings(max_examples=400, deadline=None)
@given(sources, st.booleans(), st.lists(lines, max_size=4))
def test_the_question_across_lines_is_never_narrower_than_the_pattern(
    source: str, ignore_case: bool, text: list[str]
) -> None:
    try:
        pattern = compile_pattern(source, False, ignore_case)
    except ToolFailure:
        return
    if pattern.across is None:
        return
    if any(pattern.expression.search(line) for line in text):
        assert pattern.across.search("\n".join(text))
        joined = "\n".join(text)
        if not ignore_case and pattern.needles:
            assert any(needle in joined for needle in pattern.needles)


@settings(max_examples=60, deadline=None)
@given(
    sources, st.booleans(), st.lists(lines, min_size=1, max_size=30), st.sampled_from(["utf-8", "latin-1"])
)
def test_ripgrep_passes_every_file_that_has_a_hit(
    source: str, ignore_case: bool, text: list[str], encoding: str
) -> None:
    program = shutil.which("rg")
    if program is None:
        require_or_skip("ripgrep is not installed")
    try:
        pattern = compile_pattern(source, False, ignore_case)
    except ToolFailure:
        return
    if pattern.for_ripgrep is None:
        return
    encoded = [line.encode(encoding, "ignore") for line in text]
    if encoding == "latin-1":
        # Bytes that happen to be UTF-8 are read as such.
        encoded = [raw + b"\xff" for raw in encoded]
    hit = any(pattern.expression.search(raw.decode(encoding).removesuffix("\r")) for raw in encoded)
    command = [
        program,
        "--no-config",
        "--text",
        "--quiet",
        "--ignore-case" if ignore_case else "--case-sensitive",
    ]
    data = b"\n".join(encoded) + b"\n"
    done = subprocess.run([*command, "-e", pattern.for_ripgrep, "-"], input=data, capture_output=True)
    assert done.returncode in (0, 1), done.stderr
    assert done.returncode == 0 or not hit
