"""The data of one drawing."""

from __future__ import annotations

import subprocess
import sys

from support.command import ROOT, environment

from agent.cli.tui.frame import Frame


def test_an_empty_frame_shows_nothing_and_shares_no_lists() -> None:
    first, second = Frame(), Frame()
    first.queued.append("steering: x")
    assert second == Frame()
    assert not second.is_running


def test_it_imports_neither_the_agent_nor_rich() -> None:
    """The prompt is drawn before those are loaded."""
    probe = "import sys, agent.cli.tui.frame, agent.cli.tui.layout; print(*sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", probe], env=environment(), capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert {"rich", "agent.agent", "pydantic"}.isdisjoint(ended.stdout.split())
