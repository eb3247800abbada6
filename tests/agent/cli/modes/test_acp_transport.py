"""Lines of the Agent Client Protocol: good ones, odd ones, and descriptors of every kind."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import Any

import pytest

from agent.cli.modes import acp_transport
from agent.cli.modes.acp_transport import InvalidLine, StdioTransport, parse_message


@pytest.mark.parametrize(
    ("line", "code", "id"),
    [
        (b"null", -32600, None),
        (b"[]", -32600, None),
        (b'[{"jsonrpc": "2.0"}]', -32600, None),
        (b"42", -32600, None),
        (b'"text"', -32600, None),
        (b"nonsense", -32700, None),
        (b"\xff\xfe", -32700, None),
        (b"[" * 100_000, -32700, None),
        (b'{"id": NaN}', -32700, None),
        (b'{"id": -Infinity}', -32700, None),
        (b'{"id": 1.5}', -32600, None),
        (b'{"id": true, "method": "x"}', -32600, None),
        (b'{"id": [1], "method": "x"}', -32600, None),
        (b'{"id": {}, "result": 1}', -32600, None),
        (b'{"id": 7, "method": ["x"]}', -32600, 7),
        (None, -32600, None),
    ],
)
def test_a_line_that_is_no_message_has_an_error_to_reply_with(line: bytes | None, code: int, id: Any) -> None:
    """Z18"""
    with pytest.raises(InvalidLine) as raised:
        parse_message(line)
    assert raised.value.reply["error"]["code"] == code
    assert raised.value.reply["id"] == id
    json.dumps(raised.value.reply, allow_nan=False)


@pytest.mark.parametrize(
    "message",
    [
        {"id": 1, "method": "x", "params": {"n": 1.5}},
        {"id": "a", "result": None},
        {"id": None, "method": "x"},
        {"method": "notice"},
        {},
    ],
)
def test_a_message_is_taken_as_it_is(message: Mapping[str, Any]) -> None:
    assert parse_message(json.dumps(message).encode()) == message


def test_an_error_that_is_no_object_becomes_one() -> None:
    assert parse_message(b'{"id": 0, "error": "gone"}')["error"] == {"code": -32603, "message": "gone"}


Ends = tuple[int, int, int, int]


@pytest.fixture
def pipes() -> Iterator[Ends]:
    """The ends of two pipes: what the transport reads, its writer, what the transport writes, its reader."""
    reading, source = os.pipe()
    sink, writing = os.pipe()
    yield reading, source, writing, sink
    for descriptor in (source, sink, writing, reading):
        with suppress(OSError):
            os.close(descriptor)


@asynccontextmanager
async def _transport(pipes: Ends) -> AsyncIterator[StdioTransport]:
    """A transport on the pipes, read to its end afterwards."""
    reading, source, writing, _ = pipes
    transport = StdioTransport(reading, writing)
    try:
        yield transport
    finally:
        with suppress(OSError):
            os.close(source)
        while await transport.receive() is not None:
            pass
        await transport.close()


def test_odd_lines_are_answered_and_the_next_message_is_read(pipes: Ends) -> None:
    _, source, _, sink = pipes

    async def work() -> list[Any]:
        async with _transport(pipes) as transport:
            os.write(source, b'null\n\n  \n{"id": 1, "met')
            os.write(source, b'hod": "x"}\n[]\n{"method": "last"}\n')
            messages = [await transport.receive() for _ in range(2)]
            await transport.send({"id": 1, "result": "\u00fc"})
            return messages

    assert asyncio.run(work()) == [{"id": 1, "method": "x"}, {"method": "last"}]
    lines = [json.loads(line) for line in os.read(sink, 65536).splitlines()]
    assert [line.get("error", {}).get("code") for line in lines] == [-32600, -32600, None]
    assert lines[-1] == {"id": 1, "result": "\u00fc"}


def test_a_last_line_without_an_end_is_read(pipes: Ends) -> None:
    async def work() -> Any:
        async with _transport(pipes) as transport:
            os.write(pipes[1], b'{"method": "last"}')
            os.close(pipes[1])
            return await transport.receive()

    assert asyncio.run(work()) == {"method": "last"}


def test_a_line_that_is_too_long_is_answered_and_skipped(
    pipes: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acp_transport, "_LONGEST_LINE", 1000)

    async def work() -> Any:
        async with _transport(pipes) as transport:
            os.write(pipes[1], b"x" * 5000 + b'\n{"method": "next"}\n')
            message = await transport.receive()
            await transport.send({"id": 1, "result": 1})
            return message

    assert asyncio.run(work()) == {"method": "next"}
    first, *_ = os.read(pipes[3], 65536).splitlines()
    assert "at most 1000 bytes" in json.loads(first)["error"]["message"]


def test_a_full_queue_holds_up_the_reader_and_loses_nothing(pipes: Ends) -> None:
    async def work() -> list[Any]:
        async with _transport(pipes) as transport:
            for number in range(500):
                os.write(pipes[1], b'{"id": %d}\n' % number)
            return [(await transport.receive() or {})["id"] for _ in range(500)]

    assert asyncio.run(work()) == list(range(500))


@pytest.mark.parametrize(
    ("message", "fails"),
    [({"method": "update"}, True), ({"id": 1, "result": 2}, False)],
    ids=["request", "response"],
)
def test_a_reader_that_has_gone_fails_requests_only(
    pipes: Ends, message: dict[str, Any], fails: bool
) -> None:
    os.close(pipes[3])

    async def work() -> None:
        async with _transport(pipes) as transport:
            await transport.send(message)

    with pytest.raises(BrokenPipeError) if fails else nullcontext():
        asyncio.run(work())


def test_a_response_that_can_not_be_encoded_is_an_error_with_its_id(
    pipes: Ends, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        async with _transport(pipes) as transport:
            await transport.send({"id": 9, "result": object()})

    asyncio.run(work())
    reply = json.loads(os.read(pipes[3], 65536))
    assert (reply["id"], reply["error"]["code"]) == (9, -32603)
