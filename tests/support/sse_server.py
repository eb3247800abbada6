r"""A scripted HTTP server on loopback: plays byte chunks, with pauses and cuts as scripted.

    with SseServer() as server:
        server.play(b'data: {"a": 1}\n\n', pause(0.05), b"data: [DONE]\n\n")
        server.play(b"slow down", status=429, headers={"Retry-After": "1"})
        server.play(b"data: {", cut())
        ... post to server.url; the responses are played in order ...
        server.requests[0].json

Each `play` scripts one response. When the script is used up, the last response is played again if it was
given `repeat=True`; otherwise the answer is a 500 with an explanation. Steps:

    b"..." or "..."    sent at once, as one HTTP chunk (one packet when nothing is queued before it)
    pause(seconds)     nothing for that long
    wait_for(event)    nothing until the `threading.Event` is set
    hang()             nothing until the client goes away (then `server.disconnected` is set)
    cut()              the socket is closed here, in the middle of the body (`cut(reset=True)`: a TCP reset)
    no_head()          as the first step: the status line is held back until the waits after it are over

Every wait ends when the server closes, so a failing test never hangs in it.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

# How often a wait checks for a client or a server that is gone.
_POLL = 0.02


@dataclass(frozen=True)
class Pause:
    seconds: float


@dataclass(frozen=True)
class WaitFor:
    event: threading.Event


@dataclass(frozen=True)
class Hang:
    pass


@dataclass(frozen=True)
class Cut:
    reset: bool = False


@dataclass(frozen=True)
class NoHead:
    pass


Step = bytes | str | Pause | WaitFor | Hang | Cut | NoHead

pause, wait_for, hang, cut, no_head = Pause, WaitFor, Hang, Cut, NoHead


@dataclass
class Request:
    """One request as it arrived; header names are lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int  # number of the connection it came on, from 1

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class _Response:
    steps: tuple[Step, ...]
    status: int
    headers: dict[str, str]
    repeat: bool


@dataclass
class SseServer:
    """Threads: one per connection (all joined by `close`); `_lock` guards the script and the counters."""

    requests: list[Request] = field(default_factory=list)
    disconnected: threading.Event = field(default_factory=threading.Event)
    connections: int = 0

    def __post_init__(self) -> None:
        self._lock = threading.Condition()
        self._script: list[_Response] = []
        self._closing = threading.Event()
        self._sockets: set[socket.socket] = set()
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.owner = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(_POLL,), name="sse-server")
        self._thread.start()

    @property
    def url(self) -> str:
        """`http://127.0.0.1:port`, without a trailing slash."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def play(
        self,
        *steps: Step,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        repeat: bool = False,
    ) -> None:
        """Script the next response, `text/event-stream` unless `headers` say otherwise."""
        named = {"content-type": "text/event-stream"} | {k.lower(): v for k, v in (headers or {}).items()}
        with self._lock:
            self._script.append(_Response(steps, status, named, repeat))

    def wait_for_requests(self, count: int, timeout: float = 5.0) -> list[Request]:
        """The requests so far, once there are `count` of them; AssertionError after `timeout` seconds."""
        with self._lock:
            if not self._lock.wait_for(lambda: len(self.requests) >= count, timeout):
                raise AssertionError(f"{len(self.requests)} requests came, {count} were expected")
            return list(self.requests)

    def close(self) -> None:
        """End every wait and every connection, and all threads."""
        self._closing.set()
        self._http.shutdown()
        self._thread.join()
        with self._lock:
            open_sockets = list(self._sockets)
        for s in open_sockets:
            _shut(s)
        self._http.server_close()

    def __enter__(self) -> SseServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _opened(self, s: socket.socket) -> int:
        with self._lock:
            self._sockets.add(s)
            self.connections += 1
            if self._closing.is_set():
                _shut(s)
            return self.connections

    def _ended(self, s: socket.socket) -> None:
        with self._lock:
            self._sockets.discard(s)

    def _next(self, request: Request) -> _Response:
        with self._lock:
            self.requests.append(request)
            self._lock.notify_all()
            if not self._script:
                text = json.dumps({"error": {"message": "the script of the test server is used up"}})
                return _Response((text,), 500, {"content-type": "application/json"}, False)
            return self._script[0] if self._script[0].repeat else self._script.pop(0)


class _Http(ThreadingHTTPServer):
    owner: SseServer
    daemon_threads = False  # so that server_close() joins them
    request_queue_size = 128


class _Handler(BaseHTTPRequestHandler):
    server: _Http
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.number = self.server.owner._opened(self.connection)

    def finish(self) -> None:
        self.server.owner._ended(self.connection)
        # Closing a file whose peer has gone may raise; there is nothing to do about it.
        with contextlib.suppress(OSError):
            super().finish()

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:
            self.server.owner.disconnected.set()

    def do_POST(self) -> None:
        owner = self.server.owner
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {k.lower(): v for k, v in self.headers.items()}
        response = owner._next(Request(self.command, self.path, headers, body, self.number))
        steps = list(response.steps)
        if any(isinstance(step, NoHead) for step in steps):
            steps = self._before_head(steps)
        self._send_head(response)
        for step in steps:
            if not self._step(step):
                self.close_connection = True
                return
        self.wfile.write(b"0\r\n\r\n")

    do_GET = do_PUT = do_DELETE = do_POST

    def _before_head(self, steps: list[Step]) -> list[Step]:
        """Play the waits that stand before the first bytes; the head follows them."""
        steps = [step for step in steps if not isinstance(step, NoHead)]
        while steps and not isinstance(steps[0], bytes | str):
            if not self._step(steps.pop(0)):
                raise ConnectionAbortedError
        return steps

    def _send_head(self, response: _Response) -> None:
        self.send_response(response.status)
        for name, value in response.headers.items():
            self.send_header(name, value)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def _step(self, step: Step) -> bool:
        """Play one step; False when the connection is over."""
        match step:
            case bytes() | str():
                data = step.encode() if isinstance(step, str) else step
                if data:
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
                return True
            case Pause(seconds):
                return not self.server.owner._closing.wait(seconds)
            case WaitFor(event):
                return self._wait(event)
            case Hang():
                return self._wait(threading.Event())
            case Cut(reset):
                self._cut(reset)
                return False
            case _:
                raise AssertionError(f"no_head() must come before the first bytes: {step!r}")

    def _wait(self, event: threading.Event) -> bool:
        while not event.wait(_POLL):
            if self.server.owner._closing.is_set():
                return False
            if self._client_gone():
                self.server.owner.disconnected.set()
                return False
        return True

    def _client_gone(self) -> bool:
        try:
            return self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _cut(self, reset: bool) -> None:
        if reset:
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.connection.close()
        else:
            _shut(self.connection)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _shut(s: socket.socket) -> None:
    with contextlib.suppress(OSError):
        s.shutdown(socket.SHUT_RDWR)
