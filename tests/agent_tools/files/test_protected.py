"""Confined tools do not change the files that programs outside a sandbox obey."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import agent_tools
from agent_tools.files.atomic_write import atomic_write, make_parents
from agent_tools.files.filesystem import ConfinedFilesystem, ProtectedPath
from agent_tools.tool import Result

posix_only = pytest.mark.skipif(os.name == "nt", reason="links need a right of their own on Windows")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "folder").mkdir(parents=True)
    return root


def call(root: Path, tool: str, path: str, **options: Any) -> Result:
    tools = {tool.name: tool for tool in agent_tools.all_tools(root, confine=True, **options)}
    arguments = {"write": {"content": "changed"}, "edit": {"oldText": "SECRET", "newText": "changed"}}
    return tools[tool].execute({"path": path, **arguments[tool]})


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@posix_only
@pytest.mark.parametrize("tool", ["write", "edit"])
@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        ".git/hooks/post-checkout",
        ".git/info/exclude",
        ".GIT/Config",
        ".git/modules/sub/config",
        "folder/.git/config",
        "folder/../.git/config",
        "link/config",
        "to-config",
        ".g\u200cit/config",
        ".steady-agent.toml",
        "folder/.steady-agent.toml",
        ".envrc",
        ".vscode/tasks.json",
        ".idea/workspace.xml",
        "@.vscode/tasks.json",
    ],
)
def test_files_that_programs_outside_obey_are_not_changed(path: str, tool: str, root: Path) -> None:
    """FT-M8"""
    (root / ".git").mkdir()
    (root / "link").symlink_to(".git")
    (root / "to-config").symlink_to(".git/config")
    if tool == "edit":
        (root / path.removeprefix("@")).parent.mkdir(parents=True, exist_ok=True)
        (root / path.removeprefix("@")).write_text("SECRET")
    before = contents(root)

    result = call(root, tool, path)

    assert result.is_error
    assert "programs outside the sandbox obey it" in result.text
    assert contents(root) == before


@posix_only
def test_a_new_git_file_is_refused(root: Path) -> None:
    assert call(root, "write", ".git").is_error
    assert call(root, "write", ".git/config").is_error
    assert not (root / ".git").exists()


def test_protected_files_are_refused_on_systems_without_dir_fd(root: Path) -> None:
    filesystem = ConfinedFilesystem(root, protect=[".git/config"], can_walk=False)
    (root / ".git").mkdir()

    with pytest.raises(ProtectedPath):
        atomic_write(str(root / ".git/config"), b"x", filesystem)
    with pytest.raises(ProtectedPath):
        make_parents(str(root / "new/.git/config"), filesystem)


@posix_only
@pytest.mark.parametrize(
    "path", [".gitignore", ".github/hooks", "git/config", ".git/COMMIT_EDITMSG", "config"]
)
def test_other_files_are_changed(path: str, root: Path) -> None:
    assert not call(root, "write", path).is_error


@posix_only
def test_the_protection_can_be_turned_off_and_holds_only_when_confined(root: Path) -> None:
    assert not call(root, "write", ".git/config", protect=()).is_error
    assert not agent_tools.write_tool(root)(path=".envrc", content="x").is_error
