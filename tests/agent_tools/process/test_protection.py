"""Files that programs outside obey: read-only in the sandbox, renamed when a command creates them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.sandbox import needs_sandbox

from agent_tools import JobTable, bash_tool, jobs_tool
from agent_tools.files.protected import PROTECTED
from agent_tools.process.protection import Protection

IDENTITY = "-c user.name=n -c user.email=a@b.c"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository that holds every protected path but those that git would obey at once."""
    root = tmp_path / "root"
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / ".git/hooks").mkdir(exist_ok=True)
    (root / ".git/info").mkdir(exist_ok=True)
    for name in (".vscode", ".idea"):
        (root / name).mkdir()
        (root / name / "kept").write_text("kept")
    for name in (".envrc", ".steady-agent.toml"):
        (root / name).write_text("kept")
    return root


def run(root: Path, command: str, **options: Any) -> str:
    return bash_tool(root, confine=True, **options)(command=command).text


def has_escaped(root: Path) -> bool:
    """Whether the `git status` that a user runs next runs what a command has planted."""
    subprocess.run(["git", "status"], cwd=root, check=False, capture_output=True)
    return (root.parent / "ESCAPED").exists()


@pytest.fixture
def planted(root: Path) -> str:
    """A program for `core.fsmonitor` whose trace is outside of what the sandbox can write."""
    return f"touch {root.parent}/ESCAPED; false"


# In a sandbox


SET_MONITOR = 'git config core.fsmonitor "$PLANTED"'
ADD_MONITOR = 'printf \'[core]\\nfsmonitor = "%s"\\n\' "$PLANTED"'


@needs_sandbox
def test_the_planted_program_escapes_without_protection(root: Path, planted: str) -> None:
    run(root, SET_MONITOR, env={"PLANTED": planted}, protect=())
    assert has_escaped(root)


@needs_sandbox
@pytest.mark.parametrize(
    "command",
    [
        SET_MONITOR,
        f"{ADD_MONITOR} >> .git/config",
        f"cp .git/config c; {ADD_MONITOR} >> c; mv c .git/config",
        f"mv .git old; cp -r old .git; {ADD_MONITOR} >> .git/config",
        f"rm -rf .git; git init -q; {SET_MONITOR}",
        f"cp -r .git evil; {ADD_MONITOR} >> evil/config; rm -rf .git; ln -s evil .git",
        f"cp -r .git evil; {ADD_MONITOR} >> evil/config; echo ../evil > .git/commondir",
        f"git config extensions.worktreeConfig true; {ADD_MONITOR} > .git/config.worktree",
    ],
)
def test_no_command_decides_what_git_runs_outside(root: Path, planted: str, command: str) -> None:
    """FT-M8"""
    run(root, command, env={"PLANTED": planted})
    assert not has_escaped(root)


@needs_sandbox
@pytest.mark.parametrize(
    "command",
    [
        f"git init -q; {SET_MONITOR}",
        f"git init -q evil; (cd evil; {SET_MONITOR}); echo 'gitdir: evil/.git' > .git",
        f"git init -q evil; (cd evil; {SET_MONITOR}); ln -s evil/.git .git",
    ],
)
def test_a_new_repository_decides_nothing_either(root: Path, planted: str, command: str) -> None:
    """FT-M8"""
    new = root / "new"
    new.mkdir()
    commit = f"git {IDENTITY} commit -q --allow-empty -m one"
    run(new, f"{command}; {commit}", env={"PLANTED": planted})
    subprocess.run(["git", "status"], cwd=new, check=False, capture_output=True)
    assert not (root.parent / "ESCAPED").exists()


@needs_sandbox
@pytest.mark.parametrize("name", [".git/hooks/pre-commit", ".git/info/attributes", ".vscode/x", ".idea/x"])
def test_nothing_is_added_to_a_protected_folder(root: Path, name: str) -> None:
    """FT-M8"""
    assert "Read-only file system" in run(root, f"touch {name}")
    assert not (root / name).exists()


@needs_sandbox
@pytest.mark.parametrize("name", [".envrc", ".steady-agent.toml", ".vscode/kept", ".git/config"])
@pytest.mark.parametrize("way", ["echo bad > {}", "rm -f {}", "mv {} other", "ln -sf /etc/passwd {}"])
def test_a_protected_file_stays_as_it_is(root: Path, name: str, way: str) -> None:
    """FT-M8"""
    before = (root / name).read_bytes()
    run(root, way.format(name))
    assert (root / name).read_bytes() == before
    assert not (root / name).is_symlink()


@needs_sandbox
def test_git_works_in_a_protected_repository(root: Path) -> None:
    commands = (
        f"git add . && git {IDENTITY} commit -q -m one",
        f"git checkout -q -b other && echo x > file && git add file && git {IDENTITY} commit -q -m two",
        "git stash list && git log --oneline && git status --short",
    )
    result = bash_tool(root, confine=True)(command=" && ".join(commands))
    assert not result.is_error, result.text
    assert result.text.count("\n") == 2


