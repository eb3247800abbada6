"""What grep, find and ls share: the path they start from, names made fit to show, notices."""

from __future__ import annotations

import os
import re
from typing import Any

from agent_tools.paths import find_existing
from agent_tools.tool import Result, ToolFailure

# A row is one line, whatever a name holds.
_UNSHOWABLE = re.compile("[\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def existing_path(path: str, cwd: str | os.PathLike[str]) -> str:
    """The absolute path of a folder or file that exists; an empty one means `cwd`."""
    resolved = find_existing(path or ".", cwd)
    if not os.path.exists(resolved):
        raise ToolFailure(f"path not found: {shown_name(resolved)}")
    if not os.path.isdir(resolved) and not os.path.isfile(resolved):
        raise ToolFailure(f"neither a folder nor a regular file: {shown_name(resolved)}")
    return resolved


def shown_name(name: str) -> str:
    """A file name as one line of text: line feeds, control codes and bytes that are no UTF-8 are escaped."""
    return name if name.isascii() and name.isprintable() else _UNSHOWABLE.sub(_escape, name)


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        code -= 0xDC00
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


class Notices:
    """The remarks under a listing, and the same as data."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._details: dict[str, Any] = {}

    def add(self, text: str, **details: Any) -> None:
        self._texts.append(text)
        self._details.update(details)

    def add_unreadable(self, names: list[str]) -> None:
        if names:
            some = ", ".join(map(shown_name, names[:3]))
            self.add(f"Could not read {len(names)}: {some}", unreadable=len(names))

    def result(self, listing: str) -> Result:
        if self._texts:
            listing = f"{listing}\n\n[{'. '.join(self._texts)}]"
        return Result(listing, details=self._details or None)
