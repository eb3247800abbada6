"""Reads the chunks of an HTTP/1.1 body, so that the parser below httpx does not have to.

Model servers send each event as a chunk of its own. h11, the parser below httpx, spends some ten microseconds
on each, and sixty when the packet had to be waited for: most of the cost of an event. So h11 parses the head
of a response, the last chunk, the trailers and everything that is unusual; the chunks in between are read
here and never reach it. For that, the bytes of a head have to be told from those behind it (`HeadSplitter`).
"""

from __future__ import annotations

import re

# The end of a head, exactly as h11 finds it.
_BLANK_LINE = re.compile(rb"\n\r?\n")
# A size line without extensions; h11 accepts up to 20 digits.
_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]{0,16}\r\n").match
_MAX_SIZE_LINE = 34


class HeadSplitter:
    """Splits the bytes of a response behind each blank line of its heads. Not thread-safe.

    A response may have several heads (`103 Early Hints`), so the parser decides which one was the last: it
    asks for no more bytes of a head then.
    """

    __slots__ = ("_is_first", "_tail", "at_end", "is_active")

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Prepare for the next response."""
        self.is_active = True  # False: nothing is split, this may be no HTTP response
        self.at_end = False  # True: a head ended with the last byte that was returned
        self._is_first = True
        self._tail = b""

    def split(self, data: bytes) -> tuple[bytes, bytes]:
        """The bytes up to the end of the head, and the bytes behind it."""
        if self._is_first:
            self._is_first = False
            self.is_active = data.startswith(b"HTTP/1.")  # not the binary reply of a SOCKS proxy
        if not self.is_active:
            return data, b""
        held = len(self._tail)
        end = _BLANK_LINE.search(self._tail + data)
        self.at_end = end is not None
        if end is None:
            self._tail = (self._tail + data)[-2:]
            return data, b""
        self._tail = b""
        return data[: end.end() - held], data[end.end() - held :]


class ChunkReader:
    """Extracts the data from the bytes of one chunked body. Not thread-safe.

    Data is never delayed: only an unfinished size line is kept. `rest` is None while chunks are read; then it
    has the bytes from the first one that is not part of a usual chunk: the last chunk, an extension, or
    something malformed. Those, and everything that follows them, are for the parser. `is_malformed`: a chunk
    was not followed by a line end, nothing may be read any more.
    """

    __slots__ = ("_left", "_size_line", "is_malformed", "rest")

    def __init__(self) -> None:
        self.rest: bytes | None = None
        self.is_malformed = False
        self._size_line = b""  # its beginning, when a read ended inside it
        self._left = 0  # bytes of the current chunk still to come, its line end included

    def feed(self, data: bytes) -> bytes:
        """The data of the chunks in `data`."""
        left, length = self._left, len(data)
        if left > length:  # inside a chunk
            self._left = left - length
            self.is_malformed = self._left == 1 and data[-1:] != b"\r"
            return data[: max(0, left - 2)]
        parts = []
        if left:
            self._left = 0
            self.is_malformed = data[max(0, left - 2) : left] != b"\r\n"[-left:]
            parts.append(data[: max(0, left - 2)])
        elif self._size_line:
            data = self._size_line + data
            self._size_line, length = b"", len(data)
        start = left
        while start < length and not self.is_malformed:
            line = _SIZE_LINE(data, start)
            size = int(line[1], 16) if line is not None else 0
            if line is None or not size:
                self._leave(data[start:], line is None)
                break
            begin = line.end()
            start = begin + size + 2
            parts.append(data[begin : start - 2])
            if start <= length:
                self.is_malformed = data[start - 2 : start] != b"\r\n"
            else:
                self._left = start - length
                self.is_malformed = self._left == 1 and data[-1:] != b"\r"
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _leave(self, rest: bytes, is_unknown: bool) -> None:
        """Keep what may become a size line; give back all else."""
        if is_unknown and len(rest) < _MAX_SIZE_LINE and b"\n" not in rest:
            self._size_line = rest
        else:
            self.rest = rest
