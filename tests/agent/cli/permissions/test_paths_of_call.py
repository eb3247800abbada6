"""The paths that a call is judged on are the paths that its tool touches."""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path

import pytest
from support.rounds import rounds

from agent.cli.permissions.paths_of_call import NO_PATH, paths_of_call
from agent_tools import all_tools
from agent_tools.write import write_tool


def _files(root: Path) -> dict[str, str]:
    """Every regular file below a folder, by resolved path."""
    return {
        os.path.realpath(path): path.read_text("utf-8", "replace")
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


_NAMES = [
    "a.txt",
    "it's.txt",
    "it\u2019s.txt",
    "u\u0308.txt",
    "\u00fc.txt",
    "a b",
    "a\u00a0b",
    "1 PM.png",
    "1\u202fPM.png",
    "@x",
    "x",
]


@pytest.mark.parametrize("seed", range(3))
def test_the_judged_file_is_the_written_file(seed: int) -> None:
    choose = random.Random(seed)
    for _ in range(rounds(60)):
        with tempfile.TemporaryDirectory() as place:
            root = Path(place)
            cwd = root / "project"
            for folder in ("project/src", "outside"):
                (root / folder).mkdir(parents=True)
            for _ in range(choose.randint(0, 6)):
                path = choose.choice((cwd, cwd / "src", root / "outside")) / choose.choice(_NAMES)
                if not os.path.lexists(path):
                    kind = choose.random()
                    if kind < 0.5:
                        path.write_text("old\n")
                    elif kind < 0.9:
                        target = choose.choice((cwd, cwd / "src", root / "outside")) / choose.choice(_NAMES)
                        path.symlink_to(choose.choice((target, os.path.relpath(target, path.parent))))
            name = choose.choice(_NAMES)
            written = (
                choose.choice(("", "src/", "./src/../", "../outside/", f"{root}/outside/", "@", "@src/"))
                + name
            )
            before = _files(root)
            tool = choose.choice(("write", "edit"))
            arguments = {"path": written, "content": "new\n"}
            if tool == "edit":
                arguments = {"path": written, "oldText": "old", "newText": "new"}
            uses = paths_of_call(tool, arguments, str(cwd))
            (done,) = [each for each in all_tools(str(cwd)) if each.name == tool]
            done.execute(arguments)
            after = _files(root)
            touched = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
            assert touched <= {use.real for use in uses if use.is_written}, (written, before, uses)


def test_a_name_with_a_curly_sibling_is_judged_as_write_takes_it(tmp_path: Path) -> None:
    (tmp_path / "it\u2019s.txt").write_text("x")
    (tmp_path / "it's.txt").symlink_to(tmp_path / "secret")
    arguments = {"path": "it's.txt", "content": "new"}
    (use,) = paths_of_call("write", arguments, str(tmp_path))
    write_tool(str(tmp_path)).execute(arguments)
    assert Path(use.real).read_text() == "new"


def test_both_files_of_imageresize_are_named(tmp_path: Path) -> None:
    uses = paths_of_call("imageresize", {"path": "a.png", "output": "b.png", "width": 5}, str(tmp_path))
    assert [(os.path.basename(use.real), use.is_written) for use in uses] == [
        ("a.png", False),
        ("b.png", True),
    ]


def test_a_search_without_a_path_uses_the_working_folder(tmp_path: Path) -> None:
    for tool in ("grep", "find", "ls"):
        (use,) = paths_of_call(tool, {"pattern": "x"}, str(tmp_path))
        assert use.real == os.path.realpath(tmp_path)


def test_tools_of_other_origin_are_judged_by_the_usual_names(tmp_path: Path) -> None:
    uses = paths_of_call("mcp_copy", {"source": "a", "destination": "~/b", "mode": "x"}, str(tmp_path))
    assert [use.path for use in uses] == [str(tmp_path / "a"), os.path.expanduser("~/b")]
    assert all(use.is_written for use in uses)


@pytest.mark.parametrize("path", ["a\0b", "a\ud800"])
def test_an_impossible_path_has_no_resolved_form(tmp_path: Path, path: str) -> None:
    (use,) = paths_of_call("read", {"path": path}, str(tmp_path))
    assert use.real == NO_PATH
