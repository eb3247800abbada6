"""The command as a process: its modes, its errors, and output that can't be written."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support.command import arguments, call_chunks, environment, run_command, text_chunks
from support.sse_server import SseServer

OSC = "\x1b]52;c;QUJD\x07"  # sets the clipboard
C1 = "\x9b2J"  # clears the screen
OVERRIDE = "\u202e"
HOSTILE = f"{OSC}{C1}{OVERRIDE}end"


def _assert_clean(ended: subprocess.CompletedProcess[str]) -> None:
    for text in (ended.stdout, ended.stderr):
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text), repr(text)


@pytest.mark.parametrize("form", [[], ["-q"], ["--json"]], ids=["plain", "quiet", "json"])
@pytest.mark.parametrize("kind", ["json", "html"])
def test_an_error_text_of_a_server_commands_no_terminal(
    sse_server: SseServer, form: list[str], kind: str
) -> None:
    """FT-M7"""
    body = f'{{"error": {{"message": "no {HOSTILE}"}}}}' if kind == "json" else f"<html>{HOSTILE}</html>"
    sse_server.play(body.replace("\x1b", "\\u001b") if kind == "json" else body, status=400, repeat=True)
    ended = run_command(arguments(sse_server.url, *form, "-p", "x"))
    assert ended.returncode == 1
    _assert_clean(ended)


def test_the_name_of_a_folder_commands_no_terminal() -> None:
    ended = run_command([sys.executable, "-m", "agent", "--cwd", f"/no/{HOSTILE}", "hi"])
    assert ended.returncode == 2
    assert "is not a folder" in ended.stderr
    _assert_clean(ended)


def test_a_key_of_a_project_file_commands_no_terminal(tmp_path: Path) -> None:
    text = '[permissions]\n"\\u001b]52;c;QUJD\\u0007\\u202e" = 1\n'
    (tmp_path / ".steady-agent.toml").write_text(text)
    ended = run_command(arguments("http://127.0.0.1:9", "--cwd", str(tmp_path), "hi"))
    assert ended.returncode == 2
    _assert_clean(ended)


def test_names_of_tools_and_arguments_command_no_terminal(sse_server: SseServer) -> None:
    sse_server.play(*call_chunks(f"na{HOSTILE}me", {f"ar{HOSTILE}g": HOSTILE}))
    sse_server.play(*text_chunks("done"))
    ended = run_command(arguments(sse_server.url, "-p", "x"))
    assert ended.returncode == 0
    _assert_clean(ended)


def test_a_wrong_option_commands_no_terminal() -> None:
    ended = run_command([sys.executable, "-m", "agent", f"--{HOSTILE}", "hi"])
    assert ended.returncode == 2
    _assert_clean(ended)


def test_a_key_is_not_read_from_proc(sse_server: SseServer) -> None:
    """Z21"""
    sse_server.play(*call_chunks("bash", {"command": "tr '\\0' '\\n' < /proc/$PPID/environ"}))
    sse_server.play(*text_chunks("done"))
    env = environment(LOCAL_API_KEY="sk-secret", HARMLESS="yes")
    assert run_command(arguments(sse_server.url, "-p", "x"), env=env).returncode == 0
    assert sse_server.requests[0].headers["authorization"] == "Bearer sk-secret"
    assert "sk-secret" not in sse_server.requests[1].body.decode()


_FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")


@_FULL
@pytest.mark.parametrize("words", ["demo", "models", "--help", "models --help"])
def test_an_output_that_is_full_exits_with_1_and_one_line(words: str) -> None:
    command = f"{shlex.quote(sys.executable)} -m agent {words} >/dev/full"
    ended = run_command(["bash", "-c", command])
    assert ended.returncode == 1
    assert ended.stderr == "agent: the output can't be written: [Errno 28] No space left on device\n"


@_FULL
def test_notes_that_can_not_be_written_do_not_fail_the_run(sse_server: SseServer, tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("rules")
    sse_server.play(*text_chunks("ok"))
    command = shlex.join(arguments(sse_server.url, "--cwd", str(tmp_path), "-p", "x"))
    ended = run_command(["bash", "-c", f"{command} 2>/dev/full"])
    assert (ended.returncode, ended.stdout) == (0, "ok\n")


_BUG = """
import sys
from agent.cli import main
def fail(options):
    raise RuntimeError("a bug \\x1b]52;c;QUJD\\x07")
main._is_interactive = fail
main.main(["hi"])
"""


def test_a_traceback_commands_no_terminal() -> None:
    ended = run_command([sys.executable, "-c", _BUG])
    assert ended.returncode == 1
    assert "a bug ]52;c;QUJD" in ended.stderr
    _assert_clean(ended)
