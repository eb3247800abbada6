"""Tools of every kind for tests: raw ones, functions, and objects of another package."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agent.tools import AgentTool, tool


def raw_tool(name: str, description: str = "", execute: Callable[..., Any] = lambda a, c: "ok") -> AgentTool:
    return AgentTool(name, description, {"type": "object"}, execute)


def run_function(function: Callable[..., Any], **arguments: Any) -> str:
    return tool(function).execute(arguments, None).text


def plain_function() -> str:
    return "fine"


@dataclass
class ForeignResult:
    content: Any
    is_error: bool = False
    details: Any = None
    meta: Any = None
    terminate: bool = False


@dataclass
class ForeignTool:
    name: Any = "foreign"
    description: Any = "Foreign."
    parameters: Any = field(default_factory=lambda: {"type": "object"})
    execute: Any = lambda arguments, context: ForeignResult("hello")
