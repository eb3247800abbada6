"""One streaming request: retries, endings, error texts."""

from __future__ import annotations

import dataclasses
import gzip
import logging
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from support.raw_server import raw_server, read_request
from support.requests import authorized, failure, options, post
from support.sse_server import SseServer, cut, hang, pause, wait_for

from agent.providers.http import client
from agent.providers.http.client import ProviderError, post_sse
from agent.providers.http.transport import default_transport
from agent.retry import RetryPolicy, is_final, is_resumable, is_retryable

KEY = "sk-very-secret-123456"


@pytest.fixture(autouse=True)
def no_kept_connections() -> Iterator[None]:
    yield
    default_transport().close()


class Retries(list[tuple[int, float, str]]):
    """Collects the calls of `on_retry`."""

    def __call__(self, attempt: int, delay: float, text: str) -> None:
        self.append((attempt, delay, text))


class TestStream:
    def test_the_request_is_what_was_asked_for(self, sse_server: SseServer) -> None:
        sse_server.play(b"data: 1\n\n")
        post(sse_server.url + "/v1/chat?x=1", options(api_key=KEY), b'{"a": 1}')
        request = sse_server.requests[0]
        assert (request.method, request.path, request.json) == ("POST", "/v1/chat?x=1", {"a": 1})
        assert request.headers["authorization"] == f"Bearer {KEY}"
        assert request.headers["content-type"] == "application/json"
        assert request.headers["accept"] == "text/event-stream"
        assert request.headers["accept-encoding"] == "identity"

    def test_payloads_are_handed_out_as_they_come(self, sse_server: SseServer) -> None:
        seen = threading.Event()
        sse_server.play(b"data: 1\n\n", wait_for(seen), b"data: 2\n\n")
        with post_sse(sse_server.url, authorized, b"{}", options=options(), provider="p") as events:
            payloads = iter(events)
            assert next(payloads) == "1"
            seen.set()
            assert list(payloads) == ["2"]

    def test_the_name_of_an_event_is_at_hand(self, sse_server: SseServer) -> None:
        sse_server.play(b"event: a\ndata: 1\n\nevent: b\ndata: 2\n\ndata: 3\n\n")
        with post_sse(sse_server.url, authorized, b"{}", options=options(), provider="p") as events:
            assert [(events.event, payload) for payload in events] == [("a", "1"), ("b", "2"), ("", "3")]

    def test_a_json_answer_in_place_of_a_stream_is_one_payload(self, sse_server: SseServer) -> None:
        sse_server.play(b'{"error":\n', b'"x"}', headers={"Content-Type": "application/json; charset=utf-8"})
        assert post(sse_server.url, options()) == ['{"error":\n"x"}']

    @pytest.mark.parametrize(
        "label", ["application/json", "application/problem+json", "text/json", "text/html"]
    )
    @pytest.mark.parametrize(
        "chunks",
        [
            (b"data: 1\n\n", b"data: 2\n\n"),
            (b"event: x\ndata: 1\n\ndata: 2\n\n",),
            (b": hello\n\n", b"id:1\ndata: 1\n\n", b"data: 2\n\n"),
            (b"\xef\xbb", b"\xbfdata: 1\n\ndata: 2\n\n"),
            (b"\r\n", b"d", b"ata: 1\r\n\r\ndata: 2\r\n\r\n"),
        ],
    )
    def test_an_event_stream_with_another_label_is_read_as_one(
        self, sse_server: SseServer, label: str, chunks: tuple[bytes, ...]
    ) -> None:
        sse_server.play(*chunks, headers={"Content-Type": label})
        assert post(sse_server.url, options()) == ["1", "2"]

    def test_the_events_of_a_stream_with_another_label_arrive_one_by_one(self, sse_server: SseServer) -> None:
        seen = threading.Event()
        sse_server.play(
            b"data: 1\n\n", wait_for(seen), b"data: 2\n\n", headers={"Content-Type": "application/json"}
        )
        with post_sse(sse_server.url, authorized, b"{}", options=options(), provider="p") as payloads:
            first, *rest = (seen.set() or payload for payload in payloads)
        assert (first, rest) == ("1", ["2"])

    @pytest.mark.parametrize("body", [b"", b"  ", b"null", b'{"data": 1}', b'["data:"]', b'"event: x"'])
    def test_json_with_its_label_is_one_payload(self, sse_server: SseServer, body: bytes) -> None:
        sse_server.play(body or b" ", headers={"Content-Type": "application/json"})
        assert post(sse_server.url, options()) == [(body or b" ").decode()]

    def test_a_web_page_in_place_of_a_stream_is_an_error(self, sse_server: SseServer) -> None:
        sse_server.play(b"<h1>Please log in</h1>", headers={"Content-Type": "text/html"})
        error = failure(sse_server.url, options(0.0))
        assert "web page" in str(error)
        assert "Please log in" in str(error)
        assert not error.retryable

    @pytest.mark.parametrize(
        ("kind", "body"),
        [
            ("text/plain", b"<!DOCTYPE html>\n<title>Please log in</title>"),
            ("text/event-stream", b'\xef\xbb\xbf{"error": {"message": "Please log in"}}'),
            ("application/octet-stream", b": ping\n\nPlease log in\n\nevent: x\n\n"),
        ],
    )
    def test_a_body_that_is_no_event_stream_is_shown(
        self, sse_server: SseServer, kind: str, body: bytes
    ) -> None:
        sse_server.play(body, headers={"Content-Type": kind}, repeat=True)
        error = failure(sse_server.url, options(0.0))
        assert str(error).startswith("expected an event stream, the server sent: ")
        assert "Please log in" in str(error)
        assert len(sse_server.requests) == 1

    def test_the_error_for_an_unknown_content_encoding_names_it(self, sse_server: SseServer) -> None:
        sse_server.play(b"\x0b\x02\x80zz\x03", headers={"Content-Encoding": "x-mine"})
        assert "(with the content encoding x-mine)" in str(failure(sse_server.url, options(0.0)))

    def test_a_failure_in_place_of_a_stream_is_tried_again_where_that_helps(
        self, sse_server: SseServer
    ) -> None:
        sse_server.play(b'{"error": {"type": "overloaded_error"}}', headers={"Content-Type": "text/plain"})
        sse_server.play(b"data: 1\n\n")
        assert post(sse_server.url, options(0.0)) == ["1"]

    def test_a_stream_of_comments_alone_is_an_empty_one(self, sse_server: SseServer) -> None:
        sse_server.play(b": ping\n\nretry: 3\nid: 4\n\n")
        assert post(sse_server.url, options()) == []

    def test_an_error_of_any_json_type_is_one_payload(self, sse_server: SseServer) -> None:
        sse_server.play(b'{"error": "x"}', headers={"Content-Type": "application/problem+json"})
        assert post(sse_server.url, options()) == ['{"error": "x"}']

    def test_a_compressed_stream_is_understood_although_none_was_asked_for(
        self, sse_server: SseServer
    ) -> None:
        sse_server.play(gzip.compress(b"data: 1\n\n"), headers={"Content-Encoding": "gzip"})
        assert post(sse_server.url, options()) == ["1"]

    def test_a_body_that_ends_early_but_cleanly_just_ends(self, sse_server: SseServer) -> None:
        sse_server.play(b'data: 1\n\ndata: {"cut')
        assert post(sse_server.url, options()) == ["1", '{"cut']


