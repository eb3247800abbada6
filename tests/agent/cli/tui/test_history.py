"""The file of earlier prompts."""

from __future__ import annotations

from pathlib import Path

import pytest
from prompt_toolkit.history import FileHistory, InMemoryHistory

from agent.cli.tui.history import open_history


def test_only_the_user_can_read_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    history = open_history()
    assert isinstance(history, FileHistory)
    history.store_string("a prompt")
    assert (tmp_path / "steady-agent" / "history").stat().st_mode & 0o077 == 0
    assert list(open_history().load_history_strings()) == ["a prompt"]


def test_without_a_place_to_write_it_is_kept_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert isinstance(open_history(), InMemoryHistory)
