"""A transport of the user's own carries the requests: streams, aborts, deadlines, retries, failures."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Iterator

import httpx
import pytest
from support.requests import PROMPT, authorized, failure, options, post, wait_until
from support.sse_server import SseServer, hang, wait_for

from agent import Agent, Model
from agent.cancel import CancelToken
from agent.providers import default_transport, set_transport
from agent.providers.http.client import ProviderError, post_sse
from agent.retry import is_resumable

URL = "http://models.invalid/v1"

Answer = Callable[[httpx.Request], httpx.Response]


class Recorder(httpx.BaseTransport):
    """Passes requests on and keeps what it saw."""

    def __init__(self, inner: httpx.BaseTransport) -> None:
        self._inner = inner
        self.requests: list[bytes] = []
        self.chunks: list[bytes] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request.read())
        response = self._inner.handle_request(request)
        return httpx.Response(
            response.status_code,
            headers=response.headers,
            stream=_Tee(response, self.chunks),
            extensions=response.extensions,
        )


class _Tee(httpx.SyncByteStream):
    def __init__(self, response: httpx.Response, chunks: list[bytes]) -> None:
        self._response, self._chunks = response, chunks

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._response.iter_raw():
            self._chunks.append(chunk)
            yield chunk

    def close(self) -> None:
        self._response.close()


class Silent(httpx.SyncByteStream):
    """A body that brings one event and then nothing until it is released."""

    def __init__(self, released: threading.Event) -> None:
        self._released = released
        self.closed = threading.Event()

    def __iter__(self) -> Iterator[bytes]:
        yield b"data: 1\n\n"
        self._released.wait(10)

    def close(self) -> None:
        self.closed.set()


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    yield
    set_transport(None)


@pytest.fixture
def released() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def use(answer: Answer) -> None:
    set_transport(httpx.MockTransport(answer))


def test_requests_and_responses_pass_through_it(sse_server: SseServer) -> None:
    recorder = Recorder(default_transport())
    set_transport(recorder)
    sse_server.play(b"data: 1\n\n", b"data: 2\n\n")
    assert post(sse_server.url, options(), b'{"a": 1}') == ["1", "2"]
    assert recorder.requests == [b'{"a": 1}']
    assert b"".join(recorder.chunks) == b"data: 1\n\ndata: 2\n\n"


def test_none_restores_the_connection_pool(sse_server: SseServer) -> None:
    recorder = Recorder(default_transport())
    set_transport(recorder)
    set_transport(None)
    sse_server.play(b"data: 1\n\n")
    assert post(sse_server.url, options()) == ["1"]
    assert recorder.requests == []


def test_an_agent_sends_its_requests_through_it() -> None:
    chunk = (
        b'data: {"choices": [{"delta": {"content": "hello"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
    )
    use(lambda request: httpx.Response(200, content=chunk))
    with Agent(Model("m", "openai-completions", "mine", URL)) as agent:
        assert agent.run("hi").text == "hello"


def test_events_arrive_while_the_answer_is_still_being_sent(sse_server: SseServer) -> None:
    set_transport(Recorder(default_transport()))
    seen = threading.Event()
    sse_server.play(b"data: 1\n\n", wait_for(seen), b"data: 2\n\n")
    with post_sse(sse_server.url, authorized, b"{}", options=options(), provider="p") as payloads:
        first, *rest = (seen.set() or payload for payload in payloads)
    assert (first, rest) == ("1", ["2"])


def test_the_connection_is_kept_behind_a_wrapper(sse_server: SseServer) -> None:
    set_transport(Recorder(default_transport()))
    sse_server.play(b"data: 1\n\n", b"data: [DONE]\n\n", repeat=True)
    for _ in range(3):
        post(sse_server.url, options())
    assert [request.connection for request in sse_server.requests] == [1, 1, 1]


def test_context_variables_reach_it() -> None:
    span = contextvars.ContextVar("span", default="")
    seen: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(span.get())
        return httpx.Response(200, content=b"data: 1\n\n")

    use(answer)
    span.set("mine")
    post(URL, options())
    assert seen == ["mine"]


def aborted(cancel: CancelToken, reached: Callable[[], bool]) -> float:
    """Abort a request once `reached` holds; the seconds until its thread was free."""
    errors: list[ProviderError] = []
    thread = threading.Thread(target=lambda: errors.append(failure(URL, options(cancel=cancel))))
    thread.start()
    wait_until(reached)
    started = time.monotonic()
    cancel.cancel()
    thread.join(10)
    assert errors[0].aborted
    return time.monotonic() - started


def test_an_abort_ends_the_wait_for_a_transport_that_does_not_return(released: threading.Event) -> None:
    entered = threading.Event()

    def answer(request: httpx.Request) -> httpx.Response:
        entered.set()
        released.wait(10)
        return httpx.Response(200)

    use(answer)
    assert aborted(CancelToken(), entered.is_set) < PROMPT


def test_an_abort_ends_the_wait_for_a_silent_body(released: threading.Event) -> None:
    body = Silent(released)
    asked = threading.Event()

    def answer(request: httpx.Request) -> httpx.Response:
        asked.set()
        return httpx.Response(200, stream=body)

    use(answer)
    assert aborted(CancelToken(), asked.is_set) < PROMPT
    released.set()
    assert body.closed.wait(5)


def test_an_abort_behind_a_wrapper_closes_the_connection(sse_server: SseServer) -> None:
    set_transport(Recorder(default_transport()))
    sse_server.play(b"data: 1\n\n", hang())
    cancel = CancelToken()

    def abort_at_the_first_event() -> None:
        opts = options(cancel=cancel)
        with post_sse(sse_server.url, authorized, b"{}", options=opts, provider="p") as payloads:
            for _ in payloads:
                cancel.cancel()

    with pytest.raises(ProviderError) as error:
        abort_at_the_first_event()
    assert error.value.aborted
    assert sse_server.disconnected.wait(5)


def test_a_consumer_that_leaves_early_ends_the_request_behind_a_wrapper(sse_server: SseServer) -> None:
    set_transport(Recorder(default_transport()))
    sse_server.play(b"data: 1\n\n", hang())
    with post_sse(sse_server.url, authorized, b"{}", options=options(), provider="p") as payloads:
        assert next(iter(payloads)) == "1"
    assert sse_server.disconnected.wait(5)


def test_a_silent_transport_meets_the_timeout(released: threading.Event) -> None:
    use(lambda request: httpx.Response(200, stream=Silent(released)))
    with (
        pytest.raises(ProviderError, match="i/o timeout") as error,
        post_sse(URL, authorized, b"{}", options=options(timeout=0.05), provider="p") as payloads,
    ):
        list(payloads)
    assert is_resumable(str(error.value))


def test_error_responses_are_retried_and_reported() -> None:
    responses = [httpx.Response(503, text="not now"), httpx.Response(200, content=b"data: 1\n\n")]
    reported: list[str] = []
    use(lambda request: responses.pop(0))
    assert post(URL, options(0.0, on_retry=lambda n, delay, text: reported.append(text))) == ["1"]
    assert reported == ["503 not now"]


@pytest.mark.parametrize(
    ("error", "retried"),
    [
        (httpx.ConnectError("[Errno 111] Connection refused"), True),
        (httpx.ConnectError("[Errno -2] Name or service not known"), True),
        (httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed"), False),
        (httpx.ConnectTimeout("timed out"), True),
        (httpx.ReadTimeout("The read operation timed out"), True),
        (httpx.ReadError(""), True),
        (httpx.RemoteProtocolError("Server disconnected without sending a response."), True),
        (httpx.RemoteProtocolError("illegal status line"), False),
        (httpx.UnsupportedProtocol("Request URL is missing a protocol"), False),
    ],
)
def test_its_network_failures_are_retried_like_our_own(error: httpx.TransportError, retried: bool) -> None:
    attempts = 0

    def answer(request: httpx.Request) -> httpx.Response:
        nonlocal attempts
        attempts += 1
        raise error

    use(answer)
    failed = failure(URL, options(0.0))
    assert attempts == (2 if retried else 1)
    assert str(error) in str(failed)


def test_a_fault_of_its_own_ends_the_request_and_nothing_else() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise SystemExit("mine")

    use(answer)
    assert "SystemExit: mine" in str(failure(URL, options()))


def test_a_body_that_it_has_read_is_handed_out() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        response = httpx.Response(200, headers={"content-type": "text/event-stream"}, content=b"data: 1\n\n")
        response.read()
        return response

    use(answer)
    assert post(URL, options()) == ["1"]
