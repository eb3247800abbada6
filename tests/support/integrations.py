"""Helpers for tests inside other frameworks: imports that may be missing, commands that must end."""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from support.running import becomes_true

# Writes its process id and stays, as a child too, until it is killed.
STAYING = "echo $$ > pid; sleep 60; true"


def need(module: str, package: str) -> Any:
    """The framework, or skip the whole test module; under `make integrations` fail instead."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        if os.environ.get("AGENT_REQUIRE_INTEGRATIONS") == "1":
            raise
        pytest.skip(f"{package} is not installed; run `make integrations`", allow_module_level=True)


def alive(process: int) -> bool:
    """Whether a process of that id exists."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def ends(process: int) -> bool:
    """Whether the process is gone within 20 seconds."""
    return becomes_true(lambda: not alive(process), 20)


def process_in(folder: Path) -> int:
    """The process id that `STAYING` wrote, once it has."""
    path = folder / "pid"
    assert becomes_true(lambda: path.exists() and path.read_text().endswith("\n"), 20)
    return int(path.read_text())


def cancel_kills(start: Callable[[], Awaitable[Any]], folder: Path) -> bool:
    """Await `start()`, cancel it once its command runs `STAYING`, and return whether the command is gone."""

    async def main() -> bool:
        task = asyncio.ensure_future(start())
        process = await asyncio.to_thread(process_in, folder)
        task.cancel()
        await asyncio.wait({task}, timeout=20)
        assert task.cancelled()
        return await asyncio.to_thread(ends, process)

    return asyncio.run(main())
