"""Limits: whole lines from one end, counted in UTF-8 bytes, a final line feed counts for nothing."""

from __future__ import annotations

import pytest

from agent_tools.truncate import MAX_BYTES, count_lines, cut_line, format_size, keep_head, keep_tail

THREE = "\n".join(letter * 20 for letter in "abc")


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0B"),
        (1023, "1023B"),
        (1024, "1.0KB"),
        (1536, "1.5KB"),
        (51200, "50.0KB"),
        (1048576, "1.0MB"),
        (2621440, "2.5MB"),
    ],
)
def test_sizes_read_as_people_write_them(size: int, text: str) -> None:
    assert format_size(size) == text


@pytest.mark.parametrize(
    ("text", "lines"), [("", 0), ("a", 1), ("a\n", 1), ("\n", 1), ("a\n\n", 2), ("a\nb", 2)]
)
def test_a_final_line_feed_adds_no_line(text: str, lines: int) -> None:
    assert count_lines(text) == lines


def test_an_empty_text_is_whole_and_one_line() -> None:
    for kept in (keep_head(""), keep_tail("")):
        assert (kept.content, kept.truncated, kept.total_lines) == ("", False, 1)


def test_the_head_keeps_the_first_lines() -> None:
    kept = keep_head("\n".join(map(str, range(100))), max_lines=10)
    assert kept.content == "\n".join(map(str, range(10)))
    assert (kept.truncated_by, kept.total_lines, kept.output_lines) == ("lines", 100, 10)


def test_the_tail_keeps_the_last_lines() -> None:
    kept = keep_tail("\n".join(map(str, range(100))), max_lines=10)
    assert kept.content == "\n".join(map(str, range(90, 100)))
    assert (kept.truncated_by, kept.total_lines, kept.output_lines) == ("lines", 100, 10)


def test_the_byte_limit_keeps_whole_lines_only() -> None:
    head, tail = keep_head(THREE, max_bytes=30), keep_tail(THREE, max_bytes=30)
    assert (head.content, head.output_bytes, head.truncated_by) == ("a" * 20, 20, "bytes")
    assert (tail.content, tail.output_lines, tail.truncated_by) == ("c" * 20, 1, "bytes")


def test_a_first_line_over_the_limit_leaves_no_head() -> None:
    kept = keep_head("x" * 100 + "\nmore", max_bytes=50)
    assert (kept.content, kept.output_lines, kept.first_line_exceeds_limit) == ("", 0, True)


def test_a_last_line_over_the_limit_is_cut_to_its_end() -> None:
    kept = keep_tail("a" * 70 + "b" * 30, max_bytes=30)
    assert (kept.content, kept.last_line_partial, kept.truncated_by) == ("b" * 30, True, "bytes")
    assert (kept.output_lines, kept.output_bytes, kept.total_lines) == (1, 30, 1)


def test_a_giant_last_line_with_a_line_feed_still_shows_its_end() -> None:
    kept = keep_tail("start\n" + "x" * 99 + "y\n", max_bytes=10)
    assert (kept.content, kept.last_line_partial) == ("x" * 9 + "y", True)


@pytest.mark.parametrize(
    ("text", "limit", "end"), [("aé", 2, "é"), ("héllo", 3, "llo"), ("日", 2, ""), ("日本", 4, "本")]
)
def test_a_tail_is_cut_between_characters(text: str, limit: int, end: str) -> None:
    assert keep_tail(text, max_bytes=limit).content == end


def test_exactly_the_limit_is_whole_and_one_more_is_not() -> None:
    whole = "x" * (MAX_BYTES - 1) + "\n"
    assert keep_head(whole).content == keep_tail(whole).content == whole
    assert not keep_head("x" * MAX_BYTES).truncated
    assert keep_head("x" * (MAX_BYTES + 1)).truncated


def test_two_thousand_lines_with_a_final_line_feed_are_whole() -> None:
    text = "x\n" * 2000
    assert keep_head(text).content == text
    assert keep_tail(text).content == text


def test_a_cut_text_loses_the_line_feed_after_its_last_line() -> None:
    assert len(keep_head("x\n" * 2001).content) == 3999


def test_a_final_line_feed_alone_over_the_limit_cuts_no_line() -> None:
    kept = keep_head("x" * 50 + "\n", max_bytes=50)
    assert (kept.content, kept.truncated) == ("x" * 50, False)


@pytest.mark.parametrize(("limit", "lines"), [(6, 1), (7, 2), (10, 2), (11, 3)])
def test_each_line_but_the_first_costs_its_line_feed(limit: int, lines: int) -> None:
    text = "aaa\nbbb\nccc"
    assert keep_head(text, max_bytes=limit).output_lines == lines
    assert keep_tail(text, max_bytes=limit).output_lines == lines


def test_an_empty_first_line_is_a_line() -> None:
    assert keep_head("\na\nb", max_lines=2).content == "\na"
    assert keep_tail("\na\nb", max_lines=2).content == "a\nb"
    assert keep_head("a\nb", max_lines=1).content == "a"


def test_bytes_are_counted_not_characters() -> None:
    assert keep_head("é" * 20 + "\n" + "é" * 20, max_bytes=41).content == "é" * 20


def test_a_limit_of_zero_means_the_default() -> None:
    assert keep_head("x\n" * 2500, max_lines=0, max_bytes=-1).output_lines == 2000


def test_a_long_line_is_cut_with_a_mark() -> None:
    assert cut_line("x" * 600, 0) == "x" * 500 + "... [truncated]"
    assert cut_line("12345", 5) == "12345"
    assert cut_line("é" * 600) == "é" * 500 + "... [truncated]"


def test_the_summary_holds_everything_but_the_text() -> None:
    summary = keep_head(THREE, max_bytes=30).summary()
    assert summary["truncatedBy"] == "bytes"
    assert "content" not in summary
