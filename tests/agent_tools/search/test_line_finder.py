"""Finding the matching lines in the bytes of a file."""

from __future__ import annotations

import codecs
from collections.abc import Iterable

import pytest

from agent_tools.search import line_finder
from agent_tools.search.line_finder import Finder, windows_of_bytes
from agent_tools.search.pattern import compile_pattern


def lines(pattern: str, blocks: Iterable[bytes], ignore_case: bool = False) -> list[tuple[int, str]]:
    finder = Finder(compile_pattern(pattern, False, ignore_case), lambda: None)
    number, found = 1, []
    for window in windows_of_bytes(blocks):
        found += [(line.number, line.text) for line in finder.find(window, number)]
        number += window.count(b"\n")
    return found


@pytest.mark.parametrize("pattern", ["hit", "h[i]t", r"\bhit\b", "(?=h)hit"])
@pytest.mark.parametrize(
    "blocks",
    [
        [b"miss\nhit one\r\nmiss\n\nhit two"],
        [b"mi", b"ss\nhi", b"t one\r", b"\nmiss\n\nhit", b" two"],
        [codecs.BOM_UTF8 + b"miss\nhit one\nmiss\n\nhit two\n"],
        [codecs.BOM_UTF16_LE + "miss\nhit one\nmiss\n\nhit two\n".encode("utf-16-le")],
        [codecs.BOM_UTF16_BE + "miss\nhit one\nmiss\n\nhit two\n".encode("utf-16-be")],
    ],
)
def test_lines_are_found_in_any_blocks_and_encoding(pattern: str, blocks: list[bytes]) -> None:
    assert lines(pattern, blocks) == [(2, "hit one"), (5, "hit two")]


def test_bytes_that_only_begin_like_utf_16_are_read_as_they_are() -> None:
    assert [number for number, _ in lines("hit", [b"\xff\xfe it\xe2\x80\x99s a hit \xc3\n"])] == [1]


def test_a_line_that_is_not_utf8_is_read_as_latin_1() -> None:
    assert lines("é", [b"\xe9t\xe9\n", "é\n".encode()]) == [(1, "été"), (2, "é")]


@pytest.mark.parametrize("misses", [0, 49, 200])
def test_a_needle_that_occurs_in_other_lines_too_finds_the_same(misses: int) -> None:
    text = b"needle\n" * misses + b"needle 1\n" + b"needle\n" * misses
    assert lines(r"needle \d", [text]) == [(misses + 1, "needle 1")]


def test_windows_end_at_line_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(windows_of_bytes([b"a", b"b\nc", b"d\n", b"e"])) == [b"ab\n", b"cd\n", b"e"]
    monkeypatch.setattr(line_finder, "_MAX_LINE_BYTES", 3)
    assert list(windows_of_bytes([b"ab", b"cd", b"e\n"])) == [b"abcd", b"e\n"]
