"""The bash tool: the result of a command."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.running import becomes_true, running
from support.sandbox import needs_sandbox

from agent_tools.bash import UPDATE_BYTES, Spawn, bash_tool
from agent_tools.process import scratch
from agent_tools.tool import Context, Result, TextBlock, Tool
from agent_tools.truncate import MAX_BYTES


@pytest.fixture(autouse=True)
def temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for temporary files."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    scratch.delete_all()
    yield folder
    scratch.delete_all()


@pytest.fixture
def bash(tmp_path: Path) -> Tool[Any]:
    return bash_tool(tmp_path)


def call(tool: Tool[Any], command: str, **arguments: Any) -> Result:
    return tool.execute({"command": command, **arguments}, Context())


def cancelled_when(tool: Tool[Any], command: str, ready: Callable[[Result], bool]) -> tuple[Result, float]:
    """The result of a call cancelled at the update that says it is ready, and the seconds from there on."""
    cancelled_at: list[float] = []
    cancel = threading.Event()

    def update(partial: Result) -> None:
        if ready(partial) and not cancel.is_set():
            cancelled_at.append(time.monotonic())
            cancel.set()

    result = tool.execute({"command": command}, Context(cancel=cancel, on_update=update))
    return result, time.monotonic() - cancelled_at[0]


# Outcomes


def test_the_output_and_its_hash_are_returned(bash: Tool[Any]) -> None:
    result = call(bash, "echo hello")
    assert (result.text, result.is_error) == ("hello\n", False)
    expected = hashlib.sha256(b"hello\n").hexdigest()[:16]
    assert result.meta == {"hash": expected}
    assert result.details == {"hash": expected}


def test_both_outputs_are_one_text_in_order(bash: Tool[Any]) -> None:
    assert call(bash, "echo a; echo b >&2; echo c").text == "a\nb\nc\n"


def test_success_without_output_is_reported(bash: Tool[Any]) -> None:
    result = call(bash, "true")
    assert (result.text, result.meta) == ("(no output)", {"hash": "e3b0c44298fc1c14"})


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("exit 3", "(no output)\n\nCommand exited with code 3"),
        ("echo out; exit 42", "out\n\nCommand exited with code 42"),
        ("kill -9 $$", "(no output)\n\nCommand was killed by signal 9 (SIGKILL)"),
        ("false | false", "(no output)\n\nCommand exited with code 1"),
    ],
)
def test_a_failure_shows_the_output_and_the_ending(bash: Tool[Any], command: str, text: str) -> None:
    """B21"""
    result = call(bash, command)
    assert (result.text, result.is_error, result.meta, result.details) == (text, True, None, None)


def test_a_pipe_ends_as_the_shell_says(bash: Tool[Any]) -> None:
    """B21"""
    assert not call(bash, "false | true").is_error


def test_a_failure_after_long_output_keeps_the_notice(bash: Tool[Any]) -> None:
    text = call(bash, "seq 1 2500; exit 3").text
    assert "\n2500\n\n[Showing lines 501-2500 of 2500. Full output: " in text
    assert text.endswith("]\n\nCommand exited with code 3")


@pytest.mark.parametrize("arguments", [{}, {"command": ""}, {"command": " \n"}, {"command": None}])
def test_a_command_is_required(arguments: dict[str, Any], tmp_path: Path) -> None:
    result = bash_tool(tmp_path, prefix="echo prefix").execute(arguments, Context())
    assert result.is_error
    assert "command is required" in result.text


def test_a_command_that_is_no_text_is_refused(bash: Tool[Any]) -> None:
    assert "command: expected a string, got an integer (42)" in bash.execute({"command": 42}, Context()).text


@pytest.mark.parametrize("command", ["echo a\0b", "echo \ud800", "x" * 3_000_000])
def test_a_command_no_system_can_run_is_an_error(bash: Tool[Any], command: str) -> None:
    result = call(bash, command)
    assert result.is_error
    assert "was not run" in result.text


def test_an_environment_no_system_can_take_is_named_as_the_cause(tmp_path: Path) -> None:
    result = bash_tool(tmp_path, env={"HUGE": "x" * (1 << 22)})(command="echo hi")
    assert "the environment variables are too long" in result.text


def test_it_is_bash_and_not_a_plain_shell(bash: Tool[Any]) -> None:
    assert call(bash, 'a=(x y); [[ ${a[1]} == y ]] && echo "${a[@]}"').text == "x y\n"


def test_without_bash_on_the_path_the_cause_is_named(tmp_path: Path) -> None:
    """B22"""
    result = call(bash_tool(tmp_path, env={"PATH": "", "SHELL": None}), "touch ran")
    assert result.is_error
    assert "bash was not found on PATH" in result.text
    assert not (tmp_path / "ran").exists()


# Timeout and cancellation


def test_a_timeout_keeps_the_output_and_names_the_seconds(bash: Tool[Any]) -> None:
    """B09"""
    result = call(bash, "echo before; sleep 61.91", timeout=0.25)
    assert result.is_error
    assert result.text.startswith("before\n\nCommand timed out after 0.25 s")
    assert not running("sleep 61.91")


def test_a_timeout_without_output_has_no_placeholder(bash: Tool[Any]) -> None:
    assert call(bash, "sleep 61.92", timeout=0.1).text.startswith("Command timed out after 0.1 s")


@pytest.mark.parametrize("timeout", [None, 0, -5])
def test_without_a_usable_timeout_the_default_holds(tmp_path: Path, timeout: float | None) -> None:
    text = call(bash_tool(tmp_path, timeout=0.1), "sleep 61.93", timeout=timeout).text
    assert text.startswith("Command timed out after 0.1 s")


def test_a_longer_timeout_than_the_default_holds(tmp_path: Path) -> None:
    assert call(bash_tool(tmp_path, timeout=0.1), "sleep 0.3; echo done", timeout="5").text == "done\n"


def test_a_timeout_that_meets_the_exit_never_raises(bash: Tool[Any]) -> None:
    """B09"""
    outcomes: list[str] = []

    def many() -> None:
        for _ in range(50):
            outcomes.append(call(bash, "sleep 0.04", timeout=0.045).text)

    threads = [threading.Thread(target=many) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 300
    assert {text for text in outcomes if not text.startswith("Command timed out")} <= {"(no output)"}


def test_a_cancelled_command_ends_at_once_with_its_output(bash: Tool[Any]) -> None:
    result, took = cancelled_when(
        bash, "echo before; sleep 61.94 & sleep 61.94", lambda p: "before" in p.text
    )
    assert (result.text, result.is_error) == ("before\n\nCommand aborted", True)
    assert took < 1
    assert becomes_true(lambda: not running("sleep 61.94"))


def test_a_call_cancelled_before_it_started_starts_nothing(bash: Tool[Any], tmp_path: Path) -> None:
    cancel = threading.Event()
    cancel.set()
    result = bash.execute({"command": "touch ran"}, Context(cancel=cancel))
    assert result.is_error
    assert "aborted" in result.text
    assert not (tmp_path / "ran").exists()


def test_a_cancellation_of_a_loud_command_is_not_delayed(bash: Tool[Any]) -> None:
    result, took = cancelled_when(bash, "yes", lambda partial: True)
    assert result.text.endswith("Command aborted")
    assert "Full output: " in result.text
    assert took < 1


# The directory


def test_the_directory_can_be_chosen(bash: Tool[Any], tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    assert call(bash, "pwd", cwd="sub").text == f"{tmp_path}/sub\n"
    assert call(bash, "pwd", cwd=str(tmp_path / "sub")).text == f"{tmp_path}/sub\n"
    assert call(bash, "pwd -P", cwd="~").text == os.path.realpath(os.path.expanduser("~")) + "\n"


def test_a_command_of_a_deleted_directory_does_not_run_elsewhere(tmp_path: Path) -> None:
    """B22"""
    (tmp_path / "keep.txt").touch()
    gone = tmp_path / "gone"
    gone.mkdir()
    bash = bash_tool(gone)
    gone.rmdir()
    result = call(bash, "rm -f *.txt ../*.txt; touch ../ran")
    assert result.is_error
    assert f"{gone} no longer exists" in result.text
    assert sorted(p.name for p in tmp_path.iterdir()) == ["keep.txt"]
    assert call(bash, "echo ok", cwd=str(tmp_path)).text == "ok\n"


def test_a_file_is_no_directory(bash: Tool[Any], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = call(bash, "touch ran", cwd="file")
    assert result.is_error
    assert "no longer exists as a directory" in result.text
    assert not (tmp_path / "ran").exists()


def test_a_relative_directory_is_that_of_the_moment_the_tool_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bash = bash_tool()
    monkeypatch.chdir("/")
    assert call(bash, "pwd").text == f"{tmp_path}\n"


# The output


def test_the_output_is_what_a_terminal_would_show(bash: Tool[Any]) -> None:
    """B19"""
    result = call(bash, r'printf "\033[31mred\033[0m \033]0;t\007x\033[2K\n"; printf "10%%\r20%%\rdone\n"')
    assert result.text == "red x\ndone\n"
    assert "\x1b[31mred\x1b[0m" in result.details["rawOutput"]


def test_colours_do_not_change_the_hash(bash: Tool[Any]) -> None:
    assert call(bash, r'printf "\033[31mred\033[0m\n"').meta == call(bash, "echo red").meta


def test_bytes_that_are_no_text_do_no_harm(bash: Tool[Any]) -> None:
    """B10"""
    result = call(bash, r'printf "\377\376ok\n"; head -c 3000 /dev/urandom; echo; echo end')
    assert not result.is_error
    assert result.text.startswith("\ufffd\ufffdok\n")
    assert result.text.endswith("end\n")
    json.dumps(result.text).encode("utf-8")


def test_a_giant_line_is_cut_between_characters_with_a_notice(bash: Tool[Any]) -> None:
    """B11"""
    text = call(bash, f"{sys.executable} -c 'print(chr(0x4f60) * 40000)'").text
    shown, _, notice = text.partition("\n\n")
    assert set(shown) == {"你"}
    assert len(shown.encode()) <= MAX_BYTES
    assert notice.startswith("[Showing last 50.0KB of line 1 (line is 117.2KB). Full output: ")


def test_long_output_is_whole_in_the_file_that_is_named(bash: Tool[Any], temporary: Path) -> None:
    result = call(bash, "seq 1 2500")
    path = result.details["fullOutputPath"]
    assert result.text.endswith(f"\n2500\n\n[Showing lines 501-2500 of 2500. Full output: {path}]")
    assert Path(path).read_text() == "".join(f"{i}\n" for i in range(1, 2501))
    assert list(temporary.rglob("*.log")) == [Path(path)]


MEASURED = """
import sys, tempfile
sys.path[:0] = {path!r}
from support.memory import peak_bytes
from agent_tools.bash import bash_tool
tempfile.tempdir = {folder!r}
bash = bash_tool("/")
bash(command="seq 1 100000")
before = peak_bytes()
result = bash(command={command!r}, timeout=60)
print(peak_bytes() - before)
print(result.text[-300:])
"""


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (
            r'head -c 150000000 /dev/zero | tr "\0" a',
            "[Showing last 50.0KB of line 1 (line is 143.1MB). Full output:",
        ),
        ("timeout 1 yes", "Command exited with code 124"),
    ],
)
def test_memory_does_not_grow_with_the_output(temporary: Path, command: str, expected: str) -> None:
    """B13, B14"""
    code = MEASURED.format(path=[os.getcwd(), *sys.path], folder=str(temporary), command=command)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    growth, _, text = done.stdout.partition("\n")
    assert int(growth) < 10_000_000
    assert expected in text
    assert not list(temporary.rglob("*.log"))


def test_the_output_is_held_once_and_released(bash: Tool[Any]) -> None:
    """B15"""
    result = call(bash, "head -c 30000 /dev/zero | tr '\\0' x")
    assert len(json.dumps([result.text, result.details, result.meta])) < 31_000
    [block] = result.content
    assert isinstance(block, TextBlock)
    text = block.text
    del result, block
    gc.collect()
    # Ours and the argument of getrefcount: nothing in the package keeps it.
    assert sys.getrefcount(text) == 2


# Nobody types


def test_a_command_that_reads_input_gets_none(bash: Tool[Any]) -> None:
    """B17"""
    assert call(bash, "read x; echo got:$x").text == "got:\n"
    assert call(bash, "cat").text == "(no output)"
    assert "EOFError" in call(bash, f"{sys.executable} -c 'input()'").text


def test_git_does_not_prompt(bash: Tool[Any], tmp_path: Path) -> None:
    """B16"""
    setup = "git init -q . && git config user.email a@b.c && git config user.name n && "
    setup += "git commit -q --allow-empty -m one && git commit -q --allow-empty -m two"
    assert not call(bash, setup).is_error
    for command in ("git commit --allow-empty", "git rebase -i HEAD~1", "git commit --amend --allow-empty"):
        assert "timed out" not in call(bash, command, timeout=10).text
    env = call(bash, "echo $GIT_EDITOR $GIT_SEQUENCE_EDITOR $GIT_TERMINAL_PROMPT").text
    assert env == "true true 0\n"


# if_hash


def test_unchanged_output_comes_back_as_one_line(bash: Tool[Any], temporary: Path) -> None:
    known = call(bash, "seq 1 3000").meta
    assert known is not None
    scratch.delete_all()
    result = call(bash, "seq 1 3000 | cat", if_hash=known["hash"])
    assert result.text == f"Output unchanged (hash {known['hash']})."
    assert (result.details, result.meta) == ({"unchanged": True, "hash": known["hash"]}, None)
    assert not list(temporary.rglob("*.log"))


def test_other_output_comes_back_whole(bash: Tool[Any]) -> None:
    known = call(bash, "echo a").meta
    assert known is not None
    result = call(bash, "echo b", if_hash=known["hash"])
    assert (result.text, result.meta != known) == ("b\n", True)
    assert call(bash, "echo a", if_hash=known["hash"].upper()).text == "a\n"


def test_a_failure_is_returned_in_full_despite_if_hash(bash: Tool[Any]) -> None:
    assert call(bash, "exit 4", if_hash="e3b0c44298fc1c14").text.endswith("code 4")


# Options


def test_a_prefix_runs_before_each_command(tmp_path: Path) -> None:
    assert call(bash_tool(tmp_path, prefix="export V=hello"), "echo $V").text == "hello\n"
    assert call(bash_tool(tmp_path, prefix="echo first"), "echo second").text == "first\nsecond\n"
    (tmp_path / "sub").mkdir()
    assert call(bash_tool(tmp_path, prefix="V=1"), "pwd", cwd="sub").text == f"{tmp_path}/sub\n"
    alias = bash_tool(tmp_path, prefix="shopt -s expand_aliases; alias hi='echo hi'")
    assert call(alias, "hi").text == "hi\n"


def test_a_filtered_environment_keeps_keys_from_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B23"""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k-1")
    monkeypatch.setenv("MY_TOKEN", "k-2")
    assert "k-1" in call(bash_tool(tmp_path), "env").text
    seen = call(bash_tool(tmp_path, env_filter=True, pass_env="MY_TOKEN"), "env").text
    assert "k-1" not in seen
    assert "ANTHROPIC_API_KEY" not in seen
    assert "MY_TOKEN=k-2" in seen
    assert f"PATH={os.environ['PATH']}" in seen
    assert f"HOME={os.environ['HOME']}" in seen


