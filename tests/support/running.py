"""Finds running commands by a word of their command line, and waits for conditions with a deadline."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable


def running(marker: str) -> list[str]:
    """The living processes whose command line holds `marker`; those that wait to be reaped do not live."""
    table = subprocess.run(
        ["ps", "-A", "-ww", "-o", "stat=,args="], capture_output=True, text=True, check=True
    )
    lines = (line.strip() for line in table.stdout.splitlines())
    return [line for line in lines if marker in line and not line.startswith("Z")]


def becomes_true(condition: Callable[[], object], seconds: float = 5.0) -> bool:
    """Whether the condition holds within so many seconds."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        if time.monotonic() >= deadline:
            return False
        pause.wait(0.01)
    return True
