"""Changes to files: whole or not at all, and nothing but the content altered."""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any, BinaryIO

import pytest

import agent_tools.files.atomic_write as atomic_write_module
from agent_tools.files.atomic_write import FileChanged, atomic_write, content_hash, open_regular, read_regular
from agent_tools.files.filesystem import DirFd
from agent_tools.tool import ToolFailure

ROOT = Path(__file__).resolve().parents[3]
not_root = pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything")


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(("data", "name"), [(b"", "e3b0c44298fc1c14"), (b"a\nb\n", "911169ddaaf146af")])
def test_a_content_has_one_name(data: bytes, name: str) -> None:
    assert content_hash(data) == name


def test_a_new_file_gets_the_mode_that_the_umask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        atomic_write(str(tmp_path / "x"), b"a")
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "x") == 0o640


@pytest.mark.parametrize("mode", [0o755, 0o600, 0o444 | 0o200, 0o4755])
def test_an_existing_file_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    path.chmod(mode)
    atomic_write(str(path), b"new")
    assert (path.read_bytes(), mode_of(path)) == (b"new", mode)


def test_no_temporary_file_stays_behind(tmp_path: Path) -> None:
    atomic_write(str(tmp_path / "x"), b"a")
    atomic_write(str(tmp_path / "x"), b"b")
    assert os.listdir(tmp_path) == ["x"]


def test_a_name_as_long_as_the_system_allows_can_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    atomic_write(str(path), b"a")
    atomic_write(str(path), b"b")
    assert path.read_bytes() == b"b"


