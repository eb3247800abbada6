"""Paths: the file that was meant, whatever was copied with or lost from its name."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from agent_tools.files.paths import require_path, resolve
from agent_tools.tool import ToolFailure

NBSP = "\u00a0"
NARROW = "\u202f"


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return str(tmp_path / "home")


def test_the_tilde_means_the_home_directory(home: str, tmp_path: Path) -> None:
    assert resolve("~", tmp_path) == home
    assert resolve("~/Documents", tmp_path) == home + "/Documents"


def test_the_home_of_other_users_is_not_looked_up(home: str, tmp_path: Path) -> None:
    assert resolve("~root/x", tmp_path) == str(tmp_path / "~root/x")


def test_a_relative_path_starts_at_the_working_directory(tmp_path: Path) -> None:
    assert resolve("foo/../bar", tmp_path) == str(tmp_path / "bar")


def test_an_absolute_path_stays_as_it_is(tmp_path: Path) -> None:
    assert resolve("/a/../b", tmp_path) == "/a/../b"


def test_a_path_may_leave_the_working_directory(tmp_path: Path) -> None:
    assert resolve("../x", tmp_path / "sub") == str(tmp_path / "x")


def test_an_empty_path_stays_empty(tmp_path: Path) -> None:
    assert resolve("", tmp_path) == ""
    assert resolve("", tmp_path) == ""


def test_an_at_sign_alone_is_a_name(tmp_path: Path) -> None:
    assert resolve("@", tmp_path) == str(tmp_path / "@")


def test_one_leading_at_sign_is_dropped(tmp_path: Path) -> None:
    assert resolve("@some/path", tmp_path) == str(tmp_path / "some/path")
    assert resolve("@@at.txt", tmp_path) == str(tmp_path / "@at.txt")


def test_a_file_that_really_begins_with_an_at_sign_is_found_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "@types").touch()
    assert resolve("@types", tmp_path) == str(tmp_path / "@types")


@pytest.mark.parametrize("space", [NBSP, "\u2000", "\u200a", NARROW, "\u205f", "\u3000"])
def test_odd_blanks_become_spaces(tmp_path: Path, space: str) -> None:
    assert resolve(f"hello{space}world", tmp_path) == str(tmp_path / "hello world")


def test_a_file_with_an_odd_blank_is_found_by_its_true_name(tmp_path: Path) -> None:
    (tmp_path / f"a{NBSP}b.txt").touch()
    assert resolve(f"a{NBSP}b.txt", tmp_path) == str(tmp_path / f"a{NBSP}b.txt")


def test_a_new_file_goes_into_the_existing_folder_with_an_odd_blank(tmp_path: Path) -> None:
    (tmp_path / f"a{NBSP}b").mkdir()
    assert resolve(f"a{NBSP}b/new.txt", tmp_path) == str(tmp_path / f"a{NBSP}b" / "new.txt")


def test_a_missing_path_that_must_exist_is_an_error_with_a_near_name(tmp_path: Path) -> None:
    (tmp_path / "settings.toml").touch()
    with pytest.raises(ToolFailure, match=r"not found: setings\.toml .*Did you mean .*/settings\.toml\?"):
        resolve("setings.toml", tmp_path, must_exist=True)


@pytest.mark.parametrize("path", ["a\0b", "a\ud800b"])
def test_a_path_that_no_system_can_have_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(ToolFailure, match="path"):
        resolve(path, tmp_path)


@pytest.mark.parametrize("path", ["", "  "])
def test_a_blank_path_is_named_as_required(path: str) -> None:
    with pytest.raises(ToolFailure, match="path is required"):
        require_path(path)


def test_an_existing_file_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    assert resolve("x", tmp_path) == str(tmp_path / "x")


def test_an_existing_file_is_preferred_to_its_variants(tmp_path: Path) -> None:
    for name in ("it's", "it\u2019s"):
        (tmp_path / name).touch()
        assert resolve(name, tmp_path) == str(tmp_path / name)
    assert resolve("it's", tmp_path) == str(tmp_path / "it's")


def test_a_missing_file_without_variant_gives_the_literal_path(tmp_path: Path) -> None:
    assert resolve("it's.txt", tmp_path) == str(tmp_path / "it's.txt")


CURLY = "Capture d\u2019\u00e9cran.txt"


@pytest.mark.parametrize(
    ("on_disk", "asked"),
    [
        (f"Shot 3{NARROW}AM.png", "Shot 3 AM.png"),
        (f"Shot 3{NARROW}AM.png", f"Shot 3{NARROW}AM.png"),
        (f"Screenshot 2024-01-01 at 10.00.00{NARROW}AM.png", "Screenshot 2024-01-01 at 10.00.00 AM.png"),
        (unicodedata.normalize("NFD", "caf\u00e9.txt"), "caf\u00e9.txt"),
        ("it\u2019s.txt", "it's.txt"),
        (CURLY, "Capture d'\u00e9cran.txt"),
        (unicodedata.normalize("NFD", CURLY), "Capture d'\u00e9cran.txt"),
    ],
)
def test_the_name_on_disk_is_found(tmp_path: Path, on_disk: str, asked: str) -> None:
    (tmp_path / on_disk).touch()
    assert resolve(asked, tmp_path) == str(tmp_path / on_disk)


def test_only_the_name_varies_when_its_folder_is_right(tmp_path: Path) -> None:
    folder = tmp_path / "it's caf\u00e9"
    folder.mkdir()
    (folder / "it\u2019s.txt").touch()
    assert resolve("it's caf\u00e9/it's.txt", tmp_path) == str(folder / "it\u2019s.txt")


def test_a_dangling_link_counts_as_absent(tmp_path: Path) -> None:
    (tmp_path / "it's").symlink_to("nowhere")
    (tmp_path / "it\u2019s").touch()
    assert resolve("it's", tmp_path) == str(tmp_path / "it\u2019s")
