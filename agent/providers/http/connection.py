"""One TCP connection that another thread can abort.

httpx gives no access to a connection before the response head has arrived, and closing an httpx client does
not wake a thread that waits on a socket. So this module makes the sockets: a `Connection` is the httpcore
network backend and the network stream of exactly one HTTP connection. `abort()` wakes the thread that uses it
in every phase: name lookup, connect, TLS handshake, write, waiting for the head, reading the body.

Errors are worded so that the patterns of `agent.retry` recognise them, followed by the original text.
"""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import select
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import httpcore

from agent.providers.http.chunks import ChunkReader, HeadSplitter
from agent.threads import start_thread

# How often a pending connect checks for an abort. Shutting the socket down wakes a connect on Linux only.
_CONNECT_SLICE = 0.02
# The delay before the next address is tried too (RFC 8305): a dead IPv6 route costs this, not the timeout.
_HEAD_START = 0.25
# Keepalive probes tell a dead peer from a model that thinks. The values of the providers' official clients.
_KEEPALIVE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPALIVE", 60), ("TCP_KEEPINTVL", 60), ("TCP_KEEPCNT", 5))
# The most that one read of a chunked body takes, as in httpcore.
_CHUNK_BYTES = 64 * 1024
_CONNECTING = (0, errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EAGAIN, getattr(errno, "WSAEWOULDBLOCK", 0))

Address: TypeAlias = tuple[Any, ...]


