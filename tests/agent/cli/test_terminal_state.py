"""The settings of a terminal, saved and restored."""

from __future__ import annotations

import os
import sys

import pytest

from agent.cli.terminal_state import TerminalState

termios = pytest.importorskip("termios")


def test_without_a_terminal_there_is_nothing_to_restore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.setattr(sys, "stdout", None)
    state = TerminalState.saved()
    assert (list(state.settings), state.output) == ([], None)
    state.restore()


def test_a_dumb_terminal_gets_no_escape_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    primary, secondary = os.openpty()
    try:
        with os.fdopen(os.dup(secondary), "w") as out:
            monkeypatch.setattr(sys, "stdout", out)
            monkeypatch.setenv("TERM", "dumb")
            assert TerminalState.saved().output is None
            monkeypatch.setenv("TERM", "xterm")
            assert TerminalState.saved().output == out.fileno()
    finally:
        os.close(primary)
        os.close(secondary)


def test_a_terminal_of_another_program_is_left_alone() -> None:
    """In the background a change would stop the process, and disturb the program in the foreground."""
    primary, secondary = os.openpty()
    try:
        before = termios.tcgetattr(secondary)
        changed = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
        TerminalState([(secondary, changed)], secondary).restore()
        assert termios.tcgetattr(secondary) == before
    finally:
        os.close(primary)
        os.close(secondary)
