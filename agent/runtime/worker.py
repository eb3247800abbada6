"""A thread that does one job after the other, and keeps nothing alive while it waits for the next."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

Jobs = SimpleQueue[Callable[[], object] | None]
"""What a worker does, in order; None ends it. Its `put` is safe in finalizers and signal handlers."""


def hire(jobs: Jobs, name: str) -> threading.Thread:
    """Start a worker on these jobs, a daemon; RuntimeError when the system gives out no more threads."""
    worker = threading.Thread(target=_work, args=(jobs,), name=name, daemon=True)
    worker.start()
    return worker


def _work(jobs: Jobs) -> None:
    while True:
        job = jobs.get()
        if job is None:
            return
        job()
        del job  # while it waits for the next, a parked worker must not keep the owner of the last alive