class TestRetries:
    def test_a_failing_server_is_asked_once_and_then_once_per_wait(self, sse_server: SseServer) -> None:
        """T05"""
        sse_server.play(b'{"error": {"message": "try later, please do"}}', status=503, repeat=True)
        retries = Retries()
        error = failure(sse_server.url, options(0.01, 0.02, 0.03, on_retry=retries))
        assert len(sse_server.requests) == 4
        text = "503 try later, please do"
        assert retries == [(1, 0.01, text), (2, 0.02, text), (3, 0.03, text)]
        assert str(error) == f"{text} (gave up after 4 attempts)"
        assert (error.status, error.kind) == (503, "server")

    def test_the_layers_above_do_not_multiply_the_attempts(self, sse_server: SseServer) -> None:
        """T05"""
        sse_server.play(cut(), repeat=True)
        url = sse_server.url
        assert not is_resumable(str(failure(url, options(0.0))))
        assert not is_retryable(str(failure(url, options(0.0))))
        assert is_resumable(str(failure(url, options())))

    @pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
    def test_these_statuses_are_tried_again(self, sse_server: SseServer, status: int) -> None:
        sse_server.play(b"no", status=status)
        sse_server.play(b"data: 1\n\n")
        assert post(sse_server.url, options(0.0)) == ["1"]

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422, 307])
    def test_these_are_not(self, sse_server: SseServer, status: int) -> None:
        sse_server.play(b"no", status=status, repeat=True)
        assert failure(sse_server.url, options(0.0)).status == status
        assert len(sse_server.requests) == 1

    @pytest.mark.parametrize(("status", "wish", "requests"), [(503, "false", 1), (400, "true", 2)])
    def test_the_servers_own_wish_decides(
        self, sse_server: SseServer, status: int, wish: str, requests: int
    ) -> None:
        sse_server.play(b"no", status=status, headers={"X-Should-Retry": wish}, repeat=True)
        failure(sse_server.url, options(0.0))
        assert len(sse_server.requests) == requests

    def test_the_server_says_how_long_to_wait(self, sse_server: SseServer) -> None:
        """T01"""
        sse_server.play(b"slow down", status=429, headers={"Retry-After": "0.3"})
        sse_server.play(b"data: 1\n\n")
        retries = Retries()
        started = time.monotonic()
        assert post(sse_server.url, options(0.0, on_retry=retries)) == ["1"]
        assert time.monotonic() - started >= 0.3
        assert [delay for _, delay, _ in retries] == [0.3]

    def test_the_delay_may_stand_in_the_text(self, sse_server: SseServer) -> None:
        sse_server.play(b"slow down, please try again in 20ms", status=429)
        sse_server.play(b"data: 1\n\n")
        retries = Retries()
        post(sse_server.url, options(5.0, on_retry=retries))
        assert [delay for _, delay, _ in retries] == [0.02]

    def test_a_server_that_asks_for_days_fails_at_once_with_both_numbers(self, sse_server: SseServer) -> None:
        """T03"""
        sse_server.play(b"come back next month", status=429, headers={"Retry-After": "1382400"}, repeat=True)
        retries = Retries()
        error = failure(sse_server.url, options(0.0, max_retry_delay=60.0, on_retry=retries))
        assert "come back next month" in str(error)
        assert "1382400 s" in str(error)
        assert "60 s" in str(error)
        assert not error.retryable
        assert is_final(str(error))
        assert (len(sse_server.requests), retries) == (1, [])

    @pytest.mark.parametrize("cap", [0, None])
    def test_without_a_cap_any_delay_is_kept(self, sse_server: SseServer, cap: float | None) -> None:
        opts = options(0.0, max_retry_delay=cap)
        delays: list[float] = []

        def on_retry(attempt: int, delay: float, text: str) -> None:
            delays.append(delay)
            opts.cancel.cancel()

        opts.on_retry = on_retry
        sse_server.play(b"", status=429, headers={"Retry-After": "1382400"})
        assert failure(sse_server.url, opts).aborted
        assert delays == [1382400]

    def test_our_own_waits_are_cut_to_the_cap(self, sse_server: SseServer) -> None:
        sse_server.play(b"", status=503)
        sse_server.play(b"data: 1\n\n")
        retries = Retries()
        assert post(sse_server.url, options(100.0, max_retry_delay=0.01, on_retry=retries)) == ["1"]
        assert [delay for _, delay, _ in retries] == [0.01]

    @pytest.mark.parametrize(
        "body",
        [
            b"Monthly usage limit reached. Resets in 16 days",
            b'{"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}',
        ],
    )
    def test_a_used_up_quota_is_not_tried_again(self, sse_server: SseServer, body: bytes) -> None:
        """T04"""
        sse_server.play(body, status=429, headers={"x-should-retry": "true"}, repeat=True)
        error = failure(sse_server.url, options(0.0))
        assert error.kind == "quota"
        assert len(sse_server.requests) == 1

    def test_a_broken_on_retry_is_logged_and_disturbs_nothing(
        self, sse_server: SseServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        def broken(attempt: int, delay: float, text: str) -> None:
            raise RuntimeError("boom")

        sse_server.play(b"", status=503)
        sse_server.play(b"data: 1\n\n")
        with caplog.at_level(logging.ERROR, "agent"):
            assert post(sse_server.url, options(0.0, on_retry=broken)) == ["1"]
        assert "boom" in caplog.text

    def test_a_server_of_this_machine_that_does_not_run_is_named_at_once(self, free_port: int) -> None:
        """N15"""
        retries = Retries()
        error = failure(f"http://127.0.0.1:{free_port}/v1/x", options(0.0, 0.0, on_retry=retries))
        assert str(error).startswith(f"nothing answers at http://127.0.0.1:{free_port}: start the server")
        assert error.kind == "network"
        assert len(retries) == 0

    @pytest.mark.parametrize(("status", "attempts"), [(503, 4), (429, 4), (529, 4), (None, 2)])
    def test_a_busy_server_gets_further_tries_and_a_broken_connection_does_not(
        self, sse_server: SseServer, status: int | None, attempts: int
    ) -> None:
        """N16"""
        retries = Retries()
        step = cut() if status is None else b"busy"
        sse_server.play(step, status=status or 200, repeat=True)
        policy = RetryPolicy(request=(0.0,), busy=(0.0, 0.0))
        failure(sse_server.url, dataclasses.replace(options(on_retry=retries), retry=policy))
        assert len(sse_server.requests) == attempts
        assert len(retries) == attempts - 1

    @pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
    def test_a_stream_that_breaks_before_its_first_event_is_asked_again(
        self, sse_server: SseServer, reset: bool
    ) -> None:
        sse_server.play(b": hello\n\n", cut(reset=reset))
        sse_server.play(b"data: 1\n\n")
        assert post(sse_server.url, options(0.0)) == ["1"]

    @pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
    def test_a_stream_that_breaks_later_is_not_and_may_be_resumed(
        self, sse_server: SseServer, reset: bool
    ) -> None:
        seen = threading.Event()
        sse_server.play(b"data: 1\n\n", wait_for(seen), cut(reset=reset))
        with post_sse(sse_server.url, authorized, b"{}", options=options(0.0), provider="p") as events:
            payloads = iter(events)
            assert next(payloads) == "1"
            seen.set()
            with pytest.raises(ProviderError) as broken:
                next(payloads)
        assert is_resumable(str(broken.value))
        assert ("connection reset by peer" if reset else "unexpected EOF") in str(broken.value)
        assert len(sse_server.requests) == 1

    @pytest.mark.parametrize(
        ("headers", "seconds"),
        [
            ("Date: Tue, 01 Dec 2026 10:00:00 GMT\r\nRetry-After: Tue, 01 Dec 2026 10:00:02 GMT", 2.0),
            ("Date: Mon, 01 Jan 1990 00:00:00 GMT\r\nRetry-After: Mon, 01 Jan 1990 00:00:07 GMT", 7.0),
            ("Date: Tue, 01 Dec 2026 10:00:05 GMT\r\nRetry-After: Tue, 01 Dec 2026 10:00:02 GMT", 0.0),
            ("Date: Thu, 01 Jan 1970 00:01:00 GMT\r\nX-RateLimit-Reset: 63", 3.0),
            ("Date: nonsense\r\nRetry-After: Mon, 01 Jan 1990 00:00:07 GMT", 0.0),
            ("Retry-After: 3", 3.0),
        ],
    )
    def test_dates_are_measured_from_the_date_of_the_response(self, headers: str, seconds: float) -> None:
        def serve(listener: socket.socket) -> None:
            with listener.accept()[0] as connection:
                read_request(connection)
                connection.sendall(f"HTTP/1.1 429 x\r\nContent-Length: 0\r\n{headers}\r\n\r\n".encode())

        with raw_server(serve) as url:
            assert failure(url, options()).retry_after == seconds


class TestFirstError:
    @staticmethod
    def look(payload: str) -> str | None:
        if payload == "start":
            return ""
        return payload.removeprefix("error ") if payload.startswith("error") else None

    def test_an_error_as_the_first_event_is_tried_again(self, sse_server: SseServer) -> None:
        sse_server.play(b"data: error Overloaded\n\n")
        sse_server.play(b"data: 1\n\n")
        retries = Retries()
        assert post(sse_server.url, options(0.0, on_retry=retries), first_error=self.look) == ["1"]
        assert retries == [(1, 0.0, "Overloaded")]

    def test_an_error_behind_a_held_event_leaves_nothing_of_the_first_attempt(
        self, sse_server: SseServer
    ) -> None:
        sse_server.play(b"event: s\ndata: start\n\n", b"data: error Overloaded\n\n")
        sse_server.play(b"event: s\ndata: start\n\n", b"event: t\ndata: 1\n\n")
        with post_sse(
            sse_server.url, authorized, b"{}", options=options(0.0), provider="p", first_error=self.look
        ) as events:
            assert [(events.event, payload) for payload in events] == [("s", "start"), ("t", "1")]

    def test_an_error_that_no_wait_cures_fails_at_once(self, sse_server: SseServer) -> None:
        sse_server.play(b"data: error prompt is too long\n\n", repeat=True)
        error = failure(sse_server.url, options(0.0), first_error=self.look)
        assert (str(error), error.kind) == ("prompt is too long", "context_overflow")
        assert len(sse_server.requests) == 1

    def test_a_stream_that_ends_while_an_event_is_held_gives_it_out(self, sse_server: SseServer) -> None:
        sse_server.play(b"data: start\n\n")
        assert post(sse_server.url, options(), first_error=self.look) == ["start"]

    def test_an_error_in_the_middle_is_the_formats_business(self, sse_server: SseServer) -> None:
        sse_server.play(b"data: 1\n\ndata: error Overloaded\n\n")
        assert post(sse_server.url, options(0.0), first_error=self.look) == ["1", "error Overloaded"]


class TestSilence:
    def test_a_server_that_falls_silent_is_given_up(self, sse_server: SseServer) -> None:
        """P25"""
        sse_server.play(b"data: 1\n\n", hang())
        payloads = []
        started = time.monotonic()
        with (
            pytest.raises(ProviderError) as silent,
            post_sse(sse_server.url, authorized, b"{}", options=options(timeout=0.3), provider="p") as events,
        ):
            payloads.extend(events)
        assert 0.3 <= time.monotonic() - started < 3
        assert "i/o timeout" in str(silent.value)
        assert "0.3 s" in str(silent.value)
        assert is_resumable(str(silent.value))

    @pytest.mark.parametrize("ping", [b": ping\n\n", b"event: ping\ndata: {}\n\n"], ids=["comment", "event"])
    def test_any_sign_of_life_restarts_the_clock(self, sse_server: SseServer, ping: bytes) -> None:
        """P25"""
        alive = [step for _ in range(5) for step in (pause(0.2), ping)]
        sse_server.play(b"data: 1\n\n", *alive, b"data: 2\n\n")
        payloads = post(sse_server.url, options(timeout=0.6))
        assert [payload for payload in payloads if payload != "{}"] == ["1", "2"]

    def test_a_server_that_sends_no_head_is_given_up_and_asked_again(self, sse_server: SseServer) -> None:
        sse_server.play(hang(), repeat=True)
        retries = Retries()
        error = failure(sse_server.url, options(0.0, timeout=0.2, on_retry=retries))
        assert "i/o timeout" in str(error)
        assert len(retries) == 1

    def test_an_error_message_that_does_not_end_is_not_waited_for(
        self, sse_server: SseServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(client, "_ERROR_BODY_SECONDS", 0.2)
        sse_server.play(b"that went wrong somehow", hang(), status=400)
        assert str(failure(sse_server.url, options())) == "400 that went wrong somehow"

    def test_a_silent_tls_server_is_named_as_such(self, silent_port: int) -> None:
        error = failure(f"https://127.0.0.1:{silent_port}", options(timeout=0.2))
        assert str(error).startswith("tls handshake timeout: ")


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that connects and then says nothing."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


class TestKeys:
    @pytest.mark.parametrize("status", [401, 403])
    def test_a_rejected_key_is_refreshed_once(self, sse_server: SseServer, status: int) -> None:
        asked: list[str] = []

        def refresh(provider: str) -> str:
            asked.append(provider)
            return f"new-key-{len(asked)}"

        sse_server.play(b"bad key", status=status, repeat=True)
        retries = Retries()
        opts = options(0.0, api_key=KEY, refresh_api_key=refresh, on_retry=retries)
        error = failure(sse_server.url, opts)
        sent = [request.headers["authorization"] for request in sse_server.requests]
        assert sent == [f"Bearer {KEY}", "Bearer new-key-1"]
        assert (asked, retries, error.kind) == (["test"], [], "auth")

    @pytest.mark.parametrize("answer", [KEY, "", None])
    def test_without_another_key_the_request_is_not_repeated(
        self, sse_server: SseServer, answer: str | None
    ) -> None:
        sse_server.play(b"bad key", status=401, repeat=True)
        failure(sse_server.url, options(0.0, api_key=KEY, refresh_api_key=lambda provider: answer))
        assert len(sse_server.requests) == 1

    def test_a_broken_refresh_is_logged_and_the_rejection_shown(
        self, sse_server: SseServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        def broken(provider: str) -> str:
            raise RuntimeError("boom")

        sse_server.play(b"the key was revoked long ago", status=401)
        with caplog.at_level(logging.ERROR, "agent"):
            error = failure(sse_server.url, options(api_key=KEY, refresh_api_key=broken))
        assert str(error) == "401 the key was revoked long ago"
        assert "boom" in caplog.text

    def test_an_overflow_under_a_401_asks_for_no_new_key(self, sse_server: SseServer) -> None:
        """U09"""
        asked: list[str] = []
        sse_server.play(b"this model supports only 256K context", status=401)
        opts = options(0.0, api_key=KEY, refresh_api_key=lambda provider: asked.append(provider) or "new")
        assert failure(sse_server.url, opts).kind == "context_overflow"
        assert asked == []

    def test_a_key_read_with_its_line_end_works(self, sse_server: SseServer) -> None:
        sse_server.play(b"data: 1\n\n")
        assert post(sse_server.url, options(api_key=KEY + "\n")) == ["1"]
        assert sse_server.requests[0].headers["authorization"] == f"Bearer {KEY}"


class TestSecrets:
    def test_a_server_that_quotes_the_key_does_not_get_it_into_the_text(self, sse_server: SseServer) -> None:
        sse_server.play(f"Incorrect API key provided: {KEY}".encode(), status=401)
        error = failure(sse_server.url, options(api_key=KEY))
        assert str(error) == "401 Incorrect API key provided: ***"

    def test_other_credentials_among_the_headers_are_hidden_too(self, sse_server: SseServer) -> None:
        sse_server.play(b"token tok-abcdef and cookie-987654", status=400)
        headers = {"X-Api-Key": "tok-abcdef", "Cookie": "cookie-987654"}
        with (
            pytest.raises(ProviderError) as refused,
            post_sse(
                sse_server.url,
                lambda key: headers,
                b"{}",
                options=options(),
                provider="p",
            ),
        ):
            pass
        assert str(refused.value) == "400 token *** and ***"

    @pytest.mark.parametrize("key", [KEY + "\nx", KEY + "\u201c", KEY + "\x00"])
    def test_a_key_that_no_header_can_carry_is_an_error_without_the_key(
        self, sse_server: SseServer, key: str
    ) -> None:
        error = failure(sse_server.url, options(0.0, api_key=key))
        assert str(error).startswith("the API key has characters that HTTP does not allow")
        assert not error.retryable
        assert sse_server.connections == 0

    def test_a_header_of_the_users_that_cannot_be_sent_is_named(self, sse_server: SseServer) -> None:
        with (
            pytest.raises(ProviderError, match="the header 'x-title' has characters"),
            post_sse(
                sse_server.url, lambda key: {"X-Title": "caf\u00e9"}, b"{}", options=options(), provider="p"
            ),
        ):
            pass

    def test_neither_path_nor_query_of_the_url_is_shown(self, free_port: int) -> None:
        error = failure(f"http://127.0.0.1:{free_port}/private?key={KEY}", options())
        assert "private" not in str(error)
        assert KEY not in str(error)


@pytest.mark.parametrize("url", ["127.0.0.1:8080/v1", "ftp://x/v1", "", "http://", "http://x:port/"])
def test_an_invalid_url_fails_without_a_retry(url: str) -> None:
    retries = Retries()
    error = failure(url, options(0.0, on_retry=retries))
    assert str(error)
    assert (error.retryable, retries) == (False, [])


def test_an_unknown_host_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    error = failure("http://no-such-host.invalid/v1", options())
    assert str(error).startswith("no such host: ")
    assert "no-such-host.invalid" in str(error)
    assert is_resumable(str(error))
