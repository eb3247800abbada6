"""One streaming request: `post_sse`, with its retries, its deadlines and a way to stop it at any moment.

How a wire format uses it (this face is stable):

    with post_sse(url, headers, body, options=options, provider="openai", first_error=look) as events:
        for payload in events:              # the `data` of one event, as str; "[DONE]" comes as it is
            name = events.event             # "" when the server named none
            yield TextDelta(0, text)
        yield StreamDone(...)               # inside the `with`: leaving it may wait 50 ms for the body's end

- `headers(api_key)` gives the request headers; it is called again with the new key after a refresh.
- `body` is the encoded JSON.
- `on_response({"status": int, "headers": dict})` is called for every response, before its body is read.
- `first_error(payload)` looks at the first payloads, before any is handed out: an error text makes the
  request fail (and be sent again if that can help), "" holds the payload back and shows the next one as
  well, None lets the stream begin. What was held back is handed out in order. So `message_start` may be
  answered with "", an `error` event with its text, all else with None.
- Entering the `with` block sends the request and returns with the first payloads; it raises `ProviderError`
  when all attempts failed. The text then says how many there were, and no other layer tries again.
- Iterating raises it when the stream breaks later (its text is one that `agent.retry.is_resumable` knows) or
  stays silent. A body that ends early but cleanly just ends the iteration, so look for your terminal event.
  Breaking out of the loop is fine.
- `ProviderError`: str() is the text to show; `.aborted .status .kind .retryable .retry_after`. Catch it and
  yield `StreamError(str(error), "aborted" if error.aborted else "error")`.
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol

import httpx

from agent.cancel import CancelToken
from agent.providers.http.connection import Wire
from agent.providers.http.failure import (
    SECRET_HEADERS,
    ProviderError,
    aborted,
    redacted,
    response_text,
    secrets_of,
)
from agent.providers.http.pool import shared_transport
from agent.providers.http.sse import EventTooLargeError, SseReader
from agent.retry import ErrorClass, RetryPolicy, after_attempts, classify_error, is_overflow_text

logger = logging.getLogger("agent")

__all__ = ["EventStream", "ProviderError", "RequestOptions", "post_sse"]

# Models think in silence for minutes; a shorter limit would cut them off.
DEFAULT_TIMEOUT = 300.0
# Long enough for a slow network's TCP retransmissions at 1, 3 and 7 s.
_CONNECT_TIMEOUT = 15.0
# How long the body may take to end after the last event, so that the connection can serve the next turn.
_DRAIN_SECONDS = 0.05
# An error message is small and comes at once; a server that stalls in one gets this long.
_ERROR_BODY_BYTES = 4096
_ERROR_BODY_SECONDS = 5.0
# The largest JSON body taken where an event stream was expected.
_JSON_BODY_BYTES = 16 * 1024 * 1024

# All that is not printable ASCII; a tab is allowed inside a value.
_ILLEGAL = re.compile(r"[^\t\x20-\x7e]")


class RequestOptions(Protocol):
    """What `post_sse` reads of the stream options."""

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
    secrets: Sequence[str] = (),
    on_response: Callable[[dict[str, Any]], object] | None = None,
    first_error: Callable[[str], str | None] | None = None,
) -> EventStream:
    """A request answered by a stream of events: see the module's docstring. Sends nothing before `with`."""
    return EventStream(url, headers, body, options, provider, secrets, on_response, first_error)


