"""Background jobs: commands that outlive the call that started them, and the jobs tool that follows them."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from typing import Literal

import regex
from pydantic import Field

from agent_tools.process.capture import Capture
from agent_tools.process.runner import Command, Ending
from agent_tools.search.pattern_size import check_size
from agent_tools.tool import Arguments, CallContext, Cancel, DisplayHint, Result, TitleArg, Tool, ToolFailure
from agent_tools.truncate import cut_line

# Bounds a model that starts jobs in a loop; more servers and watchers than one task needs.
MAX_RUNNING = 32
# The latest ended jobs are kept, so that the end of their output can be read.
MAX_ENDED = 32
DEFAULT_WAIT = 30.0
# Seconds within which a wait notices a cancellation or its timeout.
WAIT_STEP = 0.05
# Seconds to wait until the output of a killed job has been read.
JOIN_TIMEOUT = 2.0
# Characters of a pattern: compiling a longer one can take seconds and cannot be interrupted.
MAX_PATTERN_LENGTH = 4000
# Seconds for one search: a pattern that backtracks without end must not block the interpreter.
PATTERN_TIMEOUT = 1.0


class Job:
    """One background command, read by its own thread until it ends.

    Threads: every method may be called from any thread; `_changed` guards the capture, the positions and
    the ending, and is notified when one of them changes.
    """

    def __init__(
        self, number: int, command_line: str, start: Callable[[], Command], capture: Capture | None = None
    ) -> None:
        """Start the command; raises what `start` raises."""
        self.id = f"job-{number}"
        self.command_line = command_line
        self._capture = capture or Capture()
        self._position = 0
        self._started = time.monotonic()
        self._changed = threading.Condition()
        self._ending: Ending | None = None
        # The reading thread starts the command: a sandbox dies with the thread that made it, not the process.
        # `start` goes in a list that the thread empties, because a thread keeps its arguments alive and
        # `start` may refer to the table.
        started: SimpleQueue[Command | BaseException] = SimpleQueue()
        self._thread = threading.Thread(
            target=self._follow, args=([start], started), name=f"agent-{self.id}", daemon=True
        )
        self._thread.start()
        command = started.get()
        if isinstance(command, BaseException):
            self._thread.join()
            raise command
        self._command = command

    @property
    def ending(self) -> Ending | None:
        """How the command ended; None while it runs."""
        return self._ending

    @property
    def status(self) -> str:
        """A short text: for how long it has been running, or how it ended."""
        if self._ending is None:
            return f"running for {time.monotonic() - self._started:.0f} s"
        return str(self._ending)

    def read(self) -> str:
        """Return the output since the last read: its end if it is long, with a notice of what was cut."""
        with self._changed:
            recent = self._capture.since(self._position)
            self._position = recent.position
        return "\n\n".join(part for part in (recent.text.removesuffix("\n"), recent.notice) if part)

    def wait(self, pattern: regex.Pattern[str] | None, timeout: float, cancel: Cancel) -> str:
        """Wait until unread output matches or the job ends, for at most `timeout` seconds.

        Returns a short text that says which. Raises ToolFailure when it is cancelled.
        """
        deadline = time.monotonic() + timeout
        seen = -1
        with self._changed:
            searched = self._position
        while True:
            with self._changed:
                ending, received = self._ending, self._capture.received_bytes
                text, line_start = self._capture.lines_since(searched)
            # Searched without the lock; a line is searched again only until it has ended.
            if pattern is not None and received != seen and _matches(pattern, text):
                return "the pattern was found"
            if ending is not None:
                return "it ended"
            if time.monotonic() >= deadline:
                return f"nothing of that happened within {timeout:g} s"
            if cancel.is_set():
                raise ToolFailure(f"the wait was aborted; {self.id} goes on")
            seen, searched = received, max(searched, line_start)
            with self._changed:
                if self._capture.received_bytes == seen and self._ending is None:
                    self._changed.wait(min(WAIT_STEP, max(deadline - time.monotonic(), 0)))

    def kill(self) -> None:
        """Kill every process of the job without waiting. Safe on any thread and in a finalizer."""
        self._command.kill()

    def join(self) -> None:
        """Wait until the output of a killed job has been read."""
        self._thread.join(JOIN_TIMEOUT)

    def _follow(
        self, starts: list[Callable[[], Command]], started: SimpleQueue[Command | BaseException]
    ) -> None:
        try:
            command = starts.pop()()
        except BaseException as error:  # raised again by the thread that waits
            started.put(error)
            return
        started.put(command)
        with command:
            for chunk in command.output(timeout=None, cancel=threading.Event()):
                if chunk:
                    with self._changed:
                        self._capture.feed(chunk)
                        self._changed.notify_all()
        with self._changed:
            self._capture.finish()
            self._ending = command.ending
            self._changed.notify_all()


class JobTable:
    """The background jobs of one toolbox. They end when it is closed or collected and at interpreter exit.

    Threads: every method may be called from any thread; `_lock` guards the table.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}
        self._count = 0
        self._closed = False
        self._finalizer = weakref.finalize(self, _kill_jobs, self._jobs)

    def start(self, command_line: str, start: Callable[[], Command], capture: Capture | None = None) -> Job:
        """Start a job; `start` starts its command. Raises ToolFailure when too many are running."""
        with self._lock:
            if self._closed:
                raise ToolFailure("this session is closed; no background job is started any more")
            running = [job for job in self._jobs.values() if job.ending is None]
            if len(running) >= MAX_RUNNING:
                raise ToolFailure(f"{MAX_RUNNING} background jobs are running already; kill some with jobs")
            ended = [job for job in self._jobs.values() if job.ending is not None]
            for job in ended[: len(ended) - MAX_ENDED + 1] if len(ended) >= MAX_ENDED else ():
                del self._jobs[job.id]
            self._count += 1
            job = Job(self._count, command_line, start, capture)
            self._jobs[job.id] = job
            return job

    def jobs(self) -> list[Job]:
        """All known jobs in the order of their start."""
        with self._lock:
            return list(self._jobs.values())

    def get(self, job_id: str) -> Job:
        """Return the job of that id; raises ToolFailure with the known ids when there is none."""
        with self._lock:
            job = self._jobs.get(job_id.strip())
            known = ", ".join(self._jobs) or "none"
        if job is None:
            raise ToolFailure(f"there is no job {cut_line(job_id, 40)!r}; jobs: {known}")
        return job

    def close(self) -> None:
        """Kill every job and refuse new ones. Calling it again does nothing."""
        with self._lock:
            self._closed = True
            jobs = list(self._jobs.values())
        self._finalizer()
        for job in jobs:
            job.join()

    def __enter__(self) -> JobTable:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class JobsArguments(Arguments):
    action: Literal["list", "read", "wait", "kill"] = Field(
        "list",
        description="list: all jobs; read: new output; wait: for a pattern or the end; kill: end the job",
    )
    id: str | None = Field(None, description="Job id that bash returned, for read, wait and kill")
    pattern: str | None = Field(
        None, description="For wait: regular expression to look for in output not read yet, line by line"
    )
    timeout: float | None = Field(
        None, allow_inf_nan=False, description=f"For wait: seconds, {DEFAULT_WAIT:g} by default"
    )


