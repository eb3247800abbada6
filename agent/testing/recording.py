"""A local server in place of model providers: records their answers once and replays them in tests.

with Recording("tests/data/owlet.json") as recording:
    agent = Agent(recording.model("openai/gpt-5-mini"), get_api_key=recording.get_api_key)
    assert "owl" in agent.run("What is an owlet?").text

The first time, without the file, requests are forwarded to the provider. After that the answers come from the
file, byte for byte and in the pieces in which they arrived, and nothing leaves the machine.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import socket
import ssl
import tempfile
import threading
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

from agent.errors import ConfigurationError
from agent.models import Model, resolve_model
from agent.providers.endpoint import base_url
from agent.testing.redaction import Redactor

Mode = Literal["auto", "record", "replay"]
Match = Literal["body", "order"]

_VERSION = 1
_REPLAYED_KEY = "a-replay-needs-no-key"
# Headers that belong to one connection, and those that `http.client` writes itself.
_HOP_HEADERS = frozenset(
    "host connection keep-alive proxy-connection transfer-encoding te trailer upgrade accept-encoding "
    "content-length".split()
)
_READ_BYTES = 65536
_POLL_SECONDS = 0.02


@dataclass(slots=True)
class Exchange:
    """A request and its answer as they are stored: without the headers of the request, without secrets.

    `body` is JSON data, or a text when it is not JSON. `chunks` are the pieces of the answer: texts, or
    `{"base64": ...}` for bytes that are not UTF-8. `status` 0: there was no answer. `cut`: it broke off.
    """

    method: str
    url: str
    body: Any
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    chunks: list[Any] = field(default_factory=list)
    cut: bool = False

    @property
    def path(self) -> str:
        """Path and query of the request, without the server."""
        parts = urlsplit(self.url)
        return urlunsplit(("", "", parts.path, parts.query, ""))


class Recording:
    """The traffic between a test and its providers, recorded or replayed.

    `mode`: `record` forwards requests and writes the file when the `with` block ends without an exception;
    `replay` only reads it; `auto` replays when the file exists. `match`: a request gets the next unused
    answer to the same address and, with `body`, to the same body; with `order`, to any body. A request
    without an answer gets a 400 that shows where it differs, and leaving the `with` block raises
    AssertionError.

    Keys are not written: no request header is, only harmless ones of the answers, and values of secret
    headers and query parameters are replaced by `***` wherever they occur, like `secrets` and whatever has
    the shape of a key. Threads: serves several requests at once; `_lock` guards the exchanges.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        mode: Mode = "auto",
        match: Match = "body",
        secrets: Iterable[str] = (),
        timeout: float = 300.0,
    ) -> None:
        self.path = Path(path)
        self.mode: Literal["record", "replay"] = (
            mode if mode != "auto" else "replay" if self.path.exists() else "record"
        )
        self.exchanges: list[Exchange] = [] if self.mode == "record" else _read(self.path)
        self.misses: list[str] = []
        self.timeout = timeout
        self._match = match
        self._unused = list(self.exchanges)
        self._redactor = Redactor(secrets)
        self._upstreams: list[str] = []
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.recording = self
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_SECONDS,), name="recording", daemon=True
        )
        self._thread.start()

    def model(self, model: Model | str, upstream: str = "") -> Model:
        """Return the model with the address of this recording; `upstream` replaces its own base URL.

        A wire format that detects a server by its host name cannot do so here: set the provider.
        """
        found = resolve_model(model)
        if found is None:
            raise ConfigurationError("a recording needs a model or the name of one")
        return replace(found, base_url=self.url(upstream or base_url(found)))

    def url(self, upstream: str) -> str:
        """Return the local address that stands for `upstream`, for clients of any kind."""
        parts = urlsplit(upstream if "://" in upstream else f"http://{upstream}")
        with self._lock:
            root = urlunsplit((parts.scheme, parts.netloc, "", "", ""))
            if root not in self._upstreams:
                self._upstreams.append(root)
            number = self._upstreams.index(root)
        here = f"http://127.0.0.1:{self._server.server_address[1]}/{number}{parts.path.rstrip('/')}"
        return f"{here}?{parts.query}" if parts.query else here

    def get_api_key(self, provider: str) -> str | None:
        """For `Agent(get_api_key=...)`: the environment's key when recording, a placeholder in a replay."""
        return None if self.mode == "record" else _REPLAYED_KEY

    def assert_finished(self) -> None:
        """Raise AssertionError when a replay has unused answers."""
        if self._unused and self.mode == "replay":
            left = ", ".join(exchange.path for exchange in self._unused)
            raise AssertionError(f"{len(self._unused)} recorded answers were not requested: {left}")

    def save(self) -> None:
        """Write the file atomically; raises ConfigurationError, with the place, when it would hold a key."""
        if places := [place for number in range(len(self.exchanges)) for place in self._secrets_left(number)]:
            raise ConfigurationError(
                f"{self.path} was not written: what looks like a key is left at {', '.join(places[:5])}"
            )
        data = {"version": _VERSION, "exchanges": [asdict(exchange) for exchange in self.exchanges]}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
        try:
            with open(handle, "w", encoding="ascii") as file:
                json.dump(data, file, indent=1)
                file.write("\n")
            os.chmod(name, 0o644)
            os.replace(name, self.path)
        except BaseException:
            os.unlink(name)
            raise

    def _secrets_left(self, number: int) -> list[str]:
        exchange, place = self.exchanges[number], f"exchanges[{number}]"
        fields = {name: value for name, value in asdict(exchange).items() if name != "chunks"}
        answer = b"".join(map(_decode_chunk, exchange.chunks)).decode("utf-8", "surrogateescape")
        left = [f"{place}.chunks"] if self._redactor.answer(answer) != answer else []
        return [*self._redactor.places(fields, place), *left]

    def close(self) -> None:
        """Stop the server and close its connections; idempotent."""
        self._server.shutdown()
        self._thread.join()
        with self._lock:
            open_sockets = list(self._sockets)
        for open_socket in open_sockets:
            _shut_down(open_socket)
        self._server.server_close()

    def __enter__(self) -> Recording:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if error is None and self.misses:
            raise AssertionError("\n".join(self.misses))
        if error is None and self.mode == "record":
            self.save()

    def upstream(self, path: str) -> str:
        """Return the provider's address for a local path; raises ValueError for an unknown one."""
        number, slash, rest = path.lstrip("/").partition("/")
        return self._upstreams[int(number)] + slash + rest

    def request_exchange(self, method: str, url: str, headers: dict[str, str], body: bytes) -> Exchange:
        """Return the exchange of a request, redacted, without its answer."""
        self._redactor.learn(headers, url)
        data = self._redactor.request_body(body.decode("utf-8", "replace"))
        return Exchange(method, self._redactor.url(url), data)

    def keep(self, exchange: Exchange, headers: dict[str, str], chunks: list[bytes]) -> None:
        """Store an exchange with its answer, redacted."""
        exchange.headers = self._redactor.headers(headers)
        whole = b"".join(chunks)
        clean = self._redactor.answer(whole.decode("utf-8", "surrogateescape")).encode(
            "utf-8", "surrogateescape"
        )
        # A secret may cross the border of two pieces; then the answer is stored as one piece.
        exchange.chunks = [_encode_chunk(chunk) for chunk in (chunks if clean == whole else [clean])]
        with self._lock:
            self.exchanges.append(exchange)

    def answer_to(self, request: Exchange) -> Exchange | str:
        """Return the recorded exchange for a request, or the reason why there is none."""
        with self._lock:
            same_path = [e for e in self._unused if (e.method, e.path) == (request.method, request.path)]
            for exchange in same_path:
                if self._match == "order" or exchange.body == request.body:
                    self._unused.remove(exchange)
                    return exchange
            miss = f"no recorded answer is left for {request.method} {request.path} in {self.path.name}"
            if same_path:
                where = _difference(same_path[0].body, request.body)
                miss += f": the next one has another body, {where}"
            self.misses.append(miss)
            return miss

    def track(self, open_socket: socket.socket, is_open: bool) -> None:
        """Register or unregister a connection, which `close` shuts down."""
        with self._lock:
            (self._sockets.add if is_open else self._sockets.discard)(open_socket)


