"""Parts of grep, find and ls: the start of a search, its time limit, displayed names and notices."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from typing import Any

from agent_tools.files.filesystem import Filesystem
from agent_tools.files.path_encoding import path_text
from agent_tools.files.paths import resolve
from agent_tools.tool import Cancel, JsonObject, Result, ToolFailure
from agent_tools.truncate import MAX_BYTES, keep_head

# No result has more rows than this, so a higher limit is not searched for: the shortest row is a character
# and a line feed.
MAX_ROWS = MAX_BYTES // 2

# Characters of a name that would break its row.
_UNSHOWABLE = re.compile("[\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


# `exclude(real_path)`, an option of grep, find and ls: True for a file or folder to leave out. The path is
# absolute with links resolved; that of a folder ends in a slash. What is in such a folder is left out too.
Exclude = Callable[[str], bool]


def search_path(path: str, cwd: str | os.PathLike[str], filesystem: Filesystem) -> str:
    """The absolute path where a search starts; an empty one means `cwd`."""
    return resolve(path or ".", cwd, filesystem=filesystem)


def require_searchable(resolved: str, filesystem: Filesystem, exclude: Exclude | None) -> str:
    """The path itself; `ToolFailure` unless it is a folder or file that exists and is not excluded."""
    if exclude is not None and _is_excluded(os.path.realpath(resolved), exclude):
        raise ToolFailure(f"{shown_name(resolved)} is left out by rules: it must not be searched")
    if not filesystem.exists(resolved):
        raise ToolFailure(f"path not found: {shown_name(resolved)}")
    if not filesystem.isdir(resolved) and not filesystem.isfile(resolved):
        raise ToolFailure(f"neither a folder nor a regular file: {shown_name(resolved)}")
    return resolved


def _is_excluded(real: str, exclude: Exclude) -> bool:
    """True when the file or folder, or one of the folders above it, is excluded."""
    if not os.path.isdir(real) and exclude(real):
        return True
    folder = real
    while True:
        if exclude(os.path.join(folder, "")):
            return True
        above = os.path.dirname(folder)
        if above == folder:
            return False
        folder = above


def shown_name(name: str) -> str:
    """A file name as one line of text: line feeds, control codes and bytes that are not UTF-8 are escaped."""
    return name if name.isascii() and name.isprintable() else _UNSHOWABLE.sub(_escape, path_text(name))


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        code -= 0xDC00
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


class SearchGuard:
    """Ends a search that was cancelled or takes too long; called often, from one thread."""

    def __init__(self, cancel: Cancel, seconds: float, what: str) -> None:
        self._cancel = cancel
        self._seconds = seconds
        self._what = what
        self._deadline = time.monotonic() + seconds

    def __call__(self) -> None:
        """Raise `ToolFailure` when the search was cancelled or its time is over."""
        if self._cancel.is_set():
            raise ToolFailure(f"{self._what} was aborted")
        if time.monotonic() > self._deadline:
            raise ToolFailure(
                f"{self._what} timed out after {self._seconds:g} seconds; narrow it: "
                "name a sub-folder as path or a more specific pattern"
            )


def excluded_text(files: int, folders: int) -> str:
    """`2 files and 1 folder left out by rules`."""
    counts = [f"{n} {word}{'s' * (n > 1)}" for n, word in ((files, "file"), (folders, "folder")) if n]
    return f"{' and '.join(counts)} left out by rules"


class Notices:
    """The notices below a listing, and the same as data."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._details: JsonObject = {}

    def add(self, text: str, **details: Any) -> None:
        self._texts.append(text)
        self._details.update(details)

    def add_limit(self, limit: int, what: str, **details: Any) -> None:
        self.add(
            f"{limit} {what} limit reached. Use limit={limit * 2} for more, or narrow the request", **details
        )

    def add_unreadable(self, names: list[str]) -> None:
        if names:
            some = ", ".join(map(shown_name, names[:3]))
            self.add(f"Could not read {len(names)}: {some}", unreadable=len(names))

    def add_excluded(self, files: int, folders: int) -> None:
        if files or folders:
            self.add(excluded_text(files, folders), excluded=files + folders)

    def result(self, rows: list[str]) -> Result:
        """The result: as many whole rows as fit, then the notices in brackets."""
        shown = keep_head("\n".join(rows), max_lines=len(rows))
        listing = shown.content
        if shown.truncated:
            self.add(f"{MAX_BYTES / 1024:.1f}KB limit reached", truncation=shown.summary())
        if self._texts:
            listing = f"{listing}\n\n[{'. '.join(self._texts)}]"
        return Result(listing, details=self._details or None)
