"""The chunks of a body are read without the parser, and the message is the one that the parser would read."""

from __future__ import annotations

import h11
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.providers.http.chunks import ChunkReader, HeadSplitter

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunked(*parts: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + end


def new_parser() -> h11.Connection:
    parser = h11.Connection(h11.CLIENT)
    parser.send(h11.Request(method="POST", target="/", headers=[("host", "x")]))
    parser.send(h11.EndOfMessage())
    return parser


class Parsed:
    """What h11 makes of some bytes: statuses of heads, body, whether the message ended, or an error."""

    def __init__(self) -> None:
        self.parser = new_parser()
        self.statuses: list[int] = []
        self.body = b""
        self.data_events = 0
        self.ended = self.failed = False

    def feed(self, data: bytes) -> None:
        self.parser.receive_data(data)
        try:
            while not self.ended and (event := self.parser.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                if isinstance(event, h11.Response | h11.InformationalResponse):
                    self.statuses.append(event.status_code)
                elif isinstance(event, h11.Data):
                    self.body += bytes(event.data)
                    self.data_events += 1
                elif isinstance(event, h11.EndOfMessage):
                    self.ended = True
        except h11.RemoteProtocolError:
            self.failed = True

    @property
    def is_over(self) -> bool:
        return self.ended or self.failed


def by_h11(reads: list[bytes]) -> Parsed:
    parsed = Parsed()
    for read in reads:
        if not parsed.is_over:
            parsed.feed(read)
    return parsed


def by_us(reads: list[bytes]) -> Parsed:
    """As a connection uses the two classes: heads to h11, chunks to the reader, the rest to h11."""
    parsed, splitter, reader = Parsed(), HeadSplitter(), ChunkReader()
    for read in reads:
        data = read
        while data and not parsed.is_over:
            if splitter.is_active:
                head, data = splitter.split(data)
                parsed.feed(head)
                splitter.is_active = splitter.is_active and not any(s >= 200 for s in parsed.statuses)
            elif splitter.at_end and reader.rest is None:
                parsed.body += reader.feed(data)
                parsed.failed = reader.is_malformed
                data = reader.rest or b""
            else:
                parsed.feed(data)
                data = b""
    return parsed


def cut(message: bytes, sizes: list[int]) -> list[bytes]:
    reads: list[bytes] = []
    at = 0
    while at < len(message):
        reads.append(message[at : at + sizes[len(reads) % len(sizes)]])
        at += len(reads[-1])
    return reads


def test_the_parser_sees_no_usual_chunk() -> None:
    parsed = by_us([HEAD + chunked(*[b"data: x\n\n"] * 300)])
    assert (parsed.body, parsed.data_events, parsed.ended) == (b"data: x\n\n" * 300, 0, True)


def test_part_of_a_chunk_is_not_held_back() -> None:
    reader = ChunkReader()
    assert [reader.feed(read) for read in (b"a\r\n01234", b"56789\r", b"\n3\r\nab")] == [
        b"01234",
        b"56789",
        b"ab",
    ]


def test_bytes_of_framing_alone_give_no_data() -> None:
    reader = ChunkReader()
    assert [reader.feed(read) for read in (b"1", b"0\r", b"\n")] == [b"", b"", b""]
    assert reader.rest is None


@pytest.mark.parametrize("last", [b"0\r\n\r\n", b"000\r\nX-Trailer: 1\r\n\r\n", b"3;name=value\r\nabc\r\n"])
def test_the_last_chunk_and_extensions_are_left_for_the_parser(last: bytes) -> None:
    reader = ChunkReader()
    assert reader.feed(chunked(b"abc", end=last)) == b"abc"
    assert reader.rest == last


@pytest.mark.parametrize("size", [b"xyz", b"-3", b"", b"1" * 2000, b"0x3", b"3_0", "٣".encode()])
def test_what_is_no_chunk_is_left_for_the_parser_to_refuse(size: bytes) -> None:
    parsed = by_us([HEAD + chunked(b"ok", end=b"") + size + b"\r\nabc\r\n" + chunked(b"more")])
    assert (parsed.body, parsed.failed) == (b"ok", True)


@pytest.mark.parametrize(
    "reads", [[b"3\r\nabcXY"], [b"3\r\nabc", b"X"], [b"3\r\nabc\r", b"X"], [b"3\r\nab", b"c\n\n"]]
)
def test_a_chunk_without_a_line_end_is_refused(reads: list[bytes]) -> None:
    reader = ChunkReader()
    assert b"".join(reader.feed(read) for read in reads) == b"abc"
    assert reader.is_malformed


@pytest.mark.parametrize("blank_line", [b"\r\n\r\n", b"\n\n", b"\n\r\n"])
def test_a_head_is_split_where_the_parser_ends_it(blank_line: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nx: y" + blank_line
    for at in range(8, len(head)):
        splitter = HeadSplitter()
        assert splitter.split(head[:at]) == (head[:at], b"")
        assert splitter.split(head[at:] + b"\n\nbody") == (head[at:], b"\n\nbody")
        assert splitter.at_end


def test_every_informational_head_is_split_off() -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
    splitter = HeadSplitter()
    assert splitter.split(early + HEAD + b"1") == (early, HEAD + b"1")
    assert splitter.split(HEAD + b"1") == (HEAD, b"1")


def test_the_reply_of_a_socks_proxy_is_not_split() -> None:
    reply = b"\x05\x00\x00\x01\n\n\n\n\x00P"
    assert HeadSplitter().split(reply) == (reply, b"")


# Every part of a message in usual, unusual and malformed forms.
HEADS = st.lists(
    st.sampled_from([b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n", b"HTTP/1.1 100 Continue\n\n"]),
    max_size=2,
).map(b"".join)
LAST_HEAD = st.sampled_from(
    [
        HEAD,
        b"HTTP/1.1 200 OK\nTransfer-Encoding: Chunked\n\n",
        b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: folded\r\n line\r\ntransfer-encoding:\tchunked \r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n",
    ]
)
SIZE_FORMS = st.sampled_from(
    [
        b"%x",
        b"%X",
        b"00%x",
        b"%x ",
        b"%x\t",
        b"%x;a=b",
        b"%x ; a",
        b"0000000000000000%x",
        b"+%x",
        b" %x",
        b"%xg",
    ]
)
LINE_ENDS = st.sampled_from([b"\r\n"] * 12 + [b"\n", b"\r", b"", b"X\r\n", b"\r\n\r\n"])
CHUNKS = st.builds(
    lambda data, form, first, second: form % len(data) + first + data + second,
    st.binary(min_size=1, max_size=40) | st.sampled_from([b"\r\n", b"0\r\n\r\n", b"data: x\n\n", b"x" * 300]),
    SIZE_FORMS | st.just(b"%x"),
    LINE_ENDS,
    LINE_ENDS,
)
ENDS = st.sampled_from(
    [
        b"0\r\n\r\n",
        b"0\r\nX-Trailer: 1\r\n\r\n",
        b"000;x\r\n\r\n",
        b"",
        b"0\r\n",
        b"0",
        b"zz\r\n",
        b"1" * 40 + b"\r\n",
    ]
)
CUTS = st.lists(st.integers(1, 30), min_size=1, max_size=9) | st.just([1]) | st.just([100_000])


@given(HEADS, LAST_HEAD, st.lists(CHUNKS, max_size=8), ENDS, CUTS)
@example(b"", HEAD, [b"1\r\na\r\n", b"1\r\nb\r\n"], b"0\r\n\r\n", [1])
def test_however_the_bytes_are_formed_and_cut_the_message_is_that_of_the_parser(
    heads: bytes, head: bytes, chunks: list[bytes], end: bytes, sizes: list[int]
) -> None:
    reads = cut(heads + head + b"".join(chunks) + end, sizes)
    ours, theirs = by_us(reads), by_h11(reads)
    assert (ours.statuses, ours.body, ours.ended) == (theirs.statuses, theirs.body, theirs.ended)
    # What can't become valid any more is refused by both; h11 sees a malformed line only at its end.
    assert ours.failed == theirs.failed
