"""Runs the command `agent` as a child process against a scripted server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def environment(**more: str) -> dict[str, str]:
    """An environment without keys, model or settings."""
    keep = ("PATH", "HOME", "TMPDIR", "LANG")
    clean = {name: os.environ[name] for name in keep if name in os.environ}
    return clean | {"PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": os.devnull} | more


def arguments(url: str, *words: str) -> list[str]:
    """The command line that talks to a server at `url`.

    Without a folder of its own it works in the repository, whose AGENTS.md it leaves out.
    """
    folder = [] if "--cwd" in words else ["--no-context-files"]
    return [sys.executable, "-m", "agent", "--model", "local/test", "--base-url", url, *folder, *words]


def run_command(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run it to its end; standard input is empty unless given."""
    source: dict[str, Any] = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
    return subprocess.run(
        command,
        env=env or environment(),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **source,
    )


def text_chunks(*deltas: str, finish: str = "stop") -> list[str]:
    """The body of an answer of text."""
    return [chunk({"content": delta}) for delta in deltas] + [chunk({}, finish), "data: [DONE]\n\n"]


def call_chunks(name: str, arguments: Mapping[str, Any], id: str = "c1") -> list[str]:
    """The body of an answer that calls one tool."""
    call = {"index": 0, "id": id, "function": {"name": name, "arguments": json.dumps(arguments)}}
    return [chunk({"tool_calls": [call]}), chunk({}, "tool_calls"), "data: [DONE]\n\n"]


def chunk(delta: Mapping[str, Any], finish: str | None = None) -> str:
    body = {"id": "x", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return f"data: {json.dumps(body)}\n\n"
