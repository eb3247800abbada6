"""Runs a command in its own session and kills every process of that session when it ends.

A command is the shell and everything it starts. It has its own session, so that a Ctrl-C meant for the agent
does not reach it and no prompt finds a terminal. When the shell exits, when the call is stopped, and when the
interpreter exits, every process of the session is killed, whatever its process group (`timeout`, `set -m`). A
process that made its own session (`setsid`, a daemon) is left alone; if it holds the output pipe, the pipe is
closed after a short grace.

The caller's thread reads the output and checks timeout, cancellation and exit between reads.

Windows has no sessions. There a timeout or a cancellation kills the process tree below the shell; processes
that outlive their shell are not killed.
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
from agent_tools.process.watchdog import Watchdog

if TYPE_CHECKING:
    from agent_tools.tool import Cancel

# Seconds for which the pipe is still read after the shell has exited: a process outside the session may hold
# it for ever. Long enough for output in transit, too short to be noticed.
DRAIN_GRACE = 0.05
# Bytes that are read even after the grace, for a busy machine: no pipe holds more (the default limit on
# Linux is 1 MiB, the initial size 64 KiB).
PIPE_CAPACITY = 1 << 20
# Polling intervals in seconds: short at first, for short commands. The longest bounds the delay until a
# cancellation, or the exit of a shell whose pipe stays open, is noticed; it costs 50 wake-ups per second.
FIRST_STEP, LONGEST_STEP = 0.0001, 0.02
# Seconds to wait for a killed process: one that hangs in the kernel (a dead network disk) may never end.
REAP_TIMEOUT = 1.0
# Each pass finds what was forked since the one before; what outruns five passes is a fork bomb.
KILL_PASSES = 5

# Without waitid (macOS before Python 3.13) an exit is detected by reaping; the kill follows at once.
_waitid = getattr(os, "waitid", None)

# Session ids (the shells' pids) of all running commands. Plain set operations only, atomic without a lock:
# a signal handler that calls kill_all() may interrupt any line of this file.
_live: set[int] = set()
# One token per command that is being started and is not in `_live` yet.
_starting: set[object] = set()
_is_exiting = False
_watchdog = Watchdog()


# Signals that an exit code of 128 plus their number is reported to mean.
_REPORTED_SIGNALS = frozenset(
    getattr(signal, name)
    for name in ("SIGABRT", "SIGFPE", "SIGILL", "SIGINT", "SIGKILL", "SIGPIPE", "SIGSEGV", "SIGTERM")
    if hasattr(signal, name)
)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a command ended: its exit code (negative: the signal that killed it) and why it was stopped.

    `notice` is the text that `on_end` returned.
    """

    code: int
    stopped: Literal["", "timeout", "aborted"] = ""
    notice: str = ""

    def __str__(self) -> str:
        if self.code < 0:
            return f"was killed by signal {-self.code}{_signal_name(-self.code)}"
        if self.code - 128 in _REPORTED_SIGNALS:
            # A shell reports a child that was killed by a signal as 128 plus the number.
            return f"exited with code {self.code} (128 + {self.code - 128}{_signal_name(self.code - 128)})"
        return f"exited with code {self.code}"


