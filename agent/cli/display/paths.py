"""Shortens paths for people."""

from __future__ import annotations

import os


def short_path(path: str, cwd: str = "") -> str:
    """The path relative to `cwd` when it is inside, else with `~` for the home directory."""
    folder = cwd.rstrip(os.sep)
    if folder and path.startswith(folder + os.sep):
        return path[len(folder) + 1 :]
    home = os.path.expanduser("~").rstrip(os.sep)
    if home and (path == home or path.startswith(home + os.sep)):
        return f"~{path[len(home) :]}"
    return path
