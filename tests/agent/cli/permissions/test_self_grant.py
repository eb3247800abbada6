"""Calls that touch the permission settings are asked in every mode with rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.cli.permissions.rules import Call
from agent.cli.permissions.self_grant import ProtectedFiles


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".config" / "steady-agent").mkdir(parents=True)
    (tmp_path / "project").mkdir()
    return tmp_path


def _touched(home: Path, tool: str, **arguments: Any) -> str:
    return ProtectedFiles({"HOME": str(home)}).touched_by(Call(tool, arguments, str(home / "project")))


@pytest.mark.parametrize(
    "path",
    [
        ".steady-agent.toml",
        "deeper/.steady-agent.toml",
        ".Steady-Agent.TOML",
        "../.steady-agent.toml",
        "~/.config/steady-agent/config.toml",
        "~/.config/steady-agent/new",
        "../.config/steady-agent/approvals.toml",
        "link/approvals.toml",
        "@.steady-agent.toml",
    ],
)
def test_writing_a_settings_file_is_found(home: Path, path: str) -> None:
    (home / "project" / "link").symlink_to(home / ".config" / "steady-agent")
    assert _touched(home, "write", path=path, content="")
    assert _touched(home, "edit", path=path, oldText="a", newText="b")
    assert _touched(home, "imageresize", path="a.png", output=path, width=5)
    assert _touched(home, "mcp:save", path=path)
    assert not _touched(home, "read", path=path)


@pytest.mark.parametrize(
    "command",
    [
        "sed -i d ~/.config/steady-agent/config.toml",
        "cp x $HOME/.config/steady-agent/config.toml",
        'tee "${HOME}/.config/steady-agent/approvals.toml"',
        "mv x .steady-agent.toml",
        "mv x .stea''dy-agent.toml",
        "mv x .steady-\\agent.toml",
        "mv x .STEADY-AGENT.TOML",
        "cd ~/.config/steady-agent && mv a b",
        "cd ~/.config && mv a steady-agent/config.toml",
        "rm -r ../.config/steady-agent",
        "echo x > .steady-agent.toml",
        "cat <<EOF > .steady-agent.toml\nx\nEOF",
        "rm .s*",
        "cp x .steady-agent.t?ml",
        "rm -r ~/.config/steady*",
        "cp x ~/.config/st*/config.toml",
        "dd of=~/.config/steady-agent/config.toml",
        "git log -1 --output=$HOME/.config/steady-agent/approvals.toml",
        "python -c \"open('.steady-agent.toml','w')\"",
    ],
)
def test_a_command_that_names_them_is_found(home: Path, command: str) -> None:
    assert _touched(home, "bash", command=command)


@pytest.mark.parametrize(
    "command",
    [
        "ls *",
        "rm *.py",
        "git add .",
        "cd ~/src/steady-agent && make",
        "ls ~/.config",
        "grep -r x .",
        "ls [a-z]*/x",
        "rm .x*",
    ],
)
def test_other_commands_are_not(home: Path, command: str) -> None:
    assert not _touched(home, "bash", command=command)


def test_other_files_are_not(home: Path) -> None:
    assert not _touched(home, "write", path="steady-agent.toml", content="")
    assert not _touched(home, "write", path="~/.config/other", content="")


@pytest.mark.parametrize(
    ("command", "cwd"),
    [
        ("tee approvals.toml < /tmp/x", ".config/steady-agent"),
        ("touch new", "link"),
        ("cp -r /tmp/x/. steady-agent", ".config"),
        ("rm -r Steady-Agent", ".config"),
        ("cp -r /tmp/x/. ~/.config", "project"),
        ("cp -r /tmp/x/. ~/.config/", "project"),
        ("cd ~/.config && cp -r /tmp/x/. steady-agent", "project"),
    ],
)
def test_a_command_that_reaches_the_folder_from_another_one_is_found(
    home: Path, command: str, cwd: str
) -> None:
    (home / "link").symlink_to(home / ".config" / "steady-agent")
    assert _touched(home, "bash", command=command, cwd=str(home / cwd))


@pytest.mark.parametrize(
    ("command", "cwd"),
    [
        ("ls", ".config"),
        ("ls ~/.config/other", "project"),
        ("ls ~", "project"),
        ("make steady-agents", ".config"),
    ],
)
def test_a_command_beside_the_folder_is_not_found(home: Path, command: str, cwd: str) -> None:
    assert not _touched(home, "bash", command=command, cwd=str(home / cwd))
