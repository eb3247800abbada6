"""The lock of a file: one for all paths of it, for threads and for programs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agent_tools import edit_tool
from agent_tools.files import file_lock
from agent_tools.files.file_lock import lock_for
from agent_tools.tool import ToolFailure


def test_one_lock_serves_all_paths_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "real").touch()
    (tmp_path / "link").symlink_to("real")
    stop = threading.Event()
    stop.set()
    with lock_for(str(tmp_path / "real")):
        for path in ("link", "sub/../real", "./real", "REAL"):
            with (
                pytest.raises(ToolFailure, match="aborted while waiting"),
                lock_for(f"{tmp_path}/{path}", stop),
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


_EDITS = """
import sys
from agent_tools import edit_tool
edit = edit_tool(sys.argv[1])
letter = sys.argv[2]
for number in range(100):
    result = edit(path="file", oldText=f"<{letter}{number}>", newText=f"<{letter}{number + 1}>")
    assert not result.is_error, result.text
"""


@pytest.mark.skipif(os.name == "nt", reason="no locks between programs on Windows")
@pytest.mark.parametrize("links", [1, 2])
def test_two_programs_that_edit_one_file_lose_nothing(links: int, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("<a0>\n<b0>\n")
    if links == 2:
        os.link(tmp_path / "file", tmp_path / "other")
    programs = [subprocess.Popen([sys.executable, "-c", _EDITS, str(tmp_path), letter]) for letter in "ab"]

    assert [program.wait(60) for program in programs] == [0, 0]
    assert (tmp_path / "file").read_text() == "<a100>\n<b100>\n"


_HOLDER = """
import fcntl, sys
file = open(sys.argv[1])
fcntl.flock(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.name == "nt", reason="no locks between programs on Windows")
@pytest.mark.parametrize("cancelled", [False, True])
def test_the_lock_of_another_program_is_not_waited_for_without_end(
    cancelled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    monkeypatch.setattr(file_lock, "_OTHER_PROGRAM_SECONDS", 60 if cancelled else 0.05)
    stop = threading.Event()
    if cancelled:
        stop.set()
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(ToolFailure, match="aborted" if cancelled else "locked by another program"):
            with lock_for(str(path), stop):
                pass
    finally:
        holder.communicate()


def test_a_change_by_a_program_without_locks_is_edited_again(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("one\n")
    changes = iter([b"one\ntwo\n", b"one\ntwo\nthree\n"])

    class Journal:
        """Called after the file was read and before it is written."""

        def before_change(self, changed: str) -> None:
            for content in changes:
                Path(changed).write_bytes(content)
                break

    class Call:
        cancel = threading.Event()
        journal = Journal()

    result = edit_tool(tmp_path).execute({"path": "file", "oldText": "one", "newText": "1"}, Call())

    assert not result.is_error
    assert path.read_text() == "1\ntwo\nthree\n"
