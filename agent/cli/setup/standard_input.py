"""Reads piped standard input."""

from __future__ import annotations

import os
import select
import stat
import sys
from typing import TextIO

# A pipe that stays silent for this long, in seconds, was perhaps left open by mistake: report the wait.
_REPORT_AFTER = 3.0


def read_standard_input(stdin: TextIO | None) -> str:
    """All of standard input when it is a pipe, a file or a socket; empty for a terminal or none at all.

    Waits for a silent pipe, after a line on standard error about the wait.
    """
    try:
        if stdin is None or stdin.closed or stdin.isatty():
            return ""
        descriptor = stdin.fileno()
        mode = os.fstat(descriptor).st_mode
    except (OSError, ValueError):
        return ""
    if not (stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)):
        return ""
    if os.name == "posix" and not select.select([descriptor], [], [], _REPORT_AFTER)[0]:
        print(
            "agent: waiting for standard input (use </dev/null if there is none)", file=sys.stderr, flush=True
        )
    data = stdin.buffer.read() if hasattr(stdin, "buffer") else stdin.read().encode()
    return data.decode("utf-8", "replace")
