"""Reads regular files and replaces their content atomically."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import secrets
import stat
import sys
import time
from collections.abc import Callable
from typing import Any, BinaryIO

from agent_tools.files.filesystem import FILESYSTEM, DirFd, Filesystem
from agent_tools.files.path_encoding import path_text
from agent_tools.tool import CallContext, ToolFailure
from agent_tools.truncate import format_size

HASH_LENGTH = 16  # hex digits: 64 bits avoid accidental collisions and cost a model few tokens
# Stores a text elsewhere than on the disk: writer(context, absolute_path, text).
Writer = Callable[[Any, str, str], object]

# Errors of a rename in a folder where the file itself may still be written: the folder takes no new file or
# is read-only, the owner cannot be set, the file is a mount point (as in containers). /proc answers ENOENT.
_NOT_REPLACEABLE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.ENOENT})
_READ_BYTES = 1 << 20
_LEFTOVER_SECONDS = 3600.0  # no write takes that long, so an older temporary file is from a killed process
_ACCESS_LIST = "system.posix_acl_access"


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
        raise ToolFailure(f"{path_text(path)} has more than {format_size(max_bytes)}")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class FileChanged(ToolFailure):
    """A file is not the one any more that was read before."""


def atomic_write(
    path: str,
    data: bytes,
    filesystem: Filesystem = FILESYSTEM,
    *,
    expected: os.stat_result | None = None,
) -> None:
    """Make `data` the content of the file; a reader sees either the old bytes or the new ones.

    A link is followed and stays a link, a dangling one gets its target. An existing file keeps its mode,
    owner and extended attributes; a new one gets 0666 minus the umask. A file is rewritten in place instead
    when a rename is impossible or would make another file of it: it has several hard links, or an owner we
    cannot give it, or is a mount point, or its folder takes no new file. There the old bytes are put back if
    the writing fails, and are kept in a hidden `.<16 hex digits>.old` beside the file until it is written, if
    the folder takes one. Raises OSError, and then the file is as it was; the folder must exist. With
    `expected`, a status from before, raises `FileChanged` if another program has changed the file since. No
    promise about a power cut. When the process is killed in the middle, a hidden `.<16 hex digits>.tmp` may
    stay beside the old content; a later write of the same file removes it.
    """
    with filesystem.locate(path, writes=True) as target:
        try:
            old = os.stat(target.name, dir_fd=target.folder, follow_symlinks=False)
        except FileNotFoundError:
            _require_unchanged(path, None, expected)
            _replace(target, data, None, path, expected)
            return
        if stat.S_ISLNK(old.st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        _refuse_irregular(path, old)
        # A rename would succeed on a file that its owner protected.
        if not os.access(target.name, os.W_OK, dir_fd=target.folder):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        _require_unchanged(path, old, expected)
        if old.st_nlink > 1 or not _replace(target, data, old, path, expected):
            _overwrite(target, data, path)


def store(
    path: str,
    data: bytes,
    context: CallContext,
    writer: Writer | None = None,
    filesystem: Filesystem = FILESYSTEM,
    *,
    expected: os.stat_result | None = None,
) -> None:
    """Write the new content, after `context.journal` could save the old one."""
    journal = getattr(context, "journal", None)
    if journal is not None:
        journal.before_change(path)
    try:
        if writer is None:
            atomic_write(path, data, filesystem, expected=expected)
        else:
            writer(context, path, data.decode("utf-8", "surrogateescape"))
    except ToolFailure:
        raise
    except Exception as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise ToolFailure(f"cannot write {path_text(path)}: {reason}") from error


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


class RegularFile(io.FileIO):
    """A file whose `read` gives b"" and not None when a non-blocking read has no data (`/proc/kmsg`)."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(-1 if size is None else size) or b""


