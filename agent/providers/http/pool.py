"""A transport for httpx that keeps connections between requests and can abort each request.

httpcore speaks HTTP on each connection. The pool is our own for two reasons: httpcore's pool scans all its
connections for every request, which takes most of the time when a hundred agents run; and an abort needs the
socket that serves the request.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeAlias

import httpcore
import httpx

from agent.cancel import CancelToken
from agent.errors import ConfigurationError
from agent.providers.http.connection import Connection
from agent.providers.http.proxies import ProxySettings

# Between two turns a tool runs for seconds, rarely for more than a minute. An older connection is closed: a
# router on the way may have dropped it, and a new one costs less than finding that out.
_IDLE_SECONDS = 60.0
# More than any process has agents that wait for a tool at one moment, well under the usual 1024 descriptors.
_MAX_IDLE = 256

_PORTS = {"http": 80, "https": 443}

_Key: TypeAlias = tuple[str, str, str, int]  # proxy URL (empty: none), scheme, host, port


class PooledConnection:
    """An HTTP connection of httpcore with the TCP connection below it."""

    __slots__ = ("http", "idle_since", "key", "tcp", "used")

    def __init__(self, key: _Key, http: httpcore.ConnectionInterface, tcp: Connection) -> None:
        self.key, self.http, self.tcp = key, http, tcp
        self.used = False
        self.idle_since = 0.0

    def close(self) -> None:
        """Close both. Closing twice has no effect."""
        # A connection that failed while it was made has no HTTP part yet, so close the socket as well.
        with contextlib.suppress(Exception):
            self.http.close()
        self.tcp.close()


class PooledTransport(httpx.BaseTransport):
    """Sends requests over kept or new connections.

    A request may carry `extensions={"cancel": CancelToken}`: cancelling it ends the request within
    milliseconds in every phase and closes its connection. Raises `httpx.TransportError`s worded for
    `agent.retry`, and ConfigurationError for certificates that can't be loaded. Proxies come from the
    environment (see `agent.providers.http.proxies`).

    A kept connection that turns out to be closed while the request is written is replaced by a new one, once.
    A request that was written whole is not sent again here: the server may have acted on it.

    Threads: any number may send at once. `_lock` guards the idle connections; a connection in use belongs to
    its response.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ssl_context: ssl.SSLContext | None = None
        self._proxies: ProxySettings | None = None  # read for the first request
        self._idle: dict[PooledConnection, None] = {}  # oldest first
        self._idle_by_key: dict[_Key, deque[PooledConnection]] = {}

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        cancel: CancelToken | None = request.extensions.get("cancel")
        key = self._key(request.url)
        connection = self._take(key)
        try:
            return self._send(request, connection, cancel)
        except httpx.TransportError as exc:
            if not connection.used or not _is_stale(exc, connection.tcp):
                raise
            return self._send(request, self._new(key), cancel)

    def _send(
        self, request: httpx.Request, connection: PooledConnection, cancel: CancelToken | None
    ) -> httpx.Response:
        tcp = connection.tcp
        tcp.received = tcp.write_failed = False
        tcp.deadline = None
        unregister = cancel.on_cancel(tcp.abort) if cancel is not None else _nothing
        try:
            response = connection.http.handle_request(_to_core(request))
        except BaseException as exc:
            unregister()
            connection.close()
            if isinstance(exc, Exception):
                raise _translated(exc, tcp) from exc
            raise
        tcp.begin_body()
        body = _ResponseBody(request, response, connection, cancel, unregister, self._put)
        return httpx.Response(
            response.status, headers=response.headers, stream=body, extensions={"connection": tcp}
        )

    def close(self) -> None:
        """Close the idle connections; those in use are closed by their responses.

        The transport can still be used. It reads the proxies and certificates of the environment again.
        """
        with self._lock:
            idle = list(self._idle)
            self._idle.clear()
            self._idle_by_key.clear()
            self._ssl_context = self._proxies = None
        for connection in idle:
            connection.close()

    def _key(self, url: httpx.URL) -> _Key:
        if url.scheme not in _PORTS or not url.host:
            raise httpx.UnsupportedProtocol("the base URL must be http:// or https:// and a host")
        port = _PORTS[url.scheme] if url.port is None else url.port
        proxies = self._proxies = self._proxies or ProxySettings()
        return proxies.proxy_for(url, port), url.scheme, url.raw_host.decode("ascii"), port

    def _take(self, key: _Key) -> PooledConnection:
        """The idle connection that was used last, else a new one."""
        while True:
            with self._lock:
                waiting = self._idle_by_key.get(key)
                if not waiting:
                    break
                connection = waiting.pop()
                del self._idle[connection]
            if not connection.http.has_expired():
                return connection
            connection.close()
        return self._new(key)

    def _put(self, connection: PooledConnection) -> None:
        connection.used = True
        connection.idle_since = now = time.monotonic()
        with self._lock:
            self._idle[connection] = None
            self._idle_by_key.setdefault(connection.key, deque()).append(connection)
            surplus = self._evict(now)
        for old in surplus:
            old.close()

    def _evict(self, now: float) -> list[PooledConnection]:
        """Removes and returns the connections that are too many or idle for too long; needs the lock."""
        surplus = []
        while self._idle:
            oldest = next(iter(self._idle))
            if len(self._idle) <= _MAX_IDLE and now - oldest.idle_since < _IDLE_SECONDS:
                break
            del self._idle[oldest]
            waiting = self._idle_by_key[oldest.key]
            waiting.popleft()  # the oldest connection of all is the oldest of its key
            if not waiting:
                del self._idle_by_key[oldest.key]
            surplus.append(oldest)
        return surplus

    def _new(self, key: _Key) -> PooledConnection:
        proxy, scheme, host, port = key
        tcp = Connection()
        context = self._tls() if scheme == "https" else None
        origin = httpcore.Origin(scheme.encode(), host.encode(), port)
        # Only the part of httpcore's pool that makes a connection is used.
        if proxy:
            return PooledConnection(key, _through_proxy(proxy, context, tcp, origin), tcp)
        factory = httpcore.ConnectionPool(context, network_backend=tcp)
        return PooledConnection(key, factory.create_connection(origin), tcp)

    def _tls(self) -> ssl.SSLContext:
        with self._lock:
            if self._ssl_context is None:  # takes 30 ms, so it is made once, when it is first needed
                self._ssl_context = _ssl_context()
            return self._ssl_context


