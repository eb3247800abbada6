"""Moves the messages of the Agent Client Protocol over standard input and output.

The package's own transport ends the connection, with every session, at a line that is no JSON object, and
takes pipes only. This one answers such a line with an error of JSON-RPC and reads on, and takes anything that
can be read and written.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, NoReturn

logger = logging.getLogger("agent")

_PARSE_ERROR, _INVALID_REQUEST, _INTERNAL_ERROR = -32700, -32600, -32603
# Enough for an image of the largest size that models accept, and several files.
_LONGEST_LINE = 64 * 1024 * 1024
# The reader waits when this many messages are not handled yet.
_WAITING_MESSAGES = 64
_READ_BYTES = 1 << 16

Message = dict[str, Any]
# A line to write, and the future to settle afterwards; None ends the thread.
_Write = tuple[bytes, "asyncio.Future[None] | None"] | None


class InvalidLine(Exception):
    """A line that is no message; `reply` is the error that answers it."""

    def __init__(self, code: int, text: str, id: object = None) -> None:
        super().__init__(text)
        self.reply: Message = {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}}


class StdioTransport:
    """Messages as lines of JSON on two descriptors: the `Transport` of the package.

    Threads: created and used on the event loop. One daemon thread reads and one writes, both with blocking
    calls of `os`, which work on pipes, files, terminals and devices and hold no lock of Python's streams.
    """

    def __init__(self, reading: int, writing: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._messages: asyncio.Queue[Message | None] = asyncio.Queue()
        self._places = threading.Semaphore(_WAITING_MESSAGES)
        self._writes: SimpleQueue[_Write] = SimpleQueue()
        threading.Thread(target=self._read, args=(reading,), name="acp-reader", daemon=True).start()
        threading.Thread(target=self._write, args=(writing,), name="acp-writer", daemon=True).start()

    async def receive(self) -> Message | None:
        """The next message; None at the end of the input."""
        message = await self._messages.get()
        self._places.release()
        return message

    async def send(self, message: Message) -> None:
        """Write a message and wait until it is written. Raises OSError when the reader has gone."""
        try:
            line = json.dumps(message, separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError) as error:
            if "method" in message:
                raise
            logger.warning("a response could not be encoded: %s", error)
            line = json.dumps(InvalidLine(_INTERNAL_ERROR, "internal error", message.get("id")).reply)
        written: asyncio.Future[None] = self._loop.create_future()
        self._writes.put((f"{line}\n".encode(), written))
        try:
            await written
        except OSError:
            if "method" in message:  # an unread response is no error
                raise

    async def close(self) -> None:
        """End the writer; the reader ends with its input."""
        self._writes.put(None)

    def _read(self, descriptor: int) -> None:
        with suppress(RuntimeError):  # the event loop has ended
            for line in _lines(descriptor):
                try:
                    self._deliver(parse_message(line))
                except InvalidLine as error:
                    self._writes.put((f"{json.dumps(error.reply)}\n".encode(), None))
            self._deliver(None)

    def _deliver(self, message: Message | None) -> None:
        self._places.acquire()
        self._loop.call_soon_threadsafe(self._messages.put_nowait, message)

    def _write(self, descriptor: int) -> None:
        while (write := self._writes.get()) is not None:
            line, written = write
            error: OSError | None = None
            try:
                while line:
                    line = line[os.write(descriptor, line) :]
            except OSError as failure:
                error = failure
            if written is not None:
                with suppress(RuntimeError):  # the event loop has ended
                    self._loop.call_soon_threadsafe(_settle, written, error)


def _settle(written: asyncio.Future[None], error: OSError | None) -> None:
    if written.done():
        return
    if error is None:
        written.set_result(None)
    else:
        written.set_exception(error)


def parse_message(line: bytes | None) -> Message:
    """The message of a line, in a form that the package can handle. Raises InvalidLine for any other line.

    None means that the line was too long.
    """
    if line is None:
        raise InvalidLine(_INVALID_REQUEST, f"a line is at most {_LONGEST_LINE} bytes long")
    try:
        message = json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidLine(_PARSE_ERROR, f"the line is not JSON: {error}") from None
    if not isinstance(message, dict):
        raise InvalidLine(_INVALID_REQUEST, "a message is a JSON object; batches are not supported")
    id = message.get("id")
    if isinstance(id, bool) or not isinstance(id, (str, int, type(None))):
        raise InvalidLine(_INVALID_REQUEST, "id must be a string, an integer or null")
    if not isinstance(message.get("method", ""), str):
        raise InvalidLine(_INVALID_REQUEST, "method must be a string", id)
    if "error" in message and not isinstance(message["error"], dict):
        message["error"] = {"code": _INTERNAL_ERROR, "message": str(message["error"])}
    return message


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _lines(descriptor: int) -> Iterator[bytes | None]:
    """The lines that are not blank; None for one that is too long, which is skipped to its end."""
    pieces: list[bytes] = []
    size = 0
    while piece := _read_some(descriptor):
        *complete, rest = piece.split(b"\n")
        for part in complete:
            pieces.append(part)
            yield from _finish_line(pieces, size + len(part))
            pieces, size = [], 0
        size += len(rest)
        if size <= _LONGEST_LINE:
            pieces.append(rest)
        else:
            pieces.clear()
    yield from _finish_line(pieces, size)


def _finish_line(pieces: list[bytes], size: int) -> Iterator[bytes | None]:
    if size > _LONGEST_LINE:
        yield None
    elif line := b"".join(pieces).strip():
        yield line


def _read_some(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _READ_BYTES)
    except OSError:  # a terminal that has gone
        return b""
