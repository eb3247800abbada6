"""`Tool.paths`: the files that a call would use, as a permission check asks for them."""

from __future__ import annotations

import os
import string
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from support.rounds import rounds

from agent_tools import all_tools
from agent_tools.tool import Tool, ToolFailure


def tools(root: Path) -> dict[str, Tool[Any]]:
    return {tool.name: tool for tool in all_tools(root)}


@pytest.mark.parametrize(
    ("tool", "arguments", "is_written"),
    [
        ("read", {}, False),
        ("write", {"content": ""}, True),
        ("edit", {"oldText": "a", "newText": "b"}, True),
        ("editdiff", {"oldText": "a", "newText": "b"}, False),
        ("grep", {"pattern": "a"}, False),
        ("find", {"pattern": "a"}, False),
        ("ls", {}, False),
        ("imageresize", {}, False),
    ],
)
def test_a_path_is_named_as_found_and_with_links_resolved(
    tool: str, arguments: dict[str, Any], is_written: bool, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")

    paths = tools(tmp_path)[tool].paths({"path": "link/x", **arguments})

    assert paths == ((f"{tmp_path}/link/x", f"{os.path.realpath(tmp_path)}/folder/x", is_written),)


def test_the_output_of_imageresize_is_written_and_its_source_is_not(tmp_path: Path) -> None:
    paths = tools(tmp_path)["imageresize"].paths({"path": "a.png", "output": "b.png"})

    assert paths is not None
    assert [(os.path.basename(use.real), use.is_written) for use in paths] == [
        ("a.png", False),
        ("b.png", True),
    ]


@pytest.mark.parametrize("tool", ["grep", "find", "ls"])
def test_a_search_without_a_path_uses_the_working_directory(tool: str, tmp_path: Path) -> None:
    paths = tools(tmp_path)[tool].paths({"pattern": "x"})

    assert paths is not None
    assert [use.real for use in paths] == [os.path.realpath(tmp_path)]


def test_a_tool_that_does_not_declare_its_paths_answers_none(tmp_path: Path) -> None:
    assert tools(tmp_path)["plan"].paths({"entries": []}) is None


def test_arguments_that_the_tool_refuses_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolFailure, match="path is required"):
        tools(tmp_path)["read"].paths({})


NAMES = st.text(
    st.sampled_from("aB'\u2019 \u202f\u00a0@~é\u0301.") | st.sampled_from(string.ascii_letters),
    min_size=1,
    max_size=6,
)


def _spellings(name: str) -> st.SearchStrategy[str]:
    return st.sampled_from(
        [
            name,
            f"@{name}",
            f"./{name}",
            f"sub/../{name}",
            name.replace("\u2019", "'"),
            name.replace("'", "\u2019"),
            name.replace(" ", "\u00a0"),
            name.replace("\u202f", " "),
            unicodedata.normalize("NFC", name),
            unicodedata.normalize("NFD", name),
        ]
    )


def _contents(root: Path) -> dict[str, bytes]:
    return {
        os.path.join(folder, name): Path(folder, name).read_bytes()
        for folder, _, names in os.walk(root)
        for name in names
        if not Path(folder, name).is_symlink()
    }


@settings(
    max_examples=rounds(150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_the_file_that_is_judged_is_the_file_that_is_touched(tmp_path: Path, data: st.DataObject) -> None:
    """FT-S4: random names, links and spellings."""
    root = tmp_path / str(len(list(tmp_path.iterdir())))
    (root / "proj" / "sub").mkdir(parents=True)
    (root / "outside").mkdir()
    usable = NAMES.filter(lambda name: name.strip() and name not in (".", "..") and "/" not in name)
    names = data.draw(st.lists(usable, min_size=1, max_size=4, unique=True))
    for number, name in enumerate(names):
        target = root / "proj" / name
        if os.path.lexists(target) or name == "sub":
            continue
        match data.draw(st.sampled_from(["file", "dangling", "link", "folder", "absent"])):
            case "file":
                target.write_text("old")
            case "dangling":
                target.symlink_to(root / "outside" / f"new{number}")
            case "link":
                (root / "outside" / f"old{number}").write_text("old")
                target.symlink_to(f"../outside/old{number}")
            case "folder":
                target.mkdir()
    tool = data.draw(st.sampled_from(["write", "edit", "imageresize", "read"]))
    path = data.draw(_spellings(data.draw(st.sampled_from(names))))
    if tool == "imageresize":
        Image.new("RGB", (3, 3)).save(root / "proj" / "sub" / "image.png")
        path += data.draw(st.sampled_from([".png", ""]))
    arguments: dict[str, Any] = {
        "write": {"path": path, "content": "new"},
        "edit": {"path": path, "oldText": "old", "newText": "new"},
        "imageresize": {"path": "sub/image.png", "output": path},
        "read": {"path": path},
    }[tool]
    box = tools(root / "proj")
    before = _contents(root)
    try:
        judged = box[tool].paths(arguments)
    except ToolFailure:
        judged = ()
    assert judged is not None

    result = box[tool].execute(arguments)

    after = _contents(root)
    touched = {name for name in after if after[name] != before.get(name)}
    assert touched <= {use.real for use in judged if use.is_written}
    if not result.is_error and tool != "read":
        assert touched
    if tool == "read" and not result.is_error:
        assert result.text == before[judged[0].real].decode() or not before[judged[0].real]
