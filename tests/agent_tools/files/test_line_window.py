"""Windows: the right lines of a stream of any size, in one pass and little memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_tools.files.atomic_write import content_hash
from agent_tools.files.line_window import BLOCK_BYTES, read_window


def blocks(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


@given(
    st.lists(st.sampled_from(["", "a", "bcd", "é", "\r"]), max_size=12),
    st.booleans(),
    st.integers(1, 14),
    st.none() | st.integers(1, 6),
    st.integers(1, 5),
)
def test_a_window_holds_the_lines_a_split_would_give(
    lines: list[str], ends: bool, first: int, limit: int | None, size: int
) -> None:
    text = "\n".join(lines) + ("\n" if ends and lines else "")
    expected = text.split("\n")
    if expected[-1] == "":
        expected.pop()
    wanted = expected[first - 1 :][:limit]
    window = read_window(blocks(text.encode(), size), first, limit)
    assert window.total_lines == len(expected)
    assert window.shown.output_lines == len(wanted)
    assert window.shown.content.split("\n")[: len(wanted)] == wanted
    assert window.remaining == max(0, len(expected) - (first - 1 + len(wanted)))
    assert window.hash == content_hash(text.encode())


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
@pytest.mark.parametrize("size", [1000, 4, 6, 7])
def test_lines_of_wide_encodings_are_found_across_blocks(encoding: str, size: int) -> None:
    data = "".join(f"zeile {n} ä\n" for n in range(50)).encode(encoding)
    window = read_window(blocks(data, size), 20, 2)
    assert window.shown.content == "zeile 19 ä\nzeile 20 ä"
    assert (window.total_lines, window.hash) == (50, content_hash(data))


def test_a_stream_far_larger_than_memory_would_like_is_read_in_blocks() -> None:
    block = (b"0123456789" * 9 + b"\n") * (BLOCK_BYTES // 91)
    lines_per_block = block.count(b"\n")
    tracemalloc.start()
    try:
        window = read_window((block for _ in range(800)), 799 * lines_per_block, 3)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert window.shown.output_lines == 3
    assert window.total_lines == 800 * lines_per_block
    assert peak < 4 * BLOCK_BYTES


def test_a_line_of_many_blocks_before_the_window_is_passed_over() -> None:
    data = b"x" * (3 * BLOCK_BYTES) + b"\nsecond\n"
    assert read_window(blocks(data, BLOCK_BYTES), 2).shown.content == "second\n"


def test_the_size_of_a_line_too_long_to_show_is_known() -> None:
    window = read_window(blocks(b"x\n" + b"y" * 300_000 + b"\nz\n", 1000), 2)
    assert (window.first_line_bytes, window.shown.output_lines, window.remaining) == (300_000, 0, 2)
    assert window.shown.first_line_exceeds_limit


def test_the_size_is_right_when_the_line_ends_with_a_block() -> None:
    window = read_window(blocks(b"y" * 300_000 + b"\nz\n", 1000), 1)
    assert (window.first_line_bytes, window.total_lines) == (300_000, 2)


@pytest.mark.parametrize("size", [100, 1000, 4096])
def test_long_and_short_lines_in_turns_are_counted_alike(size: int) -> None:
    data = b"".join((b"y" * 700 + b"\n") * (turn % 3) + b"\n" * turn + b"z\r\n" * 9 for turn in range(300))
    lines = data.split(b"\n")
    for first in (1, 2000, len(lines) - 1):
        window = read_window(blocks(data, size), first, 1, hashed=False)
        assert window.total_lines == len(lines) - 1
        assert window.shown.content.encode().removesuffix(b"\n") == lines[first - 1]
        assert window.hash == ""
