"""A server that is one function of its listening socket, for what no HTTP server would do."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def raw_server(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """Runs `serve(listener)` on a thread; gives the URL. Leaving closes the listener and joins the thread.

    An OSError of `serve` ends it silently: that is how closing the listener ends its `accept`.
    """
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        with contextlib.suppress(OSError):
            serve(listener)

    thread = threading.Thread(target=run, name="raw-server")
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def read_request(connection: socket.socket) -> bytes:
    """The bytes of one request with a body of a given length; empty when the client has gone."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return b""
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
    )
    received = bytearray(body)
    while len(received) < length:
        more = connection.recv(1 << 20)
        if not more:
            return b""
        received += more
    return head + b"\r\n\r\n" + bytes(received)


def event_stream(*events: bytes) -> bytes:
    """A whole response with these events, of known length."""
    body = b"".join(b"data: " + event + b"\n\n" for event in events)
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(body)
    return head + body
