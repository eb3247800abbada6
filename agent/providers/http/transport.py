"""The transport that all requests of the process use: our connection pool, or the one of `set_transport`.

A transport of the user is any `httpx.BaseTransport`: one that records requests, has its own TLS settings, or
traces. It cannot be aborted in the middle of a call, so each of its requests runs on a thread of its own. The
caller waits for that thread, its cancel token and its deadline.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import queue
import re
import threading
import time
from collections.abc import Iterator

import httpx

from agent.cancel import CancelToken
from agent.providers.http.pool import PooledTransport
from agent.retry import is_transient_network
from agent.threads import start_thread

_lock = threading.Lock()
_pool: PooledTransport | None = None
_custom: ThreadedTransport | None = None


def current_transport() -> httpx.BaseTransport:
    """The transport for the next request."""
    return _custom or default_transport()


def default_transport() -> PooledTransport:
    """The connection pool of the process, made at the first call."""
    global _pool
    with _lock:
        if _pool is None:
            _pool = PooledTransport()
        return _pool


def set_transport(transport: httpx.BaseTransport | None) -> None:
    """Send all further requests of the process through `transport`; None restores the connection pool."""
    global _custom
    _custom = None if transport is None else ThreadedTransport(transport)


def _after_fork() -> None:
    """Forget the connections of the parent process: a child must not use them."""
    global _pool, _lock
    _pool, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# --- a transport of the user ------------------------------------------------------------------------------


class ThreadedTransport(httpx.BaseTransport):
    """Runs each request of another transport on a daemon thread, in a copy of the caller's context variables.

    The request's `cancel` extension ends the wait at once. The thread of an aborted request ends when the
    other transport returns; one that passes the request on to `default_transport()` returns at once.
    """

    def __init__(self, inner: httpx.BaseTransport) -> None:
        self._inner = inner

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return _ThreadedExchange(self._inner, request).response()


class _Aborted:
    """Put into the queue of an exchange when its request is cancelled."""


class _ThreadedExchange(httpx.SyncByteStream):
    """One request on its thread, and the body of its response.

    Threads: `_run` is the request's thread, all else runs on the caller's. They share the queue and the
    cancel token alone. `deadline`: a monotonic time that bounds every wait; None for no deadline.
    """

    def __init__(self, inner: httpx.BaseTransport, request: httpx.Request) -> None:
        self.deadline: float | None = None
        self._inner, self._request = inner, request
        self._timeouts: dict[str, float | None] = request.extensions.get("timeout") or {}
        # In order: the response, its chunks, None for the end; an exception in the place of any of them.
        self._items: queue.SimpleQueue[httpx.Response | bytes | Exception | _Aborted | None]
        self._items = queue.SimpleQueue()
        # The request gets a token of its own, so that closing the response early cancels it too.
        self._cancel = CancelToken()
        outer: CancelToken | None = request.extensions.get("cancel")
        self._unregister = outer.on_cancel(self._cancel.cancel) if outer is not None else None
        request.extensions = {**request.extensions, "cancel": self._cancel}
        self._cancel.on_cancel(lambda: self._items.put(_Aborted()))

    def response(self) -> httpx.Response:
        """Start the thread and wait for the response head."""
        run = contextvars.copy_context().run
        start_thread(threading.Thread(target=run, args=(self._run,), name="agent-request", daemon=True))
        try:
            head = self._next(*self._timeouts.values())
        except BaseException:
            self.close()
            raise
        assert isinstance(head, httpx.Response)
        headers = head.headers.copy()
        if head.is_stream_consumed:  # the transport has read and decoded the body
            headers.pop("content-encoding", None)
        extensions = {**head.extensions, "connection": self}
        return httpx.Response(head.status_code, headers=headers, stream=self, extensions=extensions)

    def __iter__(self) -> Iterator[bytes]:
        while (chunk := self._next(self._timeouts.get("read"))) is not None:
            assert isinstance(chunk, bytes)
            yield chunk

    def close(self) -> None:
        if self._unregister is not None:
            self._unregister()
        self._cancel.cancel("the response was closed")

    def _next(self, *limits: float | None) -> httpx.Response | bytes | None:
        """The next item of the thread; waits as long as the limits (in seconds, None: no limit) together."""
        timeout = min(sum(limit or threading.TIMEOUT_MAX for limit in limits), threading.TIMEOUT_MAX)
        if self.deadline is not None:
            timeout = max(0.0, min(timeout, self.deadline - time.monotonic()))
        try:
            item = self._items.get(timeout=timeout)
        except queue.Empty:
            raise httpx.ReadTimeout(
                f"i/o timeout: no data for {timeout:g} s", request=self._request
            ) from None
        if isinstance(item, _Aborted):
            raise httpx.ReadError("use of closed network connection: aborted by this side")
        if isinstance(item, Exception):
            raise item
        return item

    def _run(self) -> None:
        try:
            response = self._inner.handle_request(self._request)
            with contextlib.closing(response):
                self._items.put(response)
                consumed = response.is_stream_consumed
                for chunk in [response.content] if consumed else response.iter_raw():
                    if self._cancel.is_set():
                        return
                    self._items.put(chunk)
            self._items.put(None)
        except httpx.TransportError as exc:
            self._items.put(_worded(exc))
        except Exception as exc:
            self._items.put(exc)
        except BaseException as exc:  # ends this thread and not the caller's
            self._items.put(httpx.TransportError(f"the transport failed: {type(exc).__name__}: {exc}"))


# For exceptions whose texts other libraries write: the type, words of the text, a phrase that `agent.retry`
# classifies. A rejected certificate or a malformed response stays as it is, and is final.
_PHRASES: tuple[tuple[type[httpx.TransportError], str, str], ...] = (
    (httpx.ConnectTimeout, "", "connection timed out"),
    (httpx.TimeoutException, "", "i/o timeout"),
    (httpx.ConnectError, "errno|connection|closed", "connection refused"),
    (httpx.NetworkError, "", "connection reset by peer"),
    (httpx.RemoteProtocolError, "disconnected|closed", "unexpected EOF"),
)


def _worded(exc: httpx.TransportError) -> httpx.TransportError:
    """The same failure with a text that `agent.retry` classifies."""
    text = str(exc)
    if is_transient_network(text) or "certificate" in text.lower():
        return exc
    for kind, words, phrase in _PHRASES:
        if isinstance(exc, kind) and re.search(words, text, re.IGNORECASE):
            return type(exc)(f"{phrase}: {text}")
    return exc
