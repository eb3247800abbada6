"""write: exactly these bytes, all at once, and nothing else about the file changed."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from agent_tools.files.atomic_write import content_hash
from agent_tools.read import read_tool
from agent_tools.tool import Context
from agent_tools.write import write_tool


@pytest.fixture
def write(tmp_path: Path) -> Any:
    return write_tool(tmp_path)


class Journal:
    """Remembers what each file held when it was announced."""

    def __init__(self) -> None:
        self.before: list[tuple[str, bytes | None]] = []

    def before_change(self, path: str) -> None:
        self.before.append((path, Path(path).read_bytes() if os.path.exists(path) else None))


class CancelledFromThe(threading.Event):
    """Is found set from the n-th look on."""

    def __init__(self, look: int) -> None:
        super().__init__()
        self._left = look

    def is_set(self) -> bool:
        self._left -= 1
        return self._left <= 0


@pytest.mark.parametrize("content", ["a", "a\r\nb\rc\n", "", "\ufeffx", "é中\n", "tab\tnul\0"])
def test_the_file_holds_exactly_the_given_content(tmp_path: Path, write: Any, content: str) -> None:
    """W05"""
    for _ in range(2):
        assert not write(path="f", content=content).is_error
        assert (tmp_path / "f").read_bytes() == content.encode()


def test_the_answer_counts_bytes_and_echoes_the_path(write: Any, tmp_path: Path) -> None:
    assert "11 bytes" in write(path="count.txt", content="hello world").text
    assert "count.txt" in write(path="count.txt", content="hello world").text
    assert "2 bytes" in write(path="f", content="é").text
    assert "@foo.txt" in write(path="@foo.txt", content="x").text
    assert (tmp_path / "foo.txt").exists()


def test_the_answer_carries_the_hash_that_read_knows(tmp_path: Path, write: Any) -> None:
    result = write(path="f", content="a\nb\n")
    assert result.meta == {"hash": content_hash(b"a\nb\n")}
    assert result.details == {"hash": content_hash(b"a\nb\n"), "bytes": 4, "created": True}
    assert "unchanged" in read_tool(tmp_path)(path="f", if_hash=result.meta["hash"]).text
    assert write(path="f", content="").details["created"] is False


def test_missing_folders_are_made(tmp_path: Path, write: Any) -> None:
    write(path="a/b/c.txt", content="x")
    assert (tmp_path / "a/b/c.txt").read_text() == "x"


def test_an_absolute_path_ignores_the_working_directory(tmp_path: Path) -> None:
    write_tool("/")(path=str(tmp_path / "f"), content="x")
    assert (tmp_path / "f").read_text() == "x"


@pytest.mark.parametrize("mode", [0o755, 0o600, 0o640])
def test_an_overwritten_file_keeps_its_mode(tmp_path: Path, write: Any, mode: int) -> None:
    """W01"""
    (tmp_path / "f").touch()
    (tmp_path / "f").chmod(mode)
    write(path="f", content="x")
    assert (tmp_path / "f").read_text() == "x"
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == mode


def test_a_private_file_is_private_at_every_instant(tmp_path: Path, write: Any) -> None:
    """W03"""
    private = tmp_path / "f"
    private.touch()
    private.chmod(0o600)
    seen: set[int] = set()
    names: set[str] = set()
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            for entry in os.scandir(tmp_path):
                try:
                    seen.add(stat.S_IMODE(entry.stat().st_mode))
                    names.add(entry.name)
                except FileNotFoundError:
                    pass

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        # Until the watcher has met a temporary file on its way.
        for _ in range(400):
            write(path="f", content="x" * 4_000_000)
            if len(names) > 1:
                break
    finally:
        done.set()
        watcher.join()
    assert len(names) > 1
    assert seen == {0o600}


def test_links_stay_links_and_their_targets_get_the_content(tmp_path: Path, write: Any) -> None:
    """W04"""
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "l").symlink_to("real.txt")
    (tmp_path / "d").symlink_to("missing.txt")
    (tmp_path / "deep").symlink_to("sub/missing.txt")
    for name in ("l", "d", "deep"):
        assert not write(path=name, content="new").is_error
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / name).read_text() == "new"
    assert (tmp_path / "real.txt").read_text() == "new"
    assert (tmp_path / "missing.txt").read_text() == "new"


def test_a_reader_sees_the_old_or_the_new_content_and_nothing_between(tmp_path: Path, write: Any) -> None:
    """W07"""
    contents = ["a" * (8 << 20), "b" * (5 << 20)]
    whole = [content.encode() for content in contents]
    write(path="f", content=contents[0])
    started, done = threading.Event(), threading.Event()
    torn: list[int] = []

    def watch() -> None:
        while not done.is_set():
            data = (tmp_path / "f").read_bytes()
            started.set()
            if data not in whole:
                torn.append(len(data))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        assert started.wait(20)
        for round_ in range(6):
            write(path="f", content=contents[round_ % 2])
    finally:
        done.set()
        watcher.join()
    assert torn == []


def test_a_reader_in_the_middle_of_a_file_reads_on_in_the_old_content(tmp_path: Path, write: Any) -> None:
    """W07"""
    write(path="f", content="old " * 1000)
    with open(tmp_path / "f", "rb", buffering=0) as file:
        start = file.read(100)
        write(path="f", content="new")
        assert start + file.read() == b"old " * 1000
    assert (tmp_path / "f").read_text() == "new"


@pytest.mark.parametrize(
    "arguments", [{"path": "f"}, {"path": "f", "content": {"v": 1}}, {"path": "f", "content": 5}]
)
def test_content_that_is_no_text_is_an_error_and_the_file_stays(
    tmp_path: Path, write: Any, arguments: dict[str, Any]
) -> None:
    """W08"""
    (tmp_path / "f").write_text("precious")
    result = write.execute(arguments)
    assert result.is_error
    assert "content" in result.text
    assert "string" in result.text or "required" in result.text
    assert (tmp_path / "f").read_text() == "precious"


def test_half_a_surrogate_pair_is_an_error_and_the_file_stays(tmp_path: Path, write: Any) -> None:
    (tmp_path / "f").write_text("precious")
    assert "surrogate" in write(path="f", content="\ud83d").text
    assert (tmp_path / "f").read_text() == "precious"


def test_a_missing_path_is_named(write: Any) -> None:
    assert "path is required" in write.execute({"content": "x"}).text
    assert "path is required" in write(path="", content="x").text


def test_a_parent_that_is_a_file_is_an_error(tmp_path: Path, write: Any) -> None:
    (tmp_path / "file").touch()
    for path in ("file/x", "file/a/x"):
        result = write(path=path, content="x")
        assert result.is_error
        assert "cannot create the directory" in result.text
        assert "ot a directory" in result.text


@pytest.mark.parametrize("path", ["sub", "sub/", "new/"])
def test_a_directory_cannot_be_written(tmp_path: Path, write: Any, path: str) -> None:
    (tmp_path / "sub").mkdir()
    result = write(path=path, content="x")
    assert result.is_error
    assert "directory" in result.text
    assert os.listdir(tmp_path) == ["sub"]


@pytest.mark.parametrize("look", [1, 2])
def test_a_cancelled_write_leaves_the_file_as_it_was(tmp_path: Path, write: Any, look: int) -> None:
    (tmp_path / "f").write_text("old")
    context = Context(cancel=CancelledFromThe(look))
    assert "aborted" in write.execute({"path": "f", "content": "new"}, context).text
    assert (tmp_path / "f").read_text() == "old"
    assert os.listdir(tmp_path) == ["f"]


def test_the_journal_records_a_change_before_it_is_made(tmp_path: Path, write: Any) -> None:
    journal = Journal()
    for content in ("one", "two"):
        write.execute({"path": "f", "content": content}, Context(journal=journal))
    assert journal.before == [(str(tmp_path / "f"), None), (str(tmp_path / "f"), b"one")]


def test_a_delegate_gets_the_absolute_path_and_the_content(tmp_path: Path) -> None:
    got: list[tuple[str, str]] = []
    write = write_tool(tmp_path, writer=lambda context, path, content: got.append((path, content)))
    assert "2 bytes" in write(path="new/f", content="é").text
    assert got == [(str(tmp_path / "new/f"), "é")]
    assert os.listdir(tmp_path) == []


def test_the_error_of_a_delegate_is_shown_with_the_path(tmp_path: Path) -> None:
    def writer(context: Any, path: str, content: str) -> None:
        raise RuntimeError("the editor is closed")

    result = write_tool(tmp_path, writer=writer)(path="f", content="x")
    assert result.is_error
    assert f"{tmp_path}/f: the editor is closed" in result.text


def test_a_cancelled_write_does_not_reach_the_delegate(tmp_path: Path) -> None:
    got: list[str] = []
    write = write_tool(tmp_path, writer=lambda context, path, content: got.append(content))
    write.execute({"path": "f", "content": "x"}, Context(cancel=CancelledFromThe(2)))
    assert got == []


@pytest.mark.parametrize("confine", [False, True])
@pytest.mark.parametrize(
    ("on_disk", "asked"),
    [
        ("U\u0308bung.md", "\u00dcbung.md"),
        ("it\u2019s.md", "it's.md"),
        ("Shot 3\u202fAM.md", "Shot 3 AM.md"),
        ("a\u00a0b.md", "a\u00a0b.md"),
    ],
)
def test_the_file_that_read_and_edit_find_is_written(
    on_disk: str, asked: str, confine: bool, tmp_path: Path
) -> None:
    """Z23"""
    (tmp_path / on_disk).write_text("old")

    assert not write_tool(tmp_path, confine=confine)(path=asked, content="new").is_error

    assert [path.name for path in tmp_path.iterdir()] == [on_disk]
    assert (tmp_path / on_disk).read_text() == "new"


def test_a_new_file_goes_into_the_folder_of_decomposed_accents(tmp_path: Path) -> None:
    (tmp_path / "U\u0308bung").mkdir()

    write_tool(tmp_path)(path="\u00dcbung/neu.md", content="new")

    assert (tmp_path / "U\u0308bung" / "neu.md").read_text() == "new"
    assert len(list(tmp_path.iterdir())) == 1


def test_the_details_of_a_replaced_file_have_the_diff(write: Any) -> None:
    """N36"""
    write(path="f", content="one\ntwo\n")
    assert write(path="f", content="one\n2\n").details["diff"].splitlines() == [" 1 one", "-2 two", "+2 2"]
    assert write(path="f", content="one\n2\n").details["diff"] == ""


@pytest.mark.parametrize(
    "old", [None, b"\xff\xfe", b"a\0b", b"x" * 300_000], ids=["new", "no UTF-8", "binary", "large"]
)
def test_what_is_no_short_text_gets_no_diff(tmp_path: Path, write: Any, old: bytes | None) -> None:
    """N36"""
    if old is not None:
        (tmp_path / "f").write_bytes(old)
    result = write(path="f", content="new\n")
    assert not result.is_error
    assert "diff" not in result.details
    assert (tmp_path / "f").read_text() == "new\n"


def test_a_large_new_text_gets_no_diff(write: Any) -> None:
    """N36"""
    write(path="f", content="old\n")
    assert "diff" not in write(path="f", content="x\n" * 200_000).details
