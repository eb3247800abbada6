"""Small HTTP chunks become large ones, and the parser behind sees the same message."""

from __future__ import annotations

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.providers.http.chunks import ChunkMerger

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunked(*parts: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + end


def parsed(pieces: list[bytes]) -> tuple[bytes, int, bool]:
    """Body, number of data events and whether the message ended, as the HTTP parser sees the pieces."""
    parser = h11.Connection(h11.CLIENT)
    parser.send(h11.Request(method="POST", target="/", headers=[("host", "x")]))
    parser.send(h11.EndOfMessage())
    body, events, ended = b"", 0, False
    for piece in pieces:
        if piece:
            parser.receive_data(piece)
        while (event := parser.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
            if isinstance(event, h11.Data):
                body, events = body + bytes(event.data), events + 1
            elif isinstance(event, h11.EndOfMessage):
                ended = True
                break
    return body, events, ended


def merged(*reads: bytes) -> list[bytes]:
    merger = ChunkMerger()
    return [merger.feed(read) for read in reads]


def test_chunks_that_came_together_reach_the_parser_as_one() -> None:
    reads = merged(HEAD + chunked(*[b"data: x\n\n"] * 300))
    assert parsed(reads) == (b"data: x\n\n" * 300, 1, True)


def test_part_of_a_chunk_is_not_held_back() -> None:
    reads = merged(HEAD, b"a\r\n01234", b"56789\r", b"\n3\r\nab")
    assert parsed(reads)[0] == b"0123456789ab"


def test_bytes_of_framing_alone_give_nothing_to_parse() -> None:
    assert merged(HEAD, b"1", b"0\r", b"\n") == [HEAD, b"", b"", b""]


def test_a_chunk_extension_and_trailers_are_accepted() -> None:
    reads = merged(HEAD + b"3;name=value\r\nabc\r\n0\r\nX-Trailer: 1\r\n\r\n")
    assert parsed(reads) == (b"abc", 1, True)


def test_an_informational_head_may_come_first() -> None:
    reads = merged(
        b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + HEAD[:20], HEAD[20:] + chunked(b"a", b"b")
    )
    assert parsed(reads) == (b"ab", 1, True)


@pytest.mark.parametrize(
    "message",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n3\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nx: transfer-encoding: chunked\r\ncontent-length: 8\r\n\r\n3\r\nabc\r\n",
        b"HTTP/1.1 200 OK\ncontent-length: 2\n\nab",
    ],
)
def test_a_body_of_another_kind_passes_unchanged(message: bytes) -> None:
    assert b"".join(merged(message[:10], message[10:])) == message


@pytest.mark.parametrize("size", [b"xyz", b"-3", b"", b"1" * 2000])
def test_what_is_no_chunk_is_left_for_the_parser_to_refuse(size: bytes) -> None:
    with pytest.raises(h11.RemoteProtocolError):
        parsed(merged(HEAD + chunked(b"ok", end=b"") + size + b"\r\nabc\r\n" + chunked(b"more")))


def test_the_next_response_on_the_connection_is_parsed_from_its_head() -> None:
    merger = ChunkMerger()
    for _ in range(2):
        merger.restart()
        assert parsed([merger.feed(HEAD + chunked(b"a", b"b"))]) == (b"ab", 1, True)


@given(
    st.lists(st.binary(min_size=1, max_size=40), max_size=8),
    st.lists(st.integers(1, 30), min_size=1, max_size=9),
)
def test_however_the_bytes_are_cut_the_message_is_the_same(parts: list[bytes], sizes: list[int]) -> None:
    message, reads, at = HEAD + chunked(*parts), [], 0
    while at < len(message):
        reads.append(message[at : at + sizes[len(reads) % len(sizes)]])
        at += len(reads[-1])
    body, _, ended = parsed(merged(*reads))
    assert (body, ended) == (b"".join(parts), True)
