"""Shell commands of the user."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import RenderableType
from support.terminal import recorded_console, written

from agent.cli.display.clean_console import Cleaned
from agent.cli.tui.shell import ShellCommands


class _Done:
    def __init__(self) -> None:
        self.event = threading.Event()
        self.lines: list[str] = []
        self.report = ""

    def __call__(self, parts: Sequence[RenderableType], report: str) -> None:
        console = recorded_console(terminal=False)
        console.print(Cleaned(parts), end="")
        self.lines, self.report = written(console).splitlines(), report
        self.event.set()

    def wait(self) -> _Done:
        assert self.event.wait(20)
        return self


def test_output_is_shown_and_reported(tmp_path: Path) -> None:
    done = _Done()
    assert ShellCommands(str(tmp_path)).start("seq 1 3; echo $TEST_TOKEN", done)
    assert done.wait().lines == ["! seq 1 3; echo $TEST_TOKEN", "    1", "    2", "    3"]
    assert done.report == "I ran this command myself:\n$ seq 1 3; echo $TEST_TOKEN\n1\n2\n3"


def test_it_has_the_whole_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_TOKEN", "mine")
    done = _Done()
    ShellCommands(str(tmp_path)).start("echo $TEST_TOKEN", done)
    assert done.wait().lines[-1] == "    mine"


def test_the_end_of_a_long_output_is_shown(tmp_path: Path) -> None:
    done = _Done()
    ShellCommands(str(tmp_path)).start("seq 1 100", done)
    assert done.wait().lines[1] == "    ... 40 more lines"
    assert done.lines[-1] == "    100"


def test_one_command_runs_at_a_time_and_is_stopped(tmp_path: Path) -> None:
    shell, done = ShellCommands(str(tmp_path)), _Done()
    assert shell.status() == []
    assert shell.start("sleep 60", done)
    assert shell.is_running
    assert not shell.start("true", _Done())
    assert len(shell.status()) == 1
    shell.stop()
    done.wait()
    assert not shell.is_running
