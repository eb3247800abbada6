"""How the command ends, in numbers."""

from __future__ import annotations

import os
import sys

DONE, FAILED, MISUSE, INTERRUPTED = 0, 1, 2, 130


def reader_gone() -> int:
    """Nobody reads our output any more: end without the complaint Python would make at exit."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    return FAILED