class Command:
    """A running command. A context manager: leaving it kills the session and reaps the shell.

    Threads: owned by the thread that reads `output`; `kill` may be called from any thread. `_lock` makes
    reaping exclude killing: once the shell is reaped its pid may belong to another process.
    """

    def __init__(
        self,
        argv: Sequence[str | bytes],
        *,
        cwd: str,
        env: Mapping[str, str],
        on_end: Callable[[], str] | None = None,
    ) -> None:
        """Start `argv` with an empty standard input. Raises OSError when it cannot be started.

        `on_end` is called once, when nothing of the command runs any more; a command that cannot be started
        does not call it.
        """
        # Reentrant: a finalizer that kills may interrupt the thread that holds it.
        self._lock = threading.RLock()
        self._reaped = self._swept = False
        self._stopped: Literal["", "timeout", "aborted"] = ""
        self._on_end = on_end
        self._notice = ""
        self._popen = _spawn(argv, cwd, env)
        self.pid = self._popen.pid
        assert self._popen.stdout is not None
        self._pipe: Pipe = open_pipe(self._popen.stdout)
        self._open = True

    def output(self, *, timeout: float | None, cancel: Cancel) -> Iterator[bytes]:
        """Yield the output as it arrives until the command ends or is stopped; `ending` is set then.

        Yields b"" from time to time while there is none. `timeout` is in seconds; None sets no limit.
        Raises ChildProcessError when other code in this process has reaped the shell.
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
            # Usually the shell exits right after its output has ended.
            ended = was_open and not self._open
            step = FIRST_STEP if chunk or ended else min(step * 1.5, LONGEST_STEP)
            yield chunk
        yield from self._drain()
        self.close()

    @property
    def ending(self) -> Ending:
        """How the command ended; set once `output` is exhausted or the command is closed."""
        code = self._popen.returncode
        # Not reaped within REAP_TIMEOUT: it will end by the signal that it was sent.
        code = -9 if code is None else code
        # It may have succeeded just before it was stopped.
        return Ending(code, "" if code == 0 else self._stopped, self._notice)

    def kill(self) -> None:
        """Kill every process of the command's session; does nothing once the command has been reaped."""
        with self._lock:
            if not self._reaped:
                _kill_session(self.pid)

    def close(self) -> None:
        """Kill what is left, close the pipe and reap the shell. Calling it again does nothing."""
        with self._lock:
            if not self._reaped:
                if not self._swept:
                    _kill_session(self.pid)
                self._reaped = True
                _live.discard(self.pid)
                if os.name != "nt":
                    _watchdog.remove(self.pid)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._popen.wait(REAP_TIMEOUT)
            on_end, self._on_end = self._on_end, None
        self._close_pipe()
        if on_end is not None:
            self._notice = on_end()

    def __enter__(self) -> Command:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _exited(self) -> bool:
        if _waitid is None:
            return self._popen.poll() is not None
        try:
            # WNOWAIT leaves the zombie: while it exists, its pid and session id are not reused.
            return _waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            # Reported, because Popen would report success.
            raise ChildProcessError(
                errno.ECHILD,
                "the exit code is lost: this program ignores SIGCHLD, or something in it waits for any child",
            ) from None

    def _read(self, seconds: float, cancel: Cancel | None = None) -> bytes:
        """Wait at most `seconds` for output; returns b"" when there was none or the pipe has ended."""
        if not self._open:
            if cancel is not None:
                cancel.wait(seconds)
            return b""
        chunk = self._pipe.read(seconds)
        if chunk == b"":
            self._close_pipe()
        return chunk or b""

    def _drain(self) -> Iterator[bytes]:
        """Kill the session and yield what is left in the pipe."""
        self.kill()
        # The shell and all that it started are dead or dying: nothing can start more.
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

    def _close_pipe(self) -> None:
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

    `final` also refuses to start commands from now on: for a program that is about to exit.
    """
    global _is_exiting
    if final:
        _is_exiting = True
        deadline = time.monotonic() + REAP_TIMEOUT
        while _starting and time.monotonic() < deadline:
            time.sleep(0.001)
    for session in list(_live):
        _kill_session(session)


def encode(text: str) -> bytes:
    """Encode a text of a model for the system: as UTF-8 in every locale."""
    return text.encode("utf-8", "surrogateescape")


def _encode_variable(text: str) -> bytes:
    """Encode a variable as the locale does, which decoded it; as UTF-8 when the locale cannot express it."""
    try:
        return os.fsencode(text)
    except UnicodeEncodeError:
        return encode(text)


def _spawn(argv: Sequence[str | bytes], cwd: str, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    token = object()
    _starting.add(token)
    try:
        # Checked after the token is set: kill_all either sees the token or this sees the flag.
        if _is_exiting:
            # Imported here, because it loads pydantic, which kill_all does not need.
            from agent_tools.tool import ToolFailure

            raise ToolFailure("the program is exiting; no command is started")
        if os.name != "nt":
            _watchdog.start()
        variables: Mapping[str, str] | Mapping[bytes, bytes] = env
        if os.name != "nt":
            variables = {_encode_variable(name): _encode_variable(value) for name, value in env.items()}
        popen = subprocess.Popen(
            argv,
            cwd=cwd,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            start_new_session=True,
            # CREATE_NEW_PROCESS_GROUP and CREATE_NO_WINDOW: no Ctrl-C and no console window on Windows.
            creationflags=0x0800_0200 if os.name == "nt" else 0,
        )
        _live.add(popen.pid)
        if os.name != "nt":
            _watchdog.add(popen.pid)
        return popen
    finally:
        _starting.discard(token)


def _kill_session(session: int) -> None:
    """Kill the shell's process group, then the members of its session that moved to other groups."""
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
    """The process groups of members of the session that are not in `seen`; adds those members to it."""
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
    # Nor wait at its exit for a command that a thread of the parent was starting.
    os.register_at_fork(after_in_child=_starting.clear)
    os.register_at_fork(after_in_child=_watchdog.forget)
