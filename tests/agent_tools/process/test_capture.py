"""The end of an output in memory, all of it in a file once it is long."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_tools.process import capture as capture_module
from agent_tools.process.capture import Capture, Captured
from agent_tools.truncate import MAX_BYTES


@pytest.fixture(autouse=True)
def logs(tmp_path: Path) -> Path:
    """The folder of the logs."""
    return tmp_path


@pytest.fixture
def captured(logs: Path) -> Callable[..., Captured]:
    """Captures the pieces of an output."""
    return lambda *pieces: _captured(logs, *pieces)


def _captured(logs: Path, *pieces: str | bytes) -> Captured:
    capture = Capture(str(logs))
    for piece in pieces:
        capture.feed(piece.encode() if isinstance(piece, str) else piece)
    return capture.finish()


def test_short_output_is_kept_as_it_is_without_a_file(logs: Path, captured: Callable[..., Captured]) -> None:
    seen = captured("hello\n", "world")
    assert (seen.text, seen.notice, seen.raw, seen.log_path) == ("hello\nworld", "", "", "")
    assert list(logs.iterdir()) == []


@pytest.mark.parametrize("count", [1999, 2000])
def test_a_final_line_end_is_no_line(count: int, captured: Callable[..., Captured]) -> None:
    text = "".join(f"{i}\n" for i in range(count))
    assert captured(text).text == text


def test_too_many_lines_lose_the_first_ones_and_the_file_has_them_all(
    logs: Path, captured: Callable[..., Captured]
) -> None:
    text = "".join(f"{i}\n" for i in range(1, 2502))
    seen = captured(*(text[i : i + 100] for i in range(0, len(text), 100)))
    assert seen.text.startswith("502\n")
    assert seen.notice == f"[Showing lines 502-2501 of 2501. Full output: {seen.log_path}]"
    log = Path(seen.log_path)
    assert log.read_text() == text
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_a_final_line_end_over_the_limit_cuts_nothing(logs: Path, captured: Callable[..., Captured]) -> None:
    for text in ("x" * MAX_BYTES, "é" * 100 + "\n" + "x" * (MAX_BYTES - 201)):
        seen = captured(text, "\n")
        assert (seen.text, seen.notice, seen.log_path) == (text, "", "")
    assert list(logs.iterdir()) == []


def test_too_many_bytes_are_named_as_the_reason(captured: Callable[..., Captured]) -> None:
    seen = captured(*[f"{'x' * 7999}\n"] * 10)
    assert seen.notice.startswith("[Showing lines 5-10 of 10 (50.0KB limit). Full output: ")
    assert seen.text.count("x") == 6 * 7999


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_giant_line_shows_its_end_and_its_size(end: str, captured: Callable[..., Captured]) -> None:
    seen = captured("first\n", *["y" * 10_000] * 12, end)
    assert seen.text == "y" * MAX_BYTES
    assert seen.notice.startswith("[Showing last 50.0KB of line 2 (line is 117.2KB). Full output: ")
    assert Path(seen.log_path).read_text() == "first\n" + "y" * 120_000 + end


def test_exactly_the_limit_is_untouched_and_one_more_byte_is_not(captured: Callable[..., Captured]) -> None:
    assert captured("x" * MAX_BYTES).notice == ""
    assert captured("x" * (MAX_BYTES + 1)).text == "x" * MAX_BYTES


def test_a_cut_never_falls_inside_a_character(captured: Callable[..., Captured]) -> None:
    """B11"""
    data = ("你" * 40_000 + "\n").encode()
    seen = captured(*(data[i : i + 65_536] for i in range(0, len(data), 65_536)))
    assert set(seen.text) == {"你"}
    assert MAX_BYTES - 3 < len(seen.text.encode()) <= MAX_BYTES
    assert "(line is 117.2KB)" in seen.notice


def test_a_character_may_arrive_in_two_pieces(captured: Callable[..., Captured]) -> None:
    assert captured("日".encode()[:1], "日".encode()[1:]).text == "日"


def test_the_hash_is_of_all_the_text_without_its_colours(captured: Callable[..., Captured]) -> None:
    text = "line\n" * 5000
    expected = hashlib.sha256(text.encode()).hexdigest()[:16]
    assert captured(text).hash == captured(text.replace("line", "\x1b[31mline\x1b[0m")).hash == expected


def test_the_raw_output_is_there_only_where_it_says_more(captured: Callable[..., Captured]) -> None:
    assert captured("\x1b[31mred\x1b[0m\n").raw == "\x1b[31mred\x1b[0m\n"
    assert captured("plain\n").raw == ""
    assert captured("plain\n" * 50_000).raw == ""
    assert len(captured("\x1b[31mred\x1b[0m\n" * 50_000).raw.encode()) <= MAX_BYTES


def test_memory_is_bounded_whatever_comes(logs: Path) -> None:
    """B13, B14"""
    capture = Capture(str(logs))
    for piece in (b"z" * 65_536, b"y\n" * 32_768, b"\x1b[31mq\x1b[0m\r" * 5_000):
        for _ in range(30):
            capture.feed(piece)
            assert len(capture._clean.window) + len(capture._raw.window) <= 8 * MAX_BYTES + 4 * 65_536
    assert capture.finish().text


def test_each_byte_of_a_long_output_is_moved_at_most_twice() -> None:
    tail, moved = capture_module._Tail(), 0
    for _ in range(500):
        tail.append(b"x" * 1000)
        before = len(tail.window)
        tail.trim()
        moved += len(tail.window) if len(tail.window) < before else 0
    assert moved <= 2 * tail.total


def test_the_file_is_written_while_the_output_arrives(logs: Path) -> None:
    capture = Capture(str(logs))
    capture.feed(b"x\n" * 3000)
    assert sum(file.stat().st_size for file in logs.iterdir()) == 6000
    capture.feed(b"y\n")
    assert sum(file.stat().st_size for file in logs.iterdir()) == 6002
    capture.finish()


def test_a_log_that_cannot_be_created_is_reported_and_harms_nothing() -> None:
    seen = _captured(Path("/nonexistent/folder"), "x\n" * 3000)
    assert seen.notice.endswith("The full output could not be saved: No such file or directory.]")
    assert seen.text == "x\n" * 1999 + "x"


def test_a_full_disk_is_reported_and_leaves_no_partial_file(
    logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = Capture(str(logs))
    capture.feed(b"x\n" * 3000)

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    capture.feed(b"y\n")
    assert "could not be saved: No space left on device" in capture.finish().notice
    assert list(logs.iterdir()) == []


def test_recent_text_includes_the_line_being_written(logs: Path) -> None:
    capture = Capture(str(logs))
    capture.feed(b"one\ntwo\r3")
    assert capture.recent(100) == "one\n3wo"
    capture.feed(b"x" * 1000)
    assert capture.recent(10) == "x" * 10


def test_reading_on_shows_each_line_once(logs: Path) -> None:
    capture = Capture(str(logs))
    capture.feed(b"one\ntw")
    first = capture.since(0)
    assert first.text == "one\ntw"
    capture.feed(b"o\nthree\n")
    assert capture.since(first.position).text == "two\nthree\n"
