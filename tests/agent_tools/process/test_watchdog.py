"""Whatever signal kills the program, its commands end; what runs on purpose is left alone."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

import pytest
from support.running import becomes_true, running

from agent_tools.process.watchdog import Watchdog

pytestmark = pytest.mark.skipif(os.name == "nt", reason="sessions and /bin/sh are those of POSIX")
_HAS_PROC = os.path.exists("/proc/self/stat")
needs_proc = pytest.mark.skipif(not _HAS_PROC, reason="finds the shell by its pipe, in /proc")

PROGRAM = """
import os, sys, threading
from agent_tools import JobTable, bash_tool
table = JobTable()
bash = bash_tool(".", jobs=table)
command = sys.stdin.readline()
bash(command=command, background=True)
threading.Thread(target=bash.execute, args=({"command": command},), daemon=True).start()
for line in sys.stdin:
    exec(line)
"""


def start(command: str) -> subprocess.Popen[str]:
    """A program that runs a command and a job, and then the lines that it is sent."""
    program = subprocess.Popen(
        [sys.executable, "-u", "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    send(program, command)
    return program


def send(program: subprocess.Popen[str], line: str) -> None:
    assert program.stdin is not None
    program.stdin.write(line + "\n")
    program.stdin.flush()


def end_session(leader: subprocess.Popen[bytes]) -> None:
    if leader.poll() is None:
        os.killpg(leader.pid, signal.SIGKILL)
        leader.wait()


def end(program: subprocess.Popen[str]) -> None:
    program.kill()
    program.communicate()


def session_leader(marker: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["/bin/sh", "-c", f"{marker}; :"], start_new_session=True, stdin=subprocess.DEVNULL
    )


@pytest.mark.parametrize("name", ["SIGKILL", "SIGQUIT", "SIGSEGV", "SIGTERM", "SIGHUP", "SIGABRT"])
def test_no_command_survives_a_program_that_is_killed(name: str) -> None:
    """FT-M10: groups of their own, orphans and pipelines included."""
    marker = f"sleep 71.{int(getattr(signal, name)):02}"
    grouped = f"set -m; {marker} & " if _HAS_PROC else ""  # without /proc only the shell's group is known
    command = f"({marker} &) ; {grouped}timeout 60 {marker} & {marker} | cat"
    expected = 2 * (4 if _HAS_PROC else 3)
    program = start(command)
    try:
        assert becomes_true(lambda: len([line for line in running(marker) if "sh" not in line]) >= expected)
        program.send_signal(getattr(signal, name))
        assert becomes_true(lambda: not running(marker), 2)
    finally:
        end(program)


def test_a_process_that_made_its_own_session_survives() -> None:
    marker = "sleep 72.1"
    program = start(f"setsid {marker} >/dev/null 2>&1 & sleep 72.2")
    try:
        assert becomes_true(lambda: running("sleep 72.2") and len(running(marker)) >= 2)
        program.kill()
        assert becomes_true(lambda: not running("sleep 72.2"))
        assert running(marker)
    finally:
        end(program)
        for pid in pids_of(marker):
            os.kill(pid, signal.SIGKILL)


def test_a_forked_child_that_lives_on_does_not_keep_the_commands_alive() -> None:
    program = start("sleep 72.3")
    child = 0
    try:
        assert becomes_true(lambda: len(running("sleep 72.3")) == 2)
        assert program.stdout is not None
        send(program, "import time; child = os.fork() or time.sleep(60)")
        send(program, "print(child)")
        child = int(program.stdout.readline())
        program.kill()
        assert becomes_true(lambda: not running("sleep 72.3"), 2)
        os.kill(child, 0)
    finally:
        if child:
            os.kill(child, signal.SIGKILL)
        end(program)


def test_a_session_that_ended_is_not_killed() -> None:
    watchdog = Watchdog()
    watchdog.start()
    kept, killed = session_leader("sleep 72.4"), session_leader("sleep 72.5")
    try:
        for session in (kept, killed):
            watchdog.add(session.pid)
        watchdog.remove(kept.pid)
        watchdog.forget()  # closes the pipe, as the end of the process does
        assert becomes_true(lambda: not running("sleep 72.5"))
        assert running("sleep 72.4")
    finally:
        for session in (kept, killed):
            end_session(session)


@needs_proc
def test_a_watching_shell_that_was_killed_is_replaced() -> None:
    watchdog = Watchdog()
    before = set(shells_of(os.getpid()))
    watchdog.start()
    (shell,) = set(shells_of(os.getpid())) - before
    session, other = session_leader("sleep 72.6"), session_leader("sleep 72.7")
    try:
        watchdog.add(session.pid)
        os.kill(shell, signal.SIGKILL)
        assert becomes_true(lambda: shell not in shells())
        watchdog.add(other.pid)
        watchdog.forget()
        assert becomes_true(lambda: not running("sleep 72.6") and not running("sleep 72.7"))
    finally:
        for leader in (session, other):
            end_session(leader)


@needs_proc
def test_replacing_a_shell_that_was_stopped_kills_no_command() -> None:
    watchdog = Watchdog()
    before = set(shells_of(os.getpid()))
    watchdog.start()
    (shell,) = set(shells_of(os.getpid())) - before
    session = session_leader("sleep 72.9")
    try:
        watchdog.add(session.pid)
        os.kill(shell, signal.SIGSTOP)
        for number in range(20_000):  # more than the pipe holds; no process has such an id
            watchdog.remove(2**40 + number)
        with contextlib.suppress(ProcessLookupError):
            os.kill(shell, signal.SIGCONT)
        assert becomes_true(lambda: shell not in shells())
        assert running("sleep 72.9")
        watchdog.forget()
        assert becomes_true(lambda: not running("sleep 72.9"))
    finally:
        end_session(session)


@needs_proc
def test_the_watching_shell_ends_with_the_program_and_is_no_child_of_it() -> None:
    program = start("sleep 72.8")
    try:
        assert becomes_true(lambda: len(running("sleep 72.8")) == 2)
        (shell,) = shells_of(program.pid)
        table = subprocess.run(["ps", "-o", "ppid=", "-p", str(shell)], capture_output=True, text=True)
        assert int(table.stdout) != program.pid
    finally:
        end(program)
    assert becomes_true(lambda: shell not in shells())


def shells() -> list[int]:
    """The process ids of all watching shells, also those of other programs."""
    return pids_of("while read -r change id")


def shells_of(pid: int) -> list[int]:
    """The watching shells that read from a pipe of this process."""
    return [shell for shell in shells() if pipes(shell) & pipes(pid)]


def pipes(pid: int) -> set[str]:
    folder, found = f"/proc/{pid}/fd", set()
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                found.add(os.readlink(f"{folder}/{name}"))
    return {target for target in found if target.startswith("pipe:")}


def pids_of(marker: str) -> list[int]:
    """The processes whose command line holds `marker`."""
    table = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,stat=,args="], capture_output=True, text=True)
    # The command line of the shell holds line feeds, which ps prints as they are or escaped.
    rows = [line.split(None, 2) for line in table.stdout.splitlines() if marker in line]
    return [int(pid) for pid, state, _ in rows if pid.isdigit() and not state.startswith("Z")]