def test_all_hard_links_show_the_new_content(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"a long old content")
    os.link(tmp_path / "one", tmp_path / "two")
    atomic_write(str(tmp_path / "one"), b"new")
    assert (tmp_path / "two").read_bytes() == b"new"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_an_existing_file_keeps_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    os.chown(path, 12345, 23456)
    atomic_write(str(path), b"new")
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 23456)


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="no extended attributes here")
def test_an_existing_file_keeps_its_extended_attributes(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    try:
        os.setxattr(path, "user.note", b"kept")
    except OSError:
        pytest.skip("this file system has no user attributes")
    atomic_write(str(path), b"new")
    assert os.getxattr(path, "user.note") == b"kept"


FULL_DISK = """
import resource, sys
from agent_tools.files.atomic_write import atomic_write
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    atomic_write(sys.argv[1], b"n" * 5000)
except OSError as error:
    print("failed:", error.strerror)
"""


@pytest.mark.parametrize("links", [1, 2])
def test_a_write_that_fails_half_way_leaves_the_old_content(tmp_path: Path, links: int) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old" * 100)
    if links == 2:
        os.link(path, tmp_path / "y")
    names = sorted(os.listdir(tmp_path))
    command = [sys.executable, "-c", FULL_DISK, str(path)]
    child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert child.stdout.startswith("failed: ")
    assert path.read_bytes() == b"old" * 100
    assert sorted(os.listdir(tmp_path)) == names


def test_a_link_that_leads_in_a_circle_is_an_error_and_stays(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links") as caught:
        atomic_write(str(tmp_path / "a"), b"x")
    assert caught.value.errno == errno.ELOOP
    assert (tmp_path / "a").is_symlink()


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        atomic_write(str(tmp_path / "no" / "x"), b"a")


@not_root
def test_a_file_protected_by_its_owner_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    path.chmod(0o444)
    with pytest.raises(PermissionError):
        atomic_write(str(path), b"new")
    assert path.read_bytes() == b"old"


@not_root
def test_a_file_in_a_folder_that_takes_no_new_ones_is_rewritten_in_place(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"a long old content")
    tmp_path.chmod(0o555)
    try:
        atomic_write(str(path), b"new")
    finally:
        tmp_path.chmod(0o755)
    assert path.read_bytes() == b"new"


def test_what_is_no_regular_file_is_named_and_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.open(".", os.O_RDONLY)
        os.chdir(tmp_path)  # the path of a socket must be short
        try:
            listener.bind("socket")
        finally:
            os.fchdir(here)
            os.close(here)
        kinds = {"pipe": "FIFO", "socket": "socket", ".": "directory"}
        for name, kind in kinds.items():
            with pytest.raises(ToolFailure, match=kind):
                open_regular(str(tmp_path / name))
            with pytest.raises(ToolFailure, match=kind):
                atomic_write(str(tmp_path / name), b"x")
    with pytest.raises(ToolFailure, match="character device"):
        read_regular("/dev/zero")


class Killed(BaseException):
    """Stands for a kill in the middle of a write."""


def _killed_after(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the write in place stop after some bytes, with no chance to repair anything."""

    def fill(file: BinaryIO, data: bytes) -> None:
        file.seek(0)
        file.write(data[:count])
        raise Killed

    monkeypatch.setattr(atomic_write_module, "_fill", fill)


def test_a_file_with_several_links_keeps_its_old_bytes_beside_it_until_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old content")
    os.link(path, tmp_path / "other")
    with monkeypatch.context() as patched:
        _killed_after(3, patched)
        with pytest.raises(Killed):
            atomic_write(str(path), b"NEW CONTENT")

    (backup,) = tmp_path.glob(".*.old")
    assert (path.read_bytes(), backup.read_bytes()) == (b"NEW content", b"old content")

    atomic_write(str(path), b"whole")
    assert (path.read_bytes(), (tmp_path / "other").read_bytes()) == (b"whole", b"whole")
    assert not list(tmp_path.glob(".*"))


def test_the_old_bytes_of_the_first_killed_write_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old content")
    os.link(path, tmp_path / "other")
    _killed_after(3, monkeypatch)
    for _ in range(2):
        with pytest.raises(Killed):
            atomic_write(str(path), b"NEW CONTENT")

    assert [backup.read_bytes() for backup in tmp_path.glob(".*.old")] == [b"old content"]


def test_the_temporary_file_of_a_killed_write_is_removed_by_a_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def killed(*_args: object, **_options: object) -> None:
        leftovers = list(tmp_path.glob(".*.tmp"))
        os.utime(leftovers[0], (0, 0))
        os.link(leftovers[0], tmp_path / "leftover")
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", killed)
        with pytest.raises(Killed):
            atomic_write(str(path), b"new")
    # A killed process does not remove its file.
    os.link(tmp_path / "leftover", tmp_path / atomic_write_module._beside(DirFd(None, "file"), ".tmp"))

    atomic_write(str(path), b"new")

    assert path.read_bytes() == b"new"
    assert not list(tmp_path.glob(".*.tmp"))


def test_the_temporary_file_of_another_writer_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    other = tmp_path / atomic_write_module._beside(DirFd(None, "file"), ".tmp")
    other.write_bytes(b"being written")

    atomic_write(str(path), b"new")

    assert (path.read_bytes(), other.read_bytes()) == (b"new", b"being written")


def test_a_file_that_another_program_changed_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    seen = os.stat(path)
    path.write_bytes(b"changed by another program")

    with pytest.raises(FileChanged, match="another program changed"):
        atomic_write(str(path), b"new", expected=seen)

    assert path.read_bytes() == b"changed by another program"
    assert os.listdir(tmp_path) == ["file"]


def test_a_file_that_is_changed_while_it_is_written_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    seen = os.stat(path)
    copy = atomic_write_module._copy_metadata

    def changing(*arguments: Any) -> None:
        copy(*arguments)
        path.write_bytes(b"changed meanwhile")

    monkeypatch.setattr(atomic_write_module, "_copy_metadata", changing)
    with pytest.raises(FileChanged):
        atomic_write(str(path), b"new", expected=seen)

    assert path.read_bytes() == b"changed meanwhile"


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="access lists are extended attributes on Linux only")
def test_a_file_without_an_access_list_does_not_get_that_of_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o600)
    # user::rw-, user:33:rw-, group::---, mask::rw-, other::---
    entries = [(1, 6, 0xFFFFFFFF), (2, 6, 33), (4, 0, 0xFFFFFFFF), (16, 6, 0xFFFFFFFF), (32, 0, 0xFFFFFFFF)]
    value = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    try:
        os.setxattr(tmp_path, "system.posix_acl_default", value)
    except OSError:
        pytest.skip("this file system has no access lists")

    atomic_write(str(path), b"new")

    assert "system.posix_acl_access" not in os.listxattr(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
