"""The exit codes of the command."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

DONE, FAILED, MISUSE, INTERRUPTED = 0, 1, 2, 130


def exit_without_reader(problem: Exception | None = None) -> int:
    """The exit code when standard output can't be written; reports any `problem` but a closed pipe.

    Points the descriptor at the null device, so that the interpreter's flush at exit does not fail again.
    """
    if problem is not None and not isinstance(problem, BrokenPipeError):
        print(f"agent: the output can't be written: {problem}", file=sys.stderr)
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILED
