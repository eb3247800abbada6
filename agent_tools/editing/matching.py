"""Finds the text that a model quoted in a file.

The exact text is searched first, then a normalized form that ignores what models get wrong: trailing
whitespace, curly quotes, dashes, unusual spaces and other compatible forms of Unicode. LF and CRLF are equal,
a lone carriage return is data. Matches are positions in the original text, so that a replacement changes
nothing else. The time is linear in the length of the text.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

MAX_OCCURRENCES = 1000  # more are not counted

_TYPOGRAPHY = str.maketrans(
    dict.fromkeys("\u2018\u2019\u201a\u201b", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u201f", '"')
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-")
    | dict.fromkeys("\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a", " ")
    | dict.fromkeys("\u202f\u205f\u3000", " ")
)
# ASCII without the character before a non-ASCII one: that may be an accent of it.
_ASCII_RUN = re.compile(r"[\x00-\x7f]+(?=[\x00-\x7f]|\Z)")
_LONGEST_CLUSTER = 64  # characters; real ones have a few, and normalizing takes the square of the length


@dataclass(frozen=True, slots=True)
class Match:
    """Positions in the original text; `is_exact` is false for a match of the normalized form."""

    start: int
    end: int
    is_exact: bool


class Haystack:
    """A text in which quotations are searched; for one thread at a time."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lf = with_line_feeds(text)

    def find(self, quoted: str) -> list[Match]:
        """All matches of the quotation, overlapping ones too; normalized ones only if none is exact."""
        needle = with_line_feeds(quoted.removeprefix("\ufeff"))
        if not needle:
            return []
        return list(self._exact(needle)) or list(self._normalized(needle))

    def lines(self, matches: Iterable[Match]) -> Iterator[int]:
        """The line, counted from 1, of each match; they come in the order of the text."""
        line, counted = 1, 0
        for match in matches:
            line += self.text.count("\n", counted, match.start)
            counted = match.start
            yield line

    def _exact(self, needle: str) -> Iterator[Match]:
        for start in _positions(self.lf, needle):
            yield Match(self._original(start), self._original(start + len(needle)), True)

    def _normalized(self, quoted: str) -> Iterator[Match]:
        needle = normalize(quoted)
        if not needle.strip():
            return
        # Whitespace removed from the end of the quotation matches the same whitespace or the end of a line.
        last_line = _fold(quoted).rpartition("\n")[2]
        blanks = last_line[len(last_line.rstrip()) :]
        for start in _positions(self._normal, needle):
            end = start + len(needle)
            if blanks and self._normal[end : end + 1] not in ("", "\n"):
                if not self._normal.startswith(blanks, end):
                    continue
                end += len(blanks)
            from_ = self._place(start, False)
            to = self._place(end, bool(blanks))
            # A position inside the normal form of one character, such as the f of a ligature, does not count.
            if from_ is not None and to is not None and normalize(self.lf[from_:to]) == needle:
                yield Match(self._original(from_), self._original(to), False)

    @cached_property
    def _normal(self) -> str:
        return normalize(self.lf)

    @cached_property
    def _line_starts(self) -> list[int]:
        return _starts_of_lines(self.lf)

    @cached_property
    def _normal_line_starts(self) -> list[int]:
        return _starts_of_lines(self._normal)

    @cached_property
    def _crlf(self) -> list[int]:
        """The positions in `lf` of line feeds that followed a carriage return."""
        found: list[int] = []
        position = self.text.find("\r\n")
        while position >= 0:
            found.append(position - len(found))
            position = self.text.find("\r\n", position + 2)
        return found

    def _original(self, position: int) -> int:
        """Convert a position in `lf` to one in the original text."""
        return position if len(self.lf) == len(self.text) else position + bisect_left(self._crlf, position)

    def _place(self, position: int, takes_blanks: bool) -> int | None:
        """Convert a position in the normal form to one in `lf`; None if there is none.

        The end of a line is after its trailing whitespace, unless only that is quoted.
        """
        line = bisect_right(self._normal_line_starts, position) - 1
        column = position - self._normal_line_starts[line]
        start = self._line_starts[line]
        if not column and not takes_blanks:
            return start
        end = self.lf.find("\n", start)
        original = self.lf[start : end if end >= 0 else len(self.lf)]
        if self._normal[position : position + 1] in ("", "\n"):
            return start + len(original)
        found = _original_column(original, column)
        return None if found is None else start + found


def with_line_feeds(text: str) -> str:
    """The text with LF for CRLF; the same object when it has no CRLF."""
    # One character is found ten times as fast as two.
    return text.replace("\r\n", "\n") if "\r" in text else text


def normalize(text: str) -> str:
    """The normalized form in which quotations are compared; it has the same lines."""
    return "\n".join([line.rstrip() for line in _fold(text).split("\n")])


def _fold(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFKC", text).translate(_TYPOGRAPHY)


def _positions(text: str, needle: str) -> Iterator[int]:
    position = text.find(needle)
    for _ in range(MAX_OCCURRENCES):
        if position < 0:
            return
        yield position
        position = text.find(needle, position + 1)


def _starts_of_lines(text: str) -> list[int]:
    starts = [0]
    position = text.find("\n")
    while position >= 0:
        starts.append(position + 1)
        position = text.find("\n", position + 1)
    return starts


def _original_column(line: str, column: int) -> int | None:
    """The position in a line of the character that begins at `column` of the line's normal form."""
    passed = position = 0
    while passed < column and position < len(line):
        run = _ASCII_RUN.match(line, position)
        if run:
            step = min(run.end() - position, column - passed)
            passed, position = passed + step, position + step
        else:
            end, length = _cluster(line, position)
            passed, position = passed + length, end
    return position if passed == column else None


def _cluster(line: str, start: int) -> tuple[int, int]:
    """The end of the characters that are normalized together from `start` on, and their normal length."""
    end = start + 1
    form = unicodedata.normalize("NFKC", line[start:end])
    while end < len(line) and end - start < _LONGEST_CLUSTER:
        alone = unicodedata.normalize("NFKC", line[end])
        together = unicodedata.normalize("NFKC", line[start : end + 1])
        if together == form + alone and not unicodedata.combining(alone[0]):
            break
        end, form = end + 1, together
    return end, len(form)
