"""Keeps commands in a sandbox from changing the files that programs outside it obey.

A path that exists is mounted read-only. One that does not exist cannot be: a mount needs a place in the
user's folder. If a command creates it, it is renamed when the command ends.

Only paths that no running command can replace are mounted, because the mount would follow a link that is put
in their place. A path that has been mounted since before the first command is safe: a mount point can be
neither renamed nor deleted. A path that appeared later is safe to mount while no other command runs.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal

_SUFFIX = ".from-sandbox"

Kind = Literal["folder", "file", "absent", "other"]


@dataclass(frozen=True, slots=True)
class Guard:
    """The protection of one command: the mounts it needs, and the paths that did not exist at its start.

    `mounts` maps paths relative to the root to "--bind" or "--ro-bind".
    """

    mounts: dict[str, str]
    absent: frozenset[str]


class Protection:
    """Protects `names`, relative to `root`, from the commands of one sandbox.

    Threads: any number may use it at once; `_lock` guards the mounted paths and the number of commands.
    """

    def __init__(self, root: str, names: Collection[str]) -> None:
        self._root = root
        # A folder that holds protected names is a mount point itself, or it could be replaced as a whole.
        self._parents = sorted({name.partition("/")[0] for name in names if "/" in name})
        self._names = sorted(set(names) - set(self._parents))
        self._lock = threading.Lock()
        self._mounted: set[str] = set()
        self._running = 0

    def begin(self) -> Guard:
        """Protect a command that is about to start; `end` must follow when it has ended."""
        with self._lock:
            kinds = {name: self._kind(name) for name in (*self._parents, *self._names)}
            usable = {
                name
                for name, kind in kinds.items()
                if kind in ("folder", "file") and (not self._running or name in self._mounted)
            }
            usable = {
                name for name in usable if (parent := name.partition("/")[0]) == name or parent in usable
            }
            self._mounted |= usable
            self._running += 1
        writable = {name for name in usable if name in self._parents and kinds[name] == "folder"}
        return Guard(
            {name: "--bind" if name in writable else "--ro-bind" for name in sorted(usable)},
            frozenset(name for name, kind in kinds.items() if kind == "absent"),
        )

    def end(self, guard: Guard) -> str:
        """Rename the protected paths that the command created; returns a text that names them, or ""."""
        with self._lock:
            self._running -= 1
        moved = [name for name in (*self._parents, *self._names) if name in guard.absent and self._move(name)]
        if not moved:
            return ""
        return (
            f"[{', '.join(moved)} would be obeyed by programs outside the sandbox, so what this command "
            f"created there was renamed to end in {_SUFFIX}; ask the user to rename it if it is needed.]"
        )

    def _kind(self, name: str) -> Kind:
        with self._folder_of(name) as (folder, last):
            try:
                mode = os.stat(last, dir_fd=folder, follow_symlinks=False).st_mode if folder >= 0 else 0
            except FileNotFoundError:
                return "absent"
        if folder < 0:
            return "absent"
        return "folder" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "other"

    def _move(self, name: str) -> bool:
        """Rename what has appeared at `name`; a folder that holds protected names may stay."""
        with self._folder_of(name) as (folder, last), contextlib.suppress(OSError):
            if folder < 0:
                return False
            mode = os.stat(last, dir_fd=folder, follow_symlinks=False).st_mode
            if name in self._parents and stat.S_ISDIR(mode):
                return False
            taken = set(os.listdir(folder))
            target, number = last + _SUFFIX, 1
            while target in taken:
                target, number = f"{last}{_SUFFIX}-{number}", number + 1
            os.rename(last, target, src_dir_fd=folder, dst_dir_fd=folder)
            return True
        return False

    @contextlib.contextmanager
    def _folder_of(self, name: str) -> Iterator[tuple[int, str]]:
        """Open the folder of a path without following links; -1 when it is not a folder."""
        *parents, last = name.split("/")
        descriptor = -1
        try:
            descriptor = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY)
            for part in parents:
                inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
        except OSError:
            if descriptor >= 0:
                os.close(descriptor)
            descriptor = -1
        try:
            yield descriptor, last
        finally:
            if descriptor >= 0:
                os.close(descriptor)
