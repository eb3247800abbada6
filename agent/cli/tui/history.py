"""The history of prompts, in a file that only the user can read."""

from __future__ import annotations

import os
from pathlib import Path

from prompt_toolkit.history import FileHistory, History, InMemoryHistory


def open_history() -> History:
    """The history in the state folder, or one in memory where that folder can't be written."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    path = Path(state, "steady-agent", "history")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Prompts may contain private data.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))
