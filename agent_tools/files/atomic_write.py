"""Reads regular files and replaces their content atomically, with one writer per file at a time."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import secrets
import stat
import sys
import threading
import unicodedata
import weakref
from collections.abc import Callable, Hashable, Iterator
from typing import Any, BinaryIO

from agent_tools.files.filesystem import FILESYSTEM, DirFd, Filesystem
from agent_tools.tool import Cancel, ToolFailure
from agent_tools.truncate import format_size

HASH_LENGTH = 16  # hex digits: 64 bits avoid accidental collisions and cost a model few tokens
# Stores a text elsewhere than on the disk: writer(context, absolute_path, text).
Writer = Callable[[Any, str, str], object]

# Errors of a rename in a folder where the file itself may still be written: the folder takes no new file or
# is read-only, the owner cannot be set, the file is a mount point (as in containers). /proc answers ENOENT.
_NOT_REPLACEABLE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.ENOENT})
_READ_BYTES = 1 << 20
_LOCK_POLL = 0.05  # seconds between two looks at the stop signal while waiting for a file's lock


def content_hash(data: bytes) -> str:
    """The hash that tools report for a content: the first 16 hex digits of its SHA-256."""
    return hashlib.sha256(data).hexdigest()[:HASH_LENGTH]


def require_regular_file(path: str, filesystem: Filesystem = FILESYSTEM) -> os.stat_result:
    """The file's status; `ToolFailure` for a directory, pipe, socket or device, OSError for none."""
    status = filesystem.stat(path)
    _refuse_irregular(path, status)
    return status


def open_regular(path: str, filesystem: Filesystem = FILESYSTEM) -> RegularFile:
    """Open a file for reading, unbuffered; never waits for the other end of a pipe.

    Raises like `require_regular_file`. The kind is checked before opening, because opening a device may have
    effects, and after it, because the path may have been replaced meanwhile.
    """
    require_regular_file(path, filesystem)
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    file = RegularFile(filesystem.open(path, flags))
    try:
        _refuse_irregular(path, os.fstat(file.fileno()))
    except BaseException:
        file.close()
        raise
    return file


