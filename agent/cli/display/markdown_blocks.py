"""Splits streaming Markdown into complete blocks and the open one at the end.

Each character is scanned once, however small the pieces of text are. A block is what can be rendered without
the text after it: a paragraph, a heading, a whole code fence, a whole list, a quotation, a table.
"""

from __future__ import annotations

import re

# How much of the open block is drawn, so that a frame costs the same however long the block gets.
TAIL_CHARACTERS = 4000

_FENCE = re.compile(r"\s*(`{3,}|~{3,})(.*)")
_HEADING = re.compile(r" {0,3}#{1,6}(\s|$)")
_ITEM = re.compile(r" {0,3}([-*+]|\d{1,9}[.)])(\s|$)")
_INDENTED = re.compile(r"( {2,}|\t)")


class MarkdownBlocks:
    """Takes pieces of text and returns the blocks that they complete. Not thread-safe.

    `scanned` counts the scanned characters, for the test that each is scanned once.
    """

    def __init__(self) -> None:
        self.scanned = 0
        self._pieces: list[str] = []  # of the line that is not complete yet
        self._lines: list[str] = []  # of the open block
        self._is_list = False
        self._is_fence = False
        self._is_blank = False  # a list had an empty line: the next line decides whether it goes on
        self._closing: str | None = None  # inside a fence: the start of its closing line
        self._done: list[str] = []

    def add(self, text: str) -> list[str]:
        """Add a piece of text; returns the blocks that it completes."""
        self.scanned += len(text)
        if "\n" not in text:
            self._pieces.append(text)
            return []
        *complete, rest = text.split("\n")
        for line in complete:
            self._pieces.append(line)
            whole = "".join(self._pieces)
            self._pieces.clear()
            self._line(whole)
        if rest:
            self._pieces.append(rest)
        return self._take()

    def end(self) -> list[str]:
        """End the text; returns the remaining blocks and resets the state."""
        if self._pieces:
            last = "".join(self._pieces)
            self._pieces.clear()
            self._line(last)
        self._finish()
        self._closing = None
        return self._take()

    @property
    def tail(self) -> str:
        """The open block, or its last few thousand characters, in a form that can be rendered alone."""
        left = TAIL_CHARACTERS
        pieces = _last(self._pieces, left, "")
        left -= len(pieces)
        lines = _last(self._lines, left, "\n") if left > 0 else ""
        if self._is_fence and self._lines and not lines.startswith(self._lines[0]):
            lines = f"{self._lines[0]}\n{lines}"
        return f"{lines}\n{pieces}" if lines and pieces else lines or pieces

    def _take(self) -> list[str]:
        done, self._done = self._done, []
        return done

    def _line(self, line: str) -> None:
        if self._closing is not None:
            self._line_of_code(line)
            return
        if not line.strip():
            self._empty_line()
            return
        if self._is_blank and not (_INDENTED.match(line) or _ITEM.match(line)):
            self._finish()
        self._is_blank = False
        fence = _FENCE.match(line)
        if fence and not (fence[1][0] == "`" and "`" in fence[2]):  # else it is code within a line
            self._open_fence(line, fence[1])
            return
        if _HEADING.match(line):
            self._finish()
            self._lines.append(line)
            self._finish()
            return
        if not self._is_list and _ITEM.match(line) and not _is_rule(line):
            self._finish()
            self._is_list = True
        self._lines.append(line)

    def _line_of_code(self, line: str) -> None:
        self._lines.append(line)
        closing = self._closing
        stripped = line.strip()
        if closing and stripped.startswith(closing) and not stripped.strip(closing[0]):
            self._closing = None
            if self._is_fence:
                self._finish()

    def _empty_line(self) -> None:
        if not self._is_list:
            self._finish()
        elif self._lines:
            self._lines.append("")
            self._is_blank = True

    def _open_fence(self, line: str, closing: str) -> None:
        if not (self._is_list and _INDENTED.match(line)):
            self._finish()
            self._is_fence = True
        self._closing = closing
        self._lines.append(line)

    def _finish(self) -> None:
        block = "\n".join(self._lines).rstrip("\n")
        if block.strip():
            self._done.append(block)
        self._lines = []
        self._is_list = self._is_fence = self._is_blank = False


def _last(parts: list[str], limit: int, separator: str) -> str:
    """The last parts that fit into `limit` characters, joined; of a single longer one, its end."""
    taken: list[str] = []
    for part in reversed(parts):
        if len(part) > limit:
            if not taken:
                taken.append(part[-limit:])
            break
        taken.append(part)
        limit -= len(part) + len(separator)
    return separator.join(reversed(taken))


def _is_rule(line: str) -> bool:
    """True for a thematic break such as `* * *`, which begins like an item."""
    marks = line.replace(" ", "").replace("\t", "")
    return len(marks) >= 3 and len(set(marks)) == 1 and marks[0] in "-*_"
