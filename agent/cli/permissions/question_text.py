"""Renders approval questions, for every user interface, so that nothing in them can hide.

All of a question is rendered: the command with its folder, timeout and background flag, the whole diff, every
argument. Characters that a terminal does not show (controls, zero-width and odd blanks, direction marks,
fillers) become escapes in a style of their own; long runs of blanks and long lines are broken up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent.cli.permissions.gate import NO_RULE, Question
from agent.cli.permissions.shell_lexer import Unparsable, split_lines

ESCAPE = "bold magenta"
MARK = "dim"
_DIFF_STYLES = {"+": "green", "-": "red"}

# A longer line of a command is split at its operators, and every line after this many characters.
_MAX_LINE = 100
_MAX_ROW = 400
# Blanks in a row that are shown as they are.
_MAX_BLANKS = 20
# Printable for Python, and invisible: fillers, joiners, variation selectors, the empty Braille pattern.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\ufe00-\ufe0f\U000e0000-\U000e0fff\U0001d159]"
)
_SHORT = {"\t": "\\t", "\r": "\\r"}

Segment = tuple[str, str]  # text and rich style


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a question as segments of text, each with a rich style."""

    segments: tuple[Segment, ...]

    @property
    def text(self) -> str:
        """The row without styles."""
        return "".join(text for text, _ in self.segments)


def question_rows(question: Question) -> list[Row]:
    """All rows of a question: title, circumstances, what would happen, and the reason it is asked."""
    rows = list(_rows(f"? {_title(question)}", "bold yellow"))
    for name, value in _circumstances(question):
        rows += _rows(f"  {name}: {value}", "yellow")
    if question.command:
        for line in _command_lines(question.command):
            rows += _rows(f"  {line}", "")
    elif question.diff:
        for line in question.diff.split("\n"):
            rows += _rows(f"  {line}", _DIFF_STYLES.get(line[:1], MARK))
    else:
        for key, value in question.arguments.items():
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            for at, line in enumerate(text.split("\n")):
                rows += _rows(f"  {key}: {line}" if at == 0 else f"    {line}", "")
    if question.why != NO_RULE:  # that is what the mode "ask" says of everything
        rows += _rows(f"  {question.why}", MARK)
    return rows


def excerpt(rows: Sequence[Row], limit: int, hint: str) -> list[Row]:
    """The first and last rows when there are more than `limit`, and between them how many are left out."""
    if len(rows) <= limit:
        return list(rows)
    half = limit // 2
    left = Row(((f"  ... {len(rows) - 2 * half} rows are not shown; {hint}", ESCAPE),))
    return [*rows[:half], left, *rows[-half:]]


def escape_hidden(text: str, style: str = "") -> Iterator[Segment]:
    """The text as segments in which everything invisible is an escape."""
    plain: list[str] = []
    blanks = 0
    for at, character in enumerate(text):
        if character == " ":
            blanks += 1
            if blanks <= _MAX_BLANKS:
                plain.append(character)
            if blanks > _MAX_BLANKS and text[at + 1 : at + 2] != " ":
                yield "".join(plain), style
                plain = []
                yield f"[{blanks - _MAX_BLANKS} more blanks]", ESCAPE
            continue
        blanks = 0
        if character.isprintable() and not _INVISIBLE.match(character):
            plain.append(character)
            continue
        if plain:
            yield "".join(plain), style
            plain = []
        yield _escape(character), ESCAPE
    if plain:
        yield "".join(plain), style


def _escape(character: str) -> str:
    code = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _rows(line: str, style: str) -> Iterator[Row]:
    """The line as rows of a bounded length; a row after the first begins with a mark."""
    for at in range(0, max(1, len(line)), _MAX_ROW):
        segments = tuple(escape_hidden(line[at : at + _MAX_ROW], style))
        yield Row(segments if at == 0 else (("  \u21b3 ", MARK), *segments))


def _title(question: Question) -> str:
    if question.command:
        return f"run {question.tool}"
    path = question.arguments.get("path")
    return f"{question.tool} {path}" if path else question.tool


def _circumstances(question: Question) -> Iterator[tuple[str, str]]:
    """Arguments that change what a command does, and are no part of its text."""
    if question.command:
        for key, value in question.arguments.items():
            if key != "command" and value not in (None, False, ""):
                yield key, value if isinstance(value, str) else json.dumps(value, default=str)


def _command_lines(command: str) -> list[str]:
    """The lines of a command; a long one with a simple command on each line where it can be split."""
    if max(map(len, command.split("\n"))) <= _MAX_LINE:
        return command.split("\n")
    try:
        return split_lines(command)
    except Unparsable:
        return command.split("\n")
