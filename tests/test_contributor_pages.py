"""The pages for contributors name files and make targets that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ("CONTRIBUTING.md", "AGENTS.md", "docs/architecture.md")
# Paths in docs/architecture.md may leave out the package.
FOLDERS = (ROOT, ROOT / "agent", ROOT / "docs")

_CODE = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"[\w./-]*/[\w./-]*|[\w-]+\.(?:py|md|toml)")


def _named(pattern: str) -> list[tuple[str, str]]:
    pages = [(page, (ROOT / page).read_text("utf-8")) for page in PAGES]
    found = ((page, re.findall(pattern, text, re.MULTILINE)) for page, text in pages)
    return [(page, name) for page, names in found for name in sorted(set(names))]


PATHS = [(page, code) for page, code in _named(_CODE.pattern) if _PATH.fullmatch(code)]


@pytest.mark.parametrize(("page", "path"), PATHS, ids=[f"{page}:{path}" for page, path in PATHS])
def test_a_path_on_a_page_for_contributors_exists(page: str, path: str) -> None:
    assert any((folder / path).exists() for folder in FOLDERS) or list((ROOT / "agent").rglob(path))


TARGETS = [(page, name) for page, name in _named(r"(?:`|^    )make ([a-z-]+)") if name]


@pytest.mark.parametrize(("page", "target"), TARGETS)
def test_a_make_target_on_a_page_for_contributors_exists(page: str, target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
