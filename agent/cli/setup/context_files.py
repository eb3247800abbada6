"""Context files: what people wrote down for agents, for the system prompt.

AGENTS.md counts, or CLAUDE.md in a folder that has no AGENTS.md. The person's own comes first, then those of
the folders above the project from the outermost down, then the project's: what is closest to the work is
read last, and the same folder gives the same bytes each time.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent.cli.setup.config_folder import config_folder

_NAMES = ("AGENTS.md", "CLAUDE.md")
# A page of instructions has a few kilobytes. What is longer is paid for with every request, and a model
# follows it less: 32 kB are about 8,000 tokens.
FILE_BYTES = 32 * 1024
TOTAL_BYTES = 96 * 1024


@dataclass(frozen=True, slots=True)
class ContextFile:
    """A file, its text as far as it fits, and its size in bytes. `problem` says why it could not be read."""

    path: str
    text: str
    size: int
    is_cut: bool = False
    problem: str = ""


def read_context_files(cwd: str, environ: Mapping[str, str]) -> list[ContextFile]:
    """The context files for a folder, outermost first. Never raises for what a file is or holds.

    When all together are too long, the outermost are cut first.
    """
    room = TOTAL_BYTES
    files = []
    for path, status in reversed(list(_found(cwd, environ))):
        file = _read(path, status.st_size, min(room, FILE_BYTES))
        room -= len(file.text.encode())
        files.append(file)
    return files[::-1]


def describe(files: list[ContextFile], cwd: str) -> str:
    """The names of the files on one line, and what is wrong with them; empty when there are none."""
    return ", ".join(_described(file, cwd) for file in files)


def for_prompt(file: ContextFile) -> str:
    """The text as it stands in a system prompt: what was cut is said, and where the rest is."""
    if not file.is_cut:
        return file.text
    shown = len(file.text)
    rest = f"[Only the first {shown} characters of {file.size} bytes are shown; the file has the rest.]"
    return f"{file.text}\n{rest}"


def _found(cwd: str, environ: Mapping[str, str]) -> Iterator[tuple[Path, os.stat_result]]:
    project = Path(os.path.abspath(cwd))
    trusted = _trusted_owners(project)
    seen = set()
    for folder in (config_folder(environ), *reversed(project.parents), project):
        for name in _NAMES:
            try:
                status = os.stat(folder / name)
            except (OSError, ValueError):
                continue
            if not stat.S_ISREG(status.st_mode):
                continue
            # In a folder that all may write to, such as /tmp, anybody could leave instructions.
            if hasattr(os, "getuid") and status.st_uid not in trusted:
                continue
            if (status.st_dev, status.st_ino) not in seen:
                seen.add((status.st_dev, status.st_ino))
                yield folder / name, status
            break


def _trusted_owners(project: Path) -> set[int]:
    """Ourselves, the administrator, and whose project it is."""
    if not hasattr(os, "getuid"):
        return set()
    owners = {0, os.getuid()}
    with suppress(OSError):
        owners.add(project.stat().st_uid)
    return owners


def _read(path: Path, size: int, limit: int) -> ContextFile:
    try:
        with open(path, "rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        return ContextFile(str(path), "", size, problem=error.strerror or type(error).__name__)
    is_cut = len(data) > limit
    if is_cut:
        data = data[: data.rfind(b"\n", 0, limit) + 1]  # whole lines, so no character is cut in two
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    return ContextFile(str(path), text, max(size, len(data)), is_cut)


def _described(file: ContextFile, cwd: str) -> str:
    name = _short(file.path, cwd)
    if file.problem:
        return f"{name} (not read: {file.problem})"
    return f"{name} (cut: {file.size // 1000} kB)" if file.is_cut else name


def _short(path: str, cwd: str) -> str:
    if os.path.dirname(path) == os.path.abspath(cwd):
        return os.path.basename(path)
    home = os.path.expanduser("~")
    return f"~{path[len(home) :]}" if home != "/" and path.startswith(home + os.sep) else path
