"""Runs one tool call on a daemon thread of its own.

Never on a `ThreadPoolExecutor`, whose stuck task holds the exit of the interpreter.
"""

from __future__ import annotations

import contextvars
import copy
import threading
from collections.abc import Callable
from typing import Any, Literal

from agent.cancel import CancelToken
from agent.runs import RunMetadata, cancel_with, forward_events_to
from agent.threads import start_thread
from agent.tools.definition import ToolContext, ToolLike
from agent.tools.results import to_result

MessageKind = Literal["update", "usage", "event", "done", "failed"]
"""`update`: a partial ToolResult. `usage`: tokens that the tool spent. `event`: of a run that it started.
`done`: its ToolResult. `failed`: the exception that it raised. One of the last two comes once, at the end."""


def start_execution(
    tool: ToolLike,
    tool_call_id: str,
    arguments: dict[str, Any],
    cancel: CancelToken,
    run: RunMetadata | None,
    post: Callable[[MessageKind, Any], object],
) -> None:
    """Start `tool.execute` on a daemon thread, in a copy of the current context variables; returns at once.

    `post(kind, value)` receives everything that comes of it. It is called on the tool's thread, on threads
    that the tool starts and on those of runs inside it, and must not block. The arguments are copied: what a
    tool changes in them does not reach the conversation. Raises RuntimeError when no thread can be started.
    """
    thread = threading.Thread(
        target=contextvars.copy_context().run,
        args=(_execute, tool, tool_call_id, arguments, cancel, run, post),
        name=f"agent-tool-{tool.name}",
        daemon=True,
    )
    start_thread(thread)


def _execute(
    tool: ToolLike,
    tool_call_id: str,
    arguments: dict[str, Any],
    cancel: CancelToken,
    run: RunMetadata | None,
    post: Callable[[MessageKind, Any], object],
) -> None:
    cancel_with(cancel)
    forward_events_to(lambda event: post("event", event))
    context = ToolContext(
        tool_call_id,
        cancel,
        lambda partial: post("update", partial),
        run,
        on_usage=lambda usage: post("usage", usage),
    )
    kind: Literal["done", "failed"] = "done"
    try:
        value: Any = to_result(tool.execute(copy.deepcopy(arguments), context))
    except BaseException as error:
        kind, value = "failed", error
    post(kind, value)
