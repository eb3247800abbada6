"""Text without the characters that a terminal obeys, and the stream that writes it."""

from __future__ import annotations

import io

import pytest

from agent.cli.display.clean_text import OutputError, clean, cleaned, one_line, unwrapped


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("plain", "plain"),
        ("a\tb\nc", "a\tb\nc"),
        ("\x1b]52;c;QQ==\x07", "]52;c;QQ=="),
        ("\x1b[2J\x1bc", "[2Jc"),
        ("\x9b2J\x9d0;t\x9c", "2J0;t"),
        ("a\rb\x08c\x7f\x00", "abc"),
        ("a\u202eb\u2066c\u2069", "abc"),
        ("שלום \u200f日本 👍", "שלום \u200f日本 👍"),
    ],
)
def test_control_characters_and_overrides_are_removed(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


def test_one_line_joins_lines_and_is_cut() -> None:
    assert one_line("a\n  b\x1b\nc") == "a b c"
    assert len(one_line("x" * 10_000_000)) == 160
    assert one_line("word " * 100, 20) == "word word word wo..."


def test_a_clean_stream_writes_clean_text_and_reports_the_given_length() -> None:
    inner = io.StringIO()
    stream = cleaned(inner)
    assert stream.write("a\x1bb") == 3
    stream.writelines(["c\x07", "d"])
    print("e\x9b", file=stream, flush=True)
    assert inner.getvalue() == "abcde\n"
    assert stream.isatty() is False
    assert unwrapped(stream) is inner
    assert unwrapped(inner) is inner


class _Full(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


def test_a_failed_write_names_its_cause() -> None:
    with pytest.raises(OutputError) as raised:
        cleaned(_Full()).write("x")
    assert isinstance(raised.value.__cause__, OSError)


@pytest.mark.parametrize("closed", [True, False])
def test_a_failed_write_of_an_optional_output_is_ignored(closed: bool) -> None:
    inner = _Full()
    if closed:
        inner.close()
    stream = cleaned(inner, is_optional=True)
    stream.write("x")
    stream.flush()
