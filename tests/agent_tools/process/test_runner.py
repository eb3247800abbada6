"""A command runs in its own session and all of it is killed, on every way out."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.running import becomes_true, running

from agent_tools.process import runner as process
from agent_tools.process.pipes import ThreadedPipe
from agent_tools.process.runner import Command, Ending
from agent_tools.tool import ToolFailure

# Each test's children sleep for a number of seconds of its own, by which they are found.
ENV = {"PATH": os.environ["PATH"]}


@pytest.fixture(params=["native", "portable", "threaded"])
def all_paths(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs a test with what this system offers, with what POSIX promises, and with threads as well."""
    if request.param == "threaded":
        monkeypatch.setattr(process, "open_pipe", ThreadedPipe)
    if request.param != "native":
        monkeypatch.setattr(process, "_waitid", None)
        monkeypatch.setattr(process, "_list_processes", process._list_ps)
    return str(request.param)


def run(
    script: str, timeout: float | None = 20, cancel: threading.Event | None = None
) -> tuple[bytes, Ending, float]:
    started = time.monotonic()
    with Command(["bash", "-c", script], cwd="/", env=ENV) as command:
        output = b"".join(command.output(timeout=timeout, cancel=cancel or threading.Event()))
    return output, command.ending, time.monotonic() - started


def descriptors() -> int:
    return len(os.listdir("/dev/fd"))


@pytest.mark.usefixtures("all_paths")
@pytest.mark.parametrize(
    ("script", "ending"),
    [
        ("true", Ending(0)),
        ("exit 3", Ending(3)),
        ("kill -9 $$", Ending(-9)),
        ("false | true", Ending(0)),
        # It closes its outputs long before it ends.
        ("exec >/dev/null 2>&1; sleep 0.05; exit 4", Ending(4)),
    ],
)
def test_how_a_command_ended_is_known(script: str, ending: Ending) -> None:
    assert run(script)[1] == ending


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        (Ending(3), "exited with code 3"),
        (Ending(-9), "was killed by signal 9 (SIGKILL)"),
        (Ending(-60), "was killed by signal 60"),
        (Ending(137), "exited with code 137 (128 + 9 (SIGKILL))"),
        (Ending(200), "exited with code 200"),
    ],
)
def test_an_ending_is_described(ending: Ending, words: str) -> None:
    assert str(ending) == words


def test_both_outputs_keep_their_order() -> None:
    assert run("echo a; echo b >&2; echo c")[0] == b"a\nb\nc\n"


def test_all_that_fits_a_pipe_and_more_is_read_though_the_shell_is_gone() -> None:
    assert len(run("head -c 3000000 /dev/zero")[0]) == 3_000_000


@pytest.mark.usefixtures("all_paths")
def test_a_background_job_ends_with_the_shell() -> None:
    """B01"""
    output, ending, took = run("sleep 61.71 & echo done")
    assert (output, ending) == (b"done\n", Ending(0))
    assert took < 2
    assert becomes_true(lambda: not running("sleep 61.71"))


def test_a_chatty_background_job_ends_with_the_shell() -> None:
    """B03"""
    output, _, took = run("(while :; do echo x; sleep 0.0503; done) & sleep 0.1; echo fg")
    assert b"fg\n" in output
    assert took < 2
    assert becomes_true(lambda: not running("sleep 0.0503"))


@pytest.mark.usefixtures("all_paths")
@pytest.mark.parametrize("script", ["timeout 61 sleep 61.72", "set -m; sleep 61.72 >/dev/null 2>&1 & wait"])
def test_a_job_in_a_group_of_its_own_is_killed_too(script: str) -> None:
    assert run(script, timeout=0.3)[1].stopped == "timeout"
    assert becomes_true(lambda: not running("sleep 61.72"))


def test_a_silent_job_in_a_group_of_its_own_ends_with_the_shell() -> None:
    assert run("set -m; sleep 61.73 >/dev/null 2>&1 & echo started")[0] == b"started\n"
    assert becomes_true(lambda: not running("sleep 61.73"))


def own_session(folder: Path, then: str) -> str:
    """A script that goes on when its background process, doing `then`, has a session of its own."""
    flag = folder / "up"
    code = f'import os, time; os.setsid(); open("{flag}", "w"); {then}'
    return f"{sys.executable} -c '{code}' & until [ -e {flag} ]; do sleep 0.02; done; echo fg"


