"""Connections are reused between requests, and replaced when they can't be."""

from __future__ import annotations

import importlib.util
import select
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from support.raw_server import event_stream, raw_server, read_request
from support.requests import PROMPT, Requesting, authorized, failure, options, post, wait_until
from support.sse_server import SseServer, cut, hang, pause

from agent.errors import ConfigurationError
from agent.providers.http import pool as _pool
from agent.providers.http import transport as _transport
from agent.providers.http.client import ProviderError, post_sse
from agent.providers.http.transport import default_transport

PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def fresh_pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    default_transport().close()
    yield
    default_transport().close()


def connections(server: SseServer) -> list[int]:
    return [request.connection for request in server.requests]


class TestKept:
    def test_one_connection_serves_one_request_after_the_other(self, sse_server: SseServer) -> None:
        sse_server.play(b"data: 1\n\n", b"data: [DONE]\n\n", repeat=True)
        for _ in range(3):
            post(sse_server.url, options())
        assert connections(sse_server) == [1, 1, 1]

    def test_an_error_response_leaves_the_connection_to_the_next_attempt(self, sse_server: SseServer) -> None:
        sse_server.play(b"not now", status=503)
        sse_server.play(b"data: 1\n\n")
        post(sse_server.url, options(0.0))
        assert connections(sse_server) == [1, 1]

    def test_leaving_at_the_terminal_event_keeps_the_connection(self, sse_server: SseServer) -> None:
        sse_server.play(b"data: 1\n\n", b"data: [DONE]\n\n", pause(0.01), b": bye\n\n", repeat=True)
        for _ in range(2):
            with post_sse(sse_server.url, authorized, b"{}", options=options(), provider="p") as events:
                for payload in events:
                    if payload == "[DONE]":
                        break
        assert connections(sse_server) == [1, 1]

    def test_an_attempt_that_broke_costs_the_next_one_nothing(self, sse_server: SseServer) -> None:
        sse_server.play(cut())
        sse_server.play(b"data: [DONE]\n\n", pause(0.01), b": bye\n\n", repeat=True)
        for _ in range(2):
            with post_sse(sse_server.url, authorized, b"{}", options=options(0.0), provider="p") as events:
                assert next(iter(events)) == "[DONE]"
        assert connections(sse_server) == [1, 2, 2]

    def test_a_generator_that_is_closed_at_its_terminal_event_keeps_the_connection(
        self, sse_server: SseServer
    ) -> None:
        def stream() -> Iterator[str]:
            with post_sse(sse_server.url, authorized, b"{}", options=options(), provider="p") as events:
                yield from events

        sse_server.play(b"data: [DONE]\n\n", repeat=True)
        for _ in range(2):
            generator = stream()
            assert next(generator) == "[DONE]"
            generator.close()
        assert connections(sse_server) == [1, 1]

    def test_a_body_that_stays_open_is_waited_for_only_a_moment(self, sse_server: SseServer) -> None:
        sse_server.play(b"data: [DONE]\n\n", hang())
        sse_server.play(b"data: 2\n\n")
        with post_sse(sse_server.url, authorized, b"{}", options=options(), provider="p") as events:
            assert next(iter(events)) == "[DONE]"
            left = time.monotonic()
        assert time.monotonic() - left < 1.0
        assert sse_server.disconnected.wait(5)
        assert post(sse_server.url, options()) == ["2"]
        assert connections(sse_server) == [1, 2]

    def test_a_consumer_that_fails_does_not_wait_for_the_body(self, sse_server: SseServer) -> None:
        def consume() -> None:
            with post_sse(sse_server.url, authorized, b"{}", options=options(), provider="p") as events:
                next(iter(events))
                raise ValueError("mine")

        sse_server.play(b"data: 1\n\n", hang())
        with pytest.raises(ValueError, match="mine"):
            consume()
        assert sse_server.disconnected.wait(5)

    def test_a_hundred_agents_at_once_are_served_and_reuse_their_connections(
        self, sse_server: SseServer
    ) -> None:
        sse_server.play(b"data: 1\n\n", b"data: [DONE]\n\n", repeat=True)
        answers: list[list[str]] = []
        start = threading.Barrier(100)

        def agent() -> None:
            start.wait(10)
            for _ in range(3):
                answers.append(post(sse_server.url, options()))

        threads = [threading.Thread(target=agent) for _ in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert answers == [["1", "[DONE]"]] * 300
        assert sse_server.connections <= 100

    def test_an_idle_connection_is_closed_after_its_time(
        self, sse_server: SseServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_pool, "_IDLE_SECONDS", 0.0)
        sse_server.play(b"data: 1\n\n", repeat=True)
        post(sse_server.url, options())
        assert not default_transport()._idle
        assert not default_transport()._idle_by_key

    def test_more_idle_connections_than_allowed_cost_the_oldest(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_pool, "_MAX_IDLE", 1)
        with SseServer() as first, SseServer() as second:
            for server in (first, second):
                server.play(b"data: 1\n\n", repeat=True)
                post(server.url, options())
            post(second.url, options())
            post(first.url, options())
            assert connections(second) == [1, 1]
            assert connections(first) == [1, 2]

    def test_a_forked_child_leaves_its_parents_connections_alone(self, sse_server: SseServer) -> None:
        sse_server.play(b"data: 1\n\n", repeat=True)
        post(sse_server.url, options())
        parents = default_transport()
        _transport._after_fork()
        assert default_transport() is not parents
        post(sse_server.url, options())
        parents.close()
        assert connections(sse_server) == [1, 2]


CHUNKED = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class TestChunks:
    """The chunks of a body are read past the HTTP parser."""

    def test_a_chunk_without_a_line_end_breaks_the_stream_after_its_data(self) -> None:
        def serve(listener: socket.socket) -> None:
            connection, _ = listener.accept()
            with connection:
                read_request(connection)
                connection.sendall(CHUNKED + b"9\r\ndata: 1\n\nXX5\r\nhello")

        seen: list[str] = []
        with raw_server(serve) as server, pytest.raises(ProviderError, match="malformed HTTP response"):
            with post_sse(server, authorized, b"{}", options=options(), provider="p") as events:
                seen.extend(events)
        assert seen == ["1"]

    @pytest.mark.parametrize(
        ("method", "status"),
        [("HEAD", b"200 OK"), ("POST", b"204 No Content"), ("POST", b"304 Not Modified")],
    )
    def test_a_response_without_a_body_ends_with_its_head(self, method: str, status: bytes) -> None:
        def serve(listener: socket.socket) -> None:
            connection, _ = listener.accept()
            with connection:
                while read_request(connection):
                    connection.sendall(b"HTTP/1.1 " + status + b"\r\ntransfer-encoding: chunked\r\n\r\n")

        with raw_server(serve) as server:
            for _ in range(2):
                response = default_transport().handle_request(httpx.Request(method, server))
                assert response.read() == b""
                response.close()
            default_transport().close()

    def test_bytes_behind_a_response_are_not_taken_for_the_next_one(self) -> None:
        def serve(listener: socket.socket) -> None:
            for _ in range(2):
                connection, _ = listener.accept()
                with connection:
                    read_request(connection)
                    connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\n\r\n")
                    read_request(connection)

        with raw_server(serve) as server:
            for _ in range(2):
                response = default_transport().handle_request(httpx.Request("POST", server))
                response.close()
                assert response.status_code == 204


class TestStale:
    def test_a_connection_closed_while_idle_is_replaced(self) -> None:
        closed = threading.Event()

        def serve(listener: socket.socket) -> None:
            for answer in (b"1", b"2"):
                with listener.accept()[0] as connection:
                    read_request(connection)
                    connection.sendall(event_stream(answer))
                closed.set()

        with raw_server(serve) as url:
            assert post(url, options()) == ["1"]
            assert closed.wait(5)
            assert post(url, options()) == ["2"]

    def test_a_request_that_could_not_be_written_whole_is_sent_once_more(self) -> None:
        requests: list[bytes] = []

        def serve(listener: socket.socket) -> None:
            with listener.accept()[0] as connection:
                requests.append(read_request(connection))
                connection.sendall(event_stream(b"1"))
                connection.recv(1)  # closing with unread bytes sends a reset
            with listener.accept()[0] as connection:
                requests.append(read_request(connection))
                connection.sendall(event_stream(b"2"))

        retries: list[int] = []
        with raw_server(serve) as url:
            opts = options(on_retry=lambda *call: retries.append(call[0]))
            assert post(url, opts) == ["1"]
            assert post(url, opts, body=b"x" * 50_000_000) == ["2"]
        assert len(requests) == 2
        assert retries == []

    def test_a_request_that_was_sent_whole_is_sent_again_only_after_a_wait(self) -> None:
        requests: list[bytes] = []

        def serve(listener: socket.socket) -> None:
            idle = [listener.accept()[0] for _ in range(5)]
            for connection in idle:
                read_request(connection)
            for connection in idle:
                connection.sendall(event_stream(b"1"))
            for _ in range(2):  # whichever connection it is: read the request whole and die
                readable, _, _ = select.select([*idle, listener], [], [], 10)
                connection = listener.accept()[0] if listener in readable else readable[0]
                requests.append(read_request(connection))
                connection.close()
                idle = [each for each in idle if each is not connection]
            for connection in idle:
                connection.close()

        retries: list[int] = []
        with raw_server(serve) as url:
            opts = options(0.0, on_retry=lambda *call: retries.append(call[0]))
            threads = [threading.Thread(target=post, args=(url, opts)) for _ in range(5)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(10)
            error = failure(url, opts)
        assert "unexpected EOF" in str(error)
        assert "(gave up after 2 attempts)" in str(error)
        assert retries == [1]
        assert len(requests) == 2

    def test_a_new_connection_closed_without_an_answer_is_a_failure(self) -> None:
        def serve(listener: socket.socket) -> None:
            with listener.accept()[0] as connection:
                read_request(connection)

        with raw_server(serve) as url:
            error = failure(url, options())
        assert str(error).startswith("unexpected EOF: ")
        assert error.retryable

    def test_a_response_that_broke_in_its_head_is_not_replayed(self) -> None:
        requests: list[bytes] = []

        def serve(listener: socket.socket) -> None:
            with listener.accept()[0] as connection:
                requests.append(read_request(connection))
                connection.sendall(event_stream(b"1"))
                requests.append(read_request(connection))
                connection.sendall(b"HTTP/1.1 200")

        with raw_server(serve) as url:
            assert post(url, options()) == ["1"]
            assert str(failure(url, options())).startswith("unexpected EOF: ")
        assert len(requests) == 2

    def test_a_malformed_response_is_no_end_of_file(self) -> None:
        def serve(listener: socket.socket) -> None:
            with listener.accept()[0] as connection:
                read_request(connection)
                connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
                connection.recv(1)

        with raw_server(serve) as url:
            error = failure(url, options(0.0))
        assert str(error).startswith("malformed HTTP response: ")
        assert not error.retryable


class TestPort:
    @pytest.mark.parametrize("port", [0, 65536, 99999])
    def test_a_port_that_does_not_exist_is_refused(self, port: int) -> None:
        error = failure(f"http://127.0.0.1:{port}/v1", options(0.0))
        assert str(port) in str(error)
        assert not error.retryable

    def test_a_port_of_a_proxy_that_does_not_exist_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HTTP_PROXY", "http://user:secret-word@127.0.0.1:99999")
        error = failure("http://models.invalid/v1", options(0.0))
        assert "proxy URL" in str(error)
        assert "secret-word" not in str(error)


class TestProxy:
    def test_a_proxy_of_the_environment_is_used(
        self, sse_server: SseServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTP_PROXY", sse_server.url.replace("://", "://user:pass@"))
        sse_server.play(b"data: 1\n\n")
        assert post("http://models.invalid/v1", options()) == ["1"]
        request = sse_server.requests[0]
        assert request.path == "http://models.invalid/v1"
        assert request.headers["proxy-authorization"] == "Basic dXNlcjpwYXNz"

    def test_hosts_that_need_none_are_asked_directly(
        self, sse_server: SseServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ALL_PROXY", "http://proxy.invalid:1")
        monkeypatch.setenv("NO_PROXY", "localhost,127.0.0.1")
        sse_server.play(b"data: 1\n\n")
        assert post(sse_server.url, options()) == ["1"]

    def test_a_proxy_that_refuses_is_named_without_its_password(
        self, sse_server: SseServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTPS_PROXY", sse_server.url.replace("://", "://user:secret-word@"))
        error = failure("https://models.invalid/v1", options())
        assert str(error).startswith("the proxy refused: 501")
        assert "secret-word" not in str(error)

    @pytest.mark.parametrize("proxy", ["gopher://x:1", "http://x:port"])
    def test_an_invalid_proxy_url_is_an_error(self, proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HTTP_PROXY", proxy)
        assert "proxy" in str(failure("http://models.invalid/v1", options()))

    @pytest.mark.skipif(importlib.util.find_spec("socksio") is not None, reason="it is installed")
    def test_a_socks_proxy_names_what_to_install_for_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
        assert "httpx[socks]" in str(failure("http://models.invalid/v1", options()))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 with its key, in one file."""
    folder = tmp_path_factory.mktemp("tls")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "certificate.pem"]
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("needs the openssl command")
    both = folder / "both.pem"
    both.write_bytes((folder / "certificate.pem").read_bytes() + (folder / "key.pem").read_bytes())
    return both


def tls_accept(listener: socket.socket, certificate: Path, tunnel: bool = False) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    connection = listener.accept()[0]
    if tunnel:
        assert read_request(connection).startswith(b"CONNECT 127.0.0.1:443 ")
        connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
    return context.wrap_socket(connection, server_side=True)


class TestTls:
    @pytest.fixture
    def trusted(self, certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        return certificate

    def test_a_connection_is_kept_too(self, trusted: Path) -> None:
        def serve(listener: socket.socket) -> None:
            with tls_accept(listener, trusted) as connection:
                for answer in (b"1", b"2"):
                    read_request(connection)
                    connection.sendall(event_stream(answer))

        with raw_server(serve) as url:
            secure = url.replace("http:", "https:")
            assert [post(secure, options()), post(secure, options())] == [["1"], ["2"]]

    def test_an_abort_ends_a_wait_for_the_body(self, trusted: Path) -> None:
        asked, gone = threading.Event(), threading.Event()

        def serve(listener: socket.socket) -> None:
            with tls_accept(listener, trusted) as connection:
                read_request(connection)
                asked.set()
                connection.recv(1)
            gone.set()

        with raw_server(serve) as url:
            request = Requesting(url.replace("http:", "https:"), phase="_receive")
            seconds = request.abort_in_phase(asked.is_set)
            assert request.error is not None
            assert request.error.aborted
            assert seconds < PROMPT
            wait_until(gone.is_set)

    def test_a_tunnel_through_a_proxy_is_made(self, trusted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def serve(listener: socket.socket) -> None:
            with tls_accept(listener, trusted, tunnel=True) as connection:
                read_request(connection)
                connection.sendall(event_stream(b"1"))

        with raw_server(serve) as url:
            monkeypatch.setenv("HTTPS_PROXY", url)
            assert post("https://127.0.0.1/v1", options()) == ["1"]

    def test_an_unknown_certificate_is_not_retried(self, certificate: Path) -> None:
        def serve(listener: socket.socket) -> None:
            tls_accept(listener, certificate)

        with raw_server(serve) as url:
            error = failure(url.replace("http:", "https:"), options(0.0))
        assert str(error).startswith("tls certificate rejected: ")
        assert not error.retryable

    @pytest.mark.parametrize("variable", ["SSL_CERT_FILE"])
    @pytest.mark.parametrize("content", [None, b"", b"no certificate"])
    def test_certificates_that_cannot_be_loaded_name_their_variable_and_file(
        self, variable: str, content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = tmp_path / "company.pem"
        if content is not None:
            file.write_bytes(content)
        monkeypatch.setenv(variable, str(file))
        with pytest.raises(ConfigurationError, match=f"{variable}.*company.pem"):
            post("https://127.0.0.1:9/v1", options())

    def test_the_certificates_are_read_once_per_process(self, trusted: Path) -> None:
        assert default_transport()._tls() is default_transport()._tls()


def test_the_package_of_the_providers_loads_no_http_client() -> None:
    code = "import agent.providers, sys; agent.providers.classify_error(429); print('httpx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