class Connection(httpcore.NetworkBackend, httpcore.NetworkStream):
    """The socket of one HTTP connection.

    Threads: one thread at a time uses it; only `abort()` may be called from any thread and from a signal
    handler. `_lock` guards the socket while it is replaced (TLS) or closed, so that `abort()` never uses the
    descriptor of a closed socket. It is reentrant, because a signal handler may interrupt its holder.

    `received`: a byte has arrived since the flag was last set to False. `write_failed`: a write failed since
    then, so the request was not sent whole. `ended`: the peer has closed its side. `deadline`: a monotonic
    time that bounds every read in addition to the timeout; None for no deadline.
    """

    def __init__(self) -> None:
        self.received = False
        self.write_failed = False
        self.ended = False
        self.deadline: float | None = None
        self._lock = threading.RLock()
        self._splitter = HeadSplitter()
        self._held = b""  # received, and not yet read
        self._aborted = False
        # Not an Event: its `set` in a signal handler deadlocks with a `wait` on the interrupted thread.
        self._resolved: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._socket: socket.socket | None = None
        self._peer = ""
        self._timeout: float | None = None

    def abort(self) -> None:
        """Wake the thread that waits on this connection; every later use of it fails."""
        with self._lock:
            self._aborted = True
            self._resolved.put(None)
            if self._socket is not None:
                with contextlib.suppress(OSError):
                    # The base method: the one of SSLSocket would drop the TLS state that the reader uses.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    @property
    def is_aborted(self) -> bool:
        """True after `abort()`."""
        return self._aborted

    # --- connecting ---

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        if not 0 < port < 65536:  # the resolver would take it modulo 65536, and so reach another server
            raise httpcore.UnsupportedProtocol(f"the port {port} in the URL is not between 1 and 65535")
        deadline = time.monotonic() + (timeout or threading.TIMEOUT_MAX)
        self._peer = f"{host}:{port}"
        found = self._look_up(host, port, deadline)
        try:
            sock = _connect_first(found, deadline, lambda: self._aborted)
        except TimeoutError as exc:
            self._raise_if_aborted(httpcore.ConnectError)
            raise httpcore.ConnectTimeout(self._message("connection timed out", exc)) from exc
        except OSError as exc:
            raise httpcore.ConnectError(self._message(_phrase(exc), exc)) from exc
        _tune(sock)
        sock.setblocking(True)  # a request without a timeout sets none
        with self._lock:
            self._socket = sock
        self._raise_if_aborted(httpcore.ConnectError)
        return self

    def _look_up(self, host: str, port: int, deadline: float) -> list[Address]:
        """The addresses of `host`.

        Nothing interrupts `getaddrinfo`, so it runs on a daemon thread that is abandoned after an abort.
        """
        answers: list[list[Address] | Exception] = []

        def look_up(flags: int = 0) -> None:
            try:
                answers.append(list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)))
            except (OSError, UnicodeError) as exc:
                answers.append(exc)

        def look_up_and_notify() -> None:
            look_up()
            self._resolved.put(None)

        look_up(socket.AI_NUMERICHOST)
        if isinstance(answers[-1], Exception):
            answers.clear()
            start_thread(threading.Thread(target=look_up_and_notify, name="agent-resolver", daemon=True))
            with contextlib.suppress(queue.Empty):
                self._resolved.get(timeout=max(0.0, deadline - time.monotonic()))
            self._raise_if_aborted(httpcore.ConnectError)
        if not answers:
            raise httpcore.ConnectTimeout(f"i/o timeout: the name lookup of {host} took too long")
        answer = answers[-1]
        if isinstance(answer, Exception):
            raise httpcore.ConnectError(self._message("no such host", answer)) from answer
        return answer

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        if isinstance(self._socket, ssl.SSLSocket):
            raise httpcore.ConnectError("TLS inside TLS is not supported: give the proxy an http:// URL")
        with self._lock:
            assert self._socket is not None
            self._set_timeout(timeout)
            tls = self._socket = ssl_context.wrap_socket(
                self._socket, server_hostname=server_hostname, do_handshake_on_connect=False
            )
        self._raise_if_aborted(httpcore.ConnectError)
        try:
            tls.do_handshake()
        except TimeoutError as exc:
            raise httpcore.ConnectTimeout(self._message("tls handshake timeout", exc)) from exc
        except OSError as exc:
            raise httpcore.ConnectError(self._message(_phrase(exc), exc)) from exc
        return self

    # --- reading and writing ---

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """The next bytes for the HTTP parser; of a head only those up to its end. Empty: the peer closed."""
        data, self._held = self._held, b""
        if not data and not (data := self._receive_or_end(max_bytes, timeout)):
            return b""
        if self._splitter.is_active:
            data, self._held = self._splitter.split(data)
        return data

    def begin_body(self) -> None:
        """The heads of the response were read: `read` returns all that arrives."""
        self._splitter.is_active = False

    @property
    def has_unread(self) -> bool:
        """True while bytes that were received have not been read."""
        return bool(self._held)

    def read_chunks(self, timeout: float | None) -> Iterator[bytes]:
        """The data of the chunks of a body, as it arrives. For chunked bodies, once, after `begin_body`.

        What follows the usual chunks is left for `read`: the last chunk, or everything if the bytes of the
        head could not be told from those of the body.
        """
        if not self._splitter.at_end:
            return
        self._splitter.at_end = False
        reader = ChunkReader()
        data, self._held = self._held, b""
        while data or (data := self._receive_or_end(_CHUNK_BYTES, timeout)):
            if block := reader.feed(data):
                yield block
            if reader.is_malformed:
                raise httpcore.RemoteProtocolError("a chunk has no line end")
            if reader.rest is not None:
                self._held = reader.rest
                return
            data = b""

    def _receive_or_end(self, max_bytes: int, timeout: float | None) -> bytes:
        """The next bytes of the socket; empty when the peer has closed it."""
        data = self._receive(max_bytes, timeout)
        if data:
            self.received = True
            return data
        self._raise_if_aborted(httpcore.ReadError)
        self.ended = True
        return b""

    def _receive(self, max_bytes: int, timeout: float | None) -> bytes:
        assert self._socket is not None
        try:
            self._set_timeout(self._bounded(timeout))
            return self._socket.recv(max_bytes)
        except TimeoutError as exc:
            raise httpcore.ReadTimeout(f"i/o timeout: no data for {timeout or 0:g} s ({self._peer})") from exc
        except OSError as exc:
            raise httpcore.ReadError(self._message(_phrase(exc), exc)) from exc

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        assert self._socket is not None
        self._splitter.restart()
        self._held = b""
        rest = memoryview(buffer)
        try:
            self._set_timeout(timeout)
            while rest:
                rest = rest[self._socket.send(rest) :]
        except TimeoutError as exc:
            self.write_failed = True
            raise httpcore.WriteTimeout(f"i/o timeout: the server takes no data ({self._peer})") from exc
        except OSError as exc:
            self.write_failed = True
            raise httpcore.WriteError(self._message(_phrase(exc), exc)) from exc

    def close(self) -> None:
        with self._lock:
            if self._socket is not None:
                self._socket.close()

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":
            return self._socket is None or _is_readable(self._socket)
        if info == "ssl_object" and isinstance(self._socket, ssl.SSLSocket):
            return self._socket
        return self._socket if info == "socket" else None

    def _bounded(self, timeout: float | None) -> float | None:
        if self.deadline is None:
            return timeout
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left if timeout is None else min(left, timeout)

    def _set_timeout(self, timeout: float | None) -> None:
        if timeout != self._timeout and self._socket is not None:
            self._socket.settimeout(timeout)
            self._timeout = timeout

    def _raise_if_aborted(self, kind: type[Exception]) -> None:
        if self._aborted:
            raise kind("use of closed network connection: aborted by this side")

    def _message(self, phrase: str, exc: Exception) -> str:
        return f"{phrase}: {exc} ({self._peer})"


