"""The MCP server, driven by the official client, by FastMCP's, and by hand."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.integrations import STAYING, ends, need, process_in

mcp = need("mcp", "mcp")

ROOT = Path(__file__).parents[2]
# The clients hand on only a few variables of their own choice.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def arguments(root: Path, *more: str) -> list[str]:
    return ["-m", "agent_tools.mcp", "--root", str(root), *more]


def with_client(root: Path, use: Callable[[Any], Awaitable[Any]], *more: str, mode: str = "auto") -> Any:
    """Start a server, connect the official client, and return what `use(client)` gives."""
    server = mcp.StdioServerParameters(
        command=sys.executable, args=arguments(root, *more), env=ENVIRONMENT, cwd=str(root)
    )

    async def main() -> Any:
        async with mcp.Client(server, mode=mode) as client:
            return await use(client)

    return asyncio.run(asyncio.wait_for(main(), 60))


def call(root: Path, name: str, **given: Any) -> Any:
    return with_client(root, lambda client: client.call_tool(name, given))


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_tools_are_listed_with_schema_and_hints(tmp_path: Path, mode: str) -> None:
    listed = with_client(tmp_path, lambda client: client.list_tools(), mode=mode)
    tools = {tool.name: tool for tool in listed.tools}
    assert list(tools) == ["read", "bash", "edit", "write", "grep", "find", "ls"]
    assert tools["read"].input_schema["required"] == ["path"]
    assert tools["read"].annotations.read_only_hint is True
    assert tools["bash"].annotations.read_only_hint is False
    assert all(tool.description for tool in tools.values())


def test_read_only_leaves_out_what_changes_things(tmp_path: Path) -> None:
    listed = with_client(tmp_path, lambda client: client.list_tools(), "--read-only")
    assert [tool.name for tool in listed.tools] == ["read", "grep", "find", "ls"]


def test_paths_start_at_the_root(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    result = call(tmp_path, "read", path="a.txt")
    assert not result.is_error
    assert result.content[0].text == "hello\n"
    assert result.content[1].text.startswith("[hash: ")


@pytest.mark.parametrize("confine", [False, True])
def test_the_root_confines_the_tools_on_request(tmp_path: Path, confine: bool) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "secret.txt").write_text("SECRET\n")

    async def use(client: Any) -> list[Any]:
        read = await client.call_tool("read", {"path": "../secret.txt"})
        return [read, await client.call_tool("bash", {"command": "cat ../secret.txt"})]

    results = with_client(tmp_path / "root", use, *["--confine"] * confine)
    assert [result.is_error for result in results] == [confine, confine]
    assert all(("SECRET" in result.content[0].text) != confine for result in results)


def test_a_file_is_written_and_edited(tmp_path: Path) -> None:
    async def use(client: Any) -> None:
        await client.call_tool("write", {"path": "new/b.txt", "content": "one\ntwo\n"})
        edits = [{"oldText": "one", "newText": "1"}, {"oldText": "two", "newText": "2"}]
        result = await client.call_tool("edit", {"path": "new/b.txt", "edits": edits})
        assert not result.is_error, result

    with_client(tmp_path, use)
    assert (tmp_path / "new" / "b.txt").read_text() == "1\n2\n"


def test_an_image_arrives_as_an_image(tmp_path: Path) -> None:
    Image.new("RGB", (2400, 30)).save(tmp_path / "a.png")
    result = call(tmp_path, "read", path="a.png")
    (image,) = [block for block in result.content if block.type == "image"]
    assert image.mime_type == "image/png"
    assert Image.open(io.BytesIO(base64.b64decode(image.data))).size == (2000, 25)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("read", {"path": "nope.txt"}, "nope.txt"),
        ("read", {}, "path is required"),
        ("bash", {"command": "exit 3"}, "3"),
        ("reed", {}, "Tool reed not found. Available: read, bash"),
    ],
)
def test_a_failure_is_a_result_that_the_model_sees(
    tmp_path: Path, name: str, given: dict[str, Any], message: str
) -> None:
    result = call(tmp_path, name, **given)
    assert result.is_error
    assert message in result.content[0].text


def test_calls_run_at_the_same_time(tmp_path: Path) -> None:
    """Each of two commands waits for the other."""

    async def use(client: Any) -> Any:
        commands = [
            f"touch {mine}; until [ -e {other} ]; do sleep 0.02; done; echo met"
            for mine, other in (("a", "b"), ("b", "a"))
        ]
        return await asyncio.gather(
            *(client.call_tool("bash", {"command": command, "timeout": 20}) for command in commands)
        )

    assert ["met" in result.content[0].text for result in with_client(tmp_path, use)] == [True, True]


def test_a_cancelled_request_kills_its_command(tmp_path: Path) -> None:
    async def use(client: Any) -> None:
        request = asyncio.create_task(client.call_tool("bash", {"command": STAYING, "timeout": 60}))
        process = await asyncio.to_thread(process_in, tmp_path)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        assert await asyncio.to_thread(ends, process)
        result = await client.call_tool("ls", {})
        assert "pid" in result.content[0].text

    with_client(tmp_path, use)


def test_progress_reaches_the_client(tmp_path: Path) -> None:
    messages: list[str] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        messages.append(message or "")

    async def use(client: Any) -> Any:
        command = "for i in 1 2 3 4; do echo step $i; sleep 0.3; done"
        return await client.call_tool("bash", {"command": command}, progress_callback=on_progress)

    result = with_client(tmp_path, use)
    assert "step 4" in result.content[0].text
    assert any("step" in message for message in messages)


def test_fastmcps_client_gets_along_with_it(tmp_path: Path) -> None:
    fastmcp, transports = need("fastmcp", "fastmcp"), need("fastmcp.client.transports", "fastmcp")
    (tmp_path / "a.txt").write_text("hello\n")

    async def main() -> Any:
        transport = transports.StdioTransport(
            sys.executable, arguments(tmp_path), env=ENVIRONMENT, keep_alive=False
        )
        async with fastmcp.Client(transport) as client:
            names = [tool.name for tool in await client.list_tools()]
            result = await client.call_tool("grep", {"pattern": "hell", "path": "."})
            failed = await client.call_tool("read", {"path": "nope"}, raise_on_error=False)
            return names, result.content[0].text, failed.is_error

    names, text, is_error = asyncio.run(asyncio.wait_for(main(), 60))
    assert "grep" in names
    assert "a.txt:1: hello" in text
    assert is_error


# By hand


class Wire:
    """A server and its two pipes, spoken to in JSON lines."""

    def __init__(self, root: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *arguments(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
            text=True,
            start_new_session=True,
        )
        self.ask(
            "initialize",
            protocolVersion="2025-06-18",
            capabilities={},
            clientInfo={"name": "by hand", "version": "0"},
        )
        self.send(method="notifications/initialized")

    def send(self, **message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def ask(self, method: str, **params: Any) -> Any:
        assert self.process.stdout is not None
        self.send(id=1, method=method, params=params)
        return json.loads(self.process.stdout.readline())["result"]

    def end(self) -> None:
        with self.process:  # closes the pipes and waits
            self.process.kill()


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[Wire]:
    made = Wire(tmp_path)
    yield made
    made.end()


def start_command(wire: Wire, root: Path) -> int:
    wire.send(
        id=2,
        method="tools/call",
        params={"name": "bash", "arguments": {"command": STAYING, "timeout": 60}},
    )
    return process_in(root)


def test_an_older_protocol_by_hand(wire: Wire, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    result = wire.ask("tools/call", name="read", arguments={"path": "a.txt"})
    assert result["content"][0] == {"type": "text", "text": "hello\n"}
    assert not result.get("isError", False)


def test_a_call_with_half_a_surrogate_pair_is_answered(wire: Wire) -> None:
    """Z18"""
    answer = wire.ask("tools/call", name="bash", arguments={"command": "echo \ud83d x"})
    assert answer["content"][0]["text"] == "\ufffd x\n"


def test_when_the_client_goes_away_commands_and_server_end(wire: Wire, tmp_path: Path) -> None:
    process = start_command(wire, tmp_path)
    assert wire.process.stdin is not None
    wire.process.stdin.close()
    assert wire.process.wait(20) == 0
    assert ends(process)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_a_signal_ends_commands_and_server(wire: Wire, tmp_path: Path, name: str) -> None:
    process = start_command(wire, tmp_path)
    wire.process.send_signal(getattr(signal, name))
    assert wire.process.wait(20) == 128 + getattr(signal, name)
    assert ends(process)


def test_what_a_command_prints_does_not_reach_the_wire(wire: Wire) -> None:
    result = wire.ask("tools/call", name="bash", arguments={"command": "echo noise; echo more >&2"})
    assert "noise" in result["content"][0]["text"]


def test_a_root_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, *arguments(tmp_path / "nope")],
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "--root is not a folder" in done.stderr
    assert done.stdout == ""
