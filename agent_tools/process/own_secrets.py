"""Keeps the secrets of this process from the commands that it runs.

The environment of a command is filtered, but on Linux a child of the same user can read the environment that
this process started with, in /proc/<pid>/environ, and its memory. `hide_own_secrets` prevents both for every
user but root. Root can still read the memory, and nothing here hides the environment of other processes, such
as the shell that started this one.
"""

from __future__ import annotations

import ctypes
import os
import sys
from itertools import count, takewhile

from agent_tools.process.environment import filtered_environment

_PR_SET_DUMPABLE = 4  # <linux/prctl.h>
# The fields of /proc/self/stat (proc(5)), counted after the name of the program, which may contain spaces.
_ENV_START, _ENV_END = 47, 48


def hide_own_secrets() -> bool:
    """Make this process unreadable for its children; returns False where the system has no means for it.

    The values of secret variables are erased from the memory that /proc/<pid>/environ shows and set again
    elsewhere, so `os.environ` and `getenv` still have them. Then the process is marked as not dumpable: no
    process without privileges may attach to it or read its /proc files, and it leaves no core dump. Call it
    once, at the start of a program, before threads read the environment.
    """
    if sys.platform != "linux":
        return False
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        _erase_initial_values(libc, os.environ.keys() - filtered_environment(os.environ).keys())
        return bool(libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)
    except (OSError, AttributeError, ValueError):  # another C library, a sandbox without /proc
        return False


def _erase_initial_values(libc: ctypes.CDLL, names: set[str]) -> None:
    start, end = _initial_environment()
    entries = ctypes.POINTER(ctypes.c_void_p).in_dll(libc, "environ")
    wanted = {os.fsencode(name) for name in names}
    addresses = list(takewhile(lambda address: address is not None, (entries[i] for i in count())))
    for address in addresses:
        name, _, value = ctypes.string_at(address).partition(b"=")
        # Values that were set later are on the heap: not visible, and the C library may share them.
        if name in wanted and start <= address < end:
            ctypes.memset(address + len(name) + 1, 0, len(value))
            os.putenv(name, value)


def _initial_environment() -> tuple[int, int]:
    """The memory that holds the environment this process was started with."""
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return int(fields[_ENV_START]), int(fields[_ENV_END])
