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
import re
import stat
import sys
import unicodedata
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple

from agent_tools.files.path_encoding import path_text
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


class ProtectedPath(ToolFailure, PermissionError):
    """A path that tools must not open or change although the system allows it."""


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
        """A descriptor for reading. `ProtectedPath` for a file of /proc that shows keys or memory."""
        return _not_secret(os.open(path, flags), path)

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
    def locate(self, path: str, *, writes: bool = False) -> Iterator[DirFd]:
        """Locate the file or the new file, links resolved; OSError when its folder is missing.

        With `writes`, `ProtectedPath` for a file that must not be changed.
        """
        yield DirFd(None, os.path.realpath(path))

    def make_folders(self, path: str) -> None:
        """Make the folders above the file, above its target where it is a link."""
        _make_folder(os.path.dirname(os.path.realpath(path)))


class ConfinedFilesystem(Filesystem):
    """The files below `root`. A path out of it raises `OutsideRoot`, also when links change meanwhile.

    A relative `root` is resolved once, by the constructor. `protect` names files and folders that are not
    changed, such as `.git/config`: in all folders below the root, in any case, and what is below them. Safe
    to use from any number of threads.
    """

    is_confined = True

    def __init__(
        self, root: str | os.PathLike[str], *, protect: Collection[str] = (), can_walk: bool = _CAN_WALK
    ) -> None:
        self.given = os.path.abspath(root)
        self.root = os.path.realpath(root)
        self._can_walk = can_walk
        self._protect = tuple(tuple(_folded(part) for part in name.split("/")) for name in protect)

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
            return _not_secret(os.open(place.name, flags | _NOFOLLOW, dir_fd=place.folder), path)

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
    def locate(self, path: str, *, writes: bool = False) -> Iterator[DirFd]:
        with self._walk(path, writes=writes) as place:
            _existing(place, path)
            yield place

    def make_folders(self, path: str) -> None:
        if self._can_walk:
            with self._walk(path, writes=True):  # no folder is made for a file that must not be written
                pass
            with self._walk(path, make=True):
                return
        real = self._real(path)
        self._refuse_protected(self._components(real, path), path)
        _make_folder(os.path.dirname(real))

    @contextlib.contextmanager
    def _walk(
        self, path: str, *, follow: bool = True, make: bool = False, writes: bool = False
    ) -> Iterator[DirFd]:
        """Walk to a path; `folder` is -1 when the folder does not exist."""
        if not self._can_walk:
            real = self._real(path, follow)
            if writes:
                self._refuse_protected(self._components(real, path), path)
            yield DirFd(None, real)
            return
        if len(os.fsencode(path)) > _MAX_PATH_BYTES:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path)
        walk = _PathWalk(self.root, lambda absolute: self._components(absolute, path), path, make)
        try:
            place = walk.take(follow)
            if writes:
                self._refuse_protected([*walk.names, place.name], path)
            yield place
        finally:
            walk.close()

    def _refuse_protected(self, parts: list[str], path: str) -> None:
        folded = [_folded(part) for part in parts]
        for names in self._protect:
            # `.git/config` also stands for `.git/modules/x/config`, and for a new file `.git`.
            rest = iter(folded)
            if all(name in rest for name in names) or (folded and folded[-1] == names[0]):
                raise ProtectedPath(
                    f"{path_text(path)} must not be changed here: programs outside the sandbox obey it. "
                    "Ask the user to change it"
                )

    def _mode(self, path: str) -> int:
        try:
            return self.stat(path).st_mode
        except OSError:
            return 0

    def _components(self, absolute: str, path: str) -> list[str]:
        """The components of an absolute path below the root; an error names `path`."""
        for root in (self.root, self.given):
            if absolute == root or absolute.startswith(os.path.join(root, "")):
                return _split(absolute[len(root) :])
        # The root under another name: through a link above it, or in another case on such file systems. `..`
        # is taken off as text, and missing folders are passed over: the answer must not tell what exists
        # outside.
        parts = _split(absolute)
        folder = os.path.splitdrive(absolute)[0] + os.sep
        root_status = os.stat(self.root)
        for index, part in enumerate(parts, 1):
            folder = os.path.dirname(folder) if part == ".." else os.path.join(folder, part)
            with contextlib.suppress(OSError, ValueError):
                if os.path.samestat(os.stat(folder), root_status):
                    return parts[index:]
        raise OutsideRoot(
            f"{path_text(path)} is outside the root {self.root}, or leads out of it. Only files and folders "
            "below that root can be used here."
        )

    def _real(self, path: str, follow: bool = True) -> str:
        """The real path, checked now, for systems without `dir_fd`."""
        folder, name = os.path.split(path)
        real = os.path.realpath(path) if follow or not name else os.path.join(os.path.realpath(folder), name)
        return os.path.join(self.root, *self._components(real, path))


