"""The usual sets of tools, each made for one working directory.

The tools' own modules are imported when a set is built, so that importing the package stays cheap.
"""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_tools.plan import PlanSink
    from agent_tools.tool import Tool

_CODING = ("read", "bash", "edit", "write", "grep", "find", "ls")
_READ_ONLY = ("read", "grep", "find", "ls")
_BESIDES = ("editdiff", "imageresize")


def coding_tools(cwd: str | os.PathLike[str] = ".", **options: Any) -> list[Tool[Any]]:
    """What a coding agent works with: read, bash, edit, write, grep, find, ls.

    Each option goes to every tool whose factory takes it: `reader` and `writer` to the file tools,
    `timeout`, `prefix` and `env` to bash, and so on. TypeError for an option that none takes.

    `confine=True` makes `cwd` a fence: the file tools refuse what lies outside it, through links too (see
    agent_tools.confine), and bash runs under bubblewrap (agent_tools.sandbox) or, without it, not at all;
    `network=True` lets its commands reach the network.
    """
    return _build(_CODING, cwd, options)


def read_only_tools(cwd: str | os.PathLike[str] = ".", **options: Any) -> list[Tool[Any]]:
    """What only looks: read, grep, find, ls. Options as for `coding_tools`."""
    return _build(_READ_ONLY, cwd, options)


def all_tools(
    cwd: str | os.PathLike[str] = ".", plan_sink: PlanSink | None = None, **options: Any
) -> list[Tool[Any]]:
    """Every tool: those of `coding_tools`, then editdiff, imageresize and plan.

    `plan_sink(title, entries, metadata)` gets the plans; without one they are accepted and dropped. Options
    as for `coding_tools`.
    """
    from agent_tools.plan import plan_tool

    return [*_build(_CODING + _BESIDES, cwd, options), plan_tool(plan_sink or _dropped)]


def _build(names: Sequence[str], cwd: str | os.PathLike[str], options: dict[str, Any]) -> list[Tool[Any]]:
    factories = [_factory(name) for name in names]
    accepted = [set(inspect.signature(factory).parameters) - {"cwd"} for factory in factories]
    known = set().union(*accepted)
    unknown = sorted(options.keys() - known)
    if unknown:
        raise TypeError(f"unknown option {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    return [
        factory(cwd, **{option: options[option] for option in options.keys() & taken})
        for factory, taken in zip(factories, accepted, strict=True)
    ]


def _factory(name: str) -> Callable[..., Tool[Any]]:
    factory: Callable[..., Tool[Any]] = getattr(
        importlib.import_module(f"agent_tools.{name}"), f"{name}_tool"
    )
    return factory


def _dropped(*_plan: object) -> None:
    """The sink of plans that nobody follows."""
