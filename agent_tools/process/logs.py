"""Writes the full output of commands to files of this process, within a limit for each and for all of them.

The files are deleted with the process. When all of them together would pass `TOTAL_LIMIT`, the oldest
finished ones are deleted first.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading

from agent_tools.process.scratch import make_folder
from agent_tools.truncate import format_size

# Bytes of one log: an endless writer must not fill the disk, and builds and tests stay far below this.
LOG_LIMIT = 256 * 1024 * 1024
# Bytes of all logs of this process.
TOTAL_LIMIT = 1024 * 1024 * 1024


class LogFile:
    """One log; only this user may read it. Used by one thread at a time.

    `folder` holds the file; "" stands for the folder of this process. A command that sees that folder under
    another path is given `seen_in`.
    """

    def __init__(self, folder: str = "", seen_in: str = "") -> None:
        self.path = ""
        self.started = False
        self._folder = folder
        self._seen_in = seen_in
        self._error = ""
        self._size = 0
        self._is_cut = False
        self._descriptor = -1

    def start(self, data: bytes) -> None:
        """Create the file and write `data`; an error is kept for `location`."""
        self.started = True
        try:
            self._descriptor, self.path = tempfile.mkstemp(".log", "bash-", self._folder or _shared.folder())
        except OSError as error:
            self._error = error.strerror or str(error)
            return
        self.write(data)

    def write(self, data: bytes) -> None:
        """Append `data`, as far as the limits allow."""
        if self._descriptor < 0 or self._is_cut:
            return
        part = data[: LOG_LIMIT - self._size]
        self._is_cut = len(part) < len(data)
        if not _shared.reserve(self.path, len(part)):
            self._is_cut = True
            return
        try:
            written = 0
            while written < len(part):
                written += os.write(self._descriptor, part[written:])
            self._size += written
        except OSError as error:
            # A full disk must not stop the command.
            self._error = error.strerror or str(error)
            self.delete()

    def close(self) -> None:
        """Close the file; it may be deleted when later logs need the space."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            _shared.finish(self.path)

    def delete(self) -> None:
        """Close and delete the file."""
        self.close()
        if self.path:
            _shared.delete(self.path)
            self.path = ""

    def location(self) -> str:
        """A text for the model that says where the log is, or why there is none."""
        if not self.path:
            return f"The full output could not be saved: {self._error}."
        where = f"Full output: {self.path}"
        if self._seen_in:
            name = os.path.basename(self.path)
            where = f"Full output: {os.path.join(self._seen_in, name)} in the sandbox, only bash can open it"
        return f"{where} (its first {format_size(self._size)})" if self._is_cut else where


class _Logs:
    """All logs of this process. Threads: used by any; `_lock` guards the sizes and the folder."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sizes: dict[str, int] = {}  # in the order of their start
        self._total = 0
        self._open: set[str] = set()
        self._folder = ""

    def folder(self) -> str:
        with self._lock:
            if not (self._folder and os.path.isdir(self._folder)):
                self._folder = make_folder("logs")
            return self._folder

    def reserve(self, path: str, size: int) -> bool:
        """Count `size` more bytes of a log, deleting older logs for them; False when there is no space."""
        with self._lock:
            self._open.add(path)
            self._sizes.setdefault(path, 0)
            if self._total + size > TOTAL_LIMIT:
                for other in [other for other in self._sizes if other not in self._open]:
                    self._delete(other)
                    if self._total + size <= TOTAL_LIMIT:
                        break
                else:
                    return False
            self._sizes[path] += size
            self._total += size
            return True

    def finish(self, path: str) -> None:
        with self._lock:
            self._open.discard(path)

    def delete(self, path: str) -> None:
        with self._lock:
            self._delete(path)

    def _delete(self, path: str) -> None:
        self._total -= self._sizes.pop(path, 0)
        with contextlib.suppress(OSError):
            os.unlink(path)


_shared = _Logs()


def _forget_in_child() -> None:
    global _shared
    _shared = _Logs()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