def test_none_removes_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B23"""
    monkeypatch.setenv("GONE", "here")
    seen = call(bash_tool(tmp_path, env={"GONE": None, "NEW": "1"}), "env").text
    assert "GONE" not in seen
    assert "None" not in seen
    assert "NEW=1\n" in seen


def test_a_spawn_hook_may_change_what_is_run(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()

    def hook(spawn: Spawn) -> Spawn:
        command = spawn.command.replace("name", "$WHO; pwd")
        return replace(spawn, command=command, cwd=spawn.cwd + "/sub", env={**spawn.env, "WHO": "me"})

    assert call(bash_tool(tmp_path, spawn_hook=hook), "echo name").text == f"me\n{tmp_path}/sub\n"


def test_an_undo_journal_is_called_before_and_after_a_command(bash: Tool[Any], tmp_path: Path) -> None:
    seen: list[tuple[str, str, bool]] = []

    class Journal:
        def before_command(self, cwd: str) -> None:
            seen.append(("before", cwd, (tmp_path / "made").exists()))

        def after_command(self, cwd: str) -> None:
            seen.append(("after", cwd, (tmp_path / "made").exists()))

    assert bash.execute({"command": "touch made; exit 1"}, Context(journal=Journal())).is_error
    assert seen == [("before", str(tmp_path), False), ("after", str(tmp_path), True)]


# Progress


def test_output_is_shown_while_the_command_runs(bash: Tool[Any]) -> None:
    result, _ = cancelled_when(
        bash, "echo one; printf tw; sleep 61.95", lambda partial: "one\ntw" in partial.text
    )
    assert result.text == "one\ntw\n\nCommand aborted"


def test_what_came_too_soon_for_an_update_is_shown_later(bash: Tool[Any]) -> None:
    command = "echo first; sleep 0.02; echo second; sleep 61.96"
    result, _ = cancelled_when(bash, command, lambda partial: "second" in partial.text)
    assert "second" in result.text


def test_updates_are_few_and_small(bash: Tool[Any]) -> None:
    updates: list[Result] = []
    started = time.monotonic()
    bash.execute({"command": "timeout 0.5 yes 0123456789"}, Context(on_update=updates.append))
    took = time.monotonic() - started
    assert 1 <= len(updates) <= took / 0.1 + 1
    assert all(len(update.text) <= UPDATE_BYTES for update in updates)


def test_a_failing_progress_callback_ends_the_command(bash: Tool[Any]) -> None:
    def broken(partial: Result) -> None:
        raise RuntimeError("listener")

    result = bash.execute({"command": "echo x; sleep 61.97"}, Context(on_update=broken))
    assert "RuntimeError: listener" in result.text
    assert not running("sleep 61.97")


# What is shown to a model and on a screen


def test_the_description_says_what_a_model_must_know(bash: Tool[Any]) -> None:
    for fact in (
        "2000 lines",
        "50.0KB",
        "120 s",
        "timeout",
        "cwd",
        "setsid",
        "if_hash",
        "read",
        "edit",
        "temporary",
    ):
        assert fact in bash.description
    assert bash.description == bash_tool("/").description
    assert "30 s" in bash_tool("/", timeout=30).description


def test_the_schema_is_plain(bash: Tool[Any]) -> None:
    properties = bash.parameters["properties"]
    kinds = {name: schema["type"] for name, schema in properties.items()}
    assert kinds == {"command": "string", "timeout": "number", "cwd": "string", "if_hash": "string"}
    assert bash.parameters["required"] == ["command"]
    assert all(schema["description"] for schema in properties.values())


def test_the_header_of_a_call_shows_command_and_timeout(bash: Tool[Any]) -> None:
    assert bash.display_hint is not None
    assert [arg.name for arg in bash.display_hint.title_args] == ["command", "timeout"]


# Locales

IN_A_LOCALE = """
import json, os, sys
from agent_tools.bash import bash_tool
readable = [os.environ["LOCPATH"]] if "LOCPATH" in os.environ else []
bash = bash_tool(".", env={"SET": "\\u2713"}, confine=sys.argv[1] == "confined", readable=readable)
for command in json.loads(sys.argv[2]):
    print(ascii(bash(command=command).text))
"""


@pytest.mark.parametrize("locale", ["C", "Latin-1"])
@pytest.mark.parametrize("way", ["free", pytest.param("confined", marks=needs_sandbox)])
def test_commands_and_output_are_utf8_in_every_locale(
    tmp_path: Path, request: pytest.FixtureRequest, locale: str, way: str
) -> None:
    """FS-W5"""
    selected = {"LC_ALL": "C"} if locale == "C" else request.getfixturevalue("latin_1")
    environment = {**os.environ, **selected, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    environment |= {"PYTHONPATH": os.getcwd(), "INHERITED": "\u2713"}
    commands = ["echo \u2713 > \u2713\u00e9.txt; cat \u2713*; ls", "echo $INHERITED $SET", "echo '\ud800'"]
    done = subprocess.run(
        [sys.executable, "-c", IN_A_LOCALE, way, json.dumps(commands)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    written, variables, surrogate = done.stdout.splitlines()
    assert written == ascii("\u2713\n\u2713\u00e9.txt\n")
    assert variables == ascii("\u2713 \u2713\n")
    assert "cannot be passed to bash" in surrogate
    assert os.listdir(os.fsencode(tmp_path)) == ["\u2713\u00e9.txt".encode()]