@needs_sandbox
@pytest.mark.parametrize("name", [".envrc", ".steady-agent.toml", ".vscode", ".idea"])
@pytest.mark.parametrize("way", ["echo bad > {0}", "mkdir {0}", "ln -s /etc {0}", "mkdir d; mv d {0}"])
def test_a_protected_path_that_a_command_creates_is_renamed(tmp_path: Path, name: str, way: str) -> None:
    """FT-M8"""
    text = run(tmp_path, way.format(name))
    assert not os.path.lexists(tmp_path / name)
    assert os.path.lexists(tmp_path / f"{name}.from-sandbox")
    assert f"[{name} would be obeyed by programs outside the sandbox" in text


@needs_sandbox
def test_a_second_one_gets_another_name(tmp_path: Path) -> None:
    for text in ("one", "two"):
        run(tmp_path, f"echo {text} > .envrc")
    assert (tmp_path / ".envrc.from-sandbox").read_text() == "one\n"
    assert (tmp_path / ".envrc.from-sandbox-1").read_text() == "two\n"


@needs_sandbox
@pytest.mark.parametrize("ending", ["exit 1", "sleep 20"])
def test_what_a_failed_or_stopped_command_created_is_renamed_too(tmp_path: Path, ending: str) -> None:
    result = bash_tool(tmp_path, confine=True)(command=f"echo bad > .envrc; {ending}", timeout=0.5)
    assert result.is_error
    assert ".envrc would be obeyed" in result.text
    assert not (tmp_path / ".envrc").exists()


@needs_sandbox
def test_what_a_job_created_is_renamed_when_it_ends(tmp_path: Path) -> None:
    with JobTable() as table:
        bash_tool(tmp_path, confine=True, jobs=table)(command="echo bad > .envrc; echo done", background=True)
        text = jobs_tool(table)(action="wait", id="job-1", timeout=10).text
    assert ".envrc would be obeyed" in text
    assert not (tmp_path / ".envrc").exists()


@needs_sandbox
def test_a_path_that_appears_while_a_job_runs_is_not_mounted_but_its_owner_keeps_it(tmp_path: Path) -> None:
    """The job could put a link in its place, which the mount would follow."""
    with JobTable() as table:
        bash, jobs = bash_tool(tmp_path, confine=True, jobs=table), jobs_tool(table)
        bash(command="echo ready; sleep 30", background=True)
        jobs(action="wait", id="job-1", pattern="ready")
        (tmp_path / ".envrc").write_text("mine")
        assert bash(command="cat .envrc").text == "mine"
        assert (tmp_path / ".envrc").read_text() == "mine"


@needs_sandbox
def test_a_link_is_neither_mounted_nor_followed(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/key").write_text("SECRET")
    (tmp_path / "root/.vscode").symlink_to("../secret")
    assert "SECRET" not in run(tmp_path / "root", f"cat .vscode/key; cat {tmp_path}/secret/key")


@needs_sandbox
@pytest.mark.parametrize("root_path", ["root", "link"])
def test_both_paths_of_a_root_behind_a_link_are_protected(root: Path, root_path: str) -> None:
    (root.parent / "link").symlink_to("root")
    tool = bash_tool(root.parent / "link", confine=True)
    assert tool(command=f"echo bad > {root.parent / root_path}/.envrc").is_error
    assert (root / ".envrc").read_text() == "kept"


@needs_sandbox
def test_the_protection_can_be_changed_and_switched_off(root: Path) -> None:
    assert run(root, "echo new > .envrc && cat .envrc", protect=()) == "new\n"
    assert "Read-only" in run(root, "echo new > .envrc", protect=[".envrc"])
    assert run(root, "git config a.b c && git config a.b", protect=[".envrc"]) == "c\n"


# Without a sandbox


def test_what_exists_is_mounted_and_what_does_not_is_watched(root: Path) -> None:
    guard = Protection(str(root), PROTECTED).begin()
    assert guard.mounts == {
        ".git": "--bind",
        **dict.fromkeys(
            (".git/config", ".git/hooks", ".git/info", ".envrc", ".steady-agent.toml", ".vscode", ".idea"),
            "--ro-bind",
        ),
    }
    assert guard.absent == {".git/commondir", ".git/config.worktree"}


def test_a_git_file_of_a_worktree_is_mounted_read_only(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /somewhere\n")
    assert Protection(str(tmp_path), PROTECTED).begin().mounts == {".git": "--ro-bind"}


def test_a_root_that_is_gone_has_nothing_to_protect(tmp_path: Path) -> None:
    protection = Protection(str(tmp_path / "gone"), PROTECTED)
    guard = protection.begin()
    assert guard.mounts == {}
    assert protection.end(guard) == ""
