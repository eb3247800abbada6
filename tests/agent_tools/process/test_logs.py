"""Logs of long outputs: a limit for each and for all, the oldest deleted first, none left at the end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_tools.process import logs
from agent_tools.process.logs import LogFile


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that tests can reach, and no logs of other tests."""
    monkeypatch.setattr(logs, "LOG_LIMIT", 1000)
    monkeypatch.setattr(logs, "TOTAL_LIMIT", 2500)
    monkeypatch.setattr(logs, "_shared", logs._Logs())


def written(folder: Path, size: int, *, close: bool = True) -> LogFile:
    log = LogFile(str(folder))
    log.start(b"x" * size)
    if close:
        log.close()
    return log


def test_one_log_has_a_limit_and_its_location_says_so(tmp_path: Path) -> None:
    log = written(tmp_path, 400, close=False)
    for _ in range(3):
        log.write(b"y" * 400)
    log.close()
    assert Path(log.path).stat().st_size == 1000
    assert log.location() == f"Full output: {log.path} (its first 1000B)"


def test_a_log_of_exactly_the_limit_is_whole(tmp_path: Path) -> None:
    assert written(tmp_path, 1000).location().endswith(".log")


def test_the_oldest_finished_logs_make_space_for_new_ones(tmp_path: Path) -> None:
    """FT-M15"""
    made = [written(tmp_path, 900) for _ in range(5)]
    assert [Path(log.path).exists() for log in made] == [False, False, False, True, True]


def test_a_log_that_is_being_written_is_not_deleted_for_another(tmp_path: Path) -> None:
    first, second = (written(tmp_path, 1000, close=False) for _ in range(2))
    third = written(tmp_path, 600)
    assert Path(first.path).stat().st_size == Path(second.path).stat().st_size == 1000
    assert Path(third.path).stat().st_size == 0
    assert third.location().endswith("(its first 0B)")
    first.delete()
    assert Path(written(tmp_path, 1000).path).stat().st_size == 1000
    second.close()


def test_a_deleted_log_counts_no_more(tmp_path: Path) -> None:
    for _ in range(5):
        log = written(tmp_path, 900)
        log.delete()
        assert log.path == ""
    assert list(tmp_path.iterdir()) == []


def test_the_logs_of_a_program_are_deleted_with_it(tmp_path: Path) -> None:
    """FT-M15"""
    code = "import agent_tools\nprint(agent_tools.bash_tool()(command='seq 5000').details['fullOutputPath'])"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout.startswith(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
