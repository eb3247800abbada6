"""Path patterns of rules."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.cli.permissions.path_patterns import PathPattern
from agent.cli.permissions.paths_of_call import PathUse
from agent_tools.search.globs import BadGlob


def _matches(root: Path, pattern: str, path: str, *, allows: bool) -> bool:
    absolute = os.path.normpath(root / path)
    use = PathUse(absolute, os.path.realpath(absolute), False)
    return PathPattern.parse(pattern, base=str(root), allows=allows).matches(use)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("src", "deep/secrets", "secrets"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "deep" / "name").write_text("x")
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("secrets/", "secrets"),
        ("secrets/", "secrets/key"),
        ("secrets/", "deep/secrets/key"),
        ("secrets/**", "secrets"),
        ("secrets/**", "secrets/key"),
        ("**", "x"),
        (".", "x"),
        ("deep/*/", "deep/secrets/key"),
    ],
)
def test_a_folder_pattern_denies_the_folder_and_what_is_in_it(root: Path, pattern: str, path: str) -> None:
    assert _matches(root, pattern, path, allows=False)


@pytest.mark.parametrize(
    ("pattern", "path"), [("name/", "deep/name"), ("secrets/**", "deep/secrets"), ("deep/*/", "deep/name")]
)
def test_a_folder_pattern_denies_no_file_and_no_other_place(root: Path, pattern: str, path: str) -> None:
    assert not _matches(root, pattern, path, allows=False)


def test_an_allowing_pattern_for_the_inside_does_not_allow_the_folder(root: Path) -> None:
    assert not _matches(root, "src/**", "src", allows=True)
    assert _matches(root, "src/**", "src/a", allows=True)
    assert _matches(root, "src/", "src/a", allows=True)


@pytest.mark.parametrize("pattern", ["$HOME/x", "[", "${x}"])
def test_a_pattern_that_can_match_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(BadGlob):
        PathPattern.parse(pattern, base="/", allows=False)
