"""One connection: the choice of its address, and aborts from other threads and signal handlers."""

from __future__ import annotations

import contextlib
import errno
import signal
import socket
import sys
import time
from collections.abc import Iterator

import httpcore
import pytest

from agent.providers.http import connection as tcp
from agent.providers.http.connection import Address, Connection


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def full() -> Iterator[socket.socket]:
    """A listener whose queue is full: on Linux, a further connect gets no answer at all."""
    if sys.platform != "linux":
        pytest.skip("elsewhere a full queue refuses")
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(server.getsockname())
        yield server
        for filler in fillers:
            filler.close()


def address(of: tuple[str, int]) -> Address:
    return (socket.AF_INET, socket.SOCK_STREAM, 0, "", of)


def connect(*addresses: Address, seconds: float = 5.0) -> socket.socket:
    return tcp._connect_first(list(addresses), time.monotonic() + seconds, lambda: False)


def test_after_a_refused_address_the_next_is_used(listener: socket.socket, free_port: int) -> None:
    with connect(address(("127.0.0.1", free_port)), address(listener.getsockname())) as connected:
        assert connected.getpeername() == listener.getsockname()


def test_an_address_that_does_not_answer_delays_the_next_only_shortly(
    listener: socket.socket, full: socket.socket
) -> None:
    started = time.monotonic()
    with connect(address(full.getsockname()), address(listener.getsockname())) as connected:
        assert connected.getpeername() == listener.getsockname()
    assert time.monotonic() - started < 3


def test_the_last_failure_is_raised_when_every_address_fails(free_port: int) -> None:
    with pytest.raises(ConnectionRefusedError):
        connect(address(("127.0.0.1", free_port)), address(("127.0.0.1", free_port)))


def test_no_answer_in_time_is_a_timeout(full: socket.socket) -> None:
    connection = Connection()
    with pytest.raises(httpcore.ConnectTimeout, match=r"^connection timed out: "):
        connection.connect_tcp(*full.getsockname(), timeout=0.1)


def test_a_wire_aborted_before_it_connected_does_not_connect(listener: socket.socket) -> None:
    connection = Connection()
    connection.abort()
    with pytest.raises(httpcore.ConnectError):
        connection.connect_tcp(*listener.getsockname(), timeout=5)
    connection.close()
    listener.setblocking(False)
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_a_late_abort_does_not_touch_a_socket_with_the_same_descriptor(listener: socket.socket) -> None:
    connection = Connection()
    connection.connect_tcp(*listener.getsockname(), timeout=5)
    number = connection.get_extra_info("socket").fileno()
    connection.close()
    heirs = [socket.socketpair() for _ in range(3)]
    assert number in [end.fileno() for pair in heirs for end in pair]
    connection.abort()
    for one, other in heirs:
        one.sendall(b"x")
        assert other.recv(1) == b"x"
        one.close()
        other.close()


def test_talking_on_a_closed_wire_is_a_failure_and_not_a_crash(listener: socket.socket) -> None:
    connection = Connection()
    connection.connect_tcp(*listener.getsockname(), timeout=5)
    connection.close()
    connection.close()
    assert connection.get_extra_info("is_readable")
    with pytest.raises(httpcore.ReadError, match=r"^use of closed network connection: "):
        connection.read(10, 1)
    with pytest.raises(httpcore.WriteError, match=r"^use of closed network connection: "):
        connection.write(b"x", 1)


def test_small_requests_are_sent_at_once_and_dead_peers_are_noticed(listener: socket.socket) -> None:
    connection = Connection()
    connection.connect_tcp(*listener.getsockname(), timeout=5)
    sock = connection.get_extra_info("socket")
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    connection.close()


@pytest.mark.parametrize(
    ("exc", "phrase"),
    [
        (ConnectionResetError(errno.ECONNRESET, "x"), "connection reset by peer"),
        (ConnectionAbortedError(errno.ECONNABORTED, "x"), "connection reset by peer"),
        (BrokenPipeError(errno.EPIPE, "x"), "broken pipe"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), "connection refused"),
        (TimeoutError(errno.ETIMEDOUT, "x"), "connection timed out"),
        (OSError(errno.ENETUNREACH, "x"), "network is unreachable"),
        (OSError(errno.EHOSTUNREACH, "x"), "network is unreachable"),
        (socket.gaierror(-2, "x"), "no such host"),
    ],
)
def test_a_failure_is_worded_so_that_it_is_recognised(exc: OSError, phrase: str) -> None:
    assert tcp._phrase(exc) == phrase


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers that raise signals")
def test_a_signal_handler_may_abort_the_connection_that_its_thread_is_using(listener: socket.socket) -> None:
    """The handler runs inside the very methods it interrupts: a plain lock or event would wait for itself."""
    connection = Connection()
    old = signal.signal(signal.SIGALRM, lambda number, frame: connection.abort())
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        for _ in range(300):
            connection = Connection()
            with contextlib.suppress(httpcore.ConnectError, httpcore.ReadError, httpcore.ReadTimeout):
                connection.connect_tcp("localhost", listener.getsockname()[1], timeout=5)
                connection.read(1, 0.001)
            connection.abort()
            connection.close()
            with contextlib.suppress(OSError):
                listener.setblocking(False)
                listener.accept()[0].close()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert connection.is_aborted