def test_a_process_in_its_own_session_is_left_alone_and_does_not_hold_the_call(
    tmp_path: Path, all_paths: str
) -> None:
    """B04"""
    threads = set(threading.enumerate())
    started = time.monotonic()
    output, ending, _ = run(own_session(tmp_path, "time.sleep(1.7401)"))
    assert (output, ending) == (b"fg\n", Ending(0))
    assert running("time.sleep(1.7401)")
    assert time.monotonic() - started < 1.7
    # Only the one thread of a system whose pipes cannot be polled stays, and goes with the process.
    left = {thread.name for thread in set(threading.enumerate()) - threads}
    assert left == ({"agent-pipe"} if all_paths == "threaded" else set())
    assert becomes_true(lambda: not running("time.sleep(1.7401)"))


def test_a_chatty_process_in_its_own_session_holds_the_call_no_longer(tmp_path: Path) -> None:
    output, _, took = run(own_session(tmp_path, '[os.write(1, b"y") for _ in iter(int, 1)]'))
    assert b"fg\n" in output
    assert took < 3
    # It ends by itself: its output has no reader any more.
    assert becomes_true(lambda: not running(str(tmp_path)))


@pytest.mark.usefixtures("all_paths")
def test_a_timeout_ends_waiting_for_a_job() -> None:
    """B05"""
    _, ending, took = run("sleep 61.75 & wait", timeout=0.5)
    assert ending == Ending(-9, "timeout")
    assert 0.5 <= took < 1.5
    assert becomes_true(lambda: not running("sleep 61.75"))


@pytest.mark.parametrize(
    "script",
    [
        'trap "" TERM; (trap "" TERM; sleep 61.76) & sleep 61.76',
        'sh -c "sleep 61.76 | cat"',
        "for i in 1 2 3; do (while :; do :; done; sleep 61.76) & done; sleep 61.76",
    ],
)
def test_a_timeout_leaves_nothing_of_the_command(script: str) -> None:
    """B06, B07, B08"""
    assert run(script, timeout=0.3)[2] < 3
    assert becomes_true(lambda: not running("61.76"), seconds=0.5)


def test_a_command_that_ended_well_while_the_clock_ran_out_is_no_timeout() -> None:
    command = Command(["bash", "-c", "true"], cwd="/", env=ENV)
    with command:
        assert becomes_true(command._exited)
        assert b"".join(command.output(timeout=0, cancel=threading.Event())) == b""
    assert command.ending == Ending(0)


@pytest.mark.usefixtures("all_paths")
def test_a_cancellation_ends_the_command_at_once() -> None:
    cancel = threading.Event()
    pause = threading.Timer(0.2, cancel.set)
    pause.start()
    output, ending, took = run("echo before; sleep 61.77 & sleep 61.77", cancel=cancel)
    pause.join()
    assert (output, ending) == (b"before\n", Ending(-9, "aborted"))
    assert took < 1.2
    assert becomes_true(lambda: not running("sleep 61.77"))


def test_a_cancellation_ends_a_command_whose_outputs_are_closed() -> None:
    cancel = threading.Event()
    pause = threading.Timer(0.1, cancel.set)
    pause.start()
    assert run("exec >&- 2>&-; sleep 61.78", cancel=cancel)[1].stopped == "aborted"
    pause.join()


def test_kill_works_from_any_thread_and_after_the_end() -> None:
    with Command(["bash", "-c", "echo up; sleep 61.79"], cwd="/", env=ENV) as command:
        output = command.output(timeout=20, cancel=threading.Event())
        assert becomes_true(lambda: next(output) == b"up\n")
        other = threading.Thread(target=command.kill)
        other.start()
        list(output)
        other.join()
    command.kill()
    command.close()
    assert command.ending == Ending(-9)


def test_leaving_in_the_middle_kills_and_reaps() -> None:
    with Command(["sleep", "61.80"], cwd="/", env=ENV) as command:
        next(command.output(timeout=20, cancel=threading.Event()))
        assert running("sleep 61.80")
    assert not running("sleep 61.80")
    with pytest.raises(ChildProcessError):
        os.waitpid(command.pid, os.WNOHANG)


def test_there_is_no_input_and_no_terminal() -> None:
    """B17"""
    assert run("read x; echo got:$x; cat; (: </dev/tty) 2>/dev/null || echo none")[0] == b"got:\nnone\n"


