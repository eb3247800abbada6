"""Ctrl-C and the other signals, on a real process."""

from __future__ import annotations

import os
import signal
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from support.command import arguments, call_chunks, chunk, environment
from support.interactive import Interactive
from support.sse_server import SseServer, hang


def _start(url: str, cwd: Path, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        arguments(url, "--cwd", str(cwd), *words, "-p", "x"),
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
    with _start(sse_server.url, tmp_path, "--json") as child:
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
    sse_server.play(chunk({"content": "shown\n"}), hang())
    with _start(sse_server.url, tmp_path, "--json") as child:
        _read_until(child.stdout, b"shown")
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


def test_a_signal_leaves_no_temporary_files(
    sse_server: SseServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    sse_server.play(*call_chunks("bash", {"command": "seq 5000; sleep 0.3; echo $$ > pid; sleep 60"}))
    with _start(sse_server.url, tmp_path) as child:
        _pid_in(tmp_path / "pid")
        assert list(temporary.rglob("*.log"))
        child.send_signal(signal.SIGTERM)
        child.communicate(timeout=10)
    assert list(temporary.iterdir()) == []


def _pid_in(file: Path) -> int:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if file.exists() and (text := file.read_text()).endswith("\n"):
            return int(text)
        time.sleep(0.01)
    raise AssertionError("the command did not start")


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
class TestTerminal:
    """FR-8: whatever ends the program, the terminal is as before."""

    @pytest.fixture
    def at_question(self, sse_server: SseServer, tmp_path: Path) -> Iterator[Interactive]:
        sse_server.play(*call_chunks("bash", {"command": "touch made"}))
        yield from self._started(sse_server, tmp_path, r"yes · no")

    @pytest.fixture
    def streaming(self, sse_server: SseServer, tmp_path: Path) -> Iterator[Interactive]:
        sse_server.play(chunk({"content": "Half an answer"}), hang())
        yield from self._started(sse_server, tmp_path, r"answering")

    def _started(self, server: SseServer, home: Path, shown: str) -> Iterator[Interactive]:
        running = Interactive(server.url, home, "-p", "go", "--approve", "ask")
        try:
            running.wait_for(shown)
            yield running
        finally:
            running.close()

    @staticmethod
    def _assert_restored(running: Interactive, before: list[Any]) -> None:
        assert termios.tcgetattr(running.child.fileno()) == before
        assert running.raw.rfind("\x1b[?25h") > running.raw.rfind("\x1b[?25l") >= 0

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
    @pytest.mark.parametrize("place", ["at_question", "streaming"])
    def test_a_signal_restores_it(
        self, place: str, number: signal.Signals, request: pytest.FixtureRequest, before: list[Any]
    ) -> None:
        running: Interactive = request.getfixturevalue(place)
        running.child.kill(number)
        assert running.wait_exit() == 128 + number
        self._assert_restored(running, before)

    @pytest.mark.parametrize("place", ["at_question", "streaming"])
    def test_two_ctrl_c_restore_it(
        self, place: str, request: pytest.FixtureRequest, before: list[Any]
    ) -> None:
        running: Interactive = request.getfixturevalue(place)
        running.type("\x03\x03")
        assert running.wait_exit() == 130
        self._assert_restored(running, before)

    @pytest.fixture
    def before(self) -> list[Any]:
        """The settings of a new terminal, as the tests' child gets one."""
        primary, secondary = os.openpty()
        try:
            settings = termios.tcgetattr(primary)
        finally:
            os.close(primary)
            os.close(secondary)
        settings[3] &= ~termios.ECHO  # pexpect starts its child without echo
        return settings
