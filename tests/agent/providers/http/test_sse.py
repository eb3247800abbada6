"""Byte chunks in, payloads out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.providers.http.sse import EventTooLargeError, SseReader

# Everything that str.splitlines takes for a line end and SSE does not, and characters of two to four bytes.
ODD = "a\u2028b\u2029c\x0bd\x0ce\x85f\u4f60\u597d\U0001f600"


def payloads(*chunks: bytes) -> list[str]:
    return list(SseReader(chunks))


def named(*chunks: bytes) -> list[tuple[str, str]]:
    reader = SseReader(chunks)
    return [(reader.event, payload) for payload in reader]


def bytewise(data: bytes) -> Iterator[bytes]:
    return (data[i : i + 1] for i in range(len(data)))


def test_each_event_gives_its_data() -> None:
    assert payloads(b'data: {"a": 1}\n\ndata: [DONE]\n\n') == ['{"a": 1}', "[DONE]"]


@pytest.mark.parametrize("end", [b"\r\n", b"\r"], ids=["CRLF", "CR"])
def test_other_line_ends_give_the_same_events(end: bytes) -> None:
    """P01"""
    stream = b"event: a\ndata: 1\n\n: note\n\ndata: 2\ndata: 3\n\n"
    assert named(stream.replace(b"\n", end)) == named(stream) == [("a", "1"), ("", "2\n3")]


def test_a_crlf_cut_between_two_packets_is_one_line_end() -> None:
    assert payloads(b"data: 1\r", b"\ndata: 2\r", b"\n", b"\r\n", b"data: 3\r\n\r", b"\n") == ["1\n2", "3"]


def test_an_event_is_handed_out_as_soon_as_its_empty_line_has_come() -> None:
    def chunks() -> Iterator[bytes]:
        yield b"data: 1\n"
        yield b"\n"
        raise AssertionError("the first event was not handed out")

    assert next(iter(SseReader(chunks()))) == "1"


def test_a_crlf_event_is_handed_out_before_the_line_feed_of_its_empty_line_has_come() -> None:
    def chunks() -> Iterator[bytes]:
        yield b"data: 1\r\n\r"
        raise AssertionError("the first event was not handed out")

    assert next(iter(SseReader(chunks()))) == "1"


def test_a_character_cut_between_packets_stays_whole() -> None:
    """P03"""
    data = f"data: {ODD}\n\n".encode()
    assert list(SseReader(bytewise(data))) == [ODD]


@pytest.mark.parametrize("comment", [b": OPENROUTER PROCESSING\n\n", b":\n\n", b":\n", b": x\n: y\n\n"])
def test_comments_are_ignored_wherever_they_stand(comment: bytes) -> None:
    """P04"""
    assert payloads(comment + b"data: 1\n\n" + comment + b"data: 2\n\n" + comment) == ["1", "2"]


def test_the_blank_after_the_colon_is_optional_and_only_one_is_removed() -> None:
    """P05"""
    assert payloads(b'data:{"a":1}\n\ndata:[DONE]\n\ndata:  x\n\n') == ['{"a":1}', "[DONE]", " x"]


def test_no_line_ends_but_those_of_the_format() -> None:
    """P06"""
    assert payloads(f"data: {ODD}\n\n".encode()) == [ODD]
    assert named(f"event: {ODD}\ndata:{ODD}\n\n".encode()) == [(ODD, ODD)]


def test_several_data_lines_are_joined() -> None:
    assert payloads(b"data: a\ndata\ndata: b\n\n") == ["a\n\nb"]


def test_the_name_belongs_to_its_event_only() -> None:
    stream = b"event: one\ndata: 1\n\ndata: 2\n\ndata: 3\nevent:three\nid: 7\nretry: 5\nunknown: x\n\n"
    assert named(stream) == [("one", "1"), ("", "2"), ("three", "3")]


def test_an_event_without_data_is_skipped() -> None:
    assert payloads(b"event: ping\n\ndata: 1\n\n") == ["1"]


def test_extra_empty_lines_mean_nothing() -> None:
    assert payloads(b"\n\n\ndata: 1\n\n\n\n", b"\n", b"data: 2\n\n\n") == ["1", "2"]


def test_a_byte_order_mark_is_not_part_of_the_first_field() -> None:
    assert payloads(b"\xef\xbb", b"\xbfdata: 1\n\n") == ["1"]


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_a_last_event_without_its_empty_line_counts(end: bytes) -> None:
    assert payloads(b"data: 1\n\ndata: 2" + end) == ["1", "2"]


def test_bytes_that_are_no_utf8_do_not_end_the_stream() -> None:
    assert payloads(b"data: a\xffb\n\ndata: 2\n\n") == ["a\ufffdb", "2"]


def test_a_line_of_ten_mebibytes_is_read() -> None:
    line = b"x" * (10 * 1024 * 1024)
    parts = [line[i : i + 65536] for i in range(0, len(line), 65536)]
    assert [len(p) for p in payloads(b"data: ", *parts, b"\n\n")] == [len(line)]


def test_an_event_without_end_is_refused() -> None:
    def endless() -> Iterator[bytes]:
        while True:
            yield b"x" * 1_000_000

    with pytest.raises(EventTooLargeError, match="16 MiB"):
        list(SseReader(endless()))


def test_what_came_of_an_event_is_not_copied_for_each_packet() -> None:
    copied: list[int] = []

    class Packet(bytes):
        def __radd__(self, other: bytes) -> bytes:
            copied.append(len(other))
            return other + bytes(self)

    packets = [Packet(b"x" * 10)] * 20_000
    assert [len(p) for p in payloads(b"data: ", *packets, b"\n\n")] == [200_000]
    assert sum(copied) == 0


@given(
    st.lists(
        st.text(st.characters(blacklist_characters="\r\n\ufeff", blacklist_categories=("Cs",)), min_size=1),
        max_size=5,
    ),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.lists(st.integers(1, 7), min_size=1, max_size=20),
)
def test_however_the_bytes_are_cut_the_events_are_the_same(
    texts: list[str], end: str, sizes: list[int]
) -> None:
    data = "".join(f"event: e{end}data: {text}{end}{end}" for text in texts).encode()
    chunks, at, turn = [], 0, 0
    while at < len(data):
        chunks.append(data[at : at + sizes[turn % len(sizes)]])
        at, turn = at + len(chunks[-1]), turn + 1
    assert payloads(*chunks) == texts