def _refuse_irregular(path: str, status: os.stat_result) -> None:
    mode = status.st_mode
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise ToolFailure(f"{path_text(path)} is a directory, not a file")
    kinds = (
        (stat.S_ISFIFO, "a named pipe (FIFO)"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a character device"),
        (stat.S_ISBLK, "a block device"),
    )
    kind = next((name for test, name in kinds if test(mode)), "a special file")
    raise ToolFailure(f"{path_text(path)} is {kind}, not a regular file")


def _require_unchanged(path: str, now: os.stat_result | None, expected: os.stat_result | None) -> None:
    if expected is not None and (now is None or _state(now) != _state(expected)):
        raise FileChanged(
            f"another program changed {path_text(path)} meanwhile; nothing was written. Read it again"
        )


def _state(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _replace(
    target: DirFd, data: bytes, old: os.stat_result | None, path: str, expected: os.stat_result | None
) -> bool:
    """Write a temporary file and rename it to the target; False when that cannot keep the owner of `old`."""
    try:
        _replace_or_raise(target, data, old, path, expected)
    except OSError as error:
        if old is None or error.errno not in _NOT_REPLACEABLE:
            raise
        return False
    return True


def _replace_or_raise(
    target: DirFd, data: bytes, old: os.stat_result | None, path: str, expected: os.stat_result | None
) -> None:
    folder = target.folder
    # The kernel takes the umask off a new file's mode; a replacement is private until it has the old mode.
    descriptor, temporary = _create_temporary(target, 0o666 if old is None else 0o600)
    try:
        with open(descriptor, "wb") as file:
            if old is not None:
                _copy_metadata(file.fileno(), target, old)
            file.write(data)
            if old is not None and hasattr(os, "fchmod"):
                file.flush()  # a write takes the set-user-id bit away
                os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))
        if old is not None and not hasattr(os, "fchmod"):
            os.chmod(temporary, stat.S_IMODE(old.st_mode))
        if expected is not None:
            _require_unchanged(path, os.stat(target.name, dir_fd=folder, follow_symlinks=False), expected)
        os.replace(temporary, target.name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _create_temporary(target: DirFd, mode: int) -> tuple[int, str]:
    """Create the temporary file of a target, under the same name each time, so that leftovers are found."""
    usual = _beside(target, ".tmp")
    try:
        return _create(usual, target, mode), usual
    except FileExistsError:
        pass
    with contextlib.suppress(OSError):
        leftover = os.stat(usual, dir_fd=target.folder, follow_symlinks=False)
        if stat.S_ISREG(leftover.st_mode) and time.time() - leftover.st_mtime > _LEFTOVER_SECONDS:
            os.unlink(usual, dir_fd=target.folder)
    other = os.path.join(os.path.dirname(usual), f".{secrets.token_hex(8)}.tmp")
    return _create(other, target, mode), other


def _create(name: str, target: DirFd, mode: int) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    return os.open(name, flags, mode, dir_fd=target.folder)


def _beside(target: DirFd, suffix: str) -> str:
    """The name of a hidden file that belongs to the target."""
    folder, name = os.path.split(target.name)
    return os.path.join(folder, f".{content_hash(os.fsencode(name))}{suffix}")


def _copy_metadata(descriptor: int, target: DirFd, old: os.stat_result) -> None:
    """Give the new file the owner and the extended attributes of the old one."""
    new = os.fstat(descriptor)
    if hasattr(os, "fchown") and (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        os.fchown(descriptor, old.st_uid, old.st_gid)
    if hasattr(os, "listxattr"):
        attributes = _attributes(target)
        if _ACCESS_LIST not in dict(attributes):
            # The new file may have got the default list of its folder.
            with contextlib.suppress(OSError):
                os.removexattr(descriptor, _ACCESS_LIST)
        for name, value in attributes:
            # Some attributes can be set by the system only.
            with contextlib.suppress(OSError):
                os.setxattr(descriptor, name, value)


def _attributes(target: DirFd) -> list[tuple[str, bytes]]:
    """The extended attributes; none on a file system without them."""
    try:
        if target.folder is None:
            return [(name, os.getxattr(target.name, name)) for name in os.listxattr(target.name)]
        # No function of `os` reads attributes relative to a folder, so the file is opened.
        # O_NONBLOCK: a pipe may have taken its place.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(target.name, flags, dir_fd=target.folder)
    except OSError:
        return []
    try:
        return [(name, os.getxattr(descriptor, name)) for name in os.listxattr(descriptor)]
    except OSError:
        return []
    finally:
        os.close(descriptor)


def _overwrite(target: DirFd, data: bytes, path: str) -> None:
    flags = os.O_RDWR | getattr(os, "O_BINARY", 0)
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with open(os.open(target.name, flags, dir_fd=target.folder), "r+b", buffering=0) as file:
        _refuse_irregular(path, os.fstat(file.fileno()))
        before = file.read()
        backup = _back_up(target, before)
        try:
            _fill(file, data)
        except OSError:
            with contextlib.suppress(OSError):
                _fill(file, before)
                _remove_backup(backup, target)
            raise
    _remove_backup(backup, target)


def _back_up(target: DirFd, data: bytes) -> str:
    """Keep the old content beside a file that is rewritten in place; returns the name, "" if there is none.

    An existing one is from a write that was killed. It stays until the file is whole again.
    """
    name = _beside(target, ".old")
    try:
        with open(_create(name, target, 0o600), "wb") as file:
            file.write(data)
    except FileExistsError:
        return name
    except OSError:  # a folder that takes no new file, or a full disk
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=target.folder)
        return ""
    return name


def _remove_backup(name: str, target: DirFd) -> None:
    if name:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=target.folder)


def _fill(file: BinaryIO, data: bytes) -> None:
    file.seek(0)
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]
    file.truncate()
