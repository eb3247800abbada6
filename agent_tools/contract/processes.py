"""Lists the descendants of this process: from /proc where it exists, else with `ps`."""

from __future__ import annotations

import subprocess
import threading
import time
from os import getpid
from pathlib import Path

_PROC = Path("/proc")


def children() -> set[int]:
    """The ids of all living descendants of this process."""
    parents = _from_proc() if (_PROC / "self" / "stat").exists() else from_ps()
    found: set[int] = set()
    generation = {getpid()}
    while generation:
        generation = {process for process, parent in parents.items() if parent in generation} - found
        found |= generation
    return found


def wait_gone(processes: set[int], seconds: float) -> set[int]:
    """Wait until `processes` have ended; returns those still alive after `seconds`, adopted or not."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while left := processes & _living():
        if time.monotonic() >= deadline:
            return left
        pause.wait(0.01)
    return set()


def _living() -> set[int]:
    return set(_from_proc() if (_PROC / "self" / "stat").exists() else from_ps())


def _from_proc() -> dict[int, int]:
    parents = {}
    for folder in _PROC.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:  # it ended after it was listed
            continue
        # The command name in parentheses may hold blanks and parentheses.
        state, parent = stat.rpartition(")")[2].split()[:2]
        if state not in "ZX":
            parents[int(folder.name)] = int(parent)
    return parents


def from_ps() -> dict[int, int]:
    """Map every living process to its parent with `ps` (portable); `ps` itself is left out."""
    with subprocess.Popen(["ps", "-axo", "pid=,ppid=,stat="], stdout=subprocess.PIPE, text=True) as ps:
        listing, _ = ps.communicate()
    rows = [line.split() for line in listing.splitlines()]
    return {int(row[0]): int(row[1]) for row in rows if row[2][0] not in "ZX" and int(row[0]) != ps.pid}
