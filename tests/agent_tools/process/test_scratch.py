"""Temporary folders: private, deleted with the process, and those of dead processes by the next one."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_tools.process import scratch


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    scratch.delete_all()
    yield tmp_path
    scratch.delete_all()


def program(temporary: Path, ending: str) -> Path:
    """The folder of a program that has ended in the given way."""
    code = (
        "import os, signal\nfrom agent_tools.process.scratch import *\nprint(make_folder(''), flush=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code + ending],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        text=True,
    )
    return Path(done.stdout.strip())


def test_a_folder_is_private_and_in_the_folder_for_temporary_files(temporary: Path) -> None:
    folder = Path(scratch.make_folder("x"))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert folder.parents[1] == temporary
    scratch.delete_folder(str(folder))
    assert not folder.exists()


@pytest.mark.parametrize("ending", ["", "delete_all(); os._exit(1)", "raise SystemExit(3)"])
def test_nothing_is_left_of_a_program_that_ended(temporary: Path, ending: str) -> None:
    assert not program(temporary, ending).exists()
    assert list(temporary.iterdir()) == []


def test_the_folder_of_a_killed_program_is_deleted_by_the_next(temporary: Path) -> None:
    """FT-M9"""
    left = program(temporary, "os.kill(os.getpid(), signal.SIGKILL)")
    assert left.is_dir()
    scratch.make_folder("y")
    assert not left.exists()


def test_the_folder_of_a_living_program_stays(temporary: Path) -> None:
    folder = scratch.make_folder("x")
    program(temporary, "")
    assert os.path.isdir(folder)


def test_a_forked_child_deletes_nothing_of_its_parent(temporary: Path) -> None:
    folder = scratch.make_folder("x")
    pid = os.fork()
    if not pid:
        scratch.delete_folder(folder)
        scratch.delete_all()
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.path.isdir(folder)
    assert not program(temporary, "").exists()
    assert os.path.isdir(folder)


def test_folders_of_others_are_not_touched(temporary: Path) -> None:
    (temporary / "agent-tools-file").write_text("x")
    (temporary / "agent-tools-link").symlink_to(temporary.parent)
    (temporary / "other").mkdir()
    scratch.make_folder("x")
    assert {"agent-tools-file", "agent-tools-link", "other"} <= set(os.listdir(temporary))


def test_a_base_folder_that_was_deleted_is_made_again(temporary: Path) -> None:
    first = Path(scratch.make_folder("x"))
    scratch.delete_tree(str(first.parent))
    assert os.path.isdir(scratch.make_folder("x"))


def test_a_tree_deeper_than_the_recursion_limit_is_deleted(tmp_path: Path) -> None:
    """FT-M9: 1500 folders are more than Python recurses and a path may be long."""
    top = tmp_path / "top"
    top.mkdir()
    descriptor = os.open(top, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("a" * 20, dir_fd=descriptor)
        inner = os.open("a" * 20, os.O_RDONLY, dir_fd=descriptor)
        os.close(os.open("file", os.O_CREAT, dir_fd=inner))
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)
    scratch.delete_tree(str(top))
    assert not top.exists()


def test_links_are_deleted_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").write_text("x")
    (tmp_path / "top/inner").mkdir(parents=True)
    for folder in (tmp_path / "top", tmp_path / "top/inner"):
        (folder / "to-folder").symlink_to(tmp_path / "kept")
        (folder / "to-file").symlink_to(tmp_path / "kept/file")
        (folder / "to-nothing").symlink_to("nowhere")
    scratch.delete_tree(str(tmp_path / "top"))
    assert not (tmp_path / "top").exists()
    assert (tmp_path / "kept/file").read_text() == "x"


def test_folders_without_permissions_are_deleted(tmp_path: Path) -> None:
    (tmp_path / "top/closed/inner/closed").mkdir(parents=True)
    for folder in ("top/closed/inner/closed", "top/closed/inner", "top/closed"):
        (tmp_path / folder).chmod(0)
    scratch.delete_tree(str(tmp_path / "top"))
    assert not (tmp_path / "top").exists()


@pytest.mark.parametrize("name", ["nowhere", "file", "link"])
def test_what_is_not_a_folder_is_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(".")
    scratch.delete_tree(str(tmp_path / name))
    assert sorted(os.listdir(tmp_path)) == ["file", "link"]
