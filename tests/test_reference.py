"""The pages of docs/reference are those that the code makes, and every public name is on them."""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_reference", ROOT / "scripts" / "make_reference.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SCRIPT = _script()
MADE = {path.name: content for path, content in SCRIPT.files().items()}


@pytest.mark.parametrize("name", MADE)
def test_the_committed_page_of_the_reference_is_what_the_code_makes(name: str) -> None:
    kept = SCRIPT.PAGES / name
    assert kept.is_file(), "run `make reference`"
    assert kept.read_text("utf-8") == MADE[name], "changed on purpose? run `make reference` and commit"


def test_no_page_of_the_reference_is_of_a_package_that_is_gone() -> None:
    assert {path.name for path in SCRIPT.PAGES.glob("*.md")} == MADE.keys()


@pytest.mark.parametrize("package", SCRIPT.PACKAGES)
def test_every_public_name_has_an_entry_that_says_what_it_is(package: str) -> None:
    _, *entries = re.split(r"^### ", MADE[f"{package}.md"], flags=re.MULTILINE)
    listed = {name: rest for name, _, rest in (entry.partition("\n") for entry in entries)}
    assert listed.keys() == set(importlib.import_module(package).__all__)
    for name, rest in listed.items():
        of_itself = rest.partition("\n#")[0]
        words = re.sub(r"```py\n.*?\n```", "", of_itself, flags=re.DOTALL).strip()
        assert "```py" in of_itself
        assert words or f"\n{name} = " in of_itself or f"\n{name}: " in of_itself, (
            name
        )  # an alias, a constant


@pytest.mark.parametrize("name", MADE)
def test_every_link_of_the_contents_leads_to_one_heading(name: str) -> None:
    headings = re.findall(r"^#+ (.*)$", MADE[name], re.MULTILINE)
    anchors = [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
    for target in re.findall(r"\]\(#([^)]*)\)", MADE[name]):
        assert anchors.count(target) == 1, target


def test_a_page_names_no_address_of_an_object() -> None:
    assert not any(" at 0x" in content for content in MADE.values())
