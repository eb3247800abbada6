"""A thread that does one job after the other, and keeps nothing alive while it waits for the next."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

from agent.threads import start_thread

_Jobs = SimpleQueue[Callable[[], object] | None]


class Worker:
    """A daemon thread and its queue of jobs. The thread ends after `stop`, or once this object is collected.

    Raises RuntimeError when the system gives out no more threads.

    Threads: every method may be called from any thread; `put` and `stop` from finalizers and signal handlers
    too, since a SimpleQueue is reentrant. The thread knows the queue alone.
    """

    __slots__ = ("_jobs", "_thread")

    def __init__(self, name: str) -> None:
        self._jobs: _Jobs = SimpleQueue()
        self._thread = threading.Thread(target=_work, args=(self._jobs,), name=name, daemon=True)
        try:
            start_thread(self._thread)
        except BaseException:
            self.stop()
            raise

    def put(self, job: Callable[[], object]) -> None:
        """Queue a job."""
        self._jobs.put(job)

    def stop(self) -> None:
        """Let the thread end after the jobs that are queued. May be called more than once."""
        self._jobs.put(None)

    def join(self, timeout: float) -> None:
        """Wait for the end of the thread, at most `timeout` seconds."""
        self._thread.join(timeout)

    def is_current(self) -> bool:
        """True on the worker's own thread."""
        return threading.current_thread() is self._thread

    def __del__(self) -> None:
        jobs: _Jobs | None = getattr(self, "_jobs", None)
        if jobs is not None:
            jobs.put(None)


def _work(jobs: _Jobs) -> None:
    while True:
        job = jobs.get()
        if job is None:
            return
        job()
        del job  # while it waits for the next, a parked worker must not keep the owner of the last alive
