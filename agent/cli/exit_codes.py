"""How the command ends, in numbers."""

from __future__ import annotations

import os
import sys

DONE, FAILED, MISUSE, INTERRUPTED = 0, 1, 2, 130


def reader_gone(problem: Exception | None = None) -> int:
    """Nothing can be written any more: end without the complaint Python would make at exit.

    A reader that left is no news; any other `problem` (a full disk) is told.
    """
    if problem is not None and not isinstance(problem, BrokenPipeError):
        print(f"agent: the output can't be written: {problem}", file=sys.stderr)
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    return FAILED