# The file


def _read(path: Path) -> list[Exchange]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["version"] != _VERSION:
            raise ConfigurationError(f"{path} has version {data['version']}, this reads version {_VERSION}")
        return [Exchange(**exchange) for exchange in data["exchanges"]]
    except OSError as error:
        raise ConfigurationError(f"there is no recording to replay: {error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(f"{path} is not a recording: {error}") from error


def _encode_chunk(chunk: bytes) -> Any:
    try:
        return chunk.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(chunk).decode()}


def _decode_chunk(chunk: Any) -> bytes:
    return chunk.encode() if isinstance(chunk, str) else base64.b64decode(chunk["base64"])


def _difference(recorded: Any, sent: Any, place: str = "body") -> str:
    """Describe where two JSON values first differ."""
    if isinstance(recorded, dict) and isinstance(sent, dict):
        for key in [*recorded, *(key for key in sent if key not in recorded)]:
            if recorded.get(key, ...) != sent.get(key, ...):
                return _difference(recorded.get(key, ...), sent.get(key, ...), f"{place}.{key}")
    if isinstance(recorded, list) and isinstance(sent, list):
        for number, (one, other) in enumerate(zip(recorded, sent, strict=False)):
            if one != other:
                return _difference(one, other, f"{place}[{number}]")
        return f"{place} has {len(sent)} entries, {len(recorded)} were recorded"
    return f"{place} is {_shown(sent)}, {_shown(recorded)} was recorded"


def _shown(value: Any) -> str:
    return "absent" if value is ... else json.dumps(value, ensure_ascii=False)[:200]


# The server


class _Server(ThreadingHTTPServer):
    recording: Recording
    daemon_threads = False  # so that server_close() joins them
    request_queue_size = 128


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server.recording.track(self.connection, True)

    def finish(self) -> None:
        self.server.recording.track(self.connection, False)
        with contextlib.suppress(OSError):
            super().finish()

    def handle(self) -> None:
        with contextlib.suppress(OSError):
            super().handle()

    def do_POST(self) -> None:
        recording = self.server.recording
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            url = recording.upstream(self.path)
        except (ValueError, IndexError):
            self._send_error(404, f"{self.path} is not an address of this recording: use .model or .url")
            return
        exchange = recording.request_exchange(self.command, url, dict(self.headers.items()), body)
        if recording.mode == "record":
            self._forward(url, body, exchange)
            return
        answer = recording.answer_to(exchange)
        if isinstance(answer, str):
            self._send_error(400, answer)
        else:
            self._replay(answer)

    do_GET = do_PUT = do_DELETE = do_POST

    def _replay(self, exchange: Exchange) -> None:
        if exchange.status:
            self._start_answer(exchange.status, exchange.headers)
            for chunk in exchange.chunks:
                self._send(_decode_chunk(chunk))
        self._end_answer(cut=exchange.cut or not exchange.status)

    def _forward(self, url: str, body: bytes, exchange: Exchange) -> None:
        """Forward the request, pass the answer on as it arrives and record it, even if it breaks off."""
        recording = self.server.recording
        headers: dict[str, str] = {}
        chunks: list[bytes] = []
        try:
            with contextlib.closing(self._connect(url)) as connection:
                response = self._send_request(connection, url, body)
                headers = dict(response.getheaders())
                exchange.status = response.status
                self._start_answer(response.status, headers)
                for chunk in _pieces(response):
                    chunks.append(chunk)
                    self._send(chunk)
        except (OSError, http.client.HTTPException):
            exchange.cut = True
        recording.keep(exchange, headers, chunks)
        self._end_answer(cut=exchange.cut)

    def _connect(self, url: str) -> http.client.HTTPConnection:
        parts = urlsplit(url)
        timeout = self.server.recording.timeout
        if parts.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(parts.netloc, timeout=timeout, context=context)
        return http.client.HTTPConnection(parts.netloc, timeout=timeout)

    def _send_request(
        self, connection: http.client.HTTPConnection, url: str, body: bytes
    ) -> http.client.HTTPResponse:
        parts = urlsplit(url)
        sent = {name: value for name, value in self.headers.items() if name.lower() not in _HOP_HEADERS}
        connection.request(
            self.command,
            urlunsplit(("", "", parts.path, parts.query, "")),
            body,
            sent | {"Accept-Encoding": "identity"},
        )
        return connection.getresponse()

    def _send_error(self, status: int, text: str) -> None:
        self._start_answer(status, {"content-type": "application/json"})
        self._send(json.dumps({"error": {"message": text, "type": "recording"}}).encode())
        self._end_answer(cut=False)

    def _start_answer(self, status: int, headers: dict[str, str]) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in _HOP_HEADERS:
                self.send_header(name, value)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def _send(self, data: bytes) -> None:
        if data:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def _end_answer(self, cut: bool) -> None:
        if cut:
            self.close_connection = True
            _shut_down(self.connection)
        else:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _pieces(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """Yield the body as it arrives; raises IncompleteRead when it ends too early."""
    while chunk := response.read1(_READ_BYTES):
        yield chunk
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)


def _shut_down(open_socket: socket.socket) -> None:
    with contextlib.suppress(OSError):
        open_socket.shutdown(socket.SHUT_RDWR)