def read_regular(path: str, filesystem: Filesystem = FILESYSTEM, *, max_bytes: int = sys.maxsize) -> bytes:
    """The bytes of a regular file; `ToolFailure` for more than `max_bytes`, whatever its reported size."""
    with open_regular(path, filesystem) as file:
        # One read gets the whole file as a rule, so a big file is not copied.
        data = file.read(min(os.fstat(file.fileno()).st_size, max_bytes) + 1)
        pieces = [data]
        length = len(data)
        while length <= max_bytes and (data := file.read(_READ_BYTES)):
            pieces.append(data)
            length += len(data)
    if length > max_bytes:
        raise ToolFailure(f"{path} has more than {format_size(max_bytes)}")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def atomic_write(path: str, data: bytes, filesystem: Filesystem = FILESYSTEM) -> None:
    """Make `data` the content of the file; a reader sees either the old bytes or the new ones.

    A link is followed and stays a link, a dangling one gets its target. An existing file keeps its mode,
    owner and extended attributes; a new one gets 0666 minus the umask. A file is rewritten in place instead
    when a rename is impossible or would make another file of it: it has several hard links, or an owner we
    cannot give it, or is a mount point, or its folder takes no new file. There the old bytes are put back if
    the writing fails.
    Raises OSError, and then the file is as it was; the folder must exist. No promise about a power cut; when
    the process is killed in the middle, a hidden `.<16 hex digits>.tmp` may stay beside the old content.
    """
    with filesystem.locate(path) as target:
        try:
            old = os.stat(target.name, dir_fd=target.folder, follow_symlinks=False)
        except FileNotFoundError:
            _replace(target, data, None)
            return
        if stat.S_ISLNK(old.st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        _refuse_irregular(path, old)
        # A rename would succeed on a file that its owner protected.
        if not os.access(target.name, os.W_OK, dir_fd=target.folder):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        if old.st_nlink > 1 or not _replace(target, data, old):
            _overwrite(target, data)


def store(
    path: str, data: bytes, context: Any, writer: Writer | None = None, filesystem: Filesystem = FILESYSTEM
) -> None:
    """Write the new content, after `context.journal` could save the old one."""
    journal = getattr(context, "journal", None)
    if journal is not None:
        journal.before_change(path)
    try:
        if writer is None:
            atomic_write(path, data, filesystem)
        else:
            writer(context, path, data.decode("utf-8", "surrogateescape"))
    except ToolFailure:
        raise
    except Exception as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise ToolFailure(f"cannot write {path}: {reason}") from error


def make_parents(path: str, filesystem: Filesystem = FILESYSTEM) -> None:
    """Make the folders above a file; for a link, those above its target."""
    try:
        filesystem.make_folders(path)
    except ToolFailure:
        raise
    except OSError as error:
        # The error for a parent that is a file is FileExistsError.
        is_file = isinstance(error, (FileExistsError, NotADirectoryError))
        reason = f"{error.filename} is not a directory" if is_file else error.strerror
        parent = os.path.dirname(os.path.realpath(path))
        raise ToolFailure(f"cannot create the directory {parent}: {reason}") from error


@contextlib.contextmanager
def lock_for(path: str, cancel: Cancel | None = None) -> Iterator[None]:
    """Hold the one lock of a file, however its path is spelled; gives up with `ToolFailure` when cancelled.

    For threads of this process. A lock lives as long as somebody holds or awaits it.
    """
    key = _lock_key(path)
    with _locks_guard:
        lock = _locks.get(key)
        if lock is None:
            lock = _locks[key] = _FileLock()
    while not lock.held.acquire(timeout=_LOCK_POLL):
        if cancel is not None and cancel.is_set():
            raise ToolFailure(f"aborted while waiting for another change of {path}")
    try:
        yield
    finally:
        lock.held.release()


class _FileLock:
    __slots__ = ("__weakref__", "held")

    def __init__(self) -> None:
        self.held = threading.Lock()


_locks: weakref.WeakValueDictionary[Hashable, _FileLock] = weakref.WeakValueDictionary()
_locks_guard = threading.Lock()


class RegularFile(io.FileIO):
    """A file whose `read` gives b"" and not None when a non-blocking read has no data (`/proc/kmsg`)."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(-1 if size is None else size) or b""


def _lock_key(path: str) -> Hashable:
    real = os.path.realpath(path)
    with contextlib.suppress(OSError):
        status = os.stat(real)
        if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
            # Several names of one file; it is rewritten in place, so the number stays.
            return status.st_dev, status.st_ino
    # Where names differ by case or accents only, sharing a lock costs nothing and missing one loses an edit.
    return unicodedata.normalize("NFC", real).casefold()


def _refuse_irregular(path: str, status: os.stat_result) -> None:
    mode = status.st_mode
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise ToolFailure(f"{path} is a directory, not a file")
    kinds = (
        (stat.S_ISFIFO, "a named pipe (FIFO)"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a character device"),
        (stat.S_ISBLK, "a block device"),
    )
    kind = next((name for test, name in kinds if test(mode)), "a special file")
    raise ToolFailure(f"{path} is {kind}, not a regular file")


def _replace(target: DirFd, data: bytes, old: os.stat_result | None) -> bool:
    """Write a temporary file and rename it to the target; False when that cannot keep the owner of `old`."""
    try:
        _replace_or_raise(target, data, old)
    except OSError as error:
        if old is None or error.errno not in _NOT_REPLACEABLE:
            raise
        return False
    return True


def _replace_or_raise(target: DirFd, data: bytes, old: os.stat_result | None) -> None:
    folder = target.folder
    temporary = os.path.join(os.path.dirname(target.name), f".{secrets.token_hex(8)}.tmp")
    # The kernel takes the umask off a new file's mode; a replacement is private until it has the old mode.
    mode = 0o666 if old is None else 0o600
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        with open(os.open(temporary, flags, mode, dir_fd=folder), "wb") as file:
            if old is not None:
                _copy_metadata(file.fileno(), target, old)
            file.write(data)
            if old is not None and hasattr(os, "fchmod"):
                file.flush()  # a write takes the set-user-id bit away
                os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))
        if old is not None and not hasattr(os, "fchmod"):
            os.chmod(temporary, stat.S_IMODE(old.st_mode))
        os.replace(temporary, target.name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _copy_metadata(descriptor: int, target: DirFd, old: os.stat_result) -> None:
    """Give the new file the owner and the extended attributes of the old one."""
    new = os.fstat(descriptor)
    if hasattr(os, "fchown") and (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        os.fchown(descriptor, old.st_uid, old.st_gid)
    if hasattr(os, "listxattr"):
        for name, value in _attributes(target):
            # Some attributes can be set by the system only.
            with contextlib.suppress(OSError):
                os.setxattr(descriptor, name, value)


def _attributes(target: DirFd) -> list[tuple[str, bytes]]:
    """The extended attributes; none on a file system without them."""
    try:
        if target.folder is None:
            return [(name, os.getxattr(target.name, name)) for name in os.listxattr(target.name)]
        # No function of `os` reads attributes relative to a folder, so the file is opened.
        descriptor = os.open(target.name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=target.folder)
    except OSError:
        return []
    try:
        return [(name, os.getxattr(descriptor, name)) for name in os.listxattr(descriptor)]
    except OSError:
        return []
    finally:
        os.close(descriptor)


def _overwrite(target: DirFd, data: bytes) -> None:
    flags = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(target.name, flags, dir_fd=target.folder), "r+b", buffering=0) as file:
        before = file.read()
        try:
            _fill(file, data)
        except OSError:
            with contextlib.suppress(OSError):
                _fill(file, before)
            raise


def _fill(file: BinaryIO, data: bytes) -> None:
    file.seek(0)
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]
    file.truncate()
