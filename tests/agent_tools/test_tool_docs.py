"""The pages of the tools and the prompts of a model are those the code makes: they change only on purpose."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

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
