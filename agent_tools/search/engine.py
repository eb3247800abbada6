"""Searches the lines of files, with the same results whether ripgrep is installed or not.

Files come in the order of their paths. Lines end at LF only (a CR before it is part of the ending) and are
matched one by one. UTF-8 is read as such, UTF-16 by its byte order mark, a line that is neither as Latin-1. A
binary file gives one entry without lines. The names of the files come from `gitignore.Walk`.

ripgrep, or a search of our own, selects the files that may contain a match; the same code then finds the
lines in both cases.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice

from agent_tools.files.encoding import looks_binary
from agent_tools.files.filesystem import FILESYSTEM, Filesystem, may_reach_proc
from agent_tools.search.line_finder import (
    OPEN_FLAGS,
    Finder,
    Line,
    line_text,
    windows_of_bytes,
    windows_of_file,
)
from agent_tools.search.pattern import Pattern
from agent_tools.search.ripgrep import files_with_matches, find_ripgrep

# From this number of files on ripgrep is used; fewer are read faster than it starts (about 5 ms).
_RIPGREP_FROM_FILES = 300
# Bytes of the first read of a file: most source files are smaller.
_FIRST_READ = 1 << 16
# Bytes from which on ripgrep decides faster than we do that a single file has no match.
_LARGE_FILE = 4 << 20


@dataclass(slots=True)
class FileHits:
    """The matches in one file: blocks of adjacent lines; none for a binary file that matches."""

    name: str
    blocks: list[list[Line]] = field(default_factory=list)
    is_binary: bool = False


@dataclass(slots=True)
class Budget:
    """How many more matching lines may be shown, whether there were more, and the unreadable files."""

    left: int
    more: bool = False
    unreadable: list[str] = field(default_factory=list)


class Search:
    """One search below the folder `root`, for a tool with the working directory `cwd`; used once, by one
    thread.

    `literal_hint` is a literal pattern that is searched too until the first match; `literal_found` is the
    first file and line that contain it.
    """

    def __init__(
        self,
        root: str,
        pattern: Pattern,
        budget: Budget,
        check: Callable[[], None],
        *,
        context: int = 0,
        cwd: str = os.curdir,
        literal_hint: Pattern | None = None,
        filesystem: Filesystem = FILESYSTEM,
    ) -> None:
        self.literal_found: tuple[str, int] | None = None
        self._folder = os.path.join(root, "")
        self._cwd = cwd
        self._filesystem = filesystem
        self._budget = budget
        self._check = check
        self._context = context
        self._finder = Finder(pattern, check)
        self._literal = Finder(literal_hint, check) if literal_hint else None
        self._ignore_case = pattern.ignore_case
        self._expression = pattern.for_ripgrep
        if literal_hint and self._expression is not None:
            self._expression = (
                f"{self._expression}|{literal_hint.for_ripgrep}" if literal_hint.for_ripgrep else None
            )

    def run(self, names: Iterable[str]) -> Generator[FileHits, None, None]:
        """Yield the matches in the files `names`, in order, until the budget is used up.

        The search then continues to the next match, so that `budget.more` is exact.
        """
        return self._search(self._candidates(iter(names)))

    def run_file(self, name: str) -> Generator[FileHits, None, None]:
        """Yield the matches in one file, which is read to its end: the reported size may be 0 (/proc)."""
        names: Iterable[str] = [name]
        program = self._program()
        if program and os.path.getsize(self._folder + name) > _LARGE_FILE:
            names = self._ask_ripgrep(program, names)
        return self._search((name, None) for name in names)

    def _search(self, candidates: Iterable[tuple[str, bytes | None]]) -> Generator[FileHits, None, None]:
        for name, data in candidates:
            self._check()
            try:
                hits = _search_file(
                    self._windows(name, data), name, self._finder, self._budget, self._context
                )
                if hits is not None:
                    self._literal = None
                    yield hits
                elif self._literal is not None:
                    self._look_for_literal(self._literal, name, data)
            except OSError:
                self._budget.unreadable.append(name)
            if self._budget.more:
                return

    def _windows(self, name: str, data: bytes | None) -> Iterator[bytes]:
        if data is not None:
            yield from windows_of_bytes([data])
            return
        for window in windows_of_file(self._folder + name, self._filesystem):
            self._check()
            yield window

    def _look_for_literal(self, literal_hint: Finder, name: str, data: bytes | None) -> None:
        found = _search_file(self._windows(name, data), name, literal_hint, Budget(1), 0)
        if found is not None:
            self.literal_found = name, 0 if found.is_binary else found.blocks[0][0].number
            self._literal = None

    def _candidates(self, names: Iterator[str]) -> Iterator[tuple[str, bytes | None]]:
        """The files that may contain a match, with their bytes when they were read already."""
        program = self._program()
        if program is None:
            yield from self._files_that_may_match(names)
            return
        for name, data in self._files_that_may_match(islice(names, _RIPGREP_FROM_FILES)):
            if data is None:
                # ripgrep takes over at the first large file.
                names = chain([name], names)
                break
            yield name, data
        for name in self._ask_ripgrep(program, names):
            yield name, None

    def _program(self) -> str | None:
        """The path of ripgrep; None when it is missing or cannot be used for this search."""
        # ripgrep opens files by path, and paths below a confined root may change meanwhile.
        # Nor may it tell whether a file of /proc that we do not open contains something.
        may_ask = (
            self._expression is not None
            and not self._filesystem.is_confined
            and not may_reach_proc(self._folder)
        )
        return find_ripgrep(self._folder, self._cwd) if may_ask else None

    def _ask_ripgrep(self, program: str, names: Iterable[str]) -> Iterator[str]:
        expression = self._expression or ""
        return files_with_matches(program, expression, self._ignore_case, self._folder, names, self._check)

    def _files_that_may_match(self, names: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        folder = self._folder
        may_match = self._finder.may_match
        # In most searches no file of /proc can be met, so the check for them would only cost time.
        may_skip_check = not self._filesystem.is_confined and not may_reach_proc(self._folder)
        open_file = os.open if may_skip_check else self._filesystem.open
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
                self._budget.unreadable.append(name)
                continue
            if len(data) == _FIRST_READ:
                yield name, None
            elif may_match(data) or (self._literal is not None and self._literal.may_match(data)):
                yield name, data


def _search_file(
    windows: Iterator[bytes], name: str, finder: Finder, budget: Budget, context: int
) -> FileHits | None:
    hits = FileHits(name)
    blocks = _Blocks(hits.blocks, context)
    first_number = 1
    is_binary: bool | None = None
    for window in windows:
        found: list[Line] = []
        if not budget.more:
            found = list(islice(finder.find(window, first_number), budget.left + 1))
        if is_binary is None:
            # The start of the file decides.
            is_binary = looks_binary(window)
        if found and is_binary:
            budget.more = budget.left == 0
            budget.left -= 1
            return None if budget.more else FileHits(name, is_binary=True)
        if len(found) > budget.left:
            budget.more = True
            found.pop()
        budget.left -= len(found)
        blocks.add(window, first_number, found)
        if budget.more and not blocks.pending:
            break
        first_number += window.count(b"\n")
    return hits if hits.blocks else None


class _Blocks:
    """Collects matching lines with the lines around them, and merges adjacent blocks."""

    def __init__(self, blocks: list[list[Line]], context: int) -> None:
        self.pending = 0  # lines of context still to come after the last match
        self._blocks = blocks
        self._context = context
        self._before: list[Line] = []  # the last lines of the window before

    def add(self, window: bytes, first_number: int, found: list[Line]) -> None:
        """Add the matches of the next window of a file."""
        if not self._context:
            if found:
                self._blocks.append(found)
            return
        if not found and not self.pending:
            self._remember(window, first_number)
            return
        lines = window.split(b"\n")
        if window.endswith(b"\n"):
            lines.pop()
        if found:
            self._put(*[line for line in self._before if line.number >= found[0].number - self._context])
        position, reach = 0, self.pending  # the next line, and the end of what the last match may show
        for match in (*found, None):
            index = match.number - first_number if match else len(lines)
            begin = index - self._context if match else index
            for shown in (range(position, min(reach, index)), range(max(position, reach, begin), index)):
                self._put(*[Line(first_number + at, line_text(lines[at])) for at in shown])
            if match:
                self._put(match)
                position, reach = index + 1, index + 1 + self._context
        self.pending = max(0, reach - len(lines))
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
