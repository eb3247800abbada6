"""A model server that costs next to nothing: OpenAI Chat Completions as server-sent events, from memory.

    mock_server.py            prints the port it listens on (127.0.0.1), serves until its standard input ends

The model's name chooses the answer:

    text-N       N text deltas of four characters
    tools-N      one call of the first tool per turn for N turns, then a short text
    bigargs-Nk   one call whose arguments are N kB of JSON, in deltas of 4 to 16 characters, then a short text
    NAME@MS      the same, one event per packet, MS milliseconds apart

Without `@` an answer is one write, each event an HTTP chunk of its own. Answers are made once and kept.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import threading
from functools import lru_cache
from typing import Any

import orjson

HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
CREATED = 1_700_000_000


def split(text: str) -> list[str]:
    """`text` in pieces of 4 to 16 characters, as tokens come; the same ones every time."""
    sizes, pieces, at = random.Random(7), [], 0
    while at < len(text):
        size = sizes.randint(4, 16)
        pieces.append(text[at : at + size])
        at += size
    return pieces


def source_code(size: int) -> str:
    """Python text whose JSON form has about `size` bytes, with much in it to escape."""
    lines, length, number = [], 0, 0
    while length < size:
        line = f'def f{number}(a, b):\n    """doc \\ {number}"""\n    return a + b  # "quoted"\n'
        lines.append(line)
        length += len(orjson.dumps(line)) - 2
        number += 1
    return "".join(lines)


def deltas(script: str, turn: int, tool: str) -> tuple[list[dict[str, Any]], str]:
    """The deltas of one answer and its finish reason."""
    kind, _, size = script.partition("-")
    if kind == "text":
        return [{"content": f" w{i % 100:02}"} for i in range(int(size))], "stop"
    if turn >= (int(size) if kind == "tools" else 1):
        return [{"content": piece} for piece in ("All ", "done", ".")], "stop"
    value = "x" * 20 if kind == "tools" else source_code(int(size.removesuffix("k")) * 1000)
    pieces = split(orjson.dumps({"value": value}).decode())
    start = {"id": f"call_{turn}", "type": "function", "function": {"name": tool, "arguments": ""}}
    calls = [start, *({"function": {"arguments": piece}} for piece in pieces)]
    return [{"tool_calls": [{"index": 0, **call}]} for call in calls], "tool_calls"


def events(script: str, turn: int, tool: str) -> list[bytes]:
    def chunk(choices: list[dict[str, Any]], **more: Any) -> bytes:
        shared = {"id": f"chatcmpl-{turn}", "object": "chat.completion.chunk", "created": CREATED}
        return b"data: " + orjson.dumps({**shared, "model": script, "choices": choices, **more}) + b"\n\n"

    def choice(delta: dict[str, Any], finish: str | None = None) -> list[dict[str, Any]]:
        return [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]

    answer, finish = deltas(script, turn, tool)
    usage = {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105}
    first = chunk(choice({"role": "assistant", "content": ""}))
    last = [chunk(choice({}, finish)), chunk([], usage=usage), b"data: [DONE]\n\n"]
    return [first, *(chunk(choice(delta)) for delta in answer), *last]


@lru_cache(4096)
def packets(script: str, turn: int, tool: str) -> list[bytes]:
    chunks = [b"%x\r\n%b\r\n" % (len(event), event) for event in events(script, turn, tool)]
    return [HEAD, *chunks, b"0\r\n\r\n"]


@lru_cache(4096)
def whole(script: str, turn: int, tool: str) -> bytes:
    return b"".join(packets(script, turn, tool))


class Connection(asyncio.Protocol):
    """One keep-alive connection: POST requests with a content length, answered in order."""

    def __init__(self) -> None:
        self.buffer = b""
        self.transport: Any = None
        self.playing: asyncio.Task[None] | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        self.answer_all()

    def answer_all(self) -> None:
        while self.transport and not self.playing:
            head, end, rest = self.buffer.partition(b"\r\n\r\n")
            if not end:
                return
            length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
            if len(rest) < length:
                return
            body, self.buffer = rest[:length], rest[length:]
            self.answer(orjson.loads(body))

    def answer(self, request: dict[str, Any]) -> None:
        tool = request["tools"][0]["function"]["name"] if request.get("tools") else ""
        turn = sum(1 for message in request["messages"] if message.get("tool_calls"))
        script, _, pace = request["model"].partition("@")
        if not pace:
            self.transport.write(whole(script, turn, tool))
            return
        self.playing = asyncio.ensure_future(self.play(packets(script, turn, tool), float(pace) / 1000))

    async def play(self, parts: list[bytes], pause: float) -> None:
        for part in parts:
            if not self.transport:
                return
            self.transport.write(part)
            await asyncio.sleep(pause)
        self.playing = None
        self.answer_all()


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        import uvloop as loops
    except ImportError:
        loops = asyncio
    loops.run(serve())
