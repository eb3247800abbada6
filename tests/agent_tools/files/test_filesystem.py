"""Tools confined to a root: what they refuse, what stays usable, and races that must not let them out."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import agent_tools
import agent_tools.files.atomic_write as atomic_write_module
from agent_tools import ToolFailure
from agent_tools.files.atomic_write import atomic_write, make_parents, read_regular
from agent_tools.files.filesystem import ConfinedFilesystem, DirFd, OutsideRoot

SECRET = "SECRET of another user\n"

posix_only = pytest.mark.skipif(os.name == "nt", reason="links need a right of their own on Windows")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root, and beside it a folder with a secret."""
    (tmp_path / "outside/sub").mkdir(parents=True)
    for name in ("secret.txt", "sub/secret.txt", "inner.txt"):
        (tmp_path / "outside" / name).write_text(SECRET)
    image = io.BytesIO()
    Image.new("RGB", (40, 30), "navy").save(image, "PNG")
    (tmp_path / "outside/a.png").write_bytes(image.getvalue())
    root = tmp_path / "root"
    (root / "folder").mkdir(parents=True)
    (root / "folder/inner.txt").write_text("inside\n")
    (root / "a.png").write_bytes(image.getvalue())
    return root


def confined(root: Path, **options: Any) -> dict[str, Any]:
    return {tool.name: tool for tool in agent_tools.all_tools(root, confine=True, **options)}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# Each call with the path of a secret file, or of the folder it is in.
CALLS: dict[str, Callable[[Any, str], Any]] = {
    "read": lambda tool, path: tool(path=path),
    "write": lambda tool, path: tool(path=path, content="changed\n"),
    "edit": lambda tool, path: tool(path=path, oldText="SECRET", newText="changed"),
    "editdiff": lambda tool, path: tool(path=path, oldText="SECRET", newText="changed"),
    "grep": lambda tool, path: tool(pattern="SECRET", path=path),
    "find": lambda tool, path: tool(pattern="*", path=os.path.dirname(path)),
    "ls": lambda tool, path: tool(path=os.path.dirname(path)),
    "imageresize": lambda tool, path: tool(path=os.path.join(os.path.dirname(path), "a.png")),
}
PATH_FORMS = {
    "absolute": lambda root: str(root.parent / "outside/secret.txt"),
    "dots": lambda root: "../outside/secret.txt",
    "absolute with dots": lambda root: f"{root}/../outside/secret.txt",
    "dots below a folder that does not exist": lambda root: f"{root}/new/../../outside/secret.txt",
    "dots below a file": lambda root: f"{root}/folder/inner.txt/../../../outside/secret.txt",
    "a marked path": lambda root: f"@{root.parent}/outside/secret.txt",
    "a linked folder": lambda root: "out/secret.txt",
    "a relative link": lambda root: "relative/secret.txt",
    "links over links": lambda root: "folder/again/secret.txt",
    "home": lambda root: "~/secret.txt",
}


