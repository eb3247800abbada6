"""Accepts the runs of an agent and runs them, one after the other, on its worker thread."""

from __future__ import annotations

import threading
import time

from agent.cancel import CancelToken
from agent.errors import AgentBusyError, AgentError
from agent.loop.history import History
from agent.runs import EventSink, RunResult
from agent.runtime.active_run import ActiveRun, Job
from agent.runtime.event_relay import EventRelay
from agent.runtime.inbox import Inbox
from agent.runtime.run_handle import Run
from agent.runtime.run_state import RunState
from agent.runtime.subscribers import SubscriberList
from agent.runtime.worker import Worker

# A tool that ignores its cancellation is detached after one second; this leaves time for that.
_CLOSE_TIMEOUT = 3.0


class Dispatcher:
    """The active run of an agent, the one that waits behind it, and the worker thread.

    One run is active at a time. Once the end of a run is being emitted it is finishing, and one more may be
    accepted, which runs next. The worker starts with the first run and ends after `close`, or when the
    dispatcher is collected; the job of a run keeps the agent and the dispatcher until the run has ended.

    Owner: an Agent, which shares `lock`, since what may begin depends on the messages. Threads: any may call
    the methods; those named with `accept`, `check` and `is` need the lock held. The worker takes a job, and
    settles it together with the start of the next one, in one step under the lock. So whatever interrupts
    `accept` (a Ctrl-C), the run is accepted as a whole or not at all.
    """

    def __init__(
        self,
        lock: threading.RLock,
        history: History,
        state: RunState,
        inbox: Inbox,
        relay: EventRelay,
        subscribers: SubscriberList,
    ) -> None:
        self.closing = CancelToken()
        self._lock = lock
        self._history = history
        self._state = state
        self._inbox = inbox
        self._relay = relay
        self._subscribers = subscribers
        self._active: Job | None = None
        self._waiting: Job | None = None
        self._worker: Worker | None = None

    # -- with the lock held ----------------------------------------------------------------------------

    def is_running(self) -> bool:
        """True while a run waits, or is active and not finishing."""
        return self._waiting is not None or (self._active is not None and not self._active.is_finishing)

    def check_free(self, advice: str) -> None:
        """Raise AgentBusyError with the advice unless a run would be accepted, AgentError after `close`."""
        if self.closing.is_set():
            raise AgentError("the agent is closed")
        if self.is_running():
            raise AgentBusyError(f"the agent is already processing a prompt. {advice}")

    def accept(self, job: Job, name: str) -> None:
        """Start the run, or let it wait for the one that is finishing; `name` is for the worker's thread.

        Raises RuntimeError when the system gives out no thread.
        """
        try:
            if self._worker is None:
                self._worker = Worker(f"agent-worker-{name}")
            if self._active is None:
                self._activate(job, self._worker)
            else:
                self._waiting = job
            self._state.error = ""
        except BaseException:
            if self._active is job:
                self._deactivate()
            if self._waiting is job:
                self._waiting = None
            job.run.settle(RunResult("aborted", run_id=job.run.run_id))
            raise

    def active_sink(self) -> EventSink | None:
        """Where the events of the active run are forwarded to."""
        return None if self._active is None else self._active.sink

    def _activate(self, job: Job, worker: Worker) -> None:
        self._active = job
        self._history.begin_run()
        self._state.stream_message = None
        if job.parks:
            self._inbox.open_replies()
        worker.put(lambda: self._work(job))

    def _deactivate(self) -> None:
        self._history.end_run()
        self._state.end_run()
        self._inbox.close_replies()
        self._active = None

    def _stop_threads(self) -> None:
        """Let the threads end once they have done their jobs."""
        if self._worker is not None:
            self._worker.stop()
        self._subscribers.finish()

    # -- from any thread -------------------------------------------------------------------------------

    def abort(self, run: Run | None = None) -> None:
        """Cancel that run if it is active or waits; by default whichever does."""
        with self._lock:
            jobs = [job for job in (self._active, self._waiting) if job is not None]
        for job in jobs:
            if run is None or job.run is run:
                job.cancel.cancel("aborted")

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until no run is active or waits, at most `timeout` seconds; True when there is none."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            with self._lock:  # a run is settled and the agent idle in one step: both are seen, or neither
                job = self._waiting or self._active
            if job is None:
                return True
            if not job.run.wait(None if end is None else end - time.monotonic()):
                return False

    def is_worker(self) -> bool:
        """True on the worker's own thread."""
        worker = self._worker
        return worker is not None and worker.is_current()

    def close(self, wait: bool) -> None:
        """Abort the runs, accept none any more and end the threads; `wait` for their end, 3 s at most."""
        self.closing.cancel("the agent was closed")
        with self._lock:
            worker = self._worker
            if self._active is None:
                self._stop_threads()
        self.abort()
        if wait and worker is not None:
            deadline = time.monotonic() + _CLOSE_TIMEOUT
            worker.join(_CLOSE_TIMEOUT)
            self._subscribers.join(deadline)

    # -- on the worker thread --------------------------------------------------------------------------

    def _work(self, job: Job) -> None:
        with self._lock:
            if self._active is not job:  # taken back when its acceptance was interrupted
                return
        active = ActiveRun(job, self._history, self._state, self._inbox, self._relay, self._subscribers)
        try:
            active.run()
        finally:
            job.owner = None  # the job is part of a cycle, which must not keep the agent alive
            self._finish(active)

    def _finish(self, active: ActiveRun) -> None:
        with self._lock:
            self._deactivate()
            waiting, self._waiting = self._waiting, None
            active.settle()
            if active.has_output and waiting is None:
                self._state.open_output_type = None
            if waiting is not None and self._worker is not None:
                self._activate(waiting, self._worker)
            elif self.closing.is_set():
                self._stop_threads()
