"""Joins the small chunks of an HTTP/1.1 response that arrive in one read.

Model servers send each event as a chunk of its own, and h11, the parser below httpx, spends some ten
microseconds on each: most of the cost of an event. The borders of chunks mean nothing, so chunks are joined
before the parser sees them. Everything that is not a well-formed chunk passes unchanged, for the parser to
judge.
"""

from __future__ import annotations

import re

_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked[ \t]*\r\n", re.IGNORECASE)
_INFORMATIONAL = re.compile(rb"HTTP/1\.1 1\d\d")
# The limits of the parser for heads and for digits of a size; a size line with extensions is short.
_MAX_HEAD = 100 * 1024
_MAX_DIGITS = 20
_MAX_SIZE_LINE = 1024


class ChunkMerger:
    """Takes the bytes of one connection as they are read; call `restart` before each response.

    It holds back an unfinished size line and nothing else, so data is never delayed. Not thread-safe.
    """

    __slots__ = ("_feed", "_head", "_left", "_size_line")

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Prepare for the next response."""
        self._feed = self._in_head
        self._head = b""
        self._size_line = b""  # its beginning, when a read ended inside it
        self._left = 0  # bytes of the current chunk still to come, its line end included

    def feed(self, data: bytes) -> bytes:
        """The bytes for the parser; empty when the data contained only an unfinished size line."""
        return self._feed(data)

    def _in_head(self, data: bytes) -> bytes:
        seen = len(self._head)
        self._head += data
        end = self._head.find(b"\r\n\r\n")
        if end < 0:
            if len(self._head) > _MAX_HEAD:
                self._feed = _unchanged
            return data
        head, body = self._head[: end + 4], self._head[end + 4 :]
        self._head = b""
        if _INFORMATIONAL.match(head):  # another head follows
            return head[seen:] + (self._in_head(body) if body else b"")
        self._feed = self._in_body if _CHUNKED.search(head) else _unchanged
        return head[seen:] + self._feed(body)

    def _in_body(self, data: bytes) -> bytes:
        parts, start = self._rest_of_chunk(data)
        data = self._size_line + data if self._size_line else data
        self._size_line = rest = b""
        while start < len(data):
            line_end = data.find(b"\r\n", start)
            if line_end < 0 and len(data) - start <= _MAX_SIZE_LINE:
                self._size_line = data[start:]
                break
            size = _size(data[start:line_end])
            if size <= 0:  # the last chunk and its trailers, or no size line
                self._feed, rest = _unchanged, data[start:]
                break
            begin = line_end + 2
            parts.append(data[begin : begin + size])
            start = begin + size + 2
        self._left = max(0, start - len(data)) if not (self._size_line or rest) else 0
        joined = b"".join(parts)
        return (b"%x\r\n%b\r\n" % (len(joined), joined) if joined else b"") + rest

    def _rest_of_chunk(self, data: bytes) -> tuple[list[bytes], int]:
        """The part of `data` that belongs to a chunk that began earlier, and the index of the next chunk."""
        if not self._left:
            return [], 0
        return [data[: max(0, self._left - 2)]], self._left


def _unchanged(data: bytes) -> bytes:
    return data


def _size(line: bytes) -> int:
    """The size in the first line of a chunk; -1 for any other line."""
    digits = line.partition(b";")[0].strip()
    try:
        return int(digits, 16) if digits.isalnum() and len(digits) <= _MAX_DIGITS else -1
    except ValueError:
        return -1
