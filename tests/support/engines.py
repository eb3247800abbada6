"""The two engines of grep, to run a test with each."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from support.real import require_or_skip

ENGINES = ("ripgrep", "python")


def use_engine(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make grep search with one engine: with ripgrep from the first file on, or with none on PATH."""
    program = shutil.which("rg")
    if engine == "python":
        monkeypatch.setenv("PATH", os.devnull)
    elif program is None:
        require_or_skip("ripgrep is not installed")
    else:
        monkeypatch.setenv("PATH", str(Path(program).parent))
        monkeypatch.setattr("agent_tools.search.engine._RIPGREP_FROM_FILES", 0)
