"""Finds the matching lines of a file without matching every line."""

from __future__ import annotations

import codecs
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from agent_tools.files.atomic_write import RegularFile
from agent_tools.files.encoding import wide_encoding
from agent_tools.files.filesystem import Filesystem
from agent_tools.search.pattern import Pattern
from agent_tools.tool import ToolFailure

# Files up to this size are read at once; larger ones pass through in pieces of it, cut at a line end.
_WINDOW_BYTES = 1 << 18
# Bytes. A longer line is cut, so that a file of data does not fill the memory.
_MAX_LINE_BYTES = 64 << 20
# Seconds for one expression on one text, in up to three tries: the first holds the interpreter's lock, the
# others do not. Together they bound an expression that backtracks without end.
_MATCH_SECONDS = (0.05, 0.3, 1.0)
# Of these seconds in one search, so that many lines that are each just fast enough do not add up.
_MAX_SLOW_SECONDS = 2.5
_SHORT_TEXT = 1 << 16
# After this many lines that contain the needle and do not match, the expression is searched instead.
_MISSES_BEFORE_REGEX = 50
# O_NONBLOCK: a pipe that has replaced a file must not block the search.
OPEN_FLAGS = (
    os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
)
_MARK = codecs.BOM_UTF8
_WIDE_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the result. `start` and `end` are those of its first match, -1 in a line of context."""

    number: int
    text: str
    start: int = -1
    end: int = -1

    @property
    def is_match(self) -> bool:
        return self.start >= 0


class _TooSlow(Exception):
    """An expression exceeded its time on a text."""


class Finder:
    """Finds the lines that match a pattern in a window of bytes; used by one search."""

    def __init__(self, pattern: Pattern, check: Callable[[], None]) -> None:
        self._pattern = pattern
        self._check = check
        needles = []
        for needle in pattern.needles:
            needles.append(needle.encode("utf-8", "surrogatepass"))
            if not needle.isascii() and all(ord(character) < 256 for character in needle):
                needles.append(needle.encode("latin-1"))
        self._needles = tuple(needles)
        self._only_needle = needles[0] if len(needles) == 1 and not pattern.ignore_case else None
        self._misses = 0
        self._matches = 0
        self._slow_seconds = 0.0
        self._across = pattern.across

    def may_match(self, data: bytes) -> bool:
        """False only for the bytes of a file without a match."""
        if self._only_needle is not None:
            return self._only_needle in data or data[:2] in _WIDE_MARKS
        if data[:2] in _WIDE_MARKS:
            return True
        if not self._holds_needle(data):
            return False
        if self._across is None:
            return True
        try:
            return self._search(self._across, _window_text(data.removeprefix(_MARK))) is not None
        except _TooSlow:
            self._across = None
            return True

    def find(self, window: bytes, first_number: int) -> Iterator[Line]:
        """The matching lines of a window, numbered from `first_number`."""
        if self._only_needle is not None:
            return self._find_by_needle(window, first_number, self._only_needle)
        if not self._holds_needle(window):
            return iter(())
        if self._across is not None:
            return self._find_across(window, first_number)
        return self._find_by_line(window, first_number)

    def _holds_needle(self, data: bytes) -> bool:
        if not self._needles:
            return True
        if self._pattern.ignore_case:
            # Some characters outside ASCII equal an ASCII letter (the Kelvin sign): the expression decides.
            if not data.isascii():
                return True
            data = data.lower()
        return any(needle in data for needle in self._needles)

    def _find_by_needle(self, window: bytes, number: int, needle: bytes) -> Iterator[Line]:
        counted = 0
        position = window.find(needle)
        while position >= 0:
            start = window.rfind(b"\n", 0, position) + 1
            end = window.find(b"\n", position)
            end = len(window) if end < 0 else end
            number += window.count(b"\n", counted, start)
            counted = start
            line = self._match(number, line_text(window[start:end]))
            if line is not None:
                yield line
            else:
                self._misses += 1
                if self._misses > _MISSES_BEFORE_REGEX and self._across is not None:
                    self._only_needle = None
                    yield from self._find_across(window[end + 1 :], number + 1)
                    return
            position = window.find(needle, end)

    def _find_across(self, window: bytes, first_number: int) -> Iterator[Line]:
        text = _window_text(window)
        number, counted, position = first_number, 0, 0
        # No line follows a final line feed; without one even an empty last line counts.
        last = len(text) - window.endswith(b"\n")
        while position <= last:
            try:
                found = self._search(self._across, text, position)
            except _TooSlow:
                # It may be slow only across line ends.
                self._across = None
                yield from self._find_by_line(text[position:].encode("utf-8", "surrogatepass"), number)
                return
            if found is None:
                return
            start = text.rfind("\n", 0, found.start()) + 1
            end = text.find("\n", start)
            end = len(text) if end < 0 else end
            number += text.count("\n", counted, start)
            if start <= last:
                line = self._match(number, text[start:end])
                if line is not None:
                    yield line
            counted = position = end + 1
            number += 1

    def _find_by_line(self, window: bytes, first_number: int) -> Iterator[Line]:
        for offset, raw in enumerate(window.removesuffix(b"\n").split(b"\n") if window else ()):
            line = self._match(first_number + offset, line_text(raw))
            if line is not None:
                yield line

    def _match(self, number: int, text: str) -> Line | None:
        self._matches += 1
        if not self._matches & 15:
            self._check()
        try:
            found = self._search(self._pattern.expression, text)
        except _TooSlow:
            raise ToolFailure(
                f"the regex {self._pattern.source!r} takes too long (it backtracks endlessly on a line of "
                f"{len(text)} characters); simplify nested repetitions such as (a+)+, or use literal=true"
            ) from None
        return Line(number, text, found.start(), found.end()) if found else None

    def _search(self, expression: Any, text: str, position: int = 0) -> Any:
        waits = _MATCH_SECONDS
        if len(text) <= _SHORT_TEXT:
            try:
                return expression.search(text, position, timeout=waits[0])
            except TimeoutError:
                pass
            except MemoryError:
                raise _TooSlow from None
        for seconds in waits[1:]:
            if self._slow_seconds > _MAX_SLOW_SECONDS:
                break
            self._check()
            start = time.monotonic()
            try:
                return expression.search(text, position, concurrent=True, timeout=seconds)
            except TimeoutError:
                continue
            except MemoryError:  # a pattern that calls itself
                break
            finally:
                self._slow_seconds += time.monotonic() - start
        raise _TooSlow


def line_text(raw: bytes) -> str:
    raw = raw.removesuffix(b"\r")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _window_text(window: bytes) -> str:
    """The text of many lines, each as `line_text` gives it."""
    try:
        text = window.decode()
    except UnicodeDecodeError:
        return "\n".join(map(line_text, window.split(b"\n")))
    if "\r" in text:
        text = text.replace("\r\n", "\n").removesuffix("\r")
    return text


def windows_of_file(path: str, filesystem: Filesystem) -> Iterator[bytes]:
    """The lines of a file in windows of whole lines, as UTF-8 without a byte order mark."""
    with RegularFile(filesystem.open(path, OPEN_FLAGS)) as file:
        yield from windows_of_bytes(iter(lambda: file.read(_WINDOW_BYTES), b""))


def windows_of_bytes(blocks: Iterable[bytes]) -> Iterator[bytes]:
    pending: list[bytes] = []
    size = 0
    for block in _as_utf8(blocks):
        cut = block.rfind(b"\n") + 1
        if not cut and size + len(block) <= _MAX_LINE_BYTES:
            pending.append(block)
            size += len(block)
            continue
        cut = cut or len(block)
        yield b"".join([*pending, block[:cut]])
        pending, size = [block[cut:]], len(block) - cut
    rest = b"".join(pending)
    if rest:
        yield rest


def _as_utf8(blocks: Iterable[bytes]) -> Iterator[bytes]:
    decoder = None
    first = True
    for block in blocks:
        if first:
            first = False
            encoding = _WIDE_MARKS.get(block[:2]) if wide_encoding(block)[0] else None
            if encoding:
                decoder = codecs.getincrementaldecoder(encoding)("replace")
                block = block[2:]
            block = block.removeprefix(_MARK)
        yield decoder.decode(block).encode("utf-8", "replace") if decoder else block
