"""A thread that does one job after the other."""

from __future__ import annotations

import gc
import signal
import threading
import weakref

import pytest
from support.runs import until

from agent.runtime.worker import Worker


def test_jobs_are_done_in_order_on_one_named_thread() -> None:
    done: list[tuple[int, str]] = []
    worker = Worker("agent-worker-x")
    for number in range(3):
        worker.put(lambda n=number: done.append((n, threading.current_thread().name)))  # type: ignore[misc]
    worker.stop()
    worker.join(10)
    assert done == [(n, "agent-worker-x") for n in range(3)]


def test_only_the_jobs_before_the_stop_are_done() -> None:
    done: list[str] = []
    worker = Worker("x")
    worker.stop()
    worker.stop()
    worker.put(lambda: done.append("late"))
    worker.join(10)
    assert done == []


def test_the_worker_knows_its_own_thread() -> None:
    worker = Worker("x")
    inside: list[bool] = []
    worker.put(lambda: inside.append(worker.is_current()))
    worker.stop()
    worker.join(10)
    assert inside == [True]
    assert not worker.is_current()


def test_the_thread_ends_with_its_handle_and_keeps_no_job_alive() -> None:
    class Job:
        def __call__(self) -> None:
            """Do nothing."""

    job = Job()
    alive = weakref.ref(job)
    before = threading.active_count()
    worker = Worker("x")
    worker.put(job)
    del job
    until(lambda: alive() is None)
    assert threading.active_count() == before + 1
    del worker
    gc.collect()
    until(lambda: threading.active_count() == before)


def test_a_thread_that_can_not_start_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        Worker("x")


def test_a_ctrl_c_while_the_thread_starts_is_handled_after_it_and_ends_the_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """FR-5"""
    started: list[threading.Thread] = []
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        signal.raise_signal(signal.SIGINT)
        start(thread)
        signal.raise_signal(signal.SIGINT)
        started.append(thread)

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            Worker("x")
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    started[0].join(10)
    assert not started[0].is_alive()


def test_a_worker_starts_on_any_thread_and_leaves_the_signal_handlers_alone() -> None:
    before = signal.getsignal(signal.SIGINT)
    workers: list[Worker] = []
    thread = threading.Thread(target=lambda: workers.append(Worker("x")))
    thread.start()
    thread.join(10)
    workers[0].stop()
    workers[0].join(10)
    assert signal.getsignal(signal.SIGINT) is before
