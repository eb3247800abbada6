"""Bytes become the text a terminal would have on its screen."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.rounds import rounds

from agent_tools.process.terminal_text import OPEN_LINE_LIMIT, TerminalText, plain_text


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("", ""),
        ("no end", "no end"),
        # Colours and modes.
        ("\x1b[1;31mbold\x1b[0m t", "bold t"),
        ("\x1b[38:2::1:2:3mx\x1b[?25l\x1b[?2004hy\x1b[>4;1mz\x1b[!p", "xyz"),
        ("\x1b[1 qcursor", "cursor"),
        ("\x9b31mred\x9b0m", "red"),
        # Short sequences, among them character sets and a lone string terminator.
        ("\x1b(Ba\x1b)0b\x1b7c\x1b8d\x1b\\e\x1b=f\x1bM", "abcdef"),
        ("\x1b%Gx", "x"),
        # Strings: titles, shell integration, links, device control.
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]133;A\x1b\\prompt\x1b]133;B\x07$", "prompt$"),
        ("\x1b]8;;http://a.b\x1b\\link\x1b]8;;\x1b\\!", "link!"),
        ("\x1bP1$r0m\x1b\\a\x1b_apc\x1b\\b\x1b^pm\x1b\\c\x1bXsos\x1b\\d", "abcd"),
        # A string without an end takes no other line with it, whatever comes later.
        ("\x1b]0;never ended\nreal text\x07 more\n", "\nreal text more\n"),
        ("\x1b]0;cut off by\x1b[31mred\n", "red\n"),
        # Odd ends and beginnings.
        ("\x1b\x1b[31mx", "x"),
        ("x\x1b", "x"),
        ("x\x1b[3", "x"),
        ("[31m is text", "[31m is text"),
        # Control codes.
        ("a\x00b\x07c\x0bd\x0ce\x7ff\x85g\ufff9h\ufffai\ufffbj", "abcdefghij"),
    ],
)
def test_escape_sequences_and_control_codes_are_removed(written: str, seen: str) -> None:
    """B19"""
    assert plain_text(written) == seen


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        ("10%\r20%\rdone\n", "done\n"),
        ("one\r\ntwo\r\n", "one\ntwo\n"),
        ("one\r\r\ntwo", "one\ntwo"),
        ("longer\rab\n", "abnger\n"),
        ("last frame\r", "last frame"),
        ("step 1\x1b[K\rstep 2\x1b[K\n", "step 2\n"),
        ("a long frame\r\x1b[Kshort\n", "short\n"),
        ("a long frame\r\x1b[2Kshort\n", "short\n"),
        ("a long frame\x1b[2K\rshort\n", "short\n"),
        ("a long frame\x1b[2K\x1b[1Gshort\n", "short\n"),
        ("a long frame\x1b[2K\x1b[Gshort\n", "short\n"),
        # Cleared and left so.
        ("working\r\x1b[Kdone\n", "done\n"),
        ("working\r\x1b[K\n", "\n"),
        # Without a return it hides nothing that was meant to be read.
        ("red x\x1b[2K\n", "red x\n"),
        ("keep\x1b[K\n", "keep\n"),
        # Spinners and overstruck manual pages go back by one.
        ("|\b/\b-\b\\\b done\n", " done\n"),
        ("N\bNA\bAM\bME\bE\n", "NAME\n"),
        ("\b\bx", "x"),
        # Only the current line can be overwritten.
        ("first\nsecond\x1b[A\rthird\n", "first\nthirdd\n"),
    ],
)
def test_a_line_is_overwritten_as_on_a_terminal(written: str, seen: str) -> None:
    assert plain_text(written) == seen


def test_bytes_that_are_not_utf8_become_replacement_characters() -> None:
    """B10"""
    terminal = TerminalText()
    assert terminal.feed(b"\xff\xfeok\n\xe4\xbd") + terminal.finish() == "\ufffd\ufffdok\n\ufffd"


PIECES = [
    "a",
    "bc ",
    "日本",
    "é",
    "\n",
    "\r",
    "\r\n",
    "\b",
    "\x1b[31m",
    "\x1b[0m",
    "\x1b[K",
    "\x1b[2K",
    "\x1b[1G",
]
PIECES += [
    "\x1b]0;t\x07",
    "\x1b]8;;u\x1b\\",
    "\x1b]open",
    "\x1b(B",
    "\x1b",
    "\x1b[",
    "\x07",
    "\x00",
    "\x9b1m",
    "\t",
]


@settings(max_examples=rounds(300), deadline=None)
@example(["a", "\x1b[", "\x00", "a"], 0)
@example(["a", "\x1b[2K", "\x1b[1G", "\n"], 0)
@given(st.lists(st.sampled_from(PIECES), max_size=25), st.integers(0, 2**32))
def test_the_pieces_it_arrives_in_do_not_matter(pieces: list[str], seed: int) -> None:
    data, cut = "".join(pieces).encode(), random.Random(seed)
    terminal, seen, start = TerminalText(), [], 0
    while start < len(data):
        end = start + cut.randint(1, 4)
        seen.append(terminal.feed(data[start:end]))
        start = end
    assert "".join(seen) + terminal.finish() == plain_text(data.decode())


@settings(max_examples=rounds(100), deadline=None)
@given(st.binary(max_size=300))
def test_any_input_becomes_valid_text_without_control_codes(data: bytes) -> None:
    terminal = TerminalText()
    seen = terminal.feed(data) + terminal.finish()
    seen.encode("utf-8")
    assert not [c for c in seen if (c < " " and c not in "\t\n") or "\x7f" <= c < "\xa0"]


def test_what_is_still_being_written_can_be_seen_before_its_line_ends() -> None:
    terminal = TerminalText()
    assert terminal.feed(b"done\n10%\r20%") == "done\n"
    assert terminal.open_line == "20%"
    assert terminal.feed(b"\r") == ""
    assert terminal.open_line == "20%"


def test_memory_stays_bounded_on_one_endless_line() -> None:
    terminal, seen = TerminalText(), 0
    for _ in range(100):
        seen += len(terminal.feed(b"x" * 10_000))
        assert len(terminal.open_line) <= OPEN_LINE_LIMIT
    assert seen + len(terminal.finish()) == 1_000_000


@pytest.mark.parametrize("start", [b"\x1b]52;c;", b"\x1b[", b"\x1bP", b"\r"])
def test_memory_stays_bounded_on_a_sequence_that_never_ends(start: bytes) -> None:
    terminal = TerminalText()
    filler = {b"\x1b[": b"0", b"\r": b"\r"}.get(start, b"A") * 10_000
    terminal.feed(b"text" + start)
    for _ in range(20):
        assert terminal.feed(filler) == ""
        assert len(terminal._unfinished) <= 256


def test_a_return_after_a_very_long_line_loses_nothing() -> None:
    long = "x" * (OPEN_LINE_LIMIT + 1000)
    assert plain_text(f"{long}\rnext\n") == f"{long}\nnext\n"


@pytest.mark.parametrize("noise", ["\r", "\x1b", "\x1b[", "\x1b]", "\x9b", "\r\r\r\x1b[K", "\b", "a\r"])
def test_noise_takes_time_in_proportion_to_its_length(noise: str) -> None:
    # Quadratic work on a megabyte would take hours, and the test's time limit says so.
    plain_text((noise * 300_000 + "x")[:1_000_000])
