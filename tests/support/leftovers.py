"""Finds the threads and child processes that a test started and did not end.

No process is waited for here: reaping a child behind the back of its `Popen` would change what is tested.
Children that a killed shell orphaned belong to init and are not seen; the tests of
`agent_tools.process` check for those themselves.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path

_TASKS = Path("/proc/self/task")


class Leftovers:
    """Records the running threads and children; `wait` returns those added since that do not end."""

    def __init__(self) -> None:
        self._threads = set(threading.enumerate())
        self._children = children()

    def wait(self, seconds: float) -> list[str]:
        """Descriptions of what is left after at most `seconds`; an empty list as soon as nothing is."""
        deadline = time.monotonic() + seconds
        while True:
            left = self._now()
            if not left or time.monotonic() >= deadline:
                return left
            time.sleep(0.01)

    def _now(self) -> list[str]:
        threads = [t for t in threading.enumerate() if t not in self._threads]
        processes = children() - self._children
        return [f"thread {t.name!r}" for t in threads] + [f"child process {_name(pid)}" for pid in processes]


def children() -> frozenset[int]:
    """The process ids of this process's children, zombies included."""
    try:
        return frozenset(
            int(pid) for task in _TASKS.iterdir() for pid in (task / "children").read_text().split()
        )
    except OSError:
        # No /proc, a kernel without CONFIG_PROC_CHILDREN, or a thread that ended while we read.
        return _children_from_ps()


def _children_from_ps() -> frozenset[int]:
    if os.name == "nt":
        return frozenset()
    ps = subprocess.Popen(["ps", "-A", "-o", "pid=,ppid="], stdout=subprocess.PIPE, text=True)
    table, _ = ps.communicate()
    rows = (line.split() for line in table.splitlines())
    me = str(os.getpid())
    return frozenset(int(pid) for pid, parent in rows if parent == me and int(pid) != ps.pid)


def _name(pid: int) -> str:
    try:
        command = subprocess.run(
            ["ps", "-o", "stat=,args=", "-p", str(pid)], capture_output=True, text=True, check=False
        )
    except OSError:
        return str(pid)
    return f"{pid} ({command.stdout.strip() or 'ended'})"