@posix_only
@pytest.mark.parametrize("form", PATH_FORMS)
@pytest.mark.parametrize("name", CALLS)
def test_what_is_outside_is_refused(
    root: Path, name: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = root.parent / "outside"
    monkeypatch.setenv("HOME", str(outside))
    (root / "out").symlink_to(outside)
    (root / "relative").symlink_to("../outside")
    (root / "folder/again").symlink_to("../out/../out")
    before = contents(outside)
    result = CALLS[name](confined(root)[name], PATH_FORMS[form](root))
    assert result.is_error
    assert f"outside the root {root}" in result.text
    assert "Only files and folders below that root can be used" in result.text
    assert "SECRET" not in result.text
    assert contents(outside) == before


@posix_only
@pytest.mark.parametrize("name", ["read", "write", "edit", "editdiff", "grep", "imageresize"])
def test_a_link_to_a_file_outside_is_refused(root: Path, name: str) -> None:
    outside = root.parent / "outside"
    (root / "secret.txt").symlink_to("../outside/secret.txt")
    (root / "a.png").unlink()
    (root / "a.png").symlink_to(outside / "a.png")
    before = contents(outside)
    result = CALLS[name](confined(root)[name], "secret.txt" if name != "imageresize" else "./a.png")
    assert result.is_error
    assert "outside the root" in result.text
    assert contents(outside) == before


@posix_only
def test_no_file_is_made_through_a_dangling_link(root: Path) -> None:
    (root / "new").symlink_to("../outside/new.txt")
    (root / "deep").symlink_to(root.parent / "outside/made/new.txt")
    for name in ("new", "deep", "new/below.txt"):
        result = confined(root)["write"](path=name, content="x")
        assert result.is_error
        assert "outside the root" in result.text
    assert not (root.parent / "outside/new.txt").exists()
    assert not (root.parent / "outside/made").exists()


@posix_only
def test_an_image_is_not_written_outside(root: Path) -> None:
    (root / "out").symlink_to("../outside")
    for output in ("out/b.png", "../b.png", str(root.parent / "outside/made/b.png")):
        result = confined(root)["imageresize"](path="a.png", output=output, maxWidth=10)
        assert result.is_error
        assert "outside the root" in result.text
    assert not (root.parent / "b.png").exists()
    assert not (root.parent / "outside/made").exists()
    assert not confined(root)["imageresize"](path="a.png", output="new/b.png", maxWidth=10).is_error
    assert (root / "new/b.png").exists()


def test_no_name_outside_is_shown(root: Path) -> None:
    tools = confined(root)
    there = tools["read"](path="../outside/secret.txt").text
    for absent in ("../outside/secret2.txt", "../outside/none/secret.txt"):
        text = tools["read"](path=absent).text
        assert text == there.replace("secret.txt", absent.removeprefix("../outside/"))
    assert "Did you mean" not in tools["read"](path="../outside/secre.txt").text


@posix_only
def test_links_that_stay_inside_work(root: Path) -> None:
    (root / "absolute").symlink_to(root / "folder")
    (root / "relative").symlink_to("folder/../folder")
    (root / "folder/up").symlink_to("../absolute/inner.txt")
    (root / "new.txt").symlink_to("made/by/link.txt")
    tools = confined(root)
    for path in ("absolute/inner.txt", "relative/inner.txt", "folder/up", f"{root}/absolute/../folder/up"):
        assert tools["read"](path=path).text == "inside\n", path
    assert not tools["edit"](path="folder/up", oldText="inside", newText="edited").is_error
    assert (root / "folder/up").is_symlink()
    assert (root / "folder/inner.txt").read_text() == "edited\n"
    assert not tools["write"](path="new.txt", content="x").is_error
    assert (root / "made/by/link.txt").read_text() == "x"
    assert tools["grep"](pattern="edited", path="absolute").text == "inner.txt:1: edited"
    assert tools["find"](pattern="*.txt", path="relative").text == "inner.txt"
    assert "inner.txt" in tools["ls"](path="absolute").text


@posix_only
def test_the_root_may_be_reached_through_a_link(root: Path) -> None:
    (root.parent / "link").symlink_to(root)
    tools = confined(root.parent / "link")
    for folder in (root, root.parent / "link", root / "../link"):
        assert tools["read"](path=f"{folder}/folder/inner.txt").text == "inside\n"
    other = confined(root)
    assert other["read"](path=str(root.parent / "link/folder/inner.txt")).text == "inside\n"


@posix_only
def test_ls_shows_a_link_outward_without_telling_where_it_leads(root: Path) -> None:
    (root / "to_folder").symlink_to("../outside")
    (root / "to_nothing").symlink_to("../outside/none")
    (root / "to_inside").symlink_to("folder")
    (root / "dangling").symlink_to("none")
    assert confined(root)["ls"]().text.split("\n") == [
        "a.png",
        "folder/",
        "to_folder",
        "to_inside/",
        "to_nothing",
    ]


@posix_only
def test_find_and_grep_do_not_follow_links_outward(root: Path) -> None:
    (root / "out").symlink_to("../outside")
    (root / "secret.txt").symlink_to("../outside/secret.txt")
    tools = confined(root)
    assert tools["grep"](pattern="SECRET").text.startswith("No matches found")
    assert tools["find"](pattern="secret*").text == "secret.txt"


def test_rules_of_a_gitignore_above_the_root_are_not_read(root: Path) -> None:
    (root.parent / ".git").mkdir()
    (root.parent / ".gitignore").write_text("*.txt\n")
    assert "No files" in agent_tools.find_tool(root)(pattern="inner.txt").text
    assert confined(root)["find"](pattern="inner.txt").text == "folder/inner.txt"
    (root / ".gitignore").write_text("*.txt\n")
    assert "No files" in confined(root)["find"](pattern="inner.txt").text


@posix_only
def test_a_gitignore_that_leads_outward_is_not_read(root: Path) -> None:
    (root.parent / "outside/rules").write_text("inner.txt\n")
    (root / ".gitignore").symlink_to("../outside/rules")
    assert confined(root)["find"](pattern="inner.txt").text == "folder/inner.txt"


def test_another_case_is_another_file_or_the_same_but_never_a_way_out(root: Path) -> None:
    same = os.path.exists(str(root).upper())
    result = confined(root)["read"](path=f"{root.parent}/ROOT/folder/inner.txt")
    assert result.text == "inside\n" if same else "outside the root" in result.text


def test_a_folder_with_the_root_as_the_start_of_its_name_is_outside(root: Path) -> None:
    (root.parent / "root2").mkdir()
    (root.parent / "root2/a.txt").write_text(SECRET)
    assert confined(root)["read"](path=f"{root}2/a.txt").is_error


def test_a_callers_own_reader_and_writer_get_no_path_outside(root: Path) -> None:
    got: list[str] = []

    def reader(context: Any, path: str) -> str:
        got.append(path)
        return SECRET

    tools = confined(root, reader=reader, writer=lambda context, path, text: got.append(path))
    for path in ("../outside/secret.txt", f"{root}/none/../../outside/secret.txt", "/etc/passwd"):
        for name in ("read", "edit", "editdiff", "write"):
            assert CALLS[name](tools[name], path).is_error
    assert got == []
    assert not tools["write"](path="folder/new.txt", content="x").is_error
    assert got == [str(root / "folder/new.txt")]


def test_the_root_stays_where_it_was_when_the_program_changes_directory(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    tools = {tool.name: tool for tool in agent_tools.read_only_tools(".", confine=True)}
    monkeypatch.chdir(root.parent / "outside")
    assert tools["read"](path="folder/inner.txt").text == "inside\n"
    assert tools["read"](path="secret.txt").is_error


@posix_only
def test_ordinary_failures_keep_their_words(root: Path) -> None:
    (root / "loop").symlink_to("loop")
    os.mkfifo(root / "pipe")
    tools = confined(root)
    assert "Did you mean" in tools["read"](path="folder/inne.txt").text
    assert "File not found" in tools["read"](path="none/inner.txt").text
    assert "Too many levels" in tools["read"](path="loop").text
    assert "is a directory" in tools["read"](path="folder").text
    assert "named pipe" in tools["read"](path="pipe").text
    assert "is not a directory" in tools["write"](path="a.png/x", content="").text
    assert "too long" in tools["read"](path="x" * 5000).text
    assert tools["read"](path="a/" * 3000 + "x").is_error


@posix_only
def test_a_confined_write_keeps_what_a_write_keeps(root: Path) -> None:
    file = root / "run.sh"
    file.write_text("old")
    file.chmod(0o751)
    with contextlib.suppress(OSError, AttributeError):
        os.setxattr(file, "user.note", b"kept")
    assert not confined(root)["write"](path="run.sh", content="new").is_error
    assert file.read_text() == "new"
    assert file.stat().st_mode & 0o7777 == 0o751
    if hasattr(os, "listxattr") and "user.note" in os.listxattr(file):
        assert os.getxattr(file, "user.note") == b"kept"
    os.link(file, root / "second")
    assert not confined(root)["write"](path="run.sh", content="both").is_error
    assert (root / "second").read_text() == "both"
    assert not [path for path in root.iterdir() if path.suffix == ".tmp"]


@posix_only
def test_walking_leaves_no_descriptor_open(root: Path) -> None:
    (root / "out").symlink_to("../outside")
    (root / "in").symlink_to("folder/../folder")
    tools = confined(root)

    def every_call() -> None:
        for path in ("in/inner.txt", "out/secret.txt", "none/x/y", "loop", "a.png/x"):
            for name, call in CALLS.items():
                call(tools[name], path)

    every_call()
    if not os.path.isdir("/dev/fd"):
        pytest.skip("descriptors cannot be counted here")
    before = len(os.listdir("/dev/fd"))
    every_call()
    assert len(os.listdir("/dev/fd")) == before


@posix_only
def test_without_descriptors_of_folders_links_are_still_refused(root: Path) -> None:
    """The weaker way, of systems that open nothing relative to a folder."""
    filesystem = ConfinedFilesystem(root, can_walk=False)
    (root / "out").symlink_to("../outside")
    (root / "in").symlink_to("folder")
    assert read_regular(str(root / "in/inner.txt"), filesystem) == b"inside\n"
    atomic_write(str(root / "in/inner.txt"), b"new", filesystem)
    make_parents(str(root / "in/made/x"), filesystem)
    assert (root / "folder/made").is_dir()
    with filesystem.scandir(str(root / "in")) as entries:
        assert {entry.name for entry in entries} == {"inner.txt", "made"}
    assert filesystem.lexists(str(root / "out"))
    assert not filesystem.exists(str(root / "out"))
    for use in (filesystem.check, filesystem.stat, lambda path: read_regular(path, filesystem)):
        with pytest.raises(OutsideRoot):
            use(str(root / "out/secret.txt"))
    with pytest.raises(ToolFailure, match="outside the root"):
        make_parents(str(root / "out/made/x"), filesystem)


# Races. Another process swaps `root/folder`, or a file in it, for a link outward and back without pause.

_SWAPPER = """
import ctypes, os, sys, itertools
path, outward, spare = map(os.fsencode, sys.argv[1:])
rename = getattr(ctypes.CDLL(None), "renameat2", None)

def exchange():
    # In one step where the system can; else the folder is missing for a moment.
    if rename is None or rename(-100, path, -100, spare, 2):
        os.rename(path, spare + b"2")
        os.rename(spare, path)
        os.rename(spare + b"2", spare)

def replace():
    os.symlink(outward, spare)
    os.replace(spare, path)
    with open(spare, "wb") as file:
        file.write(text)
    os.replace(spare, path)

if os.path.isdir(path):
    os.symlink(outward, spare)
    swap = exchange
else:
    text, swap = open(path, "rb").read(), replace
for turn in itertools.count():
    swap()
    if turn == 100:
        print("swapping", flush=True)
"""


@contextlib.contextmanager
def swapping(path: Path, outward: Path, spare: Path) -> Iterator[None]:
    command = [sys.executable, "-c", _SWAPPER, str(path), str(outward), str(spare)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as swapper:
        try:
            assert swapper.stdout
            assert swapper.stdout.readline() == b"swapping\n"
            yield
            assert swapper.poll() is None
        finally:
            swapper.kill()


TRIES = 2500
SECONDS = 4.0  # a bound for a slow machine; the tries take about one


def race(root: Path, swapped: str, call: Callable[[], Any]) -> None:
    """Call again and again in a race: nothing of outside is read or changed, and some calls succeed."""
    outside = root.parent / "outside"
    before = contents(outside)
    path = root / swapped
    outward = outside / path.name if path.is_file() else outside
    succeeded = failed = 0
    deadline = time.monotonic() + SECONDS
    with swapping(path, outward, root / "spare"):
        while succeeded + failed < TRIES and time.monotonic() < deadline:
            result = call()
            assert "SECRET" not in result.text, "an escape"
            succeeded += not result.is_error
            failed += result.is_error
    assert contents(outside) == before, "an escape"
    assert succeeded


@posix_only
@pytest.mark.parametrize("swapped", ["folder", "folder/inner.txt"])
@pytest.mark.parametrize("name", ["read", "write", "edit", "grep"])
def test_no_race_lets_a_file_tool_out(root: Path, name: str, swapped: str) -> None:
    tool = confined(root)[name]
    turn = itertools.count()
    calls = {
        "read": lambda: tool(path="folder/inner.txt"),
        "write": lambda: tool(path="folder/inner.txt", content=f"inside {next(turn)}\n"),
        "edit": lambda: tool(path="folder/inner.txt", oldText="inside", newText="inside."),
        "grep": lambda: tool(pattern="SECRET|inside", path="folder"),
    }
    race(root, swapped, calls[name])


@posix_only
@pytest.mark.parametrize("name", ["write", "ls", "find", "imageresize"])
def test_no_race_makes_or_shows_anything_outside(root: Path, name: str) -> None:
    (root.parent / "outside/SECRET").mkdir()
    tool = confined(root)[name]
    calls = {
        "write": lambda: tool(path="folder/made/here/new.txt", content="x"),
        "ls": lambda: tool(path="folder"),
        "find": lambda: tool(pattern="*", path="folder"),
        "imageresize": lambda: tool(path="a.png", output="folder/b.png", maxWidth=10),
    }
    race(root, "folder", calls[name])
    assert not (root.parent / "outside/made").exists()


@posix_only
@pytest.mark.parametrize("tool", ["read", "grep", "ls", "write"])
def test_the_answer_does_not_tell_what_exists_outside(tool: str, root: Path) -> None:
    """FT-M12"""
    outside, missing = (
        f"{root.parent}/{name}/../{root.name}/folder/inner.txt" for name in ("outside", "missing")
    )

    answers = [CALLS[tool](confined(root)[tool], path).text for path in (outside, missing)]

    assert answers[0].replace("outside", "missing") == answers[1]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is of Linux")
@pytest.mark.parametrize("name", ["environ", "cmdline", "mem", "task/{pid}/environ"])
@pytest.mark.parametrize("by_link", [False, True])
@pytest.mark.parametrize("tool", ["read", "grep", "edit"])
def test_the_memory_of_a_process_is_not_shown(tool: str, by_link: bool, name: str, tmp_path: Path) -> None:
    """FT-S9"""
    path = f"/proc/self/{name.format(pid=os.getpid())}"
    if by_link:
        (tmp_path / "AGENTS.md").symlink_to(path)
    tools = {tool.name: tool for tool in agent_tools.all_tools(tmp_path)}
    arguments = {"path": "AGENTS.md" if by_link else path}
    arguments |= {"read": {}, "grep": {"pattern": "."}, "edit": {"oldText": "=", "newText": ":"}}[tool]

    result = tools[tool].execute(arguments)

    assert result.is_error
    assert "not opened" in result.text or "cannot read" in result.text


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is of Linux")
def test_a_search_of_proc_does_not_show_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_tools.search.engine._RIPGREP_FROM_FILES", 0)
    grep = agent_tools.grep_tool()

    result = grep(pattern="PATH=", path=f"/proc/{os.getpid()}", glob="environ")

    assert "binary file matches" not in result.text
    assert "PATH=" not in result.text.replace("'PATH='", "")


@posix_only
def test_a_pipe_in_the_place_of_a_file_does_not_hold_a_confined_write(root: Path) -> None:
    """FT-M12"""
    os.mkfifo(root / "pipe")

    folder = os.open(root, os.O_RDONLY)
    try:
        assert atomic_write_module._attributes(DirFd(folder, "pipe")) == []
    finally:
        os.close(folder)
