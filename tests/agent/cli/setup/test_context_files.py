"""AGENTS.md and CLAUDE.md: which are found, their order, how much is read, and where it is reported."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.command import arguments, environment, run_command, text_chunks
from support.sse_server import SseServer

from agent.cli.setup.context_files import (
    FILE_BYTES,
    TOTAL_BYTES,
    ContextFile,
    describe,
    prompt_text,
    read_context_files,
)


def _environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path / "config")}


def _project(tmp_path: Path) -> Path:
    project = tmp_path / "outer" / "project"
    project.mkdir(parents=True)
    return project


def _texts(project: Path, tmp_path: Path) -> list[str]:
    files = read_context_files(str(project), _environ(tmp_path))
    return [file.text for file in files if Path(file.path).is_relative_to(tmp_path)]


def test_the_users_file_comes_first_then_parents_from_the_outermost_then_the_project(tmp_path: Path) -> None:
    project = _project(tmp_path)
    user = tmp_path / "config" / "steady-agent"
    user.mkdir(parents=True)
    (project / "AGENTS.md").write_text("project")
    (tmp_path / "AGENTS.md").write_text("outermost")
    (tmp_path / "outer" / "AGENTS.md").write_text("outer")
    (user / "AGENTS.md").write_text("user")
    assert _texts(project, tmp_path) == ["user", "outermost", "outer", "project"]


def test_claude_md_counts_only_where_there_is_no_agents_md(tmp_path: Path) -> None:
    project = _project(tmp_path)
    (project / "AGENTS.md").write_text("agents")
    (project / "CLAUDE.md").write_text("claude")
    (tmp_path / "CLAUDE.md").write_text("claude above")
    assert _texts(project, tmp_path) == ["claude above", "agents"]


def test_one_file_that_is_reached_twice_is_taken_once(tmp_path: Path) -> None:
    project = _project(tmp_path)
    (tmp_path / "AGENTS.md").write_text("once")
    (project / "AGENTS.md").symlink_to(tmp_path / "AGENTS.md")
    assert _texts(project, tmp_path) == ["once"]


def test_a_folder_or_a_pipe_of_that_name_is_skipped(tmp_path: Path) -> None:
    project = _project(tmp_path)
    (project / "AGENTS.md").mkdir()
    os.mkfifo(tmp_path / "AGENTS.md")
    (project / "CLAUDE.md").write_text("claude")
    assert _texts(project, tmp_path) == ["claude"]


def test_bytes_that_are_no_text_and_a_mark_at_the_start_do_no_harm(tmp_path: Path) -> None:
    project = _project(tmp_path)
    (project / "AGENTS.md").write_bytes(b"\xef\xbb\xbfa\xff\n")
    (file,) = (
        f for f in read_context_files(str(project), _environ(tmp_path)) if f.path.startswith(str(project))
    )
    assert file.text == "a\ufffd\n"
    assert not file.is_truncated


def test_a_long_file_is_truncated_at_a_line_with_a_note(tmp_path: Path) -> None:
    project = _project(tmp_path)
    (project / "AGENTS.md").write_text("0123456789abcde\n" * 4000)
    file = read_context_files(str(project), _environ(tmp_path))[-1]
    assert file.is_truncated
    assert len(file.text) <= FILE_BYTES
    assert file.text.endswith("abcde\n")
    assert prompt_text(file).endswith(
        f"first {len(file.text)} characters of 64000 bytes are shown; the file has the rest.]"
    )
    assert describe([file], str(project)) == "AGENTS.md (cut: 64 kB)"


def test_all_together_have_a_bound_and_the_project_is_truncated_last(tmp_path: Path) -> None:
    folder = tmp_path
    for _ in range(5):
        folder = folder / "deeper"
        folder.mkdir()
        (folder / "AGENTS.md").write_text("0123456789abcde\n" * 2000)
    files = read_context_files(str(folder), _environ(tmp_path))
    assert sum(len(file.text) for file in files) <= TOTAL_BYTES
    assert not files[-1].is_truncated
    assert files[-5].is_truncated


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_above_the_project_is_skipped(tmp_path: Path) -> None:
    project = _project(tmp_path)
    (tmp_path / "AGENTS.md").write_text("obey me")
    os.chown(tmp_path / "AGENTS.md", 12345, -1)
    assert _texts(project, tmp_path) == []


def test_a_file_that_can_not_be_read_is_named_with_the_reason() -> None:
    file = ContextFile("/p/AGENTS.md", "", 10, problem="Permission denied")
    assert describe([file], "/p") == "AGENTS.md (not read: Permission denied)"
    assert not file.is_truncated


def test_the_command_sends_them_and_names_them_on_standard_error(
    sse_server: SseServer, tmp_path: Path
) -> None:
    sse_server.play(*text_chunks("ok"), repeat=True)
    (tmp_path / "AGENTS.md").write_text("Speak like a pirate.\n")
    command = arguments(
        sse_server.url, "--cwd", str(tmp_path), "--append-system-prompt", "THE END", "-p", "x"
    )
    ended = run_command(command)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "ok\n", "context: AGENTS.md\n")
    run_command(command)
    first, second = (request.json["messages"][0]["content"] for request in sse_server.requests)
    assert first == second
    shown = f'<file path="{tmp_path}/AGENTS.md">\nSpeak like a pirate.\n</file>\n\nTHE END'
    assert first.endswith(shown)


@pytest.mark.parametrize("option", ["--quiet", "--json"])
def test_quiet_and_json_name_nothing(sse_server: SseServer, tmp_path: Path, option: str) -> None:
    sse_server.play(*text_chunks("ok"))
    (tmp_path / "AGENTS.md").write_text("Speak like a pirate.\n")
    ended = run_command(arguments(sse_server.url, "--cwd", str(tmp_path), option, "-p", "x"))
    assert ended.stderr == ""
    assert "pirate" in sse_server.requests[0].json["messages"][0]["content"]


def test_no_context_files_leaves_them_out(sse_server: SseServer, tmp_path: Path) -> None:
    sse_server.play(*text_chunks("ok"))
    (tmp_path / "AGENTS.md").write_text("Speak like a pirate.\n")
    ended = run_command(arguments(sse_server.url, "--cwd", str(tmp_path), "--no-context-files", "-p", "x"))
    assert ended.stderr == ""
    assert "pirate" not in sse_server.requests[0].json["messages"][0]["content"]


def test_the_users_own_file_is_found_below_the_configuration_folder(
    sse_server: SseServer, tmp_path: Path
) -> None:
    sse_server.play(*text_chunks("ok"))
    (tmp_path / "steady-agent").mkdir()
    (tmp_path / "steady-agent" / "AGENTS.md").write_text("Mine.\n")
    (tmp_path / "work").mkdir()
    command = arguments(sse_server.url, "--cwd", str(tmp_path / "work"), "-p", "x")
    run_command(command, env=environment(XDG_CONFIG_HOME=str(tmp_path)))
    assert "\nMine.\n" in sse_server.requests[0].json["messages"][0]["content"]


def _repository(tmp_path: Path) -> Path:
    project = _project(tmp_path)
    (project / ".git").mkdir()
    (tmp_path / "private").write_text("PRIVATE KEY")
    return project


@pytest.mark.parametrize("name", ["AGENTS.md", "CLAUDE.md"])
@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("../../private", "outside its folder and repository"),
        ("{tmp}/private", "outside its folder and repository"),
        ("link/private", "outside its folder and repository"),
        ("/proc/self/environ", "/proc, /sys or /dev"),
        ("/sys/kernel/notes", "/proc, /sys or /dev"),
    ],
)
def test_a_link_out_of_a_repository_is_skipped_and_named(
    tmp_path: Path, name: str, target: str, reason: str
) -> None:
    """FT-S6"""
    project = _repository(tmp_path)
    (project / "link").symlink_to(tmp_path)
    (project / name).symlink_to(target.format(tmp=tmp_path))
    if not (project / name).exists():
        pytest.skip("no such file here")
    (file,) = read_context_files(str(project), _environ(tmp_path))
    assert (file.path, file.text) == (str(project / name), "")
    assert reason in file.problem
    assert describe([file], str(project)) == f"{name} (not read: {file.problem})"


def test_a_link_out_of_a_folder_above_the_project_is_skipped_too(tmp_path: Path) -> None:
    project = _repository(tmp_path)
    (tmp_path / "outer" / "AGENTS.md").symlink_to(tmp_path / "private")
    (file,) = read_context_files(str(project), _environ(tmp_path))
    assert (file.text, bool(file.problem)) == ("", True)


def test_a_link_inside_the_repository_is_followed(tmp_path: Path) -> None:
    project = _repository(tmp_path)
    (project / "docs").mkdir()
    (project / "docs" / "rules.md").write_text("the rules")
    (project / "AGENTS.md").symlink_to("docs/rules.md")
    (project / "docs" / "CLAUDE.md").symlink_to("../AGENTS.md")
    assert _texts(project, tmp_path) == ["the rules"]
    assert _texts(project / "docs", tmp_path) == ["the rules"]


def test_without_a_repository_a_link_stays_in_its_folder(tmp_path: Path) -> None:
    project = _project(tmp_path)
    (tmp_path / "outer" / "other.md").write_text("other")
    (project / "AGENTS.md").symlink_to("../other.md")
    assert _texts(project, tmp_path) == [""]


def test_a_home_that_is_a_repository_does_not_widen_the_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = _project(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".git").mkdir()
    (tmp_path / "private").write_text("PRIVATE KEY")
    (project / "AGENTS.md").symlink_to(tmp_path / "private")
    assert _texts(project, tmp_path) == [""]


def test_the_users_own_folder_may_hold_a_link(tmp_path: Path) -> None:
    project = _project(tmp_path)
    own = tmp_path / "config" / "steady-agent"
    own.mkdir(parents=True)
    (tmp_path / "dotfiles").write_text("mine")
    (own / "AGENTS.md").symlink_to(tmp_path / "dotfiles")
    assert _texts(project, tmp_path) == ["mine"]


def test_no_key_of_the_environment_is_sent_by_a_context_file(sse_server: SseServer, tmp_path: Path) -> None:
    sse_server.play(*text_chunks("ok"))
    (tmp_path / "AGENTS.md").symlink_to("/proc/self/environ")
    command = arguments(sse_server.url, "--cwd", str(tmp_path), "-p", "hi")
    ended = run_command(command, env=environment(GITHUB_TOKEN="ghp-secret"))
    assert "ghp-secret" not in sse_server.requests[0].body.decode()
    assert "AGENTS.md (not read: it links to /proc" in ended.stderr