def _connect_first(found: list[Address], deadline: float, is_aborted: Callable[[], bool]) -> socket.socket:
    """The first socket that connects. Each address is tried `_HEAD_START` seconds after the one before.

    Raises the last failure, or TimeoutError at the deadline and when `is_aborted()` returns True.
    """
    waiting, next_start, failure = list(found), 0.0, OSError(errno.EADDRNOTAVAIL, "no address")
    with selectors.DefaultSelector() as pending:
        try:
            while waiting or pending.get_map():
                now = time.monotonic()
                if is_aborted() or now >= deadline:
                    raise TimeoutError("no answer")
                if waiting and (now >= next_start or not pending.get_map()):
                    next_start = now + _HEAD_START
                    failure = _start(waiting.pop(0), pending) or failure
                for key, _ in pending.select(_CONNECT_SLICE) if pending.get_map() else ():
                    sock = pending.unregister(key.fileobj).fileobj
                    assert isinstance(sock, socket.socket)
                    code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                    if not code:
                        return sock
                    sock.close()
                    failure = OSError(code, os.strerror(code))
        finally:
            for key in list(pending.get_map().values()):
                assert isinstance(key.fileobj, socket.socket)
                key.fileobj.close()
    raise failure


def _start(address: Address, pending: selectors.BaseSelector) -> OSError | None:
    """Begin to connect to `address`. Returns the error when that fails at once, else None."""
    family, kind, protocol, _, target = address
    try:
        sock = socket.socket(family, kind, protocol)
    except OSError as exc:
        return exc
    sock.setblocking(False)
    code = sock.connect_ex(target)
    if code in _CONNECTING:
        pending.register(sock, selectors.EVENT_WRITE)
        return None
    sock.close()
    return OSError(code, os.strerror(code))


def _tune(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE:
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _is_readable(sock: socket.socket) -> bool:
    """True when a read would not block. On an idle connection this means that the server has closed it."""
    if sock.fileno() < 0:
        return True
    if not hasattr(select, "poll"):  # Windows
        return bool(select.select([sock], [], [], 0)[0])
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


_PHRASES: tuple[tuple[type[OSError], str], ...] = (
    (ssl.SSLCertVerificationError, "tls certificate rejected"),
    (ssl.SSLEOFError, "unexpected EOF"),
    (ssl.SSLZeroReturnError, "unexpected EOF"),
    (ssl.SSLError, "tls failure"),
    (ConnectionResetError, "connection reset by peer"),
    (ConnectionAbortedError, "connection reset by peer"),
    (BrokenPipeError, "broken pipe"),
    (ConnectionRefusedError, "connection refused"),
    (TimeoutError, "connection timed out"),
    (socket.gaierror, "no such host"),
)
_PHRASES_BY_CODE = {
    errno.ENETUNREACH: "network is unreachable",
    errno.EHOSTUNREACH: "network is unreachable",
    errno.ENETDOWN: "network is unreachable",
    errno.EBADF: "use of closed network connection",
}


def _phrase(exc: OSError) -> str:
    for kind, phrase in _PHRASES:
        if isinstance(exc, kind):
            return phrase
    return _PHRASES_BY_CODE.get(exc.errno or 0, "network failure")
