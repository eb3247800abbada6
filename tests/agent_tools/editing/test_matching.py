"""Matching: the quoted place and its exact bounds in the original text."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_tools.editing.matching import MAX_OCCURRENCES, Haystack, normalize

LETTERS = st.text(st.sampled_from("a b\t\n\r“é–\u00a0\u0301ﬁ１\u3000가각"), max_size=20)


def found(text: str, quoted: str) -> list[str]:
    return [text[match.start : match.end] for match in Haystack(text).find(quoted)]


def lines_of(text: str, quoted: str) -> list[int]:
    haystack = Haystack(text)
    return list(haystack.lines(haystack.find(quoted)))


@pytest.mark.parametrize(
    ("text", "quoted", "place"),
    [
        ("hello world", "hello", "hello"),
        ("a\r\nb\r\nc", "a\nb", "a\r\nb"),
        ("a\r\nb\r\nc", "\nb\n", "\r\nb\r\n"),
        ("a\nb\nc", "a\r\nb", "a\nb"),
        ("a\rb\nc", "a\rb", "a\rb"),
        ("it\u2019s", "it's", "it\u2019s"),
        ("\u201cx\u201d", '"x"', "\u201cx\u201d"),
        ("a \u2013 b", "a - b", "a \u2013 b"),
        ("a \u2014 b", "a - b", "a \u2014 b"),
        ("a - b", "a \u2014 b", "a - b"),
        ("a\u00a0= 1", "a = 1", "a\u00a0= 1"),
        ("one  \ntwo", "one\ntwo", "one  \ntwo"),
        ("one\ntwo\n", "one  \ntwo", "one\ntwo"),
        ("one\n   \ntwo", "one\n\ntwo", "one\n   \ntwo"),
        ("one\u00a0\ntwo", "one\ntwo", "one\u00a0\ntwo"),
        ("x one  \r\ntwo\t\r\n", "one\ntwo\n", "one  \r\ntwo\t\r\n"),
        ("x\uff21\uff22\uff23y", "ABC", "\uff21\uff22\uff23"),
        ("（全角）", "(全角)", "（全角）"),
        ("a cafe\u0301 b", "caf\u00e9", "cafe\u0301"),
        ("a caf\u00e9 b", "cafe\u0301", "caf\u00e9"),
        ("a \ufb01x b", "fix", "\ufb01x"),
        ("\u1100\u1161\u11a8!", "\uac01", "\u1100\u1161\u11a8"),
        ("\uff76\uff9e", "\u30ac", "\uff76\uff9e"),
        ("\u201cq\u201d \u2014 n x \u2018y\u2019 z", "x 'y'", "x \u2018y\u2019"),
        ("hello", "\ufeffhello", "hello"),
        ("\nit\u2019s\n\n", "it's\n", "it\u2019s\n"),
        ("\r\nb\r\nc", "b\nc", "b\r\nc"),
        ("foo\n   \nbar", "foo\n    ", "foo\n   "),
        ("foo  \n    bar", "foo\n    ", "foo  \n    "),
    ],
)
def test_a_quotation_is_found_with_its_original_bounds(text: str, quoted: str, place: str) -> None:
    assert found(text, quoted) == [place]


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("Hello", "hello"),
        ("a  b", "a b"),
        ("    x", "\tx"),
        ("a \ufb01x b", "ix"),
        ("a\rb", "a\nb"),
        ("text", " \n "),
        ("text", ""),
        ("return x", "return \u00a0"),
        ("if a:b", "if a: "),
    ],
)
def test_what_was_not_quoted_is_not_found(text: str, quoted: str) -> None:
    assert found(text, quoted) == []


def test_an_exact_place_is_preferred_to_a_forgiving_one() -> None:
    assert found("it\u2019s\nit's\n", "it's") == ["it's"]
    assert found("it\u2019s\nit's\n", "it\u2019s") == ["it\u2019s"]


@pytest.mark.parametrize(
    ("text", "quoted", "lines"),
    [
        ("foo\nfoo\nfoo\n", "foo\nfoo\n", [1, 2]),
        ("aaa", "aa", [1, 1]),
        ("\nfoo\nfoo", "foo", [2, 3]),
        ("foo  \nbar\nfoo\t\nbar\n", "foo\nbar", [1, 3]),
        ("a\r\n\r\nb\r\n\r\nb", "\n\nb", [1, 3]),
    ],
)
def test_every_place_is_counted_and_overlapping_ones_too(text: str, quoted: str, lines: list[int]) -> None:
    assert lines_of(text, quoted) == lines


def test_the_counting_ends_somewhere() -> None:
    assert len(Haystack("x" * 1_000_000).find("x")) == MAX_OCCURRENCES


def test_text_around_a_forgiving_place_may_hold_anything() -> None:
    text = "\u201ca\u201d\n" * 3 + "x  \ny\n" + "\u2014" * 3
    assert found(text, "x\ny\n") == ["x  \ny\n"]


def test_a_line_of_a_million_odd_characters_is_no_obstacle() -> None:
    text = "\u00e9" * 100_000 + " \u201cx\u201d " + "\u3042" * 900_000
    assert found(text, ' "x" ') == [" \u201cx\u201d "]


@given(LETTERS, LETTERS, LETTERS)
def test_whatever_is_found_reads_like_the_quotation(before: str, middle: str, after: str) -> None:
    for place in found(before + middle + after, middle):
        assert normalize(place.replace("\r\n", "\n")) == normalize(
            middle.removeprefix("\ufeff").replace("\r\n", "\n")
        )


@given(LETTERS, LETTERS, LETTERS)
def test_a_quotation_of_what_stands_there_is_found(before: str, middle: str, after: str) -> None:
    text = before + middle.replace("\r", "") + after
    if middle.replace("\r", ""):
        assert found(text, middle.replace("\r", ""))


@given(LETTERS)
def test_the_normal_form_has_the_same_lines(text: str) -> None:
    assert normalize(text).count("\n") == text.count("\n")
    assert unicodedata.is_normalized("NFKC", normalize(text))
