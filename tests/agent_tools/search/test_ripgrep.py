"""ripgrep as a prefilter: which files pass, and what happens when the program misbehaves."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest
from support.real import require_or_skip

from agent_tools.grep import grep_tool
from agent_tools.search import ripgrep
from agent_tools.search.ripgrep import files_with_matches
from agent_tools.tool import Context


def passed(root: Path, expression: str, names: list[str], ignore_case: bool = False) -> list[str]:
    program = shutil.which("rg")
    if program is None:
        require_or_skip("ripgrep is not installed")
    return list(files_with_matches(program, expression, ignore_case, str(root), names, lambda: None))


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder `work` with two files, and a program `rg` that the test writes."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr("agent_tools.search.engine._RIPGREP_FROM_FILES", 0)
    work = tmp_path / "work"
    work.mkdir()
    (work / "a").write_text("hit\n")
    (work / "b").write_text("hit\n")
    return folder / "rg"


def program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_files_with_a_hit_pass_in_their_order(tmp_path: Path) -> None:
    names = [f"{number:05}" for number in range(1000)]
    for name in names:
        (tmp_path / name).write_text("hit\n" if name.endswith("7") else "miss\n")
    assert passed(tmp_path, "hit", names) == [name for name in names if name.endswith("7")]


def test_a_command_line_is_never_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ripgrep, "_MAX_ARGUMENT_BYTES", 3000)
    names = [f"{'n' * 200}{number}" for number in range(100)]
    for name in names:
        (tmp_path / name).write_text("hit\n")
    assert passed(tmp_path, "hit", names) == names


def test_ignored_hidden_and_odd_names_pass_when_they_are_asked_for(tmp_path: Path) -> None:
    names = [".hidden", "ignored", "line\nfeed", "-dash", os.fsdecode(b"\xff"), "--pre=x"]
    (tmp_path / ".gitignore").write_text("*\n")
    for name in names:
        (tmp_path / name).write_text("hit\n")
    assert passed(tmp_path, "hit", names) == names


def test_an_expression_that_ripgrep_rejects_lets_everything_pass(tmp_path: Path) -> None:
    names = [f"f{number}" for number in range(600)]
    for name in names:
        (tmp_path / name).write_text("miss\n")
    assert passed(tmp_path, "(?=a)", names) == names
    assert passed(tmp_path, "miss\0", names) == names


def test_a_file_that_vanished_harms_no_other(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("hit\n")
    assert "a" in passed(tmp_path, "hit", ["a", "gone"])


def test_a_configuration_of_the_user_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config").write_text("--invert-match\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tmp_path / "config"))
    (tmp_path / "a").write_text("hit\n")
    (tmp_path / "b").write_text("miss\n")
    assert passed(tmp_path, "hit", ["a", "b"]) == ["a"]


@pytest.mark.parametrize(
    "script",
    [
        "exit 2",
        "kill -9 $$",
        "exit 1; echo",
        "echo rg: bad flag >&2; exit 2",
        "head -c 3000000 /dev/zero; exit 2",
    ],
)
def test_a_program_that_fails_costs_time_and_nothing_else(fake: Path, script: str) -> None:
    program(fake, script)
    expected = "No matches found" if script.startswith("exit 1") else "a:1: hit\nb:1: hit"
    assert grep_tool(fake.parent.parent / "work")(pattern="hit").text == expected


def test_a_program_that_cannot_be_started_costs_nothing_else(fake: Path) -> None:
    fake.write_bytes(b"\x7fELF no program")
    fake.chmod(0o755)
    assert grep_tool(fake.parent.parent / "work")(pattern="hit").text == "a:1: hit\nb:1: hit"


def test_a_flood_of_output_is_read_to_its_end(fake: Path) -> None:
    program(fake, "/usr/bin/head -c 3000000 /dev/zero; printf 'a\\0'; exit 0")
    assert grep_tool(fake.parent.parent / "work")(pattern="hit").text == "a:1: hit"


def test_a_program_that_hangs_is_killed_when_the_time_is_up(fake: Path) -> None:
    program(fake, "exec /bin/sleep 60")
    result = grep_tool(fake.parent.parent / "work", time_limit=0.2)(pattern="hit")
    assert result.is_error
    assert "timed out after 0.2 seconds" in result.text


def test_a_program_that_hangs_is_killed_when_the_call_is_cancelled(fake: Path) -> None:
    program(fake, "exec /bin/sleep 60")
    cancel = threading.Event()
    timer = threading.Timer(0.1, cancel.set)
    timer.start()
    result = grep_tool(fake.parent.parent / "work").execute({"pattern": "hit"}, Context(cancel=cancel))
    timer.join()
    assert result.is_error
    assert result.text == "grep was aborted"


def test_a_search_that_has_enough_leaves_no_program_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_tools.search.engine._RIPGREP_FROM_FILES", 0)
    monkeypatch.setattr(ripgrep, "_FIRST_BATCH", 10)
    monkeypatch.setattr(ripgrep, "_MAX_BATCH", 20)
    for number in range(200):
        (tmp_path / f"f{number:03}").write_text("hit\n")
    assert grep_tool(tmp_path)(pattern="hit", limit=12).details == {"matchLimitReached": 12}


@pytest.mark.parametrize("place", ["sub/bin", "sub", "bin"])
@pytest.mark.parametrize("entry", ["absolute", "relative", "link", "link to the program"])
def test_a_program_of_the_project_is_not_run(
    place: str, entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = tmp_path / "repository"
    work = repository / "sub"
    (repository / place).mkdir(parents=True)
    work.mkdir(exist_ok=True)
    (repository / ".git").mkdir()
    (work / "a").write_text("hit\n")
    program(repository / place / "rg", f"touch {tmp_path}/ran")
    outside = tmp_path / "outside"
    if entry == "link":
        outside.symlink_to(repository / place)
    elif entry == "link to the program":
        outside.mkdir()
        (outside / "rg").symlink_to(repository / place / "rg")
    monkeypatch.chdir(repository)
    path = {"absolute": repository / place, "relative": place}.get(entry, outside)
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.setattr("agent_tools.search.engine._RIPGREP_FROM_FILES", 0)

    assert grep_tool(work).run(pattern="hit").text == "a:1: hit"
    assert not (tmp_path / "ran").exists()


def test_the_next_program_on_path_is_taken_instead(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = fake.parent.parent / "work"
    program(work / "rg", "touch bad")
    monkeypatch.setenv("PATH", f"{work}{os.pathsep}{fake.parent}")
    program(fake, f"echo > {fake.parent}/ran; exit 1")

    assert grep_tool(work).run(pattern="hit", path="a").text == "a:1: hit"
    grep_tool(work).run(pattern="hit")

    assert (fake.parent / "ran").exists()
    assert not (work / "bad").exists()


def test_the_program_gets_no_variable_of_this_process(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    program(fake, f"/usr/bin/env > {fake.parent}/seen; exit 1")

    grep_tool(fake.parent.parent / "work").run(pattern="hit")

    assert "OPENAI_API_KEY" not in (fake.parent / "seen").read_text()
