"""Finding lines in files: one contract, two engines.

The contract: files in the order of their paths, lines split at LF only (a CR before it is part of the
ending), matched one by one. UTF-8 is read as such, UTF-16 by its byte order mark, a line that is neither as
Latin-1. A binary file answers with one entry that says so. Folders and names are those of `ignore.Walk`.

Which files can hold a hit is asked of ripgrep, many at a time, or found out by ourselves; the lines are found
by the same code for both, so both give the same answer.
"""

from __future__ import annotations

import codecs
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from agent_tools.pattern import Pattern
from agent_tools.ripgrep import find_ripgrep, sieve
from agent_tools.text import looks_binary
from agent_tools.tool import Cancel, ToolFailure

# Files up to this size are read at once; larger ones pass through in pieces of it, cut at a line end.
_WINDOW_BYTES = 1 << 20
# A "line" longer than this is cut: it is data, and must not fill the memory.
_MAX_LINE_BYTES = 64 << 20
# Waits for one expression on one text. The first holds the interpreter's lock, the others do not; together
# they bound a pattern whose backtracking explodes.
_MATCH_SECONDS = (0.05, 0.4, 2.0)
_SHORT_TEXT = 1 << 16
# So many files are read sooner than ripgrep starts (about 5 ms).
_OWN_SHARE = 300
# So many lines that hold the needle and yet do not match make the expression the better question.
_PATIENCE = 50
# Nearly every source file comes whole with one read of this size, and a buffer of it costs next to nothing.
_FIRST_READ = 1 << 16
# O_NONBLOCK: a pipe that took a file's place must not hold the search.
_OPEN_FLAGS = (
    os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
)
_MARK = codecs.BOM_UTF8
_WIDE_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class Guard:
    """Ends a search that was cancelled or takes too long; called often, from one thread."""

    def __init__(self, cancel: Cancel, seconds: float, what: str) -> None:
        self._cancel = cancel
        self._seconds = seconds
        self._what = what
        self._deadline = time.monotonic() + seconds

    def __call__(self) -> None:
        """Raise ToolFailure when it is time to stop."""
        if self._cancel.is_set():
            raise ToolFailure(f"{self._what} was aborted")
        if time.monotonic() > self._deadline:
            raise ToolFailure(
                f"{self._what} timed out after {self._seconds:g} seconds; narrow it: "
                "name a sub-folder as path or a more telling pattern"
            )


@dataclass(frozen=True, slots=True)
class Line:
    """One line of an answer. `start` and `end` are the first hit in it, -1 in a line of context."""

    number: int
    text: str
    start: int = -1
    end: int = -1

    @property
    def is_match(self) -> bool:
        return self.start >= 0


@dataclass(slots=True)
class FileHits:
    """What was found in one file: blocks of neighbouring lines, or only that the binary file matches."""

    name: str
    blocks: list[list[Line]] = field(default_factory=list)
    is_binary: bool = False


@dataclass(slots=True)
class Tally:
    """How many matching lines may still be shown, whether there were more, and what could not be read."""

    left: int
    more: bool = False
    unreadable: list[str] = field(default_factory=list)


