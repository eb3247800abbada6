"""Serves the tools over MCP on standard input and output.

    python -m agent_tools.mcp --root DIR [--read-only] [--confine] [--pass-env NAME]

Needs the extra `[mcp]`. Relative paths start from DIR. Only `--confine` keeps the tools inside it; bash then
runs under bubblewrap, without network. Commands do not see variables that hold keys, tokens or passwords,
except those named with `--pass-env`. Logs go to standard error. When the client closes standard input, and
on SIGTERM, SIGHUP and SIGINT, every running command is killed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, NoReturn, TextIO

from agent_tools.adapters import blocks_for_model, call_tool, require
from agent_tools.tool import AnyTool, Arguments, Result, TextBlock, Tool

EXTRA = "steady-agent[mcp]"

_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")
# Characters of a progress message: clients show one line.
_MESSAGE_LENGTH = 200


def make_server(tools: Iterable[AnyTool], name: str = "agent-tools") -> Any:
    """Return an `mcp.server.lowlevel.Server` that serves the tools.

    Calls run at the same time, each on its own thread; cancelling a request cancels its call. A failed call
    is a result with `isError`, so that the model sees its text. Raises ImportError without the extra `[mcp]`.
    """
    if not hasattr(require("mcp", EXTRA), "Client"):
        raise ImportError(f"the installed mcp is older than 2: pip install '{EXTRA}'")
    server = importlib.import_module("mcp.server.lowlevel").Server
    types = importlib.import_module("mcp.types")
    by_name = {tool.name: tool for tool in tools}

    async def list_tools(ctx: Any, params: Any) -> Any:
        return types.ListToolsResult(tools=[_describe(types, tool) for tool in by_name.values()])

    async def call(ctx: Any, params: Any) -> Any:
        tool = by_name.get(params.name)
        if tool is None:
            names = ", ".join(by_name)
            result = Result(f"Tool {params.name} not found. Available: {names}", is_error=True)
        else:
            arguments = params.arguments or {}
            result = await call_tool(tool, arguments, str(ctx.request_id), _Progress(ctx.session))
        return types.CallToolResult(
            content=[
                types.TextContent(type="text", text=block.text)
                if isinstance(block, TextBlock)
                else types.ImageContent(type="image", data=block.data, mime_type=block.mime_type)
                for block in blocks_for_model(result)
            ],
            is_error=result.is_error,
        )

    return server(name, version=_version(), on_list_tools=list_tools, on_call_tool=call)


class _Progress:
    """Sends the progress of a call to the client, which may extend its time limit for it.

    Created on the event loop, called on the thread of the tool.
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        self._loop = asyncio.get_running_loop()
        self._count = 0

    def __call__(self, partial: Result) -> None:
        self._count += 1
        message = partial.status_message or partial.text.rstrip().rpartition("\n")[2]
        report = self._session.report_progress(float(self._count), message=message[-_MESSAGE_LENGTH:])
        asyncio.run_coroutine_threadsafe(report, self._loop)


def _describe(types: Any, tool: AnyTool) -> Any:
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.parameters,
        annotations=types.ToolAnnotations(
            title=getattr(tool, "label", tool.name), read_only_hint=getattr(tool, "read_only", False)
        ),
    )


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("steady-agent")
    except PackageNotFoundError:  # a checkout that is not installed
        return "0"


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until standard input ends; the exit code is 2 for wrong arguments, 1 without the extra."""
    parser = argparse.ArgumentParser(
        prog="python -m agent_tools.mcp",
        description="Serve the coding tools over MCP on standard input and output.",
    )
    parser.add_argument(
        "--root", metavar="DIR", default=".", help="the folder relative paths start from (default: this one)"
    )
    parser.add_argument("--read-only", action="store_true", help="serve only read, grep, find and ls")
    parser.add_argument(
        "--confine", action="store_true", help="refuse what is outside DIR; bash needs bubblewrap for it"
    )
    parser.add_argument(
        "--pass-env",
        metavar="NAME",
        action="append",
        default=[],
        help="let commands see this variable although it looks like a secret (may be repeated)",
    )
    options = parser.parse_args(argv)
    root = os.path.abspath(options.root)
    if not os.path.isdir(root):
        parser.error(f"--root is not a folder: {root}")

    from agent_tools.process.own_secrets import hide_own_secrets

    hide_own_secrets()
    try:
        server = make_server(_served_tools(root, options))
    except ImportError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    _end_on_signals()
    asyncio.run(_serve(server))
    return 0


def _served_tools(root: str, options: argparse.Namespace) -> list[Tool[Arguments]]:
    from agent_tools.toolsets import coding_tools, read_only_tools

    if options.read_only:
        return read_only_tools(root, confine=options.confine)
    return coding_tools(root, confine=options.confine, env_filter=True, pass_env=options.pass_env)


def _parseable(line: str) -> str:
    """Return a line of JSON in a form that the SDK can parse.

    Its parser refuses a line with half a surrogate pair, as models write them when they cut an emoji, and the
    call would never be answered. Such a half becomes U+FFFD.
    """
    if _SURROGATE_ESCAPE.search(line):
        with contextlib.suppress(ValueError, RecursionError):
            # json.loads joins whole pairs.
            text = json.dumps(json.loads(line), ensure_ascii=False)
            return _SURROGATE.sub("\ufffd", text) + "\n"
    return line


class _Lines:
    """The lines of standard input, for the SDK to iterate over."""

    def __init__(self, file: Any) -> None:
        self._file = file

    async def __aiter__(self) -> AsyncIterator[str]:
        async for line in self._file:
            yield _parseable(line)


def _standard_input() -> TextIO:
    """Take standard input over; file descriptor 0 then is empty, so that nothing else reads from it."""
    taken, empty = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    # A thread may be reading when the server ends, so the descriptor is never closed.
    return open(taken, encoding="utf-8", errors="replace", closefd=False)


async def _serve(server: Any) -> None:
    stdio = importlib.import_module("mcp.server.stdio")
    stdin = _Lines(importlib.import_module("anyio").wrap_file(_standard_input()))
    async with stdio.stdio_server(stdin=stdin) as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def _end_on_signals() -> None:
    """Kill every command and exit on a signal.

    Not by an exception: the thread that reads standard input would block the exit of the interpreter.
    """
    from agent_tools.process.runner import kill_all
    from agent_tools.process.scratch import delete_all

    def exit_now(number: int, frame: object) -> NoReturn:
        kill_all(final=True)
        delete_all()
        os._exit(128 + number)

    for name in ("SIGTERM", "SIGHUP", "SIGINT"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), exit_now)


if __name__ == "__main__":
    sys.exit(main())