_DESCRIPTION = (
    "Follow background jobs that bash started with `background`: list them, read the output since the last "
    "read, wait until unread output matches `pattern` (such as a server's ready message) or the job ends, or "
    "kill one. Every result except a list holds the new output. All jobs end with the session."
)


def jobs_tool(table: JobTable) -> Tool[JobsArguments]:
    """Return a tool that follows the jobs of `table`, the one given to `bash_tool(jobs=...)`."""

    def run(arguments: JobsArguments, context: CallContext) -> Result:
        if arguments.action == "list":
            return _list(table)
        if not arguments.id:
            raise ToolFailure(f"id is required for {arguments.action}")
        job = table.get(arguments.id)
        if arguments.action == "wait":
            pattern = _compiled(arguments.pattern)
            timeout = DEFAULT_WAIT if arguments.timeout is None else max(arguments.timeout, 0.0)
            return _job_result(job, f" ({job.wait(pattern, timeout, context.cancel)})")
        if arguments.action == "kill":
            job.kill()
            job.join()
        return _job_result(job)

    hint = DisplayHint(
        title_args=(TitleArg("action", "accent"), TitleArg("id"), TitleArg("pattern", "pattern"))
    )
    return Tool("jobs", _DESCRIPTION, JobsArguments, run, display_hint=hint)


def _list(table: JobTable) -> Result:
    jobs = table.jobs()
    lines = [f"{job.id}  {job.status}  {_one_line(job.command_line)}" for job in jobs]
    return Result("\n".join(lines) or "(no jobs)", details={"jobs": [job.id for job in jobs]})


def _job_result(job: Job, note: str = "") -> Result:
    # Status before output: when the job has ended, the output read after that is complete.
    status = f"[{job.id} {job.status}{note}]"
    if job.ending is not None and job.ending.notice:
        status += f"\n\n{job.ending.notice}"
    output = job.read() or "(no new output)"
    return Result(f"{output}\n\n{status}", details={"job": job.id, "running": job.ending is None})


def _one_line(command_line: str) -> str:
    first, _, more = command_line.strip().partition("\n")
    return f"{first[:100]} ..." if more or len(first) > 100 else first


def _compiled(pattern: str | None) -> regex.Pattern[str] | None:
    if not pattern:
        return None
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise ToolFailure(f"pattern has {len(pattern)} characters; at most {MAX_PATTERN_LENGTH} are allowed")
    check_size(pattern)
    try:
        return regex.compile(pattern)
    except regex.error as error:
        raise ToolFailure(f"pattern is not a valid regular expression: {error}") from None


def _matches(pattern: regex.Pattern[str], text: str) -> bool:
    try:
        return any(pattern.search(line, timeout=PATTERN_TIMEOUT) for line in text.split("\n"))
    except TimeoutError:
        raise ToolFailure("pattern takes too long to match; make it simpler") from None


def _kill_jobs(jobs: dict[str, Job]) -> None:
    # Without the lock of the table: collecting the table runs this too, and may interrupt the holder.
    for job in list(jobs.values()):
        job.kill()
