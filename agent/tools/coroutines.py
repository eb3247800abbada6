"""Runs a coroutine on a thread that has no event loop. Imports asyncio, so it is loaded when needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from agent.errors import ToolError


def run_coroutine(work: Coroutine[Any, Any, Any], cancel: Any) -> Any:
    """The result of the coroutine, run on an event loop of its own.

    When `cancel` is a token with `on_cancel`, the coroutine is cancelled with it, wherever it waits; then
    ToolError is raised, unless it returns anyway.
    """
    try:
        return asyncio.run(_watched(work, getattr(cancel, "on_cancel", None)))
    except asyncio.CancelledError:
        if cancel is not None and cancel.is_set():
            raise ToolError("cancelled") from None
        raise


async def _watched(
    work: Coroutine[Any, Any, Any], on_cancel: Callable[[Callable[[], object]], Callable[[], None]] | None
) -> Any:
    task = asyncio.ensure_future(work)
    if on_cancel is None:
        return await task
    loop = asyncio.get_running_loop()

    def stop() -> None:
        with suppress(RuntimeError):  # the loop has just ended
            loop.call_soon_threadsafe(task.cancel)

    forget = on_cancel(stop)
    try:
        return await task
    finally:
        forget()
