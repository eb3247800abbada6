"""Reads a pipe with a time limit: by polling it, or through a thread where that is impossible (Windows)."""

from __future__ import annotations

import os
import queue
import select
import threading
from typing import IO, Protocol

# A pipe gives at most its 64 KiB per read on Linux and macOS.
READ_SIZE = 1 << 16
# A thread reads ahead this many pieces, then the writer waits, as it would for a full pipe.
READ_AHEAD = 4


class Pipe(Protocol):
    """The read end of a pipe; used by one thread."""

    def read(self, seconds: float) -> bytes | None:
        """What has come within so many seconds; None when nothing did, b"" at the end."""

    def close(self) -> None:
        """Let go of it, also while somebody still holds the other end."""


class PolledPipe:
    """Reads on the caller's thread."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._poll = select.poll()
        self._poll.register(file.fileno(), select.POLLIN)

    def read(self, seconds: float) -> bytes | None:
        if not self._poll.poll(max(seconds, 0) * 1000):
            return None
        return os.read(self._file.fileno(), READ_SIZE)

    def close(self) -> None:
        self._file.close()


class ThreadedPipe:
    """Reads on a thread that lives until the other end is closed, as nothing can interrupt its reading."""

    def __init__(self, file: IO[bytes]) -> None:
        self._pieces: queue.Queue[bytes] = queue.Queue(READ_AHEAD)
        self._closed = threading.Event()
        reader = threading.Thread(
            target=_read_ahead, args=(file, self._pieces, self._closed), name="agent-pipe", daemon=True
        )
        reader.start()

    def read(self, seconds: float) -> bytes | None:
        try:
            return self._pieces.get(timeout=max(seconds, 0.001))
        except queue.Empty:
            return None

    def close(self) -> None:
        self._closed.set()
        # Wake a reader that waits for room; it closes the file itself.
        while not self._pieces.empty():
            self._pieces.get_nowait()


def open_pipe(file: IO[bytes]) -> Pipe:
    """The pipe of `file`, read in the best way this system has."""
    return PolledPipe(file) if hasattr(select, "poll") else ThreadedPipe(file)


def _read_ahead(file: IO[bytes], pieces: queue.Queue[bytes], closed: threading.Event) -> None:
    with file:
        while not closed.is_set():
            piece = os.read(file.fileno(), READ_SIZE)
            pieces.put(piece)
            if not piece:
                return
