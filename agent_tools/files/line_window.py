"""Reads a window of lines from a stream of any size, in one pass and in bounded memory.

The pass counts line feeds block by block and keeps only the bytes of the window. It hashes all bytes when the
hash is wanted, so the shown lines and the hash belong to the same content.
"""

from __future__ import annotations

import codecs
import hashlib
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal

from agent_tools.files.atomic_write import HASH_LENGTH
from agent_tools.files.encoding import decode, encoding_name, looks_binary, wide_encoding
from agent_tools.truncate import MAX_BYTES, MAX_LINES, Truncation, keep_head

BLOCK_BYTES = 256 * 1024  # large enough for the count to run at memory speed, small against any limit
# One line of MAX_BYTES, its line feed, and a byte that shows there is more.
_KEPT_BYTES = MAX_BYTES + 2
_LONG_LINE = 40  # bytes of a line from which on `readlines` is faster than `count`


@dataclass(frozen=True, slots=True)
class Window:
    """Lines `first` to `last` of a text, cut to the limits, and facts about the whole text.

    `last` is `first - 1` when nothing is shown; `first_line_bytes` is the size of the first line even where
    that is too long to be shown. Sizes are bytes of UTF-8.
    """

    first: int
    shown: Truncation
    first_line_bytes: int
    hash: str
    encoding: str
    note: str  # a remark about an unusual encoding, "" for UTF-8
    is_binary: bool

    @property
    def last(self) -> int:
        return self.first - 1 + self.shown.output_lines

    @property
    def total_lines(self) -> int:
        return self.shown.total_lines

    @property
    def remaining(self) -> int:
        """How many lines follow the window."""
        return max(0, self.total_lines - self.last)


def read_window(
    blocks: Iterable[bytes], first: int, limit: int | None = None, *, hashed: bool = True
) -> Window:
    """Lines from `first` (1-based) on, at most `limit`, and never more than the limits of a result.

    The whole stream is read. A first line past the end gives a window that shows nothing. Without `hashed`
    the hash is "", in half the time.
    """
    stream = iter(blocks)
    head = next(stream, b"")
    digest = hashlib.sha256() if hashed else None
    encoding, mark = wide_encoding(head)
    scan = _Scan(first)
    for block in _as_utf8(_hashed(head, stream, digest), encoding, mark):
        scan.feed(block)
    decoded = decode(scan.window())
    if encoding:
        decoded = replace(decoded, encoding=encoding, note=f"decoded from {encoding_name(encoding)}")
    return Window(
        first=first,
        shown=_limited(decoded.display, scan, first, limit),
        first_line_bytes=scan.first_line_bytes,
        hash=digest.hexdigest()[:HASH_LENGTH] if digest else "",
        encoding=decoded.encoding,
        note=decoded.note,
        is_binary=not encoding and looks_binary(bytes(scan.kept)),
    )


def _limited(text: str, scan: _Scan, first: int, limit: int | None) -> Truncation:
    """The text of the window within the limits, as a record about the whole stream."""
    shown = keep_head(text, max_lines=min(limit or MAX_LINES, MAX_LINES))
    lines = shown.output_lines if scan.kept else 0
    is_cut = lines < scan.total_lines - (first - 1) and lines != limit
    stopped_by: Literal["lines", "bytes"] = "lines" if lines == MAX_LINES else "bytes"
    return replace(
        shown,
        truncated=is_cut,
        truncated_by=stopped_by if is_cut else "",
        total_lines=scan.total_lines,
        total_bytes=scan.total_bytes,
        output_lines=lines,
    )


class _Scan:
    """Counts the lines of UTF-8 or Latin-1 blocks and keeps the bytes from line `first` on, up to a limit."""

    def __init__(self, first: int) -> None:
        self.kept = bytearray()
        self.first_line_bytes = 0
        self.total_bytes = 0
        self._skip = first - 1  # line feeds still to pass before the window begins
        self._first_line_open = True
        self._line_feeds = 0
        self._last = b""
        self._has_long_lines = False

    @property
    def total_lines(self) -> int:
        return self._line_feeds + (1 if self._last not in (b"", b"\n") else 0)

    def feed(self, block: bytes) -> None:
        count = self._count(block)
        self._line_feeds += count
        self.total_bytes += len(block)
        self._last = block[-1:] or self._last
        if count < self._skip:
            self._skip -= count
            return
        start = 0
        for _ in range(self._skip):
            start = block.index(b"\n", start) + 1
        self._skip = 0
        if self._first_line_open:
            end = block.find(b"\n", start)
            self._first_line_open = end < 0
            self.first_line_bytes += (len(block) if end < 0 else end) - start
        if len(self.kept) < _KEPT_BYTES:
            self.kept += block[start : start + _KEPT_BYTES - len(self.kept)]

    def _count(self, block: bytes) -> int:
        """The number of line feeds, counted by the method that suits the line lengths of the block before."""
        if self._has_long_lines and block:
            # `readlines` jumps from feed to feed at memory speed, `count` visits each byte.
            count = len(io.BytesIO(block).readlines()) - (block[-1:] != b"\n")
        else:
            count = block.count(b"\n")
        self._has_long_lines = count * _LONG_LINE < len(block)
        return count

    def window(self) -> bytes:
        """The kept bytes without a last, cut line. A cut first line stays: it is too long to show."""
        if len(self.kept) < _KEPT_BYTES:
            return bytes(self.kept)
        end = self.kept.rfind(b"\n") + 1
        return bytes(self.kept[:end] if end else self.kept)


def _hashed(head: bytes, rest: Iterator[bytes], digest: hashlib._Hash | None) -> Iterator[bytes]:
    for block in chain((head,), rest):
        if digest:
            digest.update(block)
        yield block


def _as_utf8(blocks: Iterator[bytes], encoding: str, mark: bytes) -> Iterator[bytes]:
    """The blocks without the mark, in an encoding whose line feed is one byte."""
    head = next(blocks, b"")
    if not encoding:
        yield head.removeprefix(codecs.BOM_UTF8)
        yield from blocks
        return
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    yield decoder.decode(head.removeprefix(mark)).encode()
    for block in blocks:
        yield decoder.decode(block).encode()
    yield decoder.decode(b"", final=True).encode()
