"""Starting threads so that a Ctrl-C does no harm."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from agent.threads import start_thread


@pytest.fixture
def ctrl_c_while_starting(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[threading.Thread]]:
    """Each start of a thread has a Ctrl-C before and after the thread runs; the threads started."""
    started: list[threading.Thread] = []
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        signal.raise_signal(signal.SIGINT)
        start(thread)
        signal.raise_signal(signal.SIGINT)
        started.append(thread)

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield started
    signal.signal(signal.SIGINT, before)


def test_a_ctrl_c_is_handled_once_the_thread_runs(ctrl_c_while_starting: list[threading.Thread]) -> None:
    """FR-5"""
    ran = threading.Event()
    with pytest.raises(KeyboardInterrupt):
        start_thread(threading.Thread(target=ran.set))
    assert ran.wait(10)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ctrl_c_while_starting[0].join(10)


def test_the_handler_of_the_application_gets_it(ctrl_c_while_starting: list[threading.Thread]) -> None:
    handled: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: handled.append(number))
    start_thread(threading.Thread(target=str))
    assert handled == [signal.SIGINT]
    ctrl_c_while_starting[0].join(10)


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_a_signal_without_a_handler_in_python_is_left_alone(handler: signal.Handlers) -> None:
    before = signal.signal(signal.SIGINT, handler)
    try:
        thread = threading.Thread(target=str)
        start_thread(thread)
        assert signal.getsignal(signal.SIGINT) is handler
        thread.join(10)
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_start_theirs_without_touching_handlers() -> None:
    before = signal.getsignal(signal.SIGINT)
    inner: list[threading.Thread] = []

    def start_another() -> None:
        inner.append(threading.Thread(target=str))
        start_thread(inner[0])

    outer = threading.Thread(target=start_another)
    outer.start()
    outer.join(10)
    inner[0].join(10)
    assert signal.getsignal(signal.SIGINT) is before
