"""Which files the tools may touch: all of the disk, or those below one root.

A confined path is walked here, not by the system: each component is opened relative to the folder before it
and never through a link. A link is read, and its target walked the same way, so links that stay below the
root work. The way ends in an open folder and a name in it; whoever swaps a folder for a link meanwhile finds
the name still looked up in the folder that was opened.

Not covered: hard links and mounts below the root (no path tells them apart from the rest of it), and the
`reader` and `writer` of a caller, which get a path that was looked at and open it themselves. On a system
that opens nothing relative to a folder (Windows) the real path is looked at before each use; a link put in
place in between is not seen.
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
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
# O_PATH enters folders that may be entered but not listed.
_STEP = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | _NO_LINK
# What systems answer when a folder was wanted and there is a link or a file.
_NO_FOLDER = (errno.ENOTDIR, errno.ELOOP, errno.EMLINK)
_MOST_TURNS = 40  # links and `..` on one way; Linux follows as many links
_MOST_BYTES = 4095  # of a path, as for the system


class OutsideRoot(ToolFailure, PermissionError):
    """A path leads out of the root. Also an OSError, for a search that goes on after what it cannot open."""


class Place(NamedTuple):
    """A file as an open folder and a name in it, which is no link; without a folder the name is a path.

    Made for the `dir_fd` of the functions of `os`.
    """

    folder: int | None
    name: str


class Disk:
    """Every file of the machine, reached as the system does it."""

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
    def locate(self, path: str) -> Iterator[Place]:
        """Where the file is or would be, links followed; OSError when its folder does not exist."""
        yield Place(None, os.path.realpath(path))

    def make_folders(self, path: str) -> None:
        """Make the folders above the file, above its target where it is a link."""
        _make_folder(os.path.dirname(os.path.realpath(path)))


class Confined(Disk):
    """The files below `root`. What leads out of it raises `OutsideRoot`, also when links change meanwhile.

    `root` is settled when this is made, also a relative one. Safe to use from any number of threads.
    """

    is_confined = True

    def __init__(self, root: str | os.PathLike[str], *, can_walk: bool = _CAN_WALK) -> None:
        self.given = os.path.abspath(root)
        self.root = os.path.realpath(root)
        self._can_walk = can_walk

    def check(self, path: str) -> None:
        try:
            with self._way(path):
                return
        except OutsideRoot:
            raise
        except OSError:
            # Told by whoever opens it. A caller's own reader may clean the path up first.
            self._components(os.path.normpath(path), path)

    def open(self, path: str, flags: int) -> int:
        with self.locate(path) as place:
            return os.open(place.name, flags | _NO_LINK, dir_fd=place.folder)

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
            with self._way(path, follow=False) as place:
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
        # The entries ask this descriptor what they are.
        descriptor = self.open(path, _FOLDER)
        try:
            with os.scandir(descriptor) as entries:
                yield entries
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def locate(self, path: str) -> Iterator[Place]:
        with self._way(path) as place:
            _existing(place, path)
            yield place

    def make_folders(self, path: str) -> None:
        if self._can_walk:
            with self._way(path, make=True):
                return
        _make_folder(os.path.dirname(self._real(path)))

    @contextlib.contextmanager
    def _way(self, path: str, *, follow: bool = True, make: bool = False) -> Iterator[Place]:
        """The place of a path; a folder of -1 stands for one that does not exist."""
        if not self._can_walk:
            yield Place(None, self._real(path, follow))
            return
        if len(os.fsencode(path)) > _MOST_BYTES:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path)
        way = _Way(self.root, lambda absolute: self._components(absolute, path), path, make)
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
        """An absolute path as components below the root; `path` is what an error names."""
        for spelling in (self.root, self.given):
            if absolute == spelling or absolute.startswith(os.path.join(spelling, "")):
                return _split(absolute[len(spelling) :])
        # Another spelling of the root: a link above it, another case where that does not matter.
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
        """For systems that cannot walk: the real path, looked at now."""
        folder, name = os.path.split(path)
        real = os.path.realpath(path) if follow or not name else os.path.join(os.path.realpath(folder), name)
        return os.path.join(self.root, *self._components(real, path))


DISK = Disk()


def disk_for(cwd: str | os.PathLike[str], confine: bool) -> tuple[str | os.PathLike[str], Disk]:
    """The working directory and the disk of a tool; a confined tool keeps its directory when ours changes."""
    if not confine:
        return cwd, DISK
    disk = Confined(cwd)
    return disk.root, disk


class _Way:
    """One walk from the root; holds one folder open until it is closed."""

    def __init__(self, root: str, below_root: Callable[[str], list[str]], path: str, make: bool) -> None:
        self._root = root
        self._below_root = below_root
        self._path = path
        self._make = make
        self._turns = 0
        self._folder = -1
        self._names: list[str] = []  # how we came to the folder
        self._todo: list[str] = []  # what is left to go, the next one last

    def take(self, follow: bool) -> Place:
        """Go to the end. Raises `OutsideRoot`, or OSError for links in a circle and files as folders."""
        self._start(self._below_root(self._path))
        while self._todo:
            part = self._todo.pop()
            if part == "..":
                self._start_again(self._names[:-1] if self._names else None)
            elif self._todo:
                self._enter(part)
            else:
                target = self._link(part) if follow else None
                if target is None:
                    return Place(self._folder, part)
                self._follow(target)
        return Place(self._folder, ".")

    def close(self) -> None:
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    def _start(self, parts: list[str]) -> None:
        self.close()
        self._folder = os.open(self._root, _STEP)
        self._names = []
        self._todo = parts[::-1]

    def _start_again(self, names: list[str] | None) -> None:
        """Go on from the folder of these names; None for the one above the root, which may lead back."""
        self._turn()
        rest = self._todo[::-1]
        if names is None:
            rest = self._below_root(os.path.join(os.path.dirname(self._root), *rest))
        self._start([*(names or ()), *rest])

    def _enter(self, part: str) -> None:
        if self._folder < 0:
            self._names.append(part)  # nothing is below a folder that does not exist, not even a link
            return
        try:
            below = self._open_folder(part)
        except OSError as error:
            target = self._link(part) if error.errno in _NO_FOLDER else None
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
        """A descriptor, -1 when there is no such folder."""
        try:
            return os.open(part, _STEP, dir_fd=self._folder)
        except FileNotFoundError:
            if not self._make:
                return -1
        with contextlib.suppress(FileExistsError):
            os.mkdir(part, dir_fd=self._folder)
        return os.open(part, _STEP, dir_fd=self._folder)

    def _link(self, part: str) -> str | None:
        """Where a link leads; None for what is no link."""
        if self._folder < 0:
            return None
        try:
            return os.readlink(part, dir_fd=self._folder)
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):
                return None
            raise

    def _follow(self, target: str) -> None:
        self._turn()
        if os.path.isabs(target):
            rest = self._todo[::-1]
            self._start([*self._below_root(target), *rest])
        else:
            self._todo += _split(target)[::-1]

    def _turn(self) -> None:
        self._turns += 1
        if self._turns > _MOST_TURNS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), self._path)


def _make_folder(path: str) -> None:
    """Like `os.makedirs`, which recurses and so fails on a path of a thousand folders."""
    missing = [path]
    while not os.path.exists(above := os.path.dirname(missing[-1])) and above != missing[-1]:
        missing.append(above)
    for folder in reversed(missing):
        try:
            os.mkdir(folder)
        except OSError:
            # Another call may have made it; some systems say that an existing one may not be made.
            if not os.path.isdir(folder):
                raise


def _existing(place: Place, path: str) -> int | None:
    """The folder of a place, which must exist."""
    if place.folder == -1:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return place.folder


def _split(path: str) -> list[str]:
    if os.altsep:
        path = path.replace(os.altsep, os.sep)
    return [part for part in path.split(os.sep) if part not in ("", ".")]
