"""Runs a command in a session of its own and always kills all of it.

A command is the shell and everything it starts. It gets its own session, so that a Ctrl-C meant for the
agent does not reach it and no prompt finds a terminal. When the shell exits, when the call stops it, or
when the interpreter exits, every process of that session is killed, whatever process group it moved to
(`timeout`, `set -m`). A process that made a session of its own (`setsid`, a daemon) is left alone, and an
output pipe it still holds is let go of after a short grace.

No thread is made: the caller's reads the output and notices timeout, cancellation and exit between reads.

Windows has no sessions. There a timeout or a cancellation kills the tree below the shell, but what a shell
has left behind when it ends lives on.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from agent_tools.process.pipes import Pipe, open_pipe

if TYPE_CHECKING:
    from agent_tools.tool import Cancel

# How long a process outside the session may hold the pipe once the shell is gone: long enough for what is
# under way to arrive, too short to be felt.
DRAIN_GRACE = 0.05
# Output already in the pipe is read after the grace too, on a machine too busy to do it in time. No pipe
# holds more than this (Linux's default limit for one is 1 MiB, and 64 KiB is what they start with).
PIPE_CAPACITY = 1 << 20
# Polling steps in seconds: fine at first, for short commands; the longest bounds how late a cancellation
# or the exit of a shell whose pipe stays open is noticed, and costs 50 wake-ups per second.
FIRST_STEP, LONGEST_STEP = 0.0001, 0.02
# A killed process may take a moment to go, or for ever when a dead network disk holds it in the kernel.
REAP_PATIENCE = 1.0
# Looking again finds what was forked between two looks; a chain that outruns five is a fork bomb.
KILL_PASSES = 5

# Without waitid (macOS before Python 3.13) an exit is seen by reaping; the kill comes right after.
_waitid = getattr(os, "waitid", None)

# Session ids (the shells' pids) of all running commands. Plain set operations only, atomic without a lock:
# a signal handler that calls kill_all() may interrupt any line of this file.
_live: set[int] = set()
# One token per command that is being started and is not in `_live` yet.
_starting: set[object] = set()
_no_more = False


# Signals likely enough to be what is meant by an exit code of 128 and more.
_TELLING_SIGNALS = frozenset(
    getattr(signal, name)
    for name in ("SIGABRT", "SIGFPE", "SIGILL", "SIGINT", "SIGKILL", "SIGPIPE", "SIGSEGV", "SIGTERM")
    if hasattr(signal, name)
)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a command ended: its exit code (negative: the signal that killed it) and whether we stopped it."""

    code: int
    stopped: Literal["", "timeout", "aborted"] = ""

    def __str__(self) -> str:
        if self.code < 0:
            return f"was killed by signal {-self.code}{_signal_name(-self.code)}"
        if self.code - 128 in _TELLING_SIGNALS:
            # A shell reports a child that a signal killed as 128 and the signal's number.
            return f"exited with code {self.code} (128 + {self.code - 128}{_signal_name(self.code - 128)})"
        return f"exited with code {self.code}"


