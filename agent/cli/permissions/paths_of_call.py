"""Finds the files and folders that a tool call would use, with the tool's own code.

Our tools resolve their arguments with the function that is asked here (`Tool.paths`), so a call is judged on
the files that it touches. Tools of other origin declare no paths: arguments with the usual names are taken as
paths.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from agent_tools.tool import Tool

NO_PATH = "/\0"  # the resolved form of a path that no system can have
_FILE_TOOLS = frozenset("read write edit editdiff grep find ls imageresize".split())
_PATHLESS = frozenset(("bash", "jobs", "plan"))
_ARGUMENTS = frozenset(
    "path output file filename file_path filepath directory dir folder source destination target".split()
)


class PathUse(NamedTuple):
    """An absolute path as the tool finds it, its resolved form, and whether the call changes it."""

    path: str
    real: str
    is_written: bool


def paths_of_call(tool: str, arguments: Mapping[str, object], cwd: str) -> tuple[PathUse, ...]:
    """The paths that a call would use; for a call that the tool refuses, those that it names."""
    from agent_tools.tool import ToolFailure

    if tool in _PATHLESS:
        return ()
    if tool not in _FILE_TOOLS:
        return _named(arguments, cwd)
    try:
        uses = _file_tool(tool, os.path.abspath(cwd)).paths(arguments) or ()
    except (ToolFailure, OSError, ValueError):
        return _named(arguments, cwd)
    return tuple(PathUse(os.path.normpath(use.path), use.real, use.is_written) for use in uses)


def real_path(path: str, cwd: str) -> str:
    """The path that our tools take for a name, resolved; `NO_PATH` for an impossible one."""
    from agent_tools.files.paths import resolve
    from agent_tools.tool import ToolFailure

    try:
        return os.path.realpath(resolve(path, cwd) or cwd)
    except (ToolFailure, OSError, ValueError):
        return NO_PATH


@lru_cache(maxsize=64)
def _file_tool(name: str, cwd: str) -> Tool[Any]:
    tool: Tool[Any] = getattr(importlib.import_module(f"agent_tools.{name}"), f"{name}_tool")(cwd)
    return tool


def _named(arguments: Mapping[str, object], cwd: str) -> tuple[PathUse, ...]:
    named = [value for key, value in arguments.items() if key.lower().replace("-", "_") in _ARGUMENTS]
    return tuple(_use(str(path), cwd) for path in named)


def _use(path: str, cwd: str) -> PathUse:
    try:
        written = os.path.normpath(os.path.join(os.path.abspath(cwd), os.path.expanduser(path)))
    except ValueError:
        written = NO_PATH
    return PathUse(written, real_path(path, cwd), is_written=True)
