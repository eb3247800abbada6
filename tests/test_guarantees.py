"""Every statement of docs/guarantees.md names tests, and the tests it names exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")

NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))
STATEMENTS = re.findall(r"^- .*?(?=^- |^#|^$)", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("path", "name"), NAMED, ids=[name for _, name in NAMED])
def test_the_test_behind_a_guarantee_exists(path: str, name: str) -> None:
    source = (ROOT / path).read_text(encoding="utf-8")
    assert re.search(rf"^ *def {name}\(", source, re.MULTILINE), f"{path} has no {name}"


@pytest.mark.parametrize("statement", STATEMENTS, ids=[s[2:40] for s in STATEMENTS])
def test_a_guarantee_names_its_test(statement: str) -> None:
    assert "::" in statement
