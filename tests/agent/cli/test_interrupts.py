"""Ctrl-C and the other signals, on a real process."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import IO

import pytest
from support.command import arguments, call_chunks, chunk, environment
from support.sse_server import SseServer, hang


def _start(url: str, cwd: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        arguments(url, "--cwd", str(cwd), "-p", "x"),
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def _read_until(stream: IO[bytes] | None, wanted: bytes) -> bytes:
    assert stream is not None
    seen = b""
    while wanted not in seen:
        piece = os.read(stream.fileno(), 4096)
        assert piece, f"the output ended before {wanted!r}: {seen!r}"
        seen += piece
    return seen


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _wait_until_dead(pid: int) -> bool:
    deadline = time.monotonic() + 5
    while _alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not _alive(pid)


def test_ctrl_c_in_a_stream_aborts_and_exits_with_130(sse_server: SseServer, tmp_path: Path) -> None:
    sse_server.play(chunk({"content": "thinking about it\n"}), hang())
    with _start(sse_server.url, tmp_path) as child:
        _read_until(child.stdout, b"about it")
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=10)
    assert child.returncode == 130
    assert b"aborting" in errors
    assert b"Traceback" not in errors


def test_ctrl_c_in_a_command_kills_the_command(sse_server: SseServer, tmp_path: Path) -> None:
    sse_server.play(*call_chunks("bash", {"command": "echo $$ > pid; sleep 60"}))
    with _start(sse_server.url, tmp_path) as child:
        pid = _pid_in(tmp_path / "pid")
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=10)
    assert child.returncode == 130
    assert _wait_until_dead(pid)


def test_a_second_ctrl_c_ends_at_once(sse_server: SseServer, tmp_path: Path) -> None:
    # A command that ignores everything but SIGKILL would hold the first abort for a moment at most; a model
    # that never answers would not. What counts is that the second one does not wait for either.
    sse_server.play(chunk({"content": "x\n"}), hang())
    with _start(sse_server.url, tmp_path) as child:
        _read_until(child.stdout, b"x")
        child.send_signal(signal.SIGINT)
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=10)
    assert child.returncode == 130


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_kill_the_command_and_exit_as_a_shell_would_say(
    number: signal.Signals, sse_server: SseServer, tmp_path: Path
) -> None:
    sse_server.play(*call_chunks("bash", {"command": "echo $$ > pid; sleep 60"}))
    with _start(sse_server.url, tmp_path) as child:
        pid = _pid_in(tmp_path / "pid")
        child.send_signal(number)
        child.communicate(timeout=10)
    assert child.returncode == 128 + number
    assert _wait_until_dead(pid)


def _pid_in(file: Path) -> int:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if file.exists() and (text := file.read_text()).endswith("\n"):
            return int(text)
        time.sleep(0.01)
    raise AssertionError("the command did not start")