class Search:
    """One search below a folder; used once, by one thread.

    `aside`, a literal pattern, is looked for on the way as long as nothing matched; `aside_found` is the
    first file and line with it.
    """

    def __init__(
        self,
        root: str,
        pattern: Pattern,
        tally: Tally,
        guard: Guard,
        *,
        context: int = 0,
        aside: Pattern | None = None,
    ) -> None:
        self.aside_found: tuple[str, int] | None = None
        self._folder = os.path.join(root, "")
        self._tally = tally
        self._guard = guard
        self._context = context
        self._finder = _Finder(pattern, guard)
        self._aside = _Finder(aside, guard) if aside else None
        self._ignore_case = pattern.ignore_case
        self._expression = pattern.for_ripgrep
        if aside and self._expression is not None:
            self._expression = f"{self._expression}|{aside.for_ripgrep}" if aside.for_ripgrep else None

    def run(self, names: Iterable[str]) -> Iterator[FileHits]:
        """The hits in the files `names`, in order, until the tally is used up.

        The search then goes on to the next hit, so that `tally.more` is the truth.
        """
        for name, data in self._candidates(iter(names)):
            self._guard()
            try:
                hits = _search_file(self._folder + name, name, data, self._finder, self._tally, self._context)
                if hits is not None:
                    self._aside = None
                    yield hits
                elif self._aside is not None:
                    self._look_aside(self._aside, name, data)
            except OSError:
                self._tally.unreadable.append(name)
            if self._tally.more:
                return

    def _look_aside(self, aside: _Finder, name: str, data: bytes | None) -> None:
        found = _search_file(self._folder + name, name, data, aside, Tally(1), 0)
        if found is not None:
            self.aside_found = name, 0 if found.is_binary else found.blocks[0][0].number
            self._aside = None

    def _candidates(self, names: Iterator[str]) -> Iterator[tuple[str, bytes | None]]:
        """The files that may hold a hit, with their bytes when they are known already."""
        program = find_ripgrep() if self._expression is not None else None
        if program is None or self._expression is None:
            yield from self._sieve_ourselves(names)
            return
        arguments = (program, self._expression, self._ignore_case, self._folder)
        for name, data in self._sieve_ourselves(islice(names, _OWN_SHARE)):
            if data is not None or any(sieve(*arguments, [name], self._guard)):
                yield name, data
        for name in sieve(*arguments, names, self._guard):
            yield name, None

    def _sieve_ourselves(self, names: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        folder = self._folder
        may_match = self._finder.may_match
        for count, name in enumerate(names):
            if not count & 63:
                self._guard()
            try:
                descriptor = os.open(folder + name, _OPEN_FLAGS)
                try:
                    data = os.read(descriptor, _FIRST_READ)
                finally:
                    os.close(descriptor)
            except OSError:
                self._tally.unreadable.append(name)
                continue
            if len(data) == _FIRST_READ:
                yield name, None
            elif may_match(data) or (self._aside is not None and self._aside.may_match(data)):
                yield name, data


def _search_file(
    path: str, name: str, data: bytes | None, finder: _Finder, tally: Tally, context: int
) -> FileHits | None:
    hits = FileHits(name)
    blocks = _Blocks(hits.blocks, context)
    first_number = 1
    is_binary: bool | None = None
    for window in _windows(path) if data is None else _plain_windows([data]):
        found: list[Line] = []
        if not tally.more:
            found = list(islice(finder.find(window, first_number), tally.left + 1))
        if is_binary is None:
            # Judged by the start of the file, and only for a file that is worth it.
            is_binary = looks_binary(window)
        if found and is_binary:
            tally.more = tally.left == 0
            tally.left -= 1
            return None if tally.more else FileHits(name, is_binary=True)
        if len(found) > tally.left:
            tally.more = True
            found.pop()
        tally.left -= len(found)
        blocks.add(window, first_number, found)
        if tally.more and not blocks.owed:
            break
        first_number += window.count(b"\n")
    return hits if hits.blocks else None


class _Blocks:
    """Gathers matching lines with the lines around them; blocks that touch become one."""

    def __init__(self, blocks: list[list[Line]], context: int) -> None:
        self.owed = 0  # lines of context still to come after the last match
        self._blocks = blocks
        self._context = context
        self._before: list[Line] = []  # the last lines of the window before

    def add(self, window: bytes, first_number: int, found: list[Line]) -> None:
        """Take in the matches of the next window of a file."""
        if not self._context:
            if found:
                self._blocks.append(found)
            return
        if not found and not self.owed:
            self._remember(window, first_number)
            return
        lines = window.split(b"\n")
        if window.endswith(b"\n"):
            lines.pop()
        matches = {line.number - first_number: line for line in found}
        wanted = set(range(min(self.owed, len(lines))))
        for index in matches:
            wanted.update(range(max(0, index - self._context), min(len(lines), index + self._context + 1)))
        if found:
            self._put(*[line for line in self._before if line.number >= found[0].number - self._context])
        for index in sorted(wanted):
            match = matches.get(index)
            self._put(match or Line(first_number + index, _line_text(lines[index])))
        last = max(matches) + self._context if matches else self.owed - 1
        self.owed = max(0, last + 1 - len(lines))
        self._remember(window, first_number)

    def _put(self, *lines: Line) -> None:
        for line in lines:
            last = self._blocks[-1][-1].number if self._blocks else -1
            if line.number == last + 1 and self._blocks:
                self._blocks[-1].append(line)
            elif line.number > last:
                self._blocks.append([line])

    def _remember(self, window: bytes, first_number: int) -> None:
        body = window.removesuffix(b"\n")
        tail = body.rsplit(b"\n", self._context)[-self._context :]
        number = first_number + body.count(b"\n") + 1 - len(tail)
        lines = [Line(number + offset, _line_text(raw)) for offset, raw in enumerate(tail)]
        self._before = (self._before + lines)[-self._context :]


class _TooSlow(Exception):
    """An expression did not come to an end on a text."""


class _Finder:
    """Finds the lines of a pattern in a window of bytes; belongs to one search."""

    def __init__(self, pattern: Pattern, guard: Guard) -> None:
        self._pattern = pattern
        self._guard = guard
        needles = []
        for needle in pattern.needles:
            needles.append(needle.encode("utf-8", "surrogatepass"))
            if not needle.isascii() and all(ord(character) < 256 for character in needle):
                needles.append(needle.encode("latin-1"))
        self._needles = tuple(needles)
        self._only_needle = needles[0] if len(needles) == 1 and not pattern.ignore_case else None
        self._misses = 0

    def may_match(self, data: bytes) -> bool:
        """False only for the bytes of a file without a hit."""
        if self._only_needle is not None:
            return self._only_needle in data or data[:2] in _WIDE_MARKS
        if data[:2] in _WIDE_MARKS:
            return True
        if not self._holds_needle(data):
            return False
        if self._pattern.across is None:
            return True
        try:
            return self._search(self._pattern.across, _window_text(data.removeprefix(_MARK))) is not None
        except _TooSlow:
            return True

    def find(self, window: bytes, first_number: int) -> Iterator[Line]:
        """The matching lines of a window, numbered from `first_number`."""
        if self._only_needle is not None:
            return self._find_by_needle(window, first_number, self._only_needle)
        if not self._holds_needle(window):
            return iter(())
        if self._pattern.across is not None:
            return self._find_across(window, first_number)
        return self._find_by_line(window, first_number)

    def _holds_needle(self, data: bytes) -> bool:
        if not self._needles:
            return True
        if self._pattern.ignore_case:
            # Outside ASCII some characters equal an ASCII letter (the Kelvin sign): the expression decides.
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
            line = self._match(number, _line_text(window[start:end]))
            if line is not None:
                yield line
            else:
                self._misses += 1
                if self._misses > _PATIENCE and self._pattern.across is not None:
                    self._only_needle = None
                    yield from self._find_across(window[end + 1 :], number + 1)
                    return
            position = window.find(needle, end)

    def _find_across(self, window: bytes, first_number: int) -> Iterator[Line]:
        text = _window_text(window)
        number, counted, position = first_number, 0, 0
        # After a final line feed no line follows, after anything else even an empty one counts.
        last = len(text) - window.endswith(b"\n")
        while position <= last:
            try:
                found = self._search(self._pattern.across, text, position)
            except _TooSlow:
                # Perhaps only since it ran on over line ends.
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
            line = self._match(first_number + offset, _line_text(raw))
            if line is not None:
                yield line

    def _match(self, number: int, text: str) -> Line | None:
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
        for seconds in waits[1:]:
            self._guard()
            try:
                return expression.search(text, position, concurrent=True, timeout=seconds)
            except TimeoutError:
                continue
        raise _TooSlow


def _line_text(raw: bytes) -> str:
    raw = raw.removesuffix(b"\r")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _window_text(window: bytes) -> str:
    """The text of many lines, each as `_line_text` gives it."""
    try:
        text = window.decode()
    except UnicodeDecodeError:
        return "\n".join(map(_line_text, window.split(b"\n")))
    if "\r" in text:
        text = text.replace("\r\n", "\n").removesuffix("\r")
    return text


def _windows(path: str) -> Iterator[bytes]:
    """The lines of a file in windows of whole lines, as UTF-8 without a byte order mark."""
    with open(os.open(path, _OPEN_FLAGS), "rb", buffering=0) as file:
        yield from _plain_windows(iter(lambda: file.read(_WINDOW_BYTES), b""))


def _plain_windows(blocks: Iterable[bytes]) -> Iterator[bytes]:
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
            encoding = _WIDE_MARKS.get(block[:2])
            if encoding:
                decoder = codecs.getincrementaldecoder(encoding)("replace")
                block = block[2:]
            block = block.removeprefix(_MARK)
        yield decoder.decode(block).encode("utf-8", "replace") if decoder else block
