"""Which files the tools may touch: all of the filesystem, or those below one root.

A confined path is resolved here and not by the system: each component is opened relative to the folder before
it, never through a link. A link is read and its target is walked in the same way, so links that stay below
the root work. The walk ends with an open folder and a name in it. A folder that is replaced by a link
meanwhile has no effect: the name is looked up in the folder that was opened.

Not covered: hard links and mounts below the root, which no path distinguishes from other files, and the
`reader` and `writer` of a caller, which get a checked path and open it themselves. On systems without
`dir_fd` (Windows) the real path is checked before each use; a link that is created in between is not seen.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple

from agent_tools.tool import ToolFailure

_CAN_WALK = (
    {os.open, os.stat, os.readlink, os.mkdir, os.unlink, os.rename} <= os.supports_dir_fd
    and os.scandir in os.supports_fd
    and hasattr(os, "O_NOFOLLOW")
)
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_LIST_FLAGS = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
# O_PATH enters folders that may be entered but not listed.
_ENTER_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | _NOFOLLOW
# The errors for a link or a file where a folder is expected.
_NOT_A_FOLDER = (errno.ENOTDIR, errno.ELOOP, errno.EMLINK)
_MAX_LINKS = 40  # links and `..` in one path; Linux follows as many links
_MAX_PATH_BYTES = 4095  # of a path, as for the system


class OutsideRoot(ToolFailure, PermissionError):
    """A path leads out of the root. Also an OSError: a search skips it as it skips unreadable files."""


class DirFd(NamedTuple):
    """A file as arguments for the functions of `os`: `dir_fd=folder` and a name in it that is not a link.

    With `folder` None the name is a path.
    """

    folder: int | None
    name: str


class Filesystem:
    """All files of the machine, opened through the functions of `os`."""

    is_confined = False

    def open(self, path: str, flags: int) -> int:
        """A descriptor for reading."""
        return os.open(path, flags)

    def stat(self, path: str) -> os.stat_result:
        return os.stat(path)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def lexists(self, path: str) -> bool:
        return os.path.lexists(path)

    def isdir(self, path: str) -> bool:
        return os.path.isdir(path)

    def isfile(self, path: str) -> bool:
        return os.path.isfile(path)

    def check(self, path: str) -> None:
        """Raise `OutsideRoot` for a path that may not be used, whether or not something is there."""

    def scandir(self, path: str) -> AbstractContextManager[Iterator[os.DirEntry[str]]]:
        """The entries of a folder; use them before leaving the context."""
        return os.scandir(path)

    @contextlib.contextmanager
    def locate(self, path: str) -> Iterator[DirFd]:
        """Locate the file or the new file, links resolved; OSError when its folder is missing."""
        yield DirFd(None, os.path.realpath(path))

    def make_folders(self, path: str) -> None:
        """Make the folders above the file, above its target where it is a link."""
        _make_folder(os.path.dirname(os.path.realpath(path)))


class ConfinedFilesystem(Filesystem):
    """The files below `root`. A path out of it raises `OutsideRoot`, also when links change meanwhile.

    A relative `root` is resolved once, by the constructor. Safe to use from any number of threads.
    """

    is_confined = True

    def __init__(self, root: str | os.PathLike[str], *, can_walk: bool = _CAN_WALK) -> None:
        self.given = os.path.abspath(root)
        self.root = os.path.realpath(root)
        self._can_walk = can_walk

    def check(self, path: str) -> None:
        try:
            with self._walk(path):
                return
        except OutsideRoot:
            raise
        except OSError:
            # Opening the path reports this error. A caller's `reader` may normalize the path first.
            self._components(os.path.normpath(path), path)

    def open(self, path: str, flags: int) -> int:
        with self.locate(path) as place:
            return os.open(place.name, flags | _NOFOLLOW, dir_fd=place.folder)

    def stat(self, path: str) -> os.stat_result:
        with self.locate(path) as place:
            return os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)

    def exists(self, path: str) -> bool:
        return self._mode(path) != 0

    def isdir(self, path: str) -> bool:
        return stat.S_ISDIR(self._mode(path))

    def isfile(self, path: str) -> bool:
        return stat.S_ISREG(self._mode(path))

    def lexists(self, path: str) -> bool:
        try:
            with self._walk(path, follow=False) as place:
                os.stat(place.name, dir_fd=_existing(place, path), follow_symlinks=False)
        except OSError:
            return False
        return True

    @contextlib.contextmanager
    def scandir(self, path: str) -> Iterator[Iterator[os.DirEntry[str]]]:
        if not self._can_walk:
            with self.locate(path) as place, os.scandir(place.name) as entries:
                yield entries
            return
        # The entries need the open descriptor for `is_dir` and `is_file`.
        descriptor = self.open(path, _LIST_FLAGS)
        try:
            with os.scandir(descriptor) as entries:
                yield entries
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def locate(self, path: str) -> Iterator[DirFd]:
        with self._walk(path) as place:
            _existing(place, path)
            yield place

    def make_folders(self, path: str) -> None:
        if self._can_walk:
            with self._walk(path, make=True):
                return
        _make_folder(os.path.dirname(self._real(path)))

    @contextlib.contextmanager
    def _walk(self, path: str, *, follow: bool = True, make: bool = False) -> Iterator[DirFd]:
        """Walk to a path; `folder` is -1 when the folder does not exist."""
        if not self._can_walk:
            yield DirFd(None, self._real(path, follow))
            return
        if len(os.fsencode(path)) > _MAX_PATH_BYTES:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path)
        way = _PathWalk(self.root, lambda absolute: self._components(absolute, path), path, make)
        try:
            yield way.take(follow)
        finally:
            way.close()

    def _mode(self, path: str) -> int:
        try:
            return self.stat(path).st_mode
        except OSError:
            return 0

    def _components(self, absolute: str, path: str) -> list[str]:
        """The components of an absolute path below the root; an error names `path`."""
        for spelling in (self.root, self.given):
            if absolute == spelling or absolute.startswith(os.path.join(spelling, "")):
                return _split(absolute[len(spelling) :])
        # The root under another name: through a link above it, or in another case on such file systems.
        parts = _split(absolute)
        folder = os.path.splitdrive(absolute)[0] + os.sep
        with contextlib.suppress(OSError):
            root = os.stat(self.root)
            for index, part in enumerate(parts, 1):
                folder = os.path.join(folder, part)
                if os.path.samestat(os.stat(folder), root):
                    return parts[index:]
        raise OutsideRoot(
            f"{path} is outside the root {self.root}, or leads out of it. Only files and folders below that "
            "root can be used here."
        )

    def _real(self, path: str, follow: bool = True) -> str:
        """The real path, checked now, for systems without `dir_fd`."""
        folder, name = os.path.split(path)
        real = os.path.realpath(path) if follow or not name else os.path.join(os.path.realpath(folder), name)
        return os.path.join(self.root, *self._components(real, path))


FILESYSTEM = Filesystem()


def filesystem_for(cwd: str | os.PathLike[str], confine: bool) -> tuple[str | os.PathLike[str], Filesystem]:
    """The working directory and the disk of a tool; a confined tool keeps its directory when ours changes."""
    if not confine:
        return cwd, FILESYSTEM
    filesystem = ConfinedFilesystem(cwd)
    return filesystem.root, filesystem


class _PathWalk:
    """Resolves one path from the root; holds one folder open until `close`."""

    def __init__(self, root: str, below_root: Callable[[str], list[str]], path: str, make: bool) -> None:
        self._root = root
        self._below_root = below_root
        self._path = path
        self._make = make
        self._links = 0
        self._folder = -1
        self._names: list[str] = []  # the components of the open folder
        self._remaining: list[str] = []  # the components still to walk, the next one last

    def take(self, follow: bool) -> DirFd:
        """Walk to the end. Raises `OutsideRoot`; OSError for a circle of links or a file used as a folder."""
        self._start(self._below_root(self._path))
        while self._remaining:
            part = self._remaining.pop()
            if part == "..":
                self._start_again(self._names[:-1] if self._names else None)
            elif self._remaining:
                self._enter(part)
            else:
                target = self._link(part) if follow else None
                if target is None:
                    return DirFd(self._folder, part)
                self._follow(target)
        return DirFd(self._folder, ".")

    def close(self) -> None:
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    def _start(self, parts: list[str]) -> None:
        self.close()
        self._folder = os.open(self._root, _ENTER_FLAGS)
        self._names = []
        self._remaining = parts[::-1]

    def _start_again(self, names: list[str] | None) -> None:
        """Continue from the folder `names`; None is the folder above the root."""
        self._count_link()
        rest = self._remaining[::-1]
        if names is None:
            rest = self._below_root(os.path.join(os.path.dirname(self._root), *rest))
        self._start([*(names or ()), *rest])

    def _enter(self, part: str) -> None:
        if self._folder < 0:
            self._names.append(part)  # a folder that does not exist holds no links
            return
        try:
            below = self._open_folder(part)
        except OSError as error:
            target = self._link(part) if error.errno in _NOT_A_FOLDER else None
            if target is None:
                raise OSError(
                    error.errno, error.strerror, os.path.join(self._root, *self._names, part)
                ) from None
            self._follow(target)
            return
        self.close()
        self._folder = below
        self._names.append(part)

    def _open_folder(self, part: str) -> int:
        """A descriptor, or -1 when the folder does not exist."""
        try:
            return os.open(part, _ENTER_FLAGS, dir_fd=self._folder)
        except FileNotFoundError:
            if not self._make:
                return -1
        with contextlib.suppress(FileExistsError):
            os.mkdir(part, dir_fd=self._folder)
        return os.open(part, _ENTER_FLAGS, dir_fd=self._folder)

    def _link(self, part: str) -> str | None:
        """The target of a link; None for anything else."""
        if self._folder < 0:
            return None
        try:
            return os.readlink(part, dir_fd=self._folder)
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):
                return None
            raise

    def _follow(self, target: str) -> None:
        self._count_link()
        if os.path.isabs(target):
            rest = self._remaining[::-1]
            self._start([*self._below_root(target), *rest])
        else:
            self._remaining += _split(target)[::-1]

    def _count_link(self) -> None:
        self._links += 1
        if self._links > _MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), self._path)


def _make_folder(path: str) -> None:
    """`os.makedirs` without recursion, which fails on a path of a thousand folders."""
    missing = [path]
    while not os.path.exists(above := os.path.dirname(missing[-1])) and above != missing[-1]:
        missing.append(above)
    for folder in reversed(missing):
        try:
            os.mkdir(folder)
        except OSError:
            # Another call may have made it; some systems answer EPERM for an existing folder.
            if not os.path.isdir(folder):
                raise


def _existing(place: DirFd, path: str) -> int | None:
    """The descriptor of the folder; FileNotFoundError when it does not exist."""
    if place.folder == -1:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return place.folder


def _split(path: str) -> list[str]:
    if os.altsep:
        path = path.replace(os.altsep, os.sep)
    return [part for part in path.split(os.sep) if part not in ("", ".")]
