"""The pages of the tools and the prompts of a model are those the code makes: they change only on purpose."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from PIL import Image

from agent_tools import all_tools

ROOT = Path(__file__).parents[2]


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_tool_docs", ROOT / "scripts" / "make_tool_docs.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SCRIPT = _script()
FILES = {str(path.relative_to(ROOT)): content for path, content in SCRIPT.files().items()}
KEPT = [*SCRIPT.PAGES.glob("*.md"), *SCRIPT.SNAPSHOTS.glob("*.json")]


@pytest.mark.parametrize("path", FILES)
def test_the_committed_file_is_what_the_code_makes(path: str) -> None:
    kept = ROOT / path
    assert kept.is_file(), "run `make tool-docs`"
    assert kept.read_text("utf-8") == FILES[path], "changed on purpose? run `make tool-docs` and commit"


def test_no_page_and_no_snapshot_is_of_a_tool_that_is_gone() -> None:
    assert {str(path.relative_to(ROOT)) for path in KEPT} == FILES.keys()


@pytest.mark.parametrize("name", SCRIPT.tools())
def test_a_page_documents_every_argument(name: str) -> None:
    page = FILES[f"docs/tools/{name}.md"]
    for argument in SCRIPT.tools()[name].parameters["properties"]:
        assert f"| `{argument}` |" in page
    assert "```python\n" in page


def _keys(value: Any) -> list[str]:
    if not isinstance(value, dict):
        return []
    return [*value, *(key for item in value.values() for key in _keys(item))]


def test_the_keys_of_details_are_in_camel_case(tmp_path: Path) -> None:
    """FS-W7"""
    tools = {tool.name: tool for tool in all_tools(tmp_path)}
    Image.new("RGB", (9, 9)).save(tmp_path / "image.png")
    (tmp_path / "long").write_text("x" * 600 + "\n" + "line\n" * 20_000)
    calls = {
        "write": {"path": "file", "content": "a\nb\n"},
        "read": {"path": "long"},
        "edit": {"path": "file", "oldText": "a", "newText": "c"},
        "editdiff": {"path": "long", "oldText": "x" * 600, "newText": "line\n" * 20_000},
        "grep": {"pattern": ".", "limit": 19_000},
        "find": {"pattern": "*", "limit": 1},
        "ls": {"limit": 1},
        "imageresize": {"path": "image.png"},
        "bash": {"command": "printf '\\033[1mx'; seq 5000"},
    }
    for name, arguments in calls.items():
        result = tools[name].execute(arguments)
        page = FILES[f"docs/tools/{name}.md"]
        assert result.details, name
        assert [key for key in _keys(result.details) if not re.fullmatch("[a-z]+([A-Z][a-z]+)*", key)] == []
        assert [key for key in result.details if f"`{key}`" not in page] == [], name
