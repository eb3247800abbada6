"""Connections that are kept between requests, as an httpx transport whose requests can be cut off.

httpcore speaks HTTP on each connection; keeping them is done here, because its own pool looks at every
connection for every request (with a hundred agents that is most of the work), and because whoever cancels
has to know which socket serves the request.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeAlias

import httpcore
import httpx

from agent.cancel import CancelToken
from agent.providers.http.connection import Wire

# Between two turns a tool runs for seconds, rarely for more than a minute; after that a new connection costs
# less than the risk of one that a router on the way has forgotten.
_IDLE_SECONDS = 60.0
# More than any process has agents waiting for a tool at one moment, well under the usual 1024 descriptors.
_MAX_IDLE = 256

_PORTS = {"http": 80, "https": 443}

_Key: TypeAlias = tuple[str, str, str, int]  # proxy URL ("": none), scheme, host, port


class _Connection:
    """One HTTP connection and its wire."""

    __slots__ = ("http", "idle_since", "key", "used", "wire")

    def __init__(self, key: _Key, http: httpcore.ConnectionInterface, wire: Wire) -> None:
        self.key, self.http, self.wire = key, http, wire
        self.used = False
        self.idle_since = 0.0

    def close(self) -> None:
        # Both: one that failed on its way has no HTTP part yet, and closing a wire twice costs nothing.
        with contextlib.suppress(Exception):
            self.http.close()
        self.wire.close()


class Transport(httpx.BaseTransport):
    """Sends requests over kept or new connections.

    A request may carry `extensions={"cancel": CancelToken}`: cancelling frees it within milliseconds in every
    phase and closes its connection. A kept connection that the server closed before it sent a byte of the
    response is replaced unseen. Failures are `httpx.TransportError`s worded for `agent.retry`. Proxies come
    from the environment (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`), read once.

    Threads: any number may send at once. `_lock` guards the idle connections, which belong to nobody; one in
    use belongs to its response.
    """

    def __init__(self, ssl_context: ssl.SSLContext | None = None) -> None:
        self._lock = threading.Lock()
        self._ssl_context = ssl_context
        self._proxies = urllib.request.getproxies()
        self._idle: dict[_Connection, None] = {}  # oldest first
        self._idle_by_key: dict[_Key, deque[_Connection]] = {}

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        cancel: CancelToken | None = request.extensions.get("cancel")
        while True:
            connection = self._take(self._key(request.url))
            wire = connection.wire
            wire.received, wire.deadline = False, None
            forget = cancel.on_cancel(wire.cut) if cancel is not None else _nothing
            try:
                response = connection.http.handle_request(_to_core(request))
            except Exception as exc:
                forget()
                connection.close()
                if connection.used and _is_stale(exc, wire):
                    continue
                raise _translated(exc, wire) from exc
            except BaseException:
                forget()
                connection.close()
                raise
            body = _Body(response, connection, cancel, forget, self._put)
            return httpx.Response(
                response.status, headers=response.headers, stream=body, extensions={"wire": wire}
            )

    def close(self) -> None:
        """Close the idle connections; those in use stay with their responses."""
        with self._lock:
            idle = list(self._idle)
            self._idle.clear()
            self._idle_by_key.clear()
        for connection in idle:
            connection.close()

    def _key(self, url: httpx.URL) -> _Key:
        if url.scheme not in _PORTS or not url.host:
            raise httpx.UnsupportedProtocol("the base URL must be http:// or https:// and a host")
        return self._proxy_for(url), url.scheme, url.raw_host.decode("ascii"), url.port or _PORTS[url.scheme]

    def _proxy_for(self, url: httpx.URL) -> str:
        proxy = self._proxies.get(url.scheme) or self._proxies.get("all") or ""
        if not proxy or urllib.request.proxy_bypass(url.host):
            return ""
        return proxy if "://" in proxy else f"http://{proxy}"

    def _take(self, key: _Key) -> _Connection:
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

    def _put(self, connection: _Connection) -> None:
        connection.used = True
        connection.idle_since = now = time.monotonic()
        with self._lock:
            self._idle[connection] = None
            self._idle_by_key.setdefault(connection.key, deque()).append(connection)
            surplus = self._evict(now)
        for old in surplus:
            old.close()

    def _evict(self, now: float) -> list[_Connection]:
        surplus = []
        while self._idle:
            oldest = next(iter(self._idle))
            if len(self._idle) <= _MAX_IDLE and now - oldest.idle_since < _IDLE_SECONDS:
                break
            del self._idle[oldest]
            waiting = self._idle_by_key[oldest.key]
            waiting.popleft()  # the oldest of all is the oldest of its kind
            if not waiting:
                del self._idle_by_key[oldest.key]
            surplus.append(oldest)
        return surplus

    def _new(self, key: _Key) -> _Connection:
        proxy, scheme, host, port = key
        wire = Wire()
        context = self._tls() if scheme == "https" else None
        origin = httpcore.Origin(scheme.encode(), host.encode(), port)
        # An httpcore pool is used as what it also is: the place that knows how to make a connection.
        if proxy:
            return _Connection(key, _through_proxy(proxy, context, wire, origin), wire)
        maker = httpcore.ConnectionPool(context, network_backend=wire)
        return _Connection(key, maker.create_connection(origin), wire)

    def _tls(self) -> ssl.SSLContext:
        with self._lock:
            if self._ssl_context is None:  # 30 ms to make, so once per process and only when needed
                self._ssl_context = httpx.create_ssl_context()
            return self._ssl_context


class _Body(httpx.SyncByteStream):
    """The body of one response; closing it gives the connection back, or ends it when it is of no use."""

    def __init__(
        self,
        response: httpcore.Response,
        connection: _Connection,
        cancel: CancelToken | None,
        forget: Callable[[], None],
        put: Callable[[_Connection], None],
    ) -> None:
        self._response, self._connection = response, connection
        self._cancel, self._forget, self._put = cancel, forget, put
        self._closed = False

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._response.iter_stream()
        except Exception as exc:
            raise _translated(exc, self._connection.wire) from exc

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(Exception):
            self._response.close()
        self._forget()
        # Asked after the callback was taken back: a cut that is under way now would hit the next user.
        cut = self._cancel is not None and self._cancel.is_set()
        if cut or not self._connection.http.is_idle():
            self._connection.close()
        else:
            self._put(self._connection)


def _nothing() -> None:
    pass


def _to_core(request: httpx.Request) -> httpcore.Request:
    url = request.url
    target = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
    timeout = {"timeout": request.extensions.get("timeout", {})}
    return httpcore.Request(
        request.method, target, headers=request.headers.raw, content=request.read(), extensions=timeout
    )


def _through_proxy(
    url: str, context: ssl.SSLContext | None, wire: Wire, origin: httpcore.Origin
) -> httpcore.ConnectionInterface:
    try:
        proxy = httpx.Proxy(url)
        kind = httpcore.SOCKSProxy if proxy.url.scheme.startswith("socks") else httpcore.HTTPProxy
        maker = kind(str(proxy.url), proxy_auth=proxy.raw_auth, ssl_context=context, network_backend=wire)
        return maker.create_connection(origin)
    except (ValueError, httpx.InvalidURL):
        # Without the URL: it may hold a password.
        raise httpx.UnsupportedProtocol("the proxy URL must begin with http:// or socks5://") from None
    except RuntimeError:
        raise httpx.UnsupportedProtocol("a SOCKS proxy needs: pip install 'httpx[socks]'") from None


def _is_stale(exc: Exception, wire: Wire) -> bool:
    """True when the server let go of a kept connection before it answered."""
    failed = isinstance(exc, httpcore.NetworkError | httpcore.RemoteProtocolError)
    return failed and not wire.received and not wire.was_cut


def _translated(exc: Exception, wire: Wire) -> httpx.TransportError:
    kind = getattr(httpx, type(exc).__name__, None)
    if not (isinstance(kind, type) and issubclass(kind, httpx.TransportError)):
        return httpx.TransportError(f"{type(exc).__name__}: {exc}")
    words = str(exc)
    if kind is httpx.RemoteProtocolError:
        words = f"unexpected EOF: {words}" if wire.ended else f"malformed HTTP response: {words}"
    elif kind is httpx.LocalProtocolError:  # its own words quote the header, and so maybe a key
        words = "illegal request: the URL or a header has characters that HTTP does not allow"
    elif kind is httpx.ProxyError:
        words = f"the proxy refused: {words}"
    return kind(words)


# --- the one transport of the process --------------------------------------------------------------

_shared_lock = threading.Lock()
_shared: Transport | None = None


def shared_transport() -> Transport:
    """The transport of this process, made when it is first asked for."""
    global _shared
    with _shared_lock:
        if _shared is None:
            _shared = Transport()
        return _shared


def close_idle_connections() -> None:
    """Close what is kept open, and forget what the environment said about proxies and certificates."""
    global _shared
    with _shared_lock:
        old, _shared = _shared, None
    if old is not None:
        old.close()


def _after_fork() -> None:
    """A child process must not talk on its parent's connections."""
    global _shared, _shared_lock
    _shared, _shared_lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
