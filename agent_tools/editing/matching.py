"""Finding in a file the lines that a model quoted.

A quotation is first looked for as it is, then with forgiveness for what models get wrong: trailing blanks,
curly quotes, dashes, odd spaces and the other forms that Unicode calls compatible. Line feeds and CRLF are
the same throughout, a lone carriage return is data. What is found are places in the original text, so that a
replacement touches nothing else. All work is linear in the text.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

MAX_OCCURRENCES = 1000  # beyond that the exact count helps nobody

_TYPOGRAPHY = str.maketrans(
    dict.fromkeys("\u2018\u2019\u201a\u201b", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u201f", '"')
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-")
    | dict.fromkeys("\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a", " ")
    | dict.fromkeys("\u202f\u205f\u3000", " ")
)
# ASCII up to the last character before another kind: that one may carry an accent.
_ASCII_RUN = re.compile(r"[\x00-\x7f]+(?=[\x00-\x7f]|\Z)")
_LONGEST_CLUSTER = 64  # characters; real ones have a handful, and normalising a longer one costs its square


@dataclass(frozen=True, slots=True)
class Match:
    """A place in the original text; `is_exact` is false if forgiveness was needed."""

    start: int
    end: int
    is_exact: bool


class Haystack:
    """A text that quotations are searched in; not for two threads at once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lf = with_line_feeds(text)

    def find(self, quoted: str) -> list[Match]:
        """All places of the quotation, overlapping ones too; forgiving only where there is no exact one."""
        needle = with_line_feeds(quoted.removeprefix("\ufeff"))
        if not needle:
            return []
        return list(self._exact(needle)) or list(self._forgiving(needle))

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

    def _forgiving(self, quoted: str) -> Iterator[Match]:
        needle = normalise(quoted)
        if not needle.strip():
            return
        # Blanks dropped from the end of the quotation stand for the same blanks or the end of a line.
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
            # A place inside of one character's normal form, such as the f of a ligature, is no place.
            if from_ is not None and to is not None and normalise(self.lf[from_:to]) == needle:
                yield Match(self._original(from_), self._original(to), False)

    @cached_property
    def _normal(self) -> str:
        return normalise(self.lf)

    @cached_property
    def _line_starts(self) -> list[int]:
        return _starts_of_lines(self.lf)

    @cached_property
    def _normal_line_starts(self) -> list[int]:
        return _starts_of_lines(self._normal)

    @cached_property
    def _crlf(self) -> list[int]:
        """Where in `lf` the line feeds are that had a carriage return."""
        found: list[int] = []
        position = self.text.find("\r\n")
        while position >= 0:
            found.append(position - len(found))
            position = self.text.find("\r\n", position + 2)
        return found

    def _original(self, position: int) -> int:
        """A position in `lf` as one in the original text."""
        return position if len(self.lf) == len(self.text) else position + bisect_left(self._crlf, position)

    def _place(self, position: int, takes_blanks: bool) -> int | None:
        """A position in the normal form as one in `lf`, None if there is none.

        The end of a line lies after its trailing blanks, unless nothing else of the line is meant.
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
    """The text with plain line feeds; the very object when it has no others."""
    # One character is found ten times as fast as two.
    return text.replace("\r\n", "\n") if "\r" in text else text


def normalise(text: str) -> str:
    """The form in which quotations are compared; it has the same lines."""
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
    """Where in a line the character is that begins at `column` of the line's normal form."""
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
    """The end of the characters that are normalised together from `start` on, and their normal length."""
    end = start + 1
    form = unicodedata.normalize("NFKC", line[start:end])
    while end < len(line) and end - start < _LONGEST_CLUSTER:
        alone = unicodedata.normalize("NFKC", line[end])
        together = unicodedata.normalize("NFKC", line[start : end + 1])
        if together == form + alone and not unicodedata.combining(alone[0]):
            break
        end, form = end + 1, together
    return end, len(form)
