"""Builds the usual sets of tools, each for one working directory.

The modules of the tools are imported when a set is built, so that importing the package stays cheap.
"""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_tools.plan import PlanSink
    from agent_tools.tool import Arguments, Tool

_CODING = ("read", "bash", "edit", "write", "grep", "find", "ls")
_READ_ONLY = ("read", "grep", "find", "ls")
_EXTRA = ("editdiff", "imageresize")


def coding_tools(cwd: str | os.PathLike[str] = ".", **options: object) -> list[Tool[Arguments]]:
    """Return the tools of a coding agent: read, bash, edit, write, grep, find, ls.

    Each option goes to every tool whose factory takes it: `reader` and `writer` to the file tools,
    `timeout`, `prefix` and `env` to bash, and so on. Raises TypeError for an option that no factory takes.

    `confine=True` confines every tool to `cwd`: the file tools refuse paths that lead outside, through links
    too, and bash runs its commands under bubblewrap or, where that is missing, not at all; `network=True`
    lets those commands reach the network.
    """
    return _build(_CODING, cwd, options)


def read_only_tools(cwd: str | os.PathLike[str] = ".", **options: object) -> list[Tool[Arguments]]:
    """Return the tools that change nothing: read, grep, find, ls. Options as for `coding_tools`."""
    return _build(_READ_ONLY, cwd, options)


def all_tools(
    cwd: str | os.PathLike[str] = ".", plan_sink: PlanSink | None = None, **options: object
) -> list[Tool[Arguments]]:
    """Return every tool: those of `coding_tools`, then editdiff, imageresize and plan.

    `plan_sink(title, entries, metadata)` receives the plans; without it they are accepted and discarded.
    Options as for `coding_tools`.
    """
    from agent_tools.plan import plan_tool

    return [*_build(_CODING + _EXTRA, cwd, options), plan_tool(plan_sink or _discard)]


def _build(
    names: Sequence[str], cwd: str | os.PathLike[str], options: dict[str, object]
) -> list[Tool[Arguments]]:
    factories = [_factory(name) for name in names]
    accepted = [set(inspect.signature(factory).parameters) - {"cwd"} for factory in factories]
    known = set().union(*accepted)
    unknown = sorted(options.keys() - known)
    if unknown:
        raise TypeError(f"unknown option {', '.join(unknown)}; known are {', '.join(sorted(known))}")
    return [
        factory(cwd, **{option: options[option] for option in options.keys() & taken})
        for factory, taken in zip(factories, accepted, strict=True)
    ]


def _factory(name: str) -> Callable[..., Tool[Arguments]]:
    factory: Callable[..., Tool[Arguments]] = getattr(
        importlib.import_module(f"agent_tools.{name}"), f"{name}_tool"
    )
    return factory


def _discard(*_plan: object) -> None:
    """Accept a plan and do nothing with it."""