class EventStream:
    """The payloads of one streaming answer; a context manager, to be iterated once, by one thread.

    `event`: name of the event handed out last. `status`, `headers` (lower-case names): of the response.
    """

    def __init__(
        self,
        url: str,
        headers: Callable[[str], Mapping[str, str]],
        body: bytes,
        options: RequestOptions,
        provider: str,
        secrets: Sequence[str],
        on_response: Callable[[dict[str, Any]], object] | None,
        first_error: Callable[[str], str | None] | None,
    ) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self._url, self._make_headers, self._body = url, headers, body
        self._options, self._provider = options, provider
        self._secrets = list(secrets)
        self._on_response, self._first_error = on_response, first_error
        self._timeout = options.timeout or DEFAULT_TIMEOUT
        self._response: httpx.Response | None = None
        self._reader = SseReader(())
        self._payloads: Iterator[str] = iter(())
        self._held: list[tuple[str, str]] = []
        self._event: str | None = None
        self._broken = False

    @property
    def event(self) -> str:
        return self._reader.event if self._event is None else self._event

    def __enter__(self) -> EventStream:
        key, refreshed, attempt = self._options.api_key or "", False, 0
        while True:
            try:
                self._send(key)
                self._look_at_first_payloads()
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
            # No `yield from`: a consumer that breaks off would close the body before it is drained.
            for payload in self._payloads:
                yield payload
        except (httpx.HTTPError, EventTooLargeError) as exc:
            raise self._broken_off(exc) from exc
        self._raise_if_cancelled()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(drain=not isinstance(error, Exception))

    def expect_end(self, seconds: float) -> None:
        """The answer is complete: from now on wait for the rest of the body at most `seconds`."""
        if self._response is not None:
            _wire(self._response).deadline = time.monotonic() + seconds

    def clean(self, text: str) -> str:
        """What the server says, without the credentials it may quote."""
        return redacted(text, self._secrets)

    # --- one attempt ---

    def _send(self, key: str) -> None:
        self._raise_if_cancelled()
        self._broken, self._payloads = False, iter(())
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "accept-encoding": "identity",  # compressed events would wait in the compressor
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
                self._url,
                headers=headers,
                content=self._body,
                extensions={"timeout": timeout, "cancel": self._options.cancel},
            )
            response = self._response = shared_transport().handle_request(request)
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as exc:
            raise self._broken_off(exc) from exc
        self.status, self.headers = response.status_code, dict(response.headers)
        if self._on_response is not None:
            self._on_response({"status": self.status, "headers": dict(self.headers)})
        if not 200 <= self.status < 300:
            raise self._refused(self._read_some(response))
        self._payloads = self._begin(response)

    def _begin(self, response: httpx.Response) -> Iterator[str]:
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "application/json" or kind.endswith(
            "+json"
        ):  # some servers answer 200 with an error object
            return self._whole_body(response)
        if kind == "text/html":  # a login page, or a base URL that is not an API's
            page = self._read_some(response).decode("utf-8", "replace")
            text = f"expected an event stream, the server sent a web page: {page[:200]}"
            raise ProviderError(self.clean(text), ErrorClass("invalid"), self.status)
        self._reader = SseReader(_chunks(response))
        return iter(self._reader)

    def _look_at_first_payloads(self) -> None:
        self._held = []
        try:
            for payload in self._payloads:
                self._held.append((self._reader.event, payload))
                verdict = self._first_error(payload) if self._first_error is not None else None
                if verdict is None:
                    return
                if verdict:
                    raise self._failed(verdict)
        except (httpx.HTTPError, EventTooLargeError) as exc:
            raise self._broken_off(exc) from exc
        self._raise_if_cancelled()
        if self._reader.stray and not self._held:
            raise self._failed(
                f"expected an event stream, the server sent{self._form()}: {self._reader.stray}"
            )

    def _form(self) -> str:
        coding = self.headers.get("content-encoding", "")
        return f" (in the coding {coding})" if coding else ""

    def _whole_body(self, response: httpx.Response) -> Iterator[str]:
        body = bytearray()
        for chunk in _chunks(response):
            body += chunk
            if len(body) > _JSON_BODY_BYTES:
                raise EventTooLargeError("the server sent too large a body")
        yield body.decode("utf-8", "replace")

    def _read_some(self, response: httpx.Response) -> bytes:
        """As much of an error body as is worth reading and comes soon."""
        _wire(response).deadline = time.monotonic() + _ERROR_BODY_SECONDS
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
        """End the response; with `drain` wait a moment for its end, so that the connection can be kept."""
        response, self._response = self._response, None
        if response is None:
            return
        if drain and not self._broken and not self._cancelled():
            _wire(response).deadline = time.monotonic() + _DRAIN_SECONDS
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

    def _broken_off(self, exc: Exception) -> ProviderError:
        """The connection failed, before the response or in the middle of it."""
        self._broken = True
        if self._cancelled():
            return aborted()
        text = self.clean(str(exc))
        return ProviderError(text, classify_error(text=text))

    def _failed(self, text: str) -> ProviderError:
        """The server opened the stream only to say that it failed."""
        text = self.clean(text)
        return ProviderError(text, classify_error(None, self.headers, text, now=time.time()), self.status)

    def _refused(self, body: bytes) -> ProviderError:
        self._raise_if_cancelled()
        text = self.clean(response_text(self.status, self.headers, body))
        # The types and codes in the body tell more than the message (`insufficient_quota`).
        whole = f"{text}\n{body.decode('utf-8', 'replace')}"
        classified = classify_error(self.status, self.headers, whole, now=time.time())
        if classified.kind == "context_overflow" and not is_overflow_text(text):
            text += " (context_length_exceeded)"  # later readers have the text alone
        return ProviderError(text, classified, self.status)

    def _refreshed(self, key: str) -> str:
        """Another key than the one that was rejected; empty when there is none."""
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
        """The wait before attempt number `attempt` is made again; raises when it is not."""
        waits = (self._options.retry or RetryPolicy()).request
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


def _chunks(response: httpx.Response) -> Iterator[bytes]:
    if "content-encoding" in response.headers:
        return response.iter_bytes()
    return response.iter_raw()


def _require_legal(headers: Mapping[str, str]) -> None:
    """Names the header at fault without its value, which may be a key; before a connection is made for it."""
    for name, value in headers.items():
        if _ILLEGAL.search(name + value):
            what = "the API key has" if name in SECRET_HEADERS else f"the header {name!a} has"
            text = f"{what} characters that HTTP does not allow, such as line ends or typographic quotes"
            raise ProviderError(text, ErrorClass("invalid"))


def _plain(seconds: float) -> str:
    return f"{seconds:.0f}" if seconds >= 1000 else f"{seconds:g}"


def _wire(response: httpx.Response) -> Wire:
    wire = response.extensions["wire"]
    assert isinstance(wire, Wire)
    return wire