class Command:
    """A running command. A context manager: leaving it kills what is left and reaps the shell.

    Threads: owned by the thread that reads `output`; `kill` may be called from any thread. `_lock` guards
    the moment after which the pid is no longer ours to signal.
    """

    def __init__(self, argv: Sequence[str], *, cwd: str, env: Mapping[str, str]) -> None:
        """Start `argv` without input. Raises OSError when it cannot be started."""
        # Reentrant, because a finalizer that kills may interrupt the thread that holds it.
        self._lock = threading.RLock()
        self._reaped = self._swept = False
        self._stopped: Literal["", "timeout", "aborted"] = ""
        self._popen = _spawn(argv, cwd, env)
        self.pid = self._popen.pid
        assert self._popen.stdout is not None
        self._pipe: Pipe = open_pipe(self._popen.stdout)
        self._open = True

    def output(self, *, timeout: float | None, cancel: Cancel) -> Iterator[bytes]:
        """Yield what the command writes, as it comes, until it ends or is stopped; `ending` is set then.

        Yields b"" now and then while nothing comes. `timeout` is in seconds from now; None waits for ever.
        Raises ChildProcessError when somebody else has taken the exit code.
        """
        deadline = float("inf") if timeout is None else time.monotonic() + timeout
        step = FIRST_STEP
        while not self._exited():
            left = deadline - time.monotonic()
            if left <= 0:
                self._stopped = "timeout"
                break
            if cancel.is_set():
                self._stopped = "aborted"
                break
            was_open = self._open
            chunk = self._read(min(step, left), cancel)
            # The end of the output mostly means that the shell is about to exit.
            ended = was_open and not self._open
            step = FIRST_STEP if chunk or ended else min(step * 1.5, LONGEST_STEP)
            yield chunk
        yield from self._drain()
        self.close()

    @property
    def ending(self) -> Ending:
        """How it ended; known once `output` is exhausted or the command is closed."""
        code = self._popen.returncode
        # Nobody waited for it to go (see REAP_PATIENCE): the signal it was sent says what it will be.
        code = -9 if code is None else code
        # It may have ended well by itself while the clock ran out.
        return Ending(code, "" if code == 0 else self._stopped)

    def kill(self) -> None:
        """Kill every process of the command's session; nothing happens when it is over."""
        with self._lock:
            if not self._reaped:
                _kill_session(self.pid)

    def close(self) -> None:
        """Kill what is left, let go of the pipe and reap the shell. Calling it again does nothing."""
        with self._lock:
            if not self._reaped:
                if not self._swept:
                    _kill_session(self.pid)
                self._reaped = True
                _live.discard(self.pid)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._popen.wait(REAP_PATIENCE)
        self._let_go()

    def __enter__(self) -> Command:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _exited(self) -> bool:
        if _waitid is None:
            return self._popen.poll() is not None
        try:
            # The zombie is left: while it is there, nobody else can get its pid or its session's id.
            return _waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            # Said, because Popen would take it for success.
            raise ChildProcessError(
                errno.ECHILD,
                "the exit code is lost: this program ignores SIGCHLD, or something in it waits for any child",
            ) from None

    def _read(self, seconds: float, cancel: Cancel | None = None) -> bytes:
        """Wait so long for output; b"" when none came, or when the pipe was found to be at its end."""
        if not self._open:
            if cancel is not None:
                cancel.wait(seconds)
            return b""
        chunk = self._pipe.read(seconds)
        if chunk == b"":
            self._let_go()
        return chunk or b""

    def _drain(self) -> Iterator[bytes]:
        """Kill the session and yield what is still in the pipe."""
        self.kill()
        # The shell is dead or dying and so is all it started: nobody is left to start more.
        self._swept = True
        deadline = time.monotonic() + DRAIN_GRACE
        received = 0
        while self._open:
            left = deadline - time.monotonic()
            if left <= 0 and received >= PIPE_CAPACITY:
                break
            chunk = self._read(left)
            if not chunk and self._open and time.monotonic() >= deadline:
                break
            received += len(chunk)
            yield chunk

    def _let_go(self) -> None:
        if self._open:
            self._open = False
            self._pipe.close()


def _signal_name(number: int) -> str:
    try:
        return f" ({signal.Signals(number).name})"
    except ValueError:
        return ""


def kill_all(*, final: bool = False) -> None:
    """Kill every running command of this process, from any thread or signal handler.

    `final` also refuses to start new ones from now on: for a program that is about to exit.
    """
    global _no_more
    if final:
        _no_more = True
        patience = time.monotonic() + REAP_PATIENCE
        while _starting and time.monotonic() < patience:
            time.sleep(0.001)
    for session in list(_live):
        _kill_session(session)


def _spawn(argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    token = object()
    _starting.add(token)
    try:
        # Asked after the token is in place: kill_all sees either the token or a refusal.
        if _no_more:
            # Imported here: a program that only wants kill_all need not load pydantic.
            from agent_tools.tool import ToolFailure

            raise ToolFailure("the program is exiting; nothing is started any more")
        popen = subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            start_new_session=True,
            # What keeps a Ctrl-C away on Windows, and a console window.
            creationflags=0x0800_0200 if os.name == "nt" else 0,
        )
        _live.add(popen.pid)
        return popen
    finally:
        _starting.discard(token)


def _kill_session(session: int) -> None:
    """Kill the shell's group, then whatever in its session moved to another group."""
    if os.name == "nt":
        tree = ["taskkill", "/F", "/T", "/PID", str(session)]
        subprocess.run(tree, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        return
    _kill_group(session)
    seen: set[int] = set()
    for _ in range(KILL_PASSES):
        groups = _other_groups(session, seen)
        if not groups:
            return
        for group in groups:
            _kill_group(group)


def _other_groups(session: int, seen: set[int]) -> set[int]:
    """The groups of members of the session that were not `seen` before; adds the members to `seen`."""
    groups = set()
    for pid in _list_processes():
        try:
            if pid in seen or os.getsid(pid) != session or (group := os.getpgid(pid)) == session:
                continue
        except OSError:
            continue
        seen.add(pid)
        groups.add(group)
    return groups


def _kill_group(group: int) -> None:
    # macOS answers EPERM for a group of zombies.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _list_proc() -> Iterable[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _list_ps() -> Iterable[int]:
    try:
        done = subprocess.run(["ps", "-A", "-o", "pid="], capture_output=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [int(word) for word in done.stdout.split() if word.isdigit()]


# Reading /proc takes a tenth of a millisecond; running ps, ten.
_list_processes: Callable[[], Iterable[int]] = _list_proc if os.path.exists("/proc/self/stat") else _list_ps

atexit.register(kill_all, final=True)
if hasattr(os, "register_at_fork"):
    # A forked child must not kill its parent's commands when it exits.
    os.register_at_fork(after_in_child=_live.clear)
