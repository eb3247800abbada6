"""Runs ripgrep as a prefilter: which of these files can contain a match?

It gets file names only, so its own ignore rules, sorting and output format do not matter; `line_finder` reads
the files that pass. When ripgrep fails, for example because it rejects the expression, all files pass: the
answer is the same and only slower. Works with ripgrep 13 to 15.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

# Linux gives arguments and environment 2 MB together, macOS 1 MB.
_MAX_ARGUMENT_BYTES = 600_000
# The first batch is small so that a common pattern answers at once; later ones are large: a start costs 5 ms.
_FIRST_BATCH = 256
_MAX_BATCH = 8192
# One process works while the next batch is gathered.
_IN_FLIGHT = 2
# Seconds between two checks for cancellation.
_POLL_SECONDS = 0.03


def find_ripgrep(*folders: str) -> str | None:
    """The program `rg` on PATH, but none that a project may have brought.

    Relative entries of PATH are skipped, and so are programs below `folders`, the folder of this process, or
    the repositories that these belong to: a search runs without a question, so it must not run their code.
    None on Windows, where the output of a process cannot be awaited with a timeout.
    """
    if os.name == "nt":
        return None
    untrusted = {project for folder in (*folders, os.curdir) for project in _project_folders(folder)}
    for entry in os.environ.get("PATH", "").split(os.pathsep):
        program = shutil.which("rg", path=entry) if os.path.isabs(entry) else None
        # The link may be in the project, or its target.
        places = (os.path.realpath(program), os.path.realpath(entry)) if program else ()
        if program and not any(_is_below(place, folder) for place in places for folder in untrusted):
            return program
    return None


def _project_folders(folder: str) -> list[str]:
    """The real path of a folder, and the repository that it belongs to if there is one."""
    folder = above = os.path.realpath(folder)
    while not os.path.lexists(os.path.join(above, ".git")):
        parent = os.path.dirname(above)
        if parent == above:
            return [folder]
        above = parent
    return [folder, above]


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))


def files_with_matches(
    program: str,
    expression: str,
    ignore_case: bool,
    root: str,
    names: Iterable[str],
    check: Callable[[], None],
) -> Iterator[str]:
    """Yield those of `names` (paths below `root`) that may contain a match, in the same order.

    `check` is called while waiting and may raise; no process outlives the iterator.
    """
    command: list[str | bytes] = [
        program,
        "--no-config",
        "--no-messages",
        "--no-ignore",
        "--no-mmap",
        "--color=never",
    ]
    command += ["--files-with-matches", "--null", "--text"]
    command += ["--ignore-case"] if ignore_case else ["--case-sensitive"]
    command += ["-e", expression.encode("utf-8", "surrogateescape"), "--"]
    running: deque[_Batch] = deque()
    trusted = True
    try:
        for batch in _batches(names):
            running.append(_Batch(command if trusted else None, root, batch))
            if len(running) >= _IN_FLIGHT or len(batch) <= _FIRST_BATCH:
                first = running.popleft()
                yield from first.passed(check)
                trusted = trusted and not first.failed
        while running:
            first = running.popleft()
            yield from first.passed(check)
    finally:
        for started in running:
            started.close()


def _batches(names: Iterable[str]) -> Iterator[list[str]]:
    size = _FIRST_BATCH
    batch: list[str] = []
    length = 0
    for name in names:
        batch.append(name)
        length += len(name) * (1 if name.isascii() else 4) + 9  # with its end and the pointer in argv
        if len(batch) >= size or length >= _MAX_ARGUMENT_BYTES:
            yield batch
            batch, length = [], 0
            size = min(size * 8, _MAX_BATCH)
    if batch:
        yield batch


def _argument(name: str) -> str:
    """The file name as an argument of ripgrep, for which `-` is the standard input."""
    return "./-" if name == "-" else name


class _Batch:
    """One ripgrep process for some files; without a command all files pass."""

    def __init__(self, command: Sequence[str | bytes] | None, root: str, names: list[str]) -> None:
        self.failed = command is None
        self._names = names
        self._process: subprocess.Popen[bytes] | None = None
        if command is None:
            return
        try:
            self._process = subprocess.Popen(
                [*command, *map(_argument, names)],
                cwd=root,
                env={},  # it needs no variable, and must not get the keys of this process
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except (OSError, ValueError):
            self.failed = True

    def passed(self, check: Callable[[], None]) -> Iterator[str]:
        if self._process is None:
            yield from self._names
            return
        try:
            output = self._read_all(check)
        finally:
            self.close()
        hits = {os.fsdecode(name) for name in output.split(b"\0")}
        # 0: hits, 1: none, 2: an error, which a file that has just vanished is too.
        self.failed = self._process.returncode not in (0, 1) and not output
        everything = self._process.returncode not in (0, 1)
        for name in self._names:
            if everything or _argument(name) in hits:
                yield name

    def _read_all(self, check: Callable[[], None]) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        poll = select.poll()
        poll.register(descriptor, select.POLLIN | select.POLLHUP)
        blocks: list[bytes] = []
        while True:
            check()
            if not poll.poll(_POLL_SECONDS * 1000):
                continue
            block = os.read(descriptor, 65536)
            if not block:
                self._process.wait()
                return b"".join(blocks)
            blocks.append(block)

    def close(self) -> None:
        """Kill the process if it still runs, and collect it."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
