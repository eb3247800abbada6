"""The usual sets of tools, each made for one working directory."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from typing import Any

from agent_tools.bash import bash_tool
from agent_tools.edit import edit_tool
from agent_tools.editdiff import editdiff_tool
from agent_tools.find import find_tool
from agent_tools.grep import grep_tool
from agent_tools.imageresize import imageresize_tool
from agent_tools.ls import ls_tool
from agent_tools.plan import PlanSink, plan_tool
from agent_tools.read import read_tool
from agent_tools.tool import Tool
from agent_tools.write import write_tool

Factory = Callable[..., Tool[Any]]

_CODING: tuple[Factory, ...] = (read_tool, bash_tool, edit_tool, write_tool, grep_tool, find_tool, ls_tool)
_READ_ONLY: tuple[Factory, ...] = (read_tool, grep_tool, find_tool, ls_tool)


def coding_tools(cwd: str | os.PathLike[str] = ".", **options: Any) -> list[Tool[Any]]:
    """What a coding agent works with: read, bash, edit, write, grep, find, ls.

    Each option goes to every tool whose factory takes it: `reader` and `writer` to the file tools, `timeout`,
    `prefix` and `env` to bash, and so on. TypeError for an option that none takes.
    """
    return _build(_CODING, cwd, options)


def read_only_tools(cwd: str | os.PathLike[str] = ".", **options: Any) -> list[Tool[Any]]:
    """What only looks: read, grep, find, ls. Options as for `coding_tools`."""
    return _build(_READ_ONLY, cwd, options)


def all_tools(
    cwd: str | os.PathLike[str] = ".", plan_sink: PlanSink | None = None, **options: Any
) -> list[Tool[Any]]:
    """Every tool: those of `coding_tools`, then editdiff, imageresize and plan.

    `plan_sink(title, entries, metadata)` gets the plans; without one they are accepted and dropped. Options as
    for `coding_tools`.
    """
    tools = _build((*_CODING, editdiff_tool, imageresize_tool), cwd, options)
    return [*tools, plan_tool(plan_sink or _dropped)]


def _build(
    factories: Sequence[Factory], cwd: str | os.PathLike[str], options: dict[str, Any]
) -> list[Tool[Any]]:
    accepted = {factory: set(inspect.signature(factory).parameters) - {"cwd"} for factory in factories}
    known = set().union(*accepted.values())
    unknown = sorted(options.keys() - known)
    if unknown:
        raise TypeError(f"unknown option {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    return [
        factory(cwd, **{name: value for name, value in options.items() if name in names})
        for factory, names in accepted.items()
    ]


def _dropped(*_plan: object) -> None:
    """The sink of plans that nobody follows."""
