"""One streaming request: `post_sse`, with its retries and deadlines; it can be aborted at any moment.

How a wire format uses it:

    with post_sse(url, headers, body, options=options, provider="openai", first_error=check) as response:
        for payload in response:            # the `data` of one event, as str; "[DONE]" is passed on
            name = response.event           # the event's name, "" when it has none
            yield TextDelta(0, text)
        yield StreamDone(...)               # inside the `with`: leaving it may wait 50 ms for the body's end

- `headers(api_key)` returns the request headers. It is called again with the new key after a refresh.
- `body` is the encoded JSON.
- `first_error(payload)` is called with the first payloads, before any is handed out. An error text fails the
  request (it is sent again if that can help). "" holds the payload back and asks for the next one. None lets
  the stream begin. Held payloads are handed out in order. So `message_start` may be answered with "", an
  `error` event with its text, everything else with None.
- Entering the `with` block sends the request and returns when the first payloads have arrived. It raises
  `ProviderError` when all attempts failed; the text then says how many there were, and no other layer tries
  again.
- Iterating raises `ProviderError` when the stream breaks later (with a text that `agent.retry.is_resumable`
  knows) or stays silent. A body that ends early but cleanly ends the iteration, so check for your terminal
  event. Leaving the loop early is allowed.
- `ProviderError`: `str()` is the text to show; `.aborted .status .kind .retryable .retry_after`. Catch it and
  yield `StreamError(str(error), "aborted" if error.aborted else "error")`.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import NoReturn, Protocol

import httpx

from agent.cancel import CancelToken
from agent.providers.http.failure import (
    SECRET_HEADERS,
    ProviderError,
    aborted,
    is_loopback,
    no_server_text,
    page_title,
    response_text,
    secrets_of,
)
from agent.providers.http.sse import EventTooLargeError, SseReader
from agent.providers.http.transport import current_transport
from agent.redaction import redacted
from agent.retry import ErrorClass, RetryPolicy, after_attempts, classify_error, is_overflow_text

logger = logging.getLogger("agent")

__all__ = ["ProviderError", "RequestOptions", "SseResponse", "post_sse"]

# Models think for minutes without sending anything.
DEFAULT_TIMEOUT = 300.0
# Long enough for a slow network's TCP retransmissions at 1, 3 and 7 s.
_CONNECT_TIMEOUT = 15.0
# How long to wait for the end of the body after the last event, so that the connection can be reused.
_DRAIN_SECONDS = 0.05
# An error body is small and arrives at once; a server that stalls in it gets this long.
_ERROR_BODY_BYTES = 4096
_ERROR_BODY_SECONDS = 5.0
# The largest JSON body accepted in place of an event stream.
_JSON_BODY_BYTES = 16 * 1024 * 1024

# How an event stream begins: with a field or a comment. No JSON value and no web page begins like this.
_EVENT_STREAM_STARTS = (b"data:", b"event:", b"id:", b"retry:", b":")
_LONGEST_START = 6
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# All that is not printable ASCII; a tab is allowed inside a value.
_ILLEGAL = re.compile(r"[^\t\x20-\x7e]")


class RequestOptions(Protocol):
    """The stream options that `post_sse` reads."""

    @property
    def cancel(self) -> CancelToken | None: ...
    @property
    def api_key(self) -> str: ...
    @property
    def retry(self) -> RetryPolicy: ...
    @property
    def max_retry_delay(self) -> float | None: ...
    @property
    def on_retry(self) -> Callable[[int, float, str], object] | None: ...
    @property
    def timeout(self) -> float | None: ...
    @property
    def refresh_api_key(self) -> Callable[[str], str | None] | None: ...


def post_sse(
    url: str,
    headers: Callable[[str], Mapping[str, str]],
    body: bytes,
    *,
    options: RequestOptions,
    provider: str,
    first_error: Callable[[str], str | None] | None = None,
) -> SseResponse:
    """A request that is answered by a stream of events; sent when the `with` block is entered."""
    return SseResponse(url, headers, body, options, provider, first_error)


class SseResponse:
    """The payloads of one streaming response; a context manager, to be iterated once, by one thread.

    `status` and `headers` (lower-case names) are those of the response.
    """

    def __init__(
        self,
        url: str,
        headers: Callable[[str], Mapping[str, str]],
        body: bytes,
        options: RequestOptions,
        provider: str,
        first_error: Callable[[str], str | None] | None,
    ) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self._url, self._make_headers, self._body = url, headers, body
        self._options, self._provider = options, provider
        self._secrets: list[str] = []
        self._first_error = first_error
        self._timeout = options.timeout or DEFAULT_TIMEOUT
        self._response: httpx.Response | None = None
        self._reader = SseReader(())
        self._payloads: Iterator[str] = iter(())
        self._held: list[tuple[str, str]] = []
        self._event: str | None = None
        self._broken = False

    @property
    def event(self) -> str:
        """The name of the event whose payload was handed out last; empty when it has none."""
        return self._reader.event if self._event is None else self._event

    def __enter__(self) -> SseResponse:
        key, refreshed, attempt = self._options.api_key or "", False, 0
        while True:
            try:
                self._send(key)
                self._check_first_payloads()
                return self
            except ProviderError as failure:
                self._close(drain=failure.status is not None)
                if failure.kind == "auth" and not refreshed:
                    refreshed = True
                    if new_key := self._refreshed(key):
                        key = new_key
                        continue
                attempt += 1
                self._wait(attempt, self._delay(attempt, failure), failure)
            except BaseException:
                self._close(drain=False)
                raise

    def __iter__(self) -> Iterator[str]:
        for self._event, payload in self._held:  # noqa: B020
            yield payload
        self._held, self._event = [], None
        try:
            # No `yield from`: when the consumer stops early, it would close the body before it is drained.
            for payload in self._payloads:
                yield payload
        except (httpx.HTTPError, EventTooLargeError) as exc:
            raise self._connection_failure(exc) from exc
        self._raise_if_cancelled()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(drain=not isinstance(error, Exception))

    def expect_end(self, seconds: float | None) -> None:
        """Wait at most `seconds` from now for the rest of the body; None: as long as the timeout allows."""
        if self._response is not None:
            _set_deadline(self._response, seconds)

    def clean(self, text: str) -> str:
        """A text of the server without the credentials that it may quote."""
        return redacted(text, self._secrets)

    # --- one attempt ---

    def _send(self, key: str) -> None:
        self._raise_if_cancelled()
        self._broken, self._payloads = False, iter(())
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "accept-encoding": "identity",  # a compressor would hold events back
            **{name.lower(): value.strip() for name, value in self._make_headers(key).items()},
        }
        self._secrets += [key.strip(), *secrets_of(headers)]
        _require_legal(headers)
        timeout = {
            "connect": min(_CONNECT_TIMEOUT, self._timeout),
            "read": self._timeout,
            "write": self._timeout,
        }
        try:
            request = httpx.Request(
                "POST",
                _parsed(self._url),
                headers=headers,
                content=self._body,
                extensions={"timeout": timeout, "cancel": self._options.cancel},
            )
            response = self._response = current_transport().handle_request(request)
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as exc:
            raise self._connection_failure(exc) from exc
        self.status, self.headers = response.status_code, dict(response.headers)
        if not 200 <= self.status < 300:
            raise self._refusal(self._read_some(response))
        self._payloads = self._begin(response)

    def _begin(self, response: httpx.Response) -> Iterator[str]:
        """The payloads of the body, in whatever form the server sends it."""
        media_type = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        chunks = _chunks(response)
        if media_type == "text/html" or media_type.endswith(("/json", "+json")):
            start, chunks = self._peek(chunks)  # the label may be wrong
            if not start.startswith(_EVENT_STREAM_STARTS):
                return self._web_page(chunks) if media_type == "text/html" else _whole_body(chunks)
        self._reader = SseReader(chunks)
        return iter(self._reader)

    def _peek(self, chunks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
        """The beginning of the body without white space, and the whole body."""
        seen = b""
        try:
            while len(start := seen.removeprefix(_BYTE_ORDER_MARK).lstrip()) < _LONGEST_START:
                seen += next(chunks)
        except StopIteration:
            pass
        except httpx.HTTPError as exc:
            raise self._connection_failure(exc) from exc
        return start, itertools.chain((seen,), chunks)

    def _web_page(self, chunks: Iterator[bytes]) -> NoReturn:
        """Raises the error for a login page, or for a base URL that is not that of an API."""
        page = next(chunks, b"")[:_ERROR_BODY_BYTES].decode("utf-8", "replace")
        text = f"expected an event stream, the server sent a web page: {page_title(page) or page[:200]}"
        raise ProviderError(self.clean(text), ErrorClass("invalid"), self.status)

    def _check_first_payloads(self) -> None:
        self._held = []
        try:
            for payload in self._payloads:
                self._held.append((self._reader.event, payload))
                verdict = self._first_error(payload) if self._first_error is not None else None
                if verdict is None:
                    return
                if verdict:
                    raise self._stream_failure(verdict)
        except (httpx.HTTPError, EventTooLargeError) as exc:
            raise self._connection_failure(exc) from exc
        self._raise_if_cancelled()
        if self._reader.stray and not self._held:
            raise self._stream_failure(
                f"expected an event stream, the server sent{self._encoding_note()}: {self._reader.stray}"
            )

    def _encoding_note(self) -> str:
        encoding = self.headers.get("content-encoding", "")
        return f" (with the content encoding {encoding})" if encoding else ""

    def _read_some(self, response: httpx.Response) -> bytes:
        """The beginning of an error body, as far as it arrives soon."""
        _set_deadline(response, _ERROR_BODY_SECONDS)
        body = bytearray()
        try:
            for chunk in _chunks(response):
                body += chunk
                if len(body) >= _ERROR_BODY_BYTES:
                    break
        except httpx.HTTPError:
            self._raise_if_cancelled()
        return bytes(body[:_ERROR_BODY_BYTES])

    def _close(self, drain: bool) -> None:
        """Close the response; with `drain` wait shortly for its end, so that the connection can be reused."""
        response, self._response = self._response, None
        if response is None:
            return
        if drain and not self._broken and not self._cancelled():
            _set_deadline(response, _DRAIN_SECONDS)
            with contextlib.suppress(httpx.HTTPError, EventTooLargeError):
                for _ in self._payloads:
                    pass
        response.close()

    # --- failures ---

    def _cancelled(self) -> bool:
        cancel = self._options.cancel
        return cancel is not None and cancel.is_set()

    def _raise_if_cancelled(self) -> None:
        if self._cancelled():
            self._broken = True
            raise aborted()

    def _connection_failure(self, exc: Exception) -> ProviderError:
        """The error for a connection that failed, before the response or in the middle of it."""
        self._broken = True
        if self._cancelled():
            return aborted()
        text = self.clean(str(exc))
        if text.startswith("connection refused") and is_loopback(self._url):
            return ProviderError(self.clean(no_server_text(self._url, self._provider)), ErrorClass("network"))
        return ProviderError(text, classify_error(text=text))

    def _stream_failure(self, text: str) -> ProviderError:
        """The error for a stream whose first event reports a failure."""
        text = self.clean(text)
        return ProviderError(text, classify_error(None, self.headers, text, now=self._now()), self.status)

    def _refusal(self, body: bytes) -> ProviderError:
        """The error for a response with an error status."""
        self._raise_if_cancelled()
        text = response_text(self.status, self.headers, body)
        text = self.clean(f"{text} from {self._url}" if text == "404 (no body)" else text)
        # The types and codes in the body say more than the message (`insufficient_quota`).
        whole = f"{text}\n{body.decode('utf-8', 'replace')}"
        classified = classify_error(self.status, self.headers, whole, now=self._now())
        if classified.kind == "context_overflow" and not is_overflow_text(text):
            text += " (context_length_exceeded)"  # later readers have the text alone
        return ProviderError(text, classified, self.status)

    def _now(self) -> float:
        """The Unix time that dates in the headers are measured from: the response's, else ours."""
        import email.utils  # loads slowly, and only for failures

        try:
            return email.utils.parsedate_to_datetime(self.headers["date"]).timestamp()
        except (KeyError, ValueError, TypeError, IndexError, OverflowError):
            return time.time()

    def _refreshed(self, key: str) -> str:
        """A key other than the rejected one; empty when there is none."""
        refresh = self._options.refresh_api_key
        if refresh is None:
            return ""
        try:
            new_key = refresh(self._provider) or ""
        except Exception:
            logger.exception("refresh_api_key failed")
            return ""
        return new_key if new_key != key else ""

    def _delay(self, attempt: int, failure: ProviderError) -> float:
        """The seconds to wait after failed attempt number `attempt`; raises when it was the last."""
        policy = self._options.retry or RetryPolicy()
        waits = policy.request if failure.status is None else (*policy.request, *policy.busy)
        if not failure.retryable:
            raise failure
        if attempt > len(waits):
            text = after_attempts(str(failure), attempt)
            raise ProviderError(text, failure.classified, failure.status) from failure
        cap = self._options.max_retry_delay or float("inf")
        if failure.retry_after > cap:
            raise ProviderError(
                f"{failure} (the server asks to wait {_plain(failure.retry_after)} s, "
                f"more than max_retry_delay of {_plain(cap)} s)",
                ErrorClass(failure.kind, False, failure.retry_after),
                failure.status,
            ) from failure
        return min(failure.retry_after or min(waits[attempt - 1], cap), threading.TIMEOUT_MAX)

    def _wait(self, attempt: int, delay: float, failure: ProviderError) -> None:
        if self._options.on_retry is not None:
            try:
                self._options.on_retry(attempt, delay, str(failure))
            except Exception:
                logger.exception("on_retry failed")
        cancel = self._options.cancel
        if cancel is None:
            threading.Event().wait(delay)
        elif cancel.wait(delay):
            raise aborted()


