"""Reading piped standard input."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from agent.cli.setup import standard_input
from agent.cli.setup.standard_input import read_standard_input


def test_a_file_and_a_pipe_are_read_as_text(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"caf\xc3\xa9 \xff")
    with open(tmp_path / "f") as file:
        assert read_standard_input(file) == "caf\u00e9 \ufffd"
    reading, writing = os.pipe()
    os.write(writing, b"piped")
    os.close(writing)
    with os.fdopen(reading) as pipe:
        assert read_standard_input(pipe) == "piped"


def test_a_device_and_a_stream_without_a_descriptor_are_not_read() -> None:
    with open(os.devnull) as null:
        assert read_standard_input(null) == ""
    assert read_standard_input(None) == ""
    assert read_standard_input(io.StringIO("text")) == ""


def test_a_wait_for_a_silent_pipe_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(standard_input, "_REPORT_AFTER", 0.0)
    reading, writing = os.pipe()
    monkeypatch.setattr(standard_input.select, "select", lambda *_: ([], [], []))
    os.close(writing)
    with os.fdopen(reading) as pipe:
        assert read_standard_input(pipe) == ""
    assert "waiting for standard input" in capsys.readouterr().err
