"""Rendering questions: nothing that is approved can hide."""

from __future__ import annotations

from typing import Any

import pytest

from agent.cancel import CancelToken
from agent.cli.permissions.gate import Question
from agent.cli.permissions.question_text import ESCAPE, escape_hidden, excerpt, question_rows


def _text(tool: str = "bash", *, diff: str = "", **arguments: Any) -> str:
    command = str(arguments.get("command", ""))
    question = Question("c", tool, arguments, "why", command, diff, (), CancelToken())
    return "\n".join(row.text for row in question_rows(question))


INVISIBLE = [
    0x200B,
    0x200E,
    0x200F,
    0x61C,
    0xAD,
    0xFEFF,
    0x2060,
    0x2061,
    0x3164,
    0x115F,
    0xFFA0,
    0x2800,
    0xFE0F,
]
INVISIBLE += [
    0xE0041,
    0xE0100,
    0x34F,
    0x180E,
    0x202E,
    0x2066,
    0xA0,
    0x2003,
    0x3000,
    0x2028,
    0x85,
    0x1B,
    0x7F,
    0x9B,
    0x0D,
]


@pytest.mark.parametrize("code", INVISIBLE, ids=hex)
def test_an_invisible_character_is_an_escape_of_its_own_style(code: int) -> None:
    segments = list(escape_hidden(f"a{chr(code)}b"))
    assert segments[0] == ("a", "")
    assert segments[1][1] == ESCAPE
    assert segments[1][0].isascii()
    assert segments[2] == ("b", "")


def test_visible_text_stays_as_it_is() -> None:
    for text in ("ls -l", "grep 'ä ß 你好 🎉 é'", "a\u0301"):
        assert list(escape_hidden(text)) == [(text, "")]
    assert list(escape_hidden("")) == []


def test_folder_timeout_and_background_are_named() -> None:
    text = _text(command="make install", cwd="/tmp/evil", timeout=900, background=True)
    assert "cwd: /tmp/evil" in text
    assert "timeout: 900" in text
    assert "background: true" in text
    assert "background" not in _text(command="make", background=False)


@pytest.mark.parametrize("place", ["start", "middle", "end"])
@pytest.mark.parametrize("shape", ["lines", "one line", "blanks"])
def test_no_part_of_a_command_is_left_out(place: str, shape: str) -> None:
    blanks = "true" + " " * 1000 + "x; "
    filler = {"lines": "true\n" * 60, "one line": "true; " * 2000, "blanks": blanks}[shape]
    evil = "rm -rf evil; "
    command = {"start": evil + filler, "middle": filler + evil + filler, "end": filler + evil}[place] + "true"
    text = _text(command=command)
    assert "rm -rf evil" in text
    assert text.count("true") == command.count("true")
    assert all(len(row) <= 450 for row in text.split("\n"))
    if shape == "blanks":
        assert "more blanks" in text


def test_a_long_line_has_a_row_for_each_simple_command() -> None:
    command = (
        "cd build && " + " && ".join(f"make target-number-{n}" for n in range(10)) + " && rm -rf 'a && b'"
    )
    rows = _text(command=command).split("\n")
    assert "  make target-number-5 &&" in rows
    assert "  rm -rf 'a && b'" in rows


def test_a_short_or_unsplittable_command_is_shown_as_written() -> None:
    assert "  a && b" in _text(command="a && b").split("\n")
    command = "echo $(date) && " + "x" * 200
    assert f"  {command}" in _text(command=command).split("\n")
    assert "  # it's" in _text(command="# it's\n" + "y" * 200).split("\n")


def test_all_of_a_diff_and_all_arguments_are_shown() -> None:
    diff = "\n".join(f"+{n} row" for n in range(500))
    assert _text("write", diff=diff, path="a").count("row") == 500
    text = _text("deploy", env="production", nested={"a": [1, "\u200b"]}, text="a\nb")
    assert "env: production" in text
    assert '"a": [1, "\\u200b"]' in text
    assert "    b" in text.split("\n")


def test_an_excerpt_says_what_is_left_out() -> None:
    question = Question("c", "bash", {}, "why", "\n".join(map(str, range(100))), "", (), CancelToken())
    rows = question_rows(question)
    assert excerpt(rows, 200, "type show") == rows
    shown = [row.text for row in excerpt(rows, 10, "type show")]
    assert len(shown) == 11
    assert shown[5] == "  ... 92 rows are not shown; type show"
    assert shown[-1] == "  why"
