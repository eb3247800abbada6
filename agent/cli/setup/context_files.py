"""Context files: the instructions for agents that users and projects keep, for the system prompt.

A folder's context file is AGENTS.md, or CLAUDE.md where there is no AGENTS.md. The user's own comes first,
then those of the folders above the project from the outermost down, then the project's: the file closest to
the work comes last, and the result for a folder is always the same.

A project may come from anywhere. So a file in or above it may link only to a place inside the same folder or
repository, and never to /proc, /sys or /dev: `AGENTS.md -> /proc/self/environ` in a cloned repository would
send every key with the first request. A file that breaks this rule is skipped and named. The user's own
folder may hold links to anywhere else.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent.cli.display.paths import short_path
from agent.cli.setup.config_folder import config_folder

_NAMES = ("AGENTS.md", "CLAUDE.md")
# A page of instructions has a few kilobytes. A longer one costs money with every request, and models follow
# it less well: 32 kB are about 8,000 tokens.
FILE_BYTES = 32 * 1024
TOTAL_BYTES = 96 * 1024
_KERNEL_FOLDERS = ("/proc", "/sys", "/dev")
_SHARED_MEMORY = "/dev/shm"  # an ordinary file system below /dev
_OPEN_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
_OUTSIDE = "it links to a file outside its folder and repository"
_OF_THE_KERNEL = "it links to /proc, /sys or /dev"


@dataclass(frozen=True, slots=True)
class ContextFile:
    """A file, its text up to the limit, and its size in bytes. `problem` is set when it was not read."""

    path: str
    text: str = ""
    size: int = 0
    is_truncated: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Found:
    """A file that may be read: its path as found, the real path, and its status."""

    path: Path
    real: str
    status: os.stat_result
    problem: str = ""


def read_context_files(cwd: str, environ: Mapping[str, str]) -> list[ContextFile]:
    """The context files for a folder, outermost first. Never raises for what a file is or contains.

    When all of them together are too long, the outermost are truncated first.
    """
    remaining = TOTAL_BYTES
    files = []
    for found in reversed(list(_find(cwd, environ))):
        file = _read(found, min(remaining, FILE_BYTES))
        remaining -= len(file.text.encode())
        files.append(file)
    return files[::-1]


def describe(files: list[ContextFile], cwd: str) -> str:
    """The names of the files on one line, with their problems; empty when there are none."""
    return ", ".join(_description(file, cwd) for file in files)


def prompt_text(file: ContextFile) -> str:
    """The text for the system prompt; a truncated one ends with a note about the rest."""
    if not file.is_truncated:
        return file.text
    shown = len(file.text)
    rest = f"[Only the first {shown} characters of {file.size} bytes are shown; the file has the rest.]"
    return f"{file.text}\n{rest}"


def _find(cwd: str, environ: Mapping[str, str]) -> Iterator[_Found]:
    project = Path(os.path.abspath(cwd))
    owners = _trusted_owners(project)
    own = config_folder(environ)
    seen = set()
    for folder in (own, *reversed(project.parents), project):
        for name in _NAMES:
            found = _check(folder / name, is_own=folder == own)
            if found is None or not _is_trusted(found.status, owners):
                continue
            identity = (found.status.st_dev, found.status.st_ino)
            if identity not in seen:
                seen.add(identity)
                yield found
            break


def _check(path: Path, is_own: bool) -> _Found | None:
    """The file at this path, with its problem if it must not be read; None when there is no regular file."""
    try:
        real = os.path.realpath(path)
        status = os.stat(real)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    if _is_below(real, *_KERNEL_FOLDERS) and not _is_below(real, _SHARED_MEMORY):
        return _Found(path, real, status, _OF_THE_KERNEL)
    if not is_own and not _is_below(real, _boundary(path.parent)):
        return _Found(path, real, status, _OUTSIDE)
    return _Found(path, real, status)


def _boundary(folder: Path) -> str:
    """The real path that a context file of this folder must stay below: its repository's top, or the folder.

    A home directory that is a repository does not count: every project without one of its own is below it.
    """
    home = os.path.realpath(os.path.expanduser("~"))
    real = Path(os.path.realpath(folder))
    for parent in (real, *real.parents):
        if str(parent) in (home, parent.anchor):
            break
        if (parent / ".git").exists():
            return str(parent)
    return str(real)


def _is_below(path: str, *folders: str) -> bool:
    return any(path == folder or path.startswith(folder.rstrip(os.sep) + os.sep) for folder in folders)


def _is_trusted(status: os.stat_result, owners: set[int]) -> bool:
    # In a folder that everyone may write to, such as /tmp, another user could leave instructions.
    return not hasattr(os, "getuid") or status.st_uid in owners


def _trusted_owners(project: Path) -> set[int]:
    """The current user, root, and the owner of the project."""
    if not hasattr(os, "getuid"):
        return set()
    owners = {0, os.getuid()}
    with suppress(OSError):
        owners.add(project.stat().st_uid)
    return owners


def _read(found: _Found, limit: int) -> ContextFile:
    path, size = str(found.path), found.status.st_size
    if found.problem:
        return ContextFile(path, size=size, problem=found.problem)
    try:
        # Of the real path and without following a link: the file that was checked is the one that is read.
        with open(os.open(found.real, _OPEN_FLAGS), "rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        return ContextFile(path, size=size, problem=error.strerror or type(error).__name__)
    is_truncated = len(data) > limit
    if is_truncated:
        data = data[: data.rfind(b"\n", 0, limit) + 1]  # whole lines, so no character is cut in two
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    return ContextFile(path, text, max(size, len(data)), is_truncated)


def _description(file: ContextFile, cwd: str) -> str:
    name = short_path(file.path, os.path.abspath(cwd))
    if file.problem:
        return f"{name} (not read: {file.problem})"
    return f"{name} (cut: {file.size // 1000} kB)" if file.is_truncated else name
