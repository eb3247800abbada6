"""The lines that an error shows for a quotation that is not in the file."""

from __future__ import annotations

import time

import pytest

from agent_tools.editing.closest_lines import closest_lines

TEXT = (
    "def area(width, height):\n    return width * height\n\ndef volume(width, height, depth):\n    return 0\n"
)


@pytest.mark.parametrize(
    ("quoted", "shown"),
    [
        ("    return width * heigth\n", "2:     return width * height"),
        ("def volume(width, height):\n", "4: def volume(width, height, depth):"),
        ("\n\ndef area(width, height):\n", "1: def area(width, height):"),
    ],
)
def test_the_most_similar_lines_are_numbered(quoted: str, shown: str) -> None:
    assert closest_lines(TEXT, quoted).split("\n")[0] == shown


def test_a_difference_in_whitespace_only_is_named() -> None:
    assert "only in blanks" in closest_lines(TEXT, "  return width * height")


@pytest.mark.parametrize(("text", "quoted"), [("", "x"), ("a\n", "other words"), (TEXT, "@@@@")])
def test_nothing_is_shown_when_nothing_is_similar(text: str, quoted: str) -> None:
    assert closest_lines(text, quoted) == ""


def test_a_long_quotation_shows_few_lines() -> None:
    text = "".join(f"line number {number}\n" for number in range(1000))
    shown = closest_lines(text, text.replace("number 500", "nummer 500"))
    assert len(shown.split("\n")) == 12


def test_the_search_in_a_large_text_is_bounded() -> None:
    start = time.thread_time()
    closest_lines("some words in a line\n" * 500_000, "other words in one line\n" * 100)
    assert time.thread_time() - start < 5
