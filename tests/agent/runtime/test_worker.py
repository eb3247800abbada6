"""A thread that does one job after the other."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest
from support.runs import until

from agent.runtime.worker import Worker


class Owner:
    """Something that is collected."""


def test_jobs_are_done_in_order_on_one_named_thread() -> None:
    done: list[tuple[int, str]] = []
    owner = Owner()
    worker = Worker(owner, "agent-worker-x")
    for number in range(3):
        worker.put(lambda n=number: done.append((n, threading.current_thread().name)))  # type: ignore[misc]
    worker.stop()
    worker.join(10)
    assert done == [(n, "agent-worker-x") for n in range(3)]


def test_only_the_jobs_before_the_stop_are_done() -> None:
    done: list[str] = []
    worker = Worker(worker_owner := Owner(), "x")
    worker.stop()
    worker.stop()
    worker.put(lambda: done.append("late"))
    worker.join(10)
    assert done == []
    del worker_owner


def test_the_worker_knows_its_own_thread() -> None:
    owner = Owner()
    worker = Worker(owner, "x")
    inside: list[bool] = []
    worker.put(lambda: inside.append(worker.is_current()))
    worker.stop()
    worker.join(10)
    assert inside == [True]
    assert not worker.is_current()


def test_the_thread_ends_with_its_owner_and_keeps_no_job_alive() -> None:
    class Job(Owner):
        def __call__(self) -> None:
            """Do nothing."""

    owner, job = Owner(), Job()
    alive = weakref.ref(job)
    before = threading.active_count()
    worker = Worker(owner, "x")
    worker.put(job)
    del job
    until(lambda: gc.collect() is not None and alive() is None)
    assert threading.active_count() == before + 1
    del owner
    gc.collect()
    worker.join(10)
    assert threading.active_count() == before


def test_a_thread_that_can_not_start_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        Worker(Owner(), "x")


def test_a_thread_whose_start_was_interrupted_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """FR-5"""
    started: list[threading.Thread] = []
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        started.append(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    owner = Owner()
    with pytest.raises(KeyboardInterrupt):
        Worker(owner, "x")
    started[0].join(10)
    assert not started[0].is_alive()
