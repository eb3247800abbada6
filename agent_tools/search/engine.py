"""Finding lines in files: one contract, two engines.

The contract: files in the order of their paths, lines split at LF only (a CR before it is part of the
ending), matched one by one. UTF-8 is read as such, UTF-16 by its byte order mark, a line that is neither as
Latin-1. A binary file answers with one entry that says so. Folders and names are those of `ignore.Walk`.

Which files can hold a hit is asked of ripgrep, many at a time, or found out by ourselves; the lines are found
by the same code for both, so both give the same answer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice

from agent_tools.files.encoding import looks_binary
from agent_tools.files.filesystem import DISK, Disk
from agent_tools.search.line_finder import (
    OPEN_FLAGS,
    Finder,
    Line,
    line_text,
    windows_of_bytes,
    windows_of_file,
)
from agent_tools.search.pattern import Pattern
from agent_tools.search.ripgrep import find_ripgrep, sieve

# So many files are read sooner than ripgrep starts (about 5 ms).
_OWN_SHARE = 300
# Nearly every source file comes whole with one read of this size, and a buffer of it costs next to nothing.
_FIRST_READ = 1 << 16
# Of one file this large ripgrep tells sooner than we that it holds no hit.
_LARGE_FILE = 4 << 20


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
        check: Callable[[], None],
        *,
        context: int = 0,
        aside: Pattern | None = None,
        disk: Disk = DISK,
    ) -> None:
        self.aside_found: tuple[str, int] | None = None
        self._folder = os.path.join(root, "")
        self._disk = disk
        self._tally = tally
        self._check = check
        self._context = context
        self._finder = Finder(pattern, check)
        self._aside = Finder(aside, check) if aside else None
        self._ignore_case = pattern.ignore_case
        self._expression = pattern.for_ripgrep
        if aside and self._expression is not None:
            self._expression = f"{self._expression}|{aside.for_ripgrep}" if aside.for_ripgrep else None

    def run(self, names: Iterable[str]) -> Generator[FileHits, None, None]:
        """The hits in the files `names`, in order, until the tally is used up.

        The search then goes on to the next hit, so that `tally.more` is the truth.
        """
        return self._search(self._candidates(iter(names)))

    def run_file(self, name: str) -> Generator[FileHits, None, None]:
        """The hits in one file, read to its end whatever its size is said to be (below /proc it is 0)."""
        names: Iterable[str] = [name]
        program = self._program()
        if program and os.path.getsize(self._folder + name) > _LARGE_FILE:
            names = self._sieve(program, names)
        return self._search((name, None) for name in names)

    def _search(self, candidates: Iterable[tuple[str, bytes | None]]) -> Generator[FileHits, None, None]:
        for name, data in candidates:
            self._check()
            try:
                hits = _search_file(self._windows(name, data), name, self._finder, self._tally, self._context)
                if hits is not None:
                    self._aside = None
                    yield hits
                elif self._aside is not None:
                    self._look_aside(self._aside, name, data)
            except OSError:
                self._tally.unreadable.append(name)
            if self._tally.more:
                return

    def _windows(self, name: str, data: bytes | None) -> Iterator[bytes]:
        if data is not None:
            yield from windows_of_bytes([data])
            return
        for window in windows_of_file(self._folder + name, self._disk):
            self._check()
            yield window

    def _look_aside(self, aside: Finder, name: str, data: bytes | None) -> None:
        found = _search_file(self._windows(name, data), name, aside, Tally(1), 0)
        if found is not None:
            self.aside_found = name, 0 if found.is_binary else found.blocks[0][0].number
            self._aside = None

    def _candidates(self, names: Iterator[str]) -> Iterator[tuple[str, bytes | None]]:
        """The files that may hold a hit, with their bytes when they are known already."""
        program = self._program()
        if program is None:
            yield from self._sieve_ourselves(names)
            return
        for name, data in self._sieve_ourselves(islice(names, _OWN_SHARE)):
            if data is None:
                # The first large file ends our share.
                names = chain([name], names)
                break
            yield name, data
        for name in self._sieve(program, names):
            yield name, None

    def _program(self) -> str | None:
        """ripgrep, if it is there, reads the pattern as we do, and may open files by their paths."""
        # Under a confined root those may change meanwhile.
        may_ask = self._expression is not None and not self._disk.is_confined
        return find_ripgrep() if may_ask else None

    def _sieve(self, program: str, names: Iterable[str]) -> Iterator[str]:
        expression = self._expression or ""
        return sieve(program, expression, self._ignore_case, self._folder, names, self._check)

    def _sieve_ourselves(self, names: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        folder = self._folder
        may_match = self._finder.may_match
        open_file = self._disk.open
        for count, name in enumerate(names):
            if not count & 63:
                self._check()
            try:
                descriptor = open_file(folder + name, OPEN_FLAGS)
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
    windows: Iterator[bytes], name: str, finder: Finder, tally: Tally, context: int
) -> FileHits | None:
    hits = FileHits(name)
    blocks = _Blocks(hits.blocks, context)
    first_number = 1
    is_binary: bool | None = None
    for window in windows:
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
        if found:
            self._put(*[line for line in self._before if line.number >= found[0].number - self._context])
        position, reach = 0, self.owed  # the next line, and the end of what the last match may show
        for match in (*found, None):
            index = match.number - first_number if match else len(lines)
            begin = index - self._context if match else index
            for shown in (range(position, min(reach, index)), range(max(position, reach, begin), index)):
                self._put(*[Line(first_number + at, line_text(lines[at])) for at in shown])
            if match:
                self._put(match)
                position, reach = index + 1, index + 1 + self._context
        self.owed = max(0, reach - len(lines))
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
        lines = [Line(number + offset, line_text(raw)) for offset, raw in enumerate(tail)]
        self._before = (self._before + lines)[-self._context :]
