"""Runs commands under bubblewrap, where they see one root, the system's programs and their own /tmp.

Linux only, and only where the kernel lets this user create namespaces (some containers do not). A command
that cannot run confined does not run.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from agent_tools.files.protected import PROTECTED
from agent_tools.process.protection import Protection
from agent_tools.process.scratch import delete_folder, make_folder
from agent_tools.tool import ToolFailure

# Folders that programs need to run, on the usual distributions and on NixOS; they hold no personal files.
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/etc", "/nix/store")
_SYSTEM_LINKS = ("/run/current-system", "/etc/resolv.conf")  # lead elsewhere on some systems
# Hidden when this user can read them, that is, from root.
_SECRET_FILES = ("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-")
_SECRET_FOLDERS = ("/etc/ssl/private", "/etc/ssh", "/etc/sudoers.d")
# Searched before PATH, which may lead into the root, where a command can put a program of this name.
_USUAL_FOLDERS = ("/usr/bin", "/bin", "/usr/local/bin")
_PROBE_SECONDS = 10.0  # a sandbox starts in about 5 ms
TMP = "/tmp"
# Where commands see the folder of their logs. Not below a folder that they may write to: they could replace a
# parent of the mount point.
LOGS = "/agent-logs"


@dataclass(frozen=True, slots=True)
class Wrapped:
    """A command line that runs in the sandbox; `end` must be called once, when it has ended or did not start.

    `end` returns a text for the model, or "".
    """

    argv: list[str | bytes]
    end: Callable[[], str]


class Bubblewrap:
    """A sandbox around `root`. Its /tmp is shared by all commands and lasts as long as this object.

    `network` gives commands access to the network; `readable` names folders besides those of the system that
    they may read. Commands may not change what `protect` names, relative to the root. Threads: any number may
    use it at once; `_lock` guards the creation of the folders.
    """

    def __init__(
        self,
        root: str,
        *,
        network: bool = False,
        readable: Collection[str | os.PathLike[str]] = (),
        protect: Collection[str] = PROTECTED,
    ) -> None:
        self.given = os.path.abspath(root)
        self.root = os.path.realpath(root)
        self.network = network
        self._readable = [os.path.realpath(os.path.expanduser(folder)) for folder in readable]
        self._protection = Protection(self.root, protect)
        self._lock = threading.Lock()
        self._folders: dict[str, str] = {}
        self._works = False

    @property
    def tmp(self) -> str:
        """The folder that commands see as /tmp, created on first use and deleted with this object."""
        return self._folder("tmp")

    @property
    def logs(self) -> str:
        """The folder for the logs of commands, which see it read-only as `LOGS`; it lasts like `tmp`."""
        return self._folder("logs")

    def wrap(self, argv: Sequence[str | bytes], cwd: str, env: Mapping[str, str]) -> Wrapped:
        """Return the command line that runs `argv` in the sandbox, in the directory `cwd`.

        Raises ToolFailure, with the reason, when no sandbox can be created.
        """
        program = self._find()
        options = self._options(env)
        mounts = self._mounts(env)
        self._try(program, [*options, *_mount_options(mounts)])
        guard = self._protection.begin()
        for name, option in guard.mounts.items():
            mounts |= {
                os.path.join(root, name): [option, os.path.join(self.root, name)] for root in self._roots
            }
        options += _mount_options(mounts)
        return Wrapped([program, *options, "--chdir", cwd, "--", *argv], lambda: self._protection.end(guard))

    @property
    def _roots(self) -> tuple[str, str]:
        """The two paths under which commands see the root."""
        return self.root, self.given

    def _folder(self, name: str) -> str:
        with self._lock:
            if name not in self._folders:
                self._folders[name] = make_folder(f"sandbox-{name}")
                weakref.finalize(self, delete_folder, self._folders[name])
            return self._folders[name]

    def _find(self) -> str:
        if not sys.platform.startswith("linux"):
            raise self._off("the sandbox that it needs, bubblewrap, exists for Linux only")
        folders = [*_USUAL_FOLDERS, *os.environ.get("PATH", "").split(os.pathsep)]
        found = [shutil.which("bwrap", path=folder) for folder in folders if os.path.isabs(folder)]
        programs = [program for program in found if program]
        for program in programs:
            if not _is_below(os.path.realpath(program), self.root):
                return program
        if programs:
            raise self._off(f"{programs[0]} is in that folder, where a command could replace it")
        raise self._off(
            "bubblewrap is not installed (the program bwrap: apt-get, dnf, pacman or apk install bubblewrap)"
        )

    def _try(self, program: str, options: list[str]) -> None:
        """Start a sandbox once, because later its failure would look like one of the command."""
        if self._works:
            return
        bash = shutil.which("bash", path=os.pathsep.join(_USUAL_FOLDERS)) or "bash"
        try:
            tried = subprocess.run(
                [program, *options, "--chdir", self.root, "--", bash, "-c", ":"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PROBE_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise self._off(f"bubblewrap does not run: {error}") from None
        if tried.returncode:
            said = tried.stderr.decode("utf-8", "replace").strip() or f"exit code {tried.returncode}"
            raise self._off(
                f"bubblewrap cannot create a sandbox here: {said} (in a container it needs permission to "
                "create namespaces)"
            )
        self._works = True

    def _off(self, reason: str) -> ToolFailure:
        return ToolFailure(
            f"bash is off: commands may only run confined to {self.root}, and {reason}. Nothing was run. "
            "The other tools work."
        )

    def _options(self, env: Mapping[str, str]) -> list[str]:
        # Without --new-session: the command has no terminal, and it must stay in the session that is killed.
        # Its process namespace ends with it, and so does what left the session.
        options = ["--die-with-parent", "--unshare-all", "--cap-drop", "ALL"]
        if self.network:
            options.append("--share-net")
        if "TMPDIR" in env:
            options += ["--setenv", "TMPDIR", TMP]
        return options

    def _mounts(self, env: Mapping[str, str]) -> dict[str, list[str]]:
        """Map each path to the options that mount it; a later entry replaces an earlier one."""
        mounts = {path: ["--ro-bind", path] for path in _SYSTEM if os.path.isdir(path)}
        links = map(os.path.realpath, _SYSTEM_LINKS)
        for path in (*links, *self._readable):
            if os.path.exists(path):
                mounts[path] = ["--ro-bind", path]
        for path in _SECRET_FILES:
            if os.access(path, os.R_OK):
                mounts[path] = ["--ro-bind", os.devnull]
        for path in _SECRET_FOLDERS:
            if os.access(path, os.R_OK):
                mounts[path] = ["--tmpfs"]
        mounts |= {"/proc": ["--proc", "/proc"], "/dev": ["--dev", "/dev"], "/var/tmp": ["--tmpfs"]}
        mounts |= {path: ["--ro-bind", path] for path in _machine_settings()}
        mounts[TMP] = ["--bind", self.tmp]
        home = os.path.normpath(env.get("HOME", "/"))
        if os.path.isabs(home) and home.strip("/") and home not in mounts:
            mounts[home] = ["--dir"]
        # Paths below the root belong to it, even if the root is a system folder or the whole disk.
        kept = {
            path: mount
            for path, mount in mounts.items()
            if path == "/dev" or _is_below(path, "/proc") or not self._holds(path)
        }
        if self.root != "/":
            kept[LOGS] = ["--ro-bind", self.logs]
        return kept | {root: ["--bind", self.root] for root in self._roots}

    def _holds(self, path: str) -> bool:
        return _is_below(path, self.root) or _is_below(path, self.given)


def _mount_options(mounts: Mapping[str, list[str]]) -> list[str]:
    options: list[str] = []
    # A mount hides earlier mounts below it, so the outer ones come first.
    for path, mount in sorted(mounts.items(), key=lambda item: len(item[0].rstrip("/").split("/"))):
        options += mount if mount[0] in ("--proc", "--dev") else [*mount, path]
    return options


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


@functools.cache
def _machine_settings() -> tuple[str, ...]:
    """What of /proc belongs to the whole machine and can be written by root.

    The kernel checks only the user id for /proc/sys and its like, not the capabilities: root in the sandbox
    could set `core_pattern` and so run a program outside as root.
    """
    with os.scandir("/proc") as entries:
        return tuple(
            entry.path
            for entry in entries
            if not (entry.name.isdigit() or entry.is_symlink() or entry.name in ("self", "thread-self"))
            and (entry.is_dir() or entry.stat().st_mode & 0o222)
        )
