"""Locks a file that is about to be changed, among threads and among programs."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import time
import unicodedata
import weakref
from collections.abc import Hashable, Iterator

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

from agent_tools.files.filesystem import FILESYSTEM, Filesystem
from agent_tools.files.path_encoding import path_text
from agent_tools.tool import Cancel, ToolFailure

_LOCK_POLL = 0.05  # seconds between two checks of the cancel signal while waiting for the lock of a file
_FIRST_PAUSE = 0.001  # seconds until the first further try to get the lock of another program
_OTHER_PROGRAM_SECONDS = 10.0  # a write takes milliseconds; a longer lock has another purpose


@contextlib.contextmanager
def lock_for(path: str, cancel: Cancel | None = None, filesystem: Filesystem = FILESYSTEM) -> Iterator[None]:
    """Hold the lock of a file, the same for all paths of it; `ToolFailure` when cancelled while waiting.

    It excludes other threads, and other programs that use this module or lock the file with `flock`. A
    program that holds its lock for longer than 10 seconds is an error. A file that does not exist is locked
    for threads only. A thread lock exists as long as a call holds it or waits for it.
    """
    key = _lock_key(path)
    with _locks_guard:
        lock = _locks.get(key)
        if lock is None:
            lock = _locks[key] = _FileLock()
    while not lock.held.acquire(timeout=_LOCK_POLL):
        if cancel is not None and cancel.is_set():
            raise ToolFailure(f"aborted while waiting for another change of {path_text(path)}")
    try:
        descriptor = _lock_among_programs(path, cancel, filesystem)
        try:
            yield
        finally:
            _unlock(descriptor)
    finally:
        lock.held.release()


def _lock_among_programs(path: str, cancel: Cancel | None, filesystem: Filesystem) -> int | None:
    """Lock the file that the path names now; None where files are not locked, or there is none to lock.

    A writer replaces the file, so another program may have taken the lock of its predecessor: after locking,
    the path must still name the locked file.
    """
    if fcntl is None:
        return None
    deadline = time.monotonic() + _OTHER_PROGRAM_SECONDS
    pause = _FIRST_PAUSE
    while True:
        try:
            if not stat.S_ISREG(filesystem.stat(path).st_mode):
                return None
            descriptor = filesystem.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None  # the call itself reports why the file cannot be used
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), filesystem.stat(path)):
                return descriptor
        except BlockingIOError:
            pass
        except FileNotFoundError:  # deleted meanwhile
            _unlock(descriptor)
            return None
        except OSError:  # a file system without locks
            return descriptor
        _unlock(descriptor)
        if cancel is not None and cancel.is_set():
            raise ToolFailure(f"aborted while waiting for another program to write {path_text(path)}")
        if time.monotonic() > deadline:
            raise ToolFailure(
                f"{path_text(path)} is locked by another program; nothing was written. Try again later"
            )
        time.sleep(pause)
        pause = min(2 * pause, _LOCK_POLL)


def _unlock(descriptor: int | None) -> None:
    if descriptor is None or fcntl is None:
        return
    # A child process may have inherited the descriptor, so closing alone would not unlock.
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


class _FileLock:
    __slots__ = ("__weakref__", "held")

    def __init__(self) -> None:
        self.held = threading.Lock()


_locks: weakref.WeakValueDictionary[Hashable, _FileLock] = weakref.WeakValueDictionary()
_locks_guard = threading.Lock()


def _lock_key(path: str) -> Hashable:
    real = os.path.realpath(path)
    with contextlib.suppress(OSError):
        status = os.stat(real)
        if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
            # Several names of one file; it is rewritten in place, so the number stays.
            return status.st_dev, status.st_ino
    # Where names differ by case or accents only, sharing a lock costs nothing and missing one loses an edit.
    return unicodedata.normalize("NFC", real).casefold()
