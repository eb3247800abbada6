"""A model server that costs next to nothing: prepared answers in every wire format, from memory.

    mock_server.py            prints the port it listens on (127.0.0.1), serves until its standard input ends

The model's name chooses the answer:

    text-N       N text deltas of four characters
    tools-N      one call of the first tool per turn for N turns, then a short text
    bigargs-Nk   one call whose arguments are N kB of JSON, in deltas of 4 to 16 characters, then a short text
    NAME@MS      the same, one event per packet, MS milliseconds apart

Without `@` an answer is one write, each event its own HTTP chunk. Answers are built once and cached.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from functools import lru_cache
from typing import Any

import orjson
from mock_formats import FORMATS, answer

HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)


@lru_cache(4096)
def packets(format: str, script: str, turn: int, tool: str) -> list[bytes]:
    events = FORMATS[format].events(answer(script, turn, tool))
    chunks = [b"%x\r\n%b\r\n" % (len(event), event) for event in events]
    return [HEAD, *chunks, b"0\r\n\r\n"]


@lru_cache(4096)
def whole(format: str, script: str, turn: int, tool: str) -> bytes:
    return b"".join(packets(format, script, turn, tool))


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
            self.answer(head.split(b" ", 2)[1].decode().partition("?")[0], orjson.loads(body))

    def answer(self, path: str, body: dict[str, Any]) -> None:
        format = next(ending for ending in FORMATS if path.endswith(ending))
        model, turn, tool = FORMATS[format].request(path, body)
        script, _, pace = model.partition("@")
        if not pace:
            self.transport.write(whole(format, script, turn, tool))
            return
        parts = packets(format, script, turn, tool)
        self.playing = asyncio.ensure_future(self.play(parts, float(pace) / 1000))

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
