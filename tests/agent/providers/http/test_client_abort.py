"""An abort ends a request at once in every phase, and leaves nothing behind."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from support.raw_server import raw_server, read_request
from support.requests import PROMPT, Requesting, authorized, failure, options, post, wait_until
from support.sse_server import SseServer, cut, hang, no_head

from agent.providers.http.client import ProviderError, post_sse
from agent.providers.http.transport import default_transport
from agent.retry import ABORTED_TEXT


@pytest.fixture(autouse=True)
def no_connection_left() -> Iterator[None]:
    default_transport().close()
    before = open_descriptors()
    yield
    default_transport().close()
    wait_until(lambda: open_descriptors() <= before)


def open_descriptors() -> int:
    return len(os.listdir("/dev/fd")) if os.path.isdir("/dev/fd") else 0


def assert_aborted(request: Requesting, seconds: float) -> None:
    assert request.error is not None
    assert request.error.aborted
    assert str(request.error) == ABORTED_TEXT
    assert seconds < PROMPT


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a full queue refuses")
def test_while_connecting() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        address = full.getsockname()
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(address)
        request = Requesting(f"http://127.0.0.1:{address[1]}", phase="_connect_first")
        try:
            seconds = request.abort_in_phase()
        finally:
            for filler in fillers:
                filler.close()
    assert_aborted(request, seconds)


def test_while_the_name_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = threading.Event()
    look_up = socket.getaddrinfo

    def slow(host: str, *args: object, **kwargs: int) -> object:
        if not kwargs.get("flags"):
            answer.wait(10)
        return look_up(host, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    request = Requesting("http://localhost:9", phase="_look_up")
    try:
        seconds = request.abort_in_phase()
    finally:
        answer.set()
    assert_aborted(request, seconds)


def test_in_the_tls_handshake() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        request = Requesting(f"https://127.0.0.1:{silent.getsockname()[1]}", phase="do_handshake")
        seconds = request.abort_in_phase()
    assert_aborted(request, seconds)


def test_while_the_server_takes_no_more_of_the_request() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        request = Requesting(url, phase="write", body=b"x" * 50_000_000)
        seconds = request.abort_in_phase()
    assert_aborted(request, seconds)


def test_while_waiting_for_the_response_head(sse_server: SseServer) -> None:
    sse_server.play(no_head(), hang())
    request = Requesting(sse_server.url, phase="_receive")
    seconds = request.abort_in_phase(lambda: bool(sse_server.requests))
    assert_aborted(request, seconds)
    assert sse_server.disconnected.wait(5)


@pytest.mark.parametrize("before", [(), (b"data: 1\n\n",)], ids=["no event yet", "after an event"])
def test_while_waiting_for_the_body(sse_server: SseServer, before: tuple[bytes, ...]) -> None:
    sse_server.play(*before, hang())
    request = Requesting(sse_server.url, phase="_receive")
    seconds = request.abort_in_phase(lambda: bool(sse_server.requests))
    assert_aborted(request, seconds)
    assert sse_server.disconnected.wait(5)


def test_while_waiting_for_the_end_of_an_error_message(sse_server: SseServer) -> None:
    sse_server.play(b"almost", hang(), status=500)
    request = Requesting(sse_server.url, phase="_read_some")
    seconds = request.abort_in_phase()
    assert_aborted(request, seconds)


def test_while_waiting_to_try_again(sse_server: SseServer) -> None:
    """T06"""
    sse_server.play(b"slow down", status=429, headers={"Retry-After": "30"}, repeat=True)
    request = Requesting(sse_server.url, phase="_wait", waits=(1.0,))
    seconds = request.abort_in_phase()
    assert_aborted(request, seconds)
    assert len(sse_server.requests) == 1


def test_before_it_began_no_connection_is_made(sse_server: SseServer) -> None:
    opts = options()
    opts.cancel.cancel()
    assert failure(sse_server.url, opts).aborted
    assert sse_server.connections == 0


def test_a_body_without_a_stated_end_does_not_seem_to_end_well() -> None:
    """To the HTTP parser a cut looks like its end, to the reader of events like that of the last event."""

    def serve(listener: socket.socket) -> None:
        with listener.accept()[0] as connection:
            read_request(connection)
            head = b"HTTP/1.0 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
            connection.sendall(head + b"data: 1\n\ndata: unfinish")
            connection.recv(1)

    opts = options()
    with raw_server(serve) as url:
        with post_sse(url, authorized, b"{}", options=opts, provider="p") as events:
            payloads = iter(events)
            assert next(payloads) == "1"
            opts.cancel.cancel()
            with pytest.raises(ProviderError, match=ABORTED_TEXT):
                next(payloads)


def test_the_next_request_works(sse_server: SseServer) -> None:
    sse_server.play(b"data: 1\n\n", hang())
    sse_server.play(b"data: 2\n\n")
    request = Requesting(sse_server.url, phase="_receive")
    request.abort_in_phase(lambda: bool(sse_server.requests))
    assert post(sse_server.url, options()) == ["2"]


def test_an_abort_after_the_end_leaves_the_kept_connection_alone(sse_server: SseServer) -> None:
    sse_server.play(b"data: 1\n\n", repeat=True)
    first = options()
    post(sse_server.url, first)
    first.cancel.cancel()
    assert post(sse_server.url, options()) == ["1"]
    assert [request.connection for request in sse_server.requests] == [1, 1]


def test_an_abort_while_other_requests_run_stops_only_its_own(sse_server: SseServer) -> None:
    sse_server.play(b"data: 1\n\n", hang())
    sse_server.play(b"data: 2\n\n", repeat=True)
    request = Requesting(sse_server.url, phase="_receive")
    seconds = request.abort_in_phase(
        lambda: bool(sse_server.requests) and post(sse_server.url, options()) == ["2"]
    )
    assert_aborted(request, seconds)
    assert post(sse_server.url, options()) == ["2"]


def test_an_abort_wins_over_a_connection_that_breaks_at_the_same_moment(sse_server: SseServer) -> None:
    opts = options(0.0, 0.0)

    def abort(attempt: int, delay: float, text: str) -> None:
        opts.cancel.cancel()

    opts.on_retry = abort
    sse_server.play(cut(), repeat=True)
    started = time.monotonic()
    assert failure(sse_server.url, opts).aborted
    assert time.monotonic() - started < 5
    assert len(sse_server.requests) == 1
