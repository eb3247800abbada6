"""Creates temporary folders that are deleted with this process, and deletes those of processes that are gone.

All folders of a process lie in one base folder, which the process keeps locked (flock). A base folder that
no process locks belongs to a process that was killed: the next process that needs a folder deletes it.
systemd-tmpfiles leaves locked folders alone too.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterator
from itertools import count

try:
    import fcntl
except ImportError:  # Windows: leftovers are not deleted
    fcntl = None  # type: ignore[assignment]

PREFIX = "agent-tools-"
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
# Folders in folders that are open at the same time during a deletion.
_MAX_DEPTH = 50

# Guards the two below. Reentrant, because a signal handler that deletes may interrupt its holder.
_lock = threading.RLock()
_base = ""
_descriptor = -1


def make_folder(name: str) -> str:
    """Create a folder that only this user may enter; it lasts until `delete_folder` or the process ends.

    Raises OSError when it cannot be created.
    """
    global _base, _descriptor
    with _lock:
        if not (_base and os.path.isdir(_base)):
            _release()
            _delete_leftovers()
            _base, _descriptor = _make_base()
        return tempfile.mkdtemp(prefix=f"{name}-", dir=_base)


def delete_folder(path: str) -> None:
    """Delete a folder of `make_folder`; a forked child does not delete those of its parent."""
    with _lock:
        is_own = bool(_base) and os.path.dirname(path) == _base
    if is_own:
        delete_tree(path)


def delete_all() -> None:
    """Delete every folder of this process: at its end, or before it exits without running exit handlers."""
    global _base
    with _lock:
        if _base:
            delete_tree(_base)
            _base = ""
        _release()


def delete_tree(path: str) -> None:
    """Delete a folder with its content, as far as possible; raises nothing.

    No depth is too great: a folder that is deeper than `_MAX_DEPTH` is moved to the top first, so that
    neither the recursion nor the open files nor the length of a path grow with the depth. Links are not
    followed.
    """
    if os.scandir not in os.supports_fd:  # Windows
        shutil.rmtree(path, ignore_errors=True)
        return
    try:
        top = os.open(path, _FOLDER)
    except OSError:
        return
    names = (f"delete-{secrets.token_hex(8)}-{number}" for number in count())
    try:
        while _empty(top, top, names, 0):
            pass
    finally:
        os.close(top)
    with contextlib.suppress(OSError):
        os.rmdir(path)


def _empty(folder: int, top: int, names: Iterator[str], depth: int) -> int:
    """Delete or move to the top what an open folder holds; returns the number of entries that are gone."""
    try:
        entries = os.listdir(folder)
    except OSError:
        return 0
    gone = 0
    for name in entries:
        with contextlib.suppress(OSError):
            if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                os.unlink(name, dir_fd=folder)
            elif depth < _MAX_DEPTH:
                os.chmod(name, 0o700, dir_fd=folder)
                inner = os.open(name, _FOLDER, dir_fd=folder)
                try:
                    _empty(inner, top, names, depth + 1)
                finally:
                    os.close(inner)
                os.rmdir(name, dir_fd=folder)
            else:
                os.chmod(name, 0o700, dir_fd=folder)
                os.rename(name, next(names), src_dir_fd=folder, dst_dir_fd=top)
            gone += 1
    return gone


def _make_base() -> tuple[str, int]:
    while True:
        base = tempfile.mkdtemp(prefix=PREFIX)
        if fcntl is None:
            return base, -1
        # It may be taken for a leftover until it is locked: then its deletion holds the lock.
        with contextlib.suppress(FileNotFoundError):
            descriptor = _lock_folder(base)
            if descriptor is not None:
                return base, descriptor


def _lock_folder(path: str) -> int | None:
    """Open and lock a folder; None when another process has locked it, -1 without file locks here."""
    descriptor = os.open(path, _FOLDER)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:  # a file system without locks
        os.close(descriptor)
        return -1
    return descriptor


def _delete_leftovers() -> None:
    """Delete the base folders of this user that no process has locked."""
    if fcntl is None:
        return
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if entry.name.startswith(PREFIX) and _is_ours(entry.stat(follow_symlinks=False)):
                    _delete_unlocked(entry.path)


def _is_ours(status: os.stat_result) -> bool:
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def _delete_unlocked(path: str) -> None:
    descriptor = _lock_folder(path)
    if descriptor is None or descriptor < 0:
        return
    try:
        delete_tree(path)
    finally:
        os.close(descriptor)


def _release() -> None:
    global _descriptor
    if _descriptor >= 0:
        os.close(_descriptor)
        _descriptor = -1


def _forget_in_child() -> None:
    """The folders belong to the parent; closing the copy of its descriptor does not unlock them."""
    global _base, _lock
    _lock = threading.RLock()
    _base = ""
    _release()


atexit.register(delete_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
