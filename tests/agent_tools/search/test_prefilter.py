"""The cheaper questions made from a pattern: never a "no" where the pattern matches."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.real import require_or_skip
from support.rounds import rounds

from agent_tools.search.pattern import Pattern, compile_pattern
from agent_tools.tool import ToolFailure


def regular(source: str, ignore_case: bool = False) -> Pattern:
    return compile_pattern(source, False, ignore_case)


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
        (r"foo(?=quux)", ("foo",)),
        (r"\bfoo\b", ("foo",)),
        (r"(a+)\1xyz", ("xyz",)),
        ("^$", ()),
    ],
)
def test_what_a_hit_must_hold_is_read_from_the_pattern(source: str, needles: tuple[str, ...]) -> None:
    assert regular(source).needles == needles


@pytest.mark.parametrize(
    "source",
    ["(?s)a", "(?i:a)", "[a[b]", r"(a)?(?(1)b|c)", "(?P<n>a)(?P=n)", "a\nb", r"a\nb", r"\X"],
)
def test_unsupported_syntax_has_no_prefilter(source: str) -> None:
    assert regular(source).prefilter is None


def test_a_mark_for_any_case_at_the_beginning_is_the_argument() -> None:
    assert regular("(?i)Foo").ignore_case
    assert regular("(?i)Foo").needles == ("foo",)
    assert regular("(?i)Foo").expression.search("xFOO")


@pytest.mark.parametrize(
    ("source", "shortened"),
    [
        (r"\w+=", r"\w="),
        ("a*b", "b"),
        ("a{2,}b", "a{2}b"),
        ("a+b|c", "a+b|c"),
        ("(a+)b", "(?:a+)b"),
        ("ba+", "ba+"),
    ],
)
def test_a_repetition_at_the_beginning_is_shortened(source: str, shortened: str) -> None:
    wider = regular(source).prefilter
    assert wider is not None
    assert wider.python == shortened


PIECES = (
    r"a b i K s é 日 ß . \w \W \d \s \S [a-c] [^a] [aé] [^é] [i-k] [[:alpha:]] \. - _ (?:ab|é) (a) ſ ı "
    r"& [&&a] \b \B ^ $ | (?=a) (?!b|é) (?<=s) (?<!é) (?>a|ab) (a|é)\1 "
    r"\A \Z \p{L} \P{Lu} \xe9 \u00e9 (?:a|) ()"
)
REPEATS = ["", "", "", "*", "+", "?", "{2}", "{1,3}", "*?", "{,2}", "{2,}", "++"]
sources = st.lists(
    st.tuples(st.sampled_from([*PIECES.split(" "), " "]), st.sampled_from(REPEATS)), min_size=1, max_size=5
).map(lambda parts: "".join(piece + repeat for piece, repeat in parts))
lines = st.text(st.sampled_from("abiIkKsx1 _-.éÉıİſ日ÿß\u212a\xa0\x85\t\r"), max_size=8)


@settings(max_examples=rounds(400), deadline=None, derandomize=True)
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


@settings(max_examples=rounds(60), deadline=None, derandomize=True)
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