def test_commands_do_not_read_the_input_of_the_program() -> None:
    """B17"""
    code = (
        f"import sys; sys.path[:0] = {[os.getcwd(), *sys.path]!r}\n"
        "from agent_tools.bash import bash_tool\n"
        "print(bash_tool('/')(command='read x; echo got:$x').text, sys.stdin.read())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input="for us", capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "got:\n for us\n"


def test_an_exit_code_that_is_lost_is_not_taken_for_success() -> None:
    code = (
        f"import signal, sys; sys.path[:0] = {[os.getcwd(), *sys.path]!r}\n"
        "from agent_tools.bash import bash_tool\n"
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "print(bash_tool('/')(command='exit 3').text)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("bash failed: the exit code is lost: this program ignores SIGCHLD")


def test_a_command_that_cannot_start_leaves_nothing() -> None:
    before = descriptors()
    with pytest.raises(FileNotFoundError):
        Command(["/nonexistent/program"], cwd="/", env=ENV)
    assert descriptors() == before
    assert not process._live
    assert not process._starting


def test_nothing_is_left_after_many_commands() -> None:
    """B25"""
    before = (threading.active_count(), descriptors())
    cancelled = threading.Event()
    cancelled.set()
    for _ in range(200):
        run("true")
    for _ in range(50):
        run("sleep 61.81", timeout=0.01)
        run("sleep 61.81", cancel=cancelled)
    assert (threading.active_count(), descriptors()) == before
    assert not process._live
    assert not running("sleep 61.81")
    with pytest.raises(ChildProcessError):  # no child, so no zombie either
        os.waitpid(-1, os.WNOHANG)


def test_kill_all_ends_every_command() -> None:
    endings: list[Ending] = []
    threads = [threading.Thread(target=lambda: endings.append(run("sleep 61.82")[1])) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert becomes_true(lambda: len(process._live) == 4)
    process.kill_all()
    for thread in threads:
        thread.join(5)
    assert endings == [Ending(-9)] * 4


def test_no_command_starts_after_the_final_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_is_exiting", False)
    process.kill_all(final=True)
    with pytest.raises(ToolFailure, match="exiting"):
        run("true")


CHILD = """
import os, signal, sys, threading, time
sys.path[:0] = {path!r}
from agent_tools.process import runner as process
from agent_tools.process.runner import Command

def follow():
    script = "set -m; sleep {marker} & timeout 61 sleep {marker} & (sleep {marker}) & echo up; wait"
    with Command(["bash", "-c", script], cwd="/", env=os.environ) as command:
        for chunk in command.output(timeout=None, cancel=threading.Event()):
            if chunk:
                started.set()

started = threading.Event()
threading.Thread(target=follow, daemon=True).start()
assert started.wait(20)
print("ready", flush=True)
{then}
"""


def interpreter(marker: str, then: str) -> subprocess.Popen[str]:
    code = CHILD.format(path=[os.getcwd(), *sys.path], marker=marker, then=then)
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


def end(child: subprocess.Popen[str], arguments: Sequence[int] = ()) -> int:
    for number in arguments:
        child.send_signal(number)
    try:
        child.communicate(timeout=20)
    finally:
        child.kill()
    return child.returncode


@pytest.mark.parametrize("then", ["pass", "sys.exit(3)", "raise ValueError"])
def test_the_exit_of_the_interpreter_ends_all_commands(then: str) -> None:
    end(interpreter("61.83", then))
    assert becomes_true(lambda: not running("61.83"), seconds=2)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_handler_can_end_all_commands(number: int) -> None:
    then = (
        f"signal.signal({int(number)}, lambda *_: (process.kill_all(final=True), os._exit(7)))\n"
        "print('set', flush=True)\n"
        "time.sleep(30)"
    )
    child = interpreter("61.84", then)
    assert child.stdout is not None
    assert child.stdout.readline() == "set\n"
    assert running("sleep 61.84")
    assert end(child, [number]) == 7
    assert becomes_true(lambda: not running("61.84"), seconds=2)


def test_a_forked_child_does_not_end_its_parents_commands() -> None:
    then = (
        "pid = os.fork()\n"
        "if not pid: sys.exit(0)\n"
        "os.waitpid(pid, 0)\n"
        "print('forked', flush=True)\n"
        "sys.stdin.readline()"
    )
    child = interpreter("61.85", then)
    assert child.stdout is not None
    # The child of the fork has run its exit handlers by now.
    assert child.stdout.readline() == "forked\n"
    left = running("sleep 61.85")
    end(child)
    assert left


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_child_does_not_wait_for_what_its_parent_was_starting() -> None:
    code = (
        "import os, sys\n"
        "from agent_tools.process import runner\n"
        "runner._starting.add(object())\n"
        "pid = os.fork()\n"
        "if not pid: os._exit(len(runner._starting))\n"
        "code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])\n"
        "runner._starting.clear()\n"
        "sys.exit(code)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