FILESYSTEM = Filesystem()


def filesystem_for(
    cwd: str | os.PathLike[str], confine: bool, protect: Collection[str] = ()
) -> tuple[str | os.PathLike[str], Filesystem]:
    """The working directory and the filesystem of a tool.

    A confined tool keeps its directory when the process changes its own, and does not change what `protect`
    names.
    """
    if not confine:
        return cwd, FILESYSTEM
    filesystem = ConfinedFilesystem(cwd, protect=protect)
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
        self.names: list[str] = []  # the components of the open folder
        self._remaining: list[str] = []  # the components still to walk, the next one last

    def take(self, follow: bool) -> DirFd:
        """Walk to the end. Raises `OutsideRoot`; OSError for a circle of links or a file used as a folder."""
        self._start(self._below_root(self._path))
        while self._remaining:
            part = self._remaining.pop()
            if part == "..":
                self._start_again(self.names[:-1] if self.names else None)
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
        self.names = []
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
            self.names.append(part)  # a folder that does not exist holds no links
            return
        try:
            below = self._open_folder(part)
        except OSError as error:
            target = self._link(part) if error.errno in _NOT_A_FOLDER else None
            if target is None:
                raise OSError(
                    error.errno, error.strerror, os.path.join(self._root, *self.names, part)
                ) from None
            self._follow(target)
            return
        self.close()
        self._folder = below
        self.names.append(part)

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


def _not_secret(descriptor: int, path: str) -> int:
    """The descriptor itself; for the environment or memory of a process, closes it and raises."""
    try:
        if os.fstat(descriptor).st_dev == _PROC_DEVICE:
            real = os.readlink(f"/proc/self/fd/{descriptor}")
            if _SECRET_PROC_FILE.fullmatch(real):
                raise ProtectedPath(
                    f"{path_text(path)} shows the keys or the memory of a process and is not opened"
                )
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def may_reach_proc(folder: str) -> bool:
    """True when a walk from the folder may come to the files of processes."""
    real = os.path.join(os.path.realpath(folder), "")
    return real == "/" or real.startswith("/proc/")


def _folded(name: str) -> str:
    """The name as case-insensitive file systems compare it, which ignore characters without a shape."""
    return "".join(
        c for c in unicodedata.normalize("NFKC", name).casefold() if unicodedata.category(c) != "Cf"
    )


def _device(path: str) -> int | None:
    try:
        return os.stat(path).st_dev
    except OSError:
        return None


# Linux shows the environment of a process, where its keys are, to every process of the same user.
_PROC_DEVICE = _device("/proc/self/environ") if sys.platform.startswith("linux") else None
_SECRET_PROC_FILE = re.compile(r"/proc/(?:\d+/(?:task/\d+/)?(?:environ|mem|cmdline|auxv)|kcore)")


def _split(path: str) -> list[str]:
    if os.altsep:
        path = path.replace(os.altsep, os.sep)
    return [part for part in path.split(os.sep) if part not in ("", ".")]
