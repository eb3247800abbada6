"""Changes to files: whole or not at all, and nothing but the content altered."""

from __future__ import annotations

import errno
import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agent_tools.files.atomic_write import atomic_write, content_hash, lock_for, open_regular, read_regular
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


def test_one_lock_serves_every_spelling_of_a_path(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "real").touch()
    (tmp_path / "link").symlink_to("real")
    stop = threading.Event()
    stop.set()
    with lock_for(str(tmp_path / "real")):
        for spelling in ("link", "sub/../real", "./real", "REAL"):
            with (
                pytest.raises(ToolFailure, match="aborted while waiting"),
                lock_for(f"{tmp_path}/{spelling}", stop),
            ):
                pass


def test_one_lock_serves_all_hard_links(tmp_path: Path) -> None:
    (tmp_path / "one").touch()
    os.link(tmp_path / "one", tmp_path / "two")
    stop = threading.Event()
    stop.set()
    with lock_for(str(tmp_path / "one")):
        with pytest.raises(ToolFailure, match="aborted"), lock_for(str(tmp_path / "two"), stop):
            pass


def test_a_lock_is_waited_for(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    taken = threading.Event()

    def take() -> None:
        with lock_for(path):
            taken.set()

    waiting = threading.Thread(target=take)
    with lock_for(path):
        waiting.start()
        assert not taken.wait(0.15)
    waiting.join(10)
    assert taken.is_set()


def test_locks_of_different_files_are_independent_and_can_be_taken_again(tmp_path: Path) -> None:
    with lock_for(str(tmp_path / "a")), lock_for(str(tmp_path / "b")):
        pass
    with lock_for(str(tmp_path / "a")):
        pass