class _ResponseBody(httpx.SyncByteStream):
    """The body of one response. `close` returns the connection to the pool if it can be reused."""

    def __init__(
        self,
        request: httpx.Request,
        response: httpcore.Response,
        connection: PooledConnection,
        cancel: CancelToken | None,
        unregister: Callable[[], None],
        put: Callable[[PooledConnection], None],
    ) -> None:
        self._response, self._connection = response, connection
        self._cancel, self._unregister, self._put = cancel, unregister, put
        self._is_chunked = _is_chunked(request, response)
        self._timeout: float | None = request.extensions.get("timeout", {}).get("read")
        self._closed = False

    def __iter__(self) -> Iterator[bytes]:
        try:
            if self._is_chunked:  # the parser sees the end of the body, or all of it
                yield from self._connection.tcp.read_chunks(self._timeout)
            yield from self._response.iter_stream()
        except Exception as exc:
            raise _translated(exc, self._connection.tcp) from exc

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(Exception):
            self._response.close()
        self._unregister()
        # Checked after the callback was removed: an abort that runs now would hit the next request.
        aborted = self._cancel is not None and self._cancel.is_set()
        if aborted or not self._connection.http.is_idle() or self._connection.tcp.has_unread:
            self._connection.close()
        else:
            self._put(self._connection)


def _is_chunked(request: httpx.Request, response: httpcore.Response) -> bool:
    """True for a response with chunks; h11 has verified that `chunked` is the only transfer coding."""
    if request.method == "HEAD" or response.status < 200 or response.status in (204, 304):
        return False
    return any(name.lower() == b"transfer-encoding" for name, _ in response.headers)


def _nothing() -> None:
    pass


def _to_core(request: httpx.Request) -> httpcore.Request:
    url = request.url
    target = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
    timeout = {"timeout": request.extensions.get("timeout", {})}
    return httpcore.Request(
        request.method, target, headers=request.headers.raw, content=request.read(), extensions=timeout
    )


def _ssl_context() -> ssl.SSLContext:
    try:
        return httpx.create_ssl_context()
    except OSError as error:  # ssl.SSLError is one
        for variable in ("SSL_CERT_FILE", "SSL_CERT_DIR"):  # in the order in which httpx reads them
            if path := os.environ.get(variable):
                raise ConfigurationError(
                    f"the certificates of {variable} can't be loaded: {path}: {error.strerror or error}"
                ) from error
        raise


def _through_proxy(
    url: str, context: ssl.SSLContext | None, tcp: Connection, origin: httpcore.Origin
) -> httpcore.ConnectionInterface:
    try:
        proxy = httpx.Proxy(url)
        kind = httpcore.SOCKSProxy if proxy.url.scheme.startswith("socks") else httpcore.HTTPProxy
        factory = kind(str(proxy.url), proxy_auth=proxy.raw_auth, ssl_context=context, network_backend=tcp)
        return factory.create_connection(origin)
    except (ValueError, httpx.InvalidURL):
        # Without the URL: it may contain a password.
        raise httpx.UnsupportedProtocol(
            "the proxy URL must be of the form http://HOST:PORT or socks5://HOST:PORT"
        ) from None
    except RuntimeError:
        raise httpx.UnsupportedProtocol("a SOCKS proxy needs: pip install 'httpx[socks]'") from None


def _is_stale(exc: httpx.TransportError, tcp: Connection) -> bool:
    """True when the server had closed a kept connection before the request was written whole."""
    failed = isinstance(exc, httpx.NetworkError | httpx.RemoteProtocolError)
    return failed and tcp.write_failed and not tcp.received and not tcp.is_aborted


def _translated(exc: Exception, tcp: Connection) -> httpx.TransportError:
    """The httpx exception for one of httpcore, worded for `agent.retry`."""
    kind = getattr(httpx, type(exc).__name__, None)
    if not (isinstance(kind, type) and issubclass(kind, httpx.TransportError)):
        return httpx.TransportError(f"{type(exc).__name__}: {exc}")
    text = str(exc)
    if kind is httpx.RemoteProtocolError:
        text = f"unexpected EOF: {text}" if tcp.ended else f"malformed HTTP response: {text}"
    elif kind is httpx.LocalProtocolError:  # its own text quotes the header, which may contain a key
        text = "illegal request: the URL or a header has characters that HTTP does not allow"
    elif kind is httpx.ProxyError:
        text = f"the proxy refused: {text}"
    return kind(text)
