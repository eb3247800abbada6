"""How much memory a process has used at its worst; for child processes that measure themselves."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")


def peak_bytes() -> int:
    """The peak of resident memory of this process, in bytes.

    On Linux not `ru_maxrss`: that one begins with the peak of the process that started this one, so below a
    large test run it does not show the size of a small child.
    """
    if _STATUS.exists():
        return int(_STATUS.read_text().partition("VmHWM:")[2].split()[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
