"""Reads a pipe with a time limit: by polling, or with a thread where polling is impossible (Windows)."""

from __future__ import annotations

import os
import queue
import select
import threading
from typing import IO, Protocol

# Linux and macOS return at most 64 KiB per read of a pipe.
READ_SIZE = 1 << 16
# Pieces that the thread reads ahead; then the writer blocks, as with a full pipe.
READ_AHEAD = 4


class Pipe(Protocol):
    """The read end of a pipe; used by one thread."""

    def read(self, seconds: float) -> bytes | None:
        """Return what arrives within `seconds`; None when nothing does, b"" at the end."""

    def close(self) -> None:
        """Close it, also while the other end is open."""


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
    """Reads on a thread, which lives until the other end is closed: a blocking read cannot be interrupted."""

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
        # Wake a reader that waits for space in the queue; it closes the file itself.
        while not self._pieces.empty():
            self._pieces.get_nowait()


def open_pipe(file: IO[bytes]) -> Pipe:
    """Return a `Pipe` that reads `file` in the way that this system supports."""
    return PolledPipe(file) if hasattr(select, "poll") else ThreadedPipe(file)


def _read_ahead(file: IO[bytes], pieces: queue.Queue[bytes], closed: threading.Event) -> None:
    with file:
        while not closed.is_set():
            piece = os.read(file.fileno(), READ_SIZE)
            pieces.put(piece)
            if not piece:
                return