def _whole_body(chunks: Iterator[bytes]) -> Iterator[str]:
    """A body that is one JSON value: an error object or a whole answer."""
    body = bytearray()
    for chunk in chunks:
        body += chunk
        if len(body) > _JSON_BODY_BYTES:
            raise EventTooLargeError("the server sent too large a body")
    yield body.decode("utf-8", "replace")


# The same few URLs are used for every request.
_parsed = functools.lru_cache(64)(httpx.URL)


def _chunks(response: httpx.Response) -> Iterator[bytes]:
    if "content-encoding" in response.headers:
        return response.iter_bytes()
    assert isinstance(response.stream, httpx.SyncByteStream)
    return iter(response.stream)  # as `iter_raw`, without its work for each chunk


def _require_legal(headers: Mapping[str, str]) -> None:
    """Raise ProviderError for characters that HTTP does not allow, without the header's value (a key)."""
    for name, value in headers.items():
        if _ILLEGAL.search(name + value):
            what = "the API key has" if name in SECRET_HEADERS else f"the header {name!a} has"
            text = f"{what} characters that HTTP does not allow, such as line ends or typographic quotes"
            raise ProviderError(text, ErrorClass("invalid"))


def _plain(seconds: float) -> str:
    return f"{seconds:.0f}" if seconds >= 1000 else f"{seconds:g}"


class _HasDeadline(Protocol):
    deadline: float | None


def _set_deadline(response: httpx.Response, seconds: float | None) -> None:
    """Bound every further read of the response by a moment `seconds` from now; None: by the timeout alone."""
    connection: _HasDeadline = response.extensions["connection"]
    connection.deadline = None if seconds is None else time.monotonic() + seconds
