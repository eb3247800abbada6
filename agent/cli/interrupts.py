"""Signals: the first Ctrl-C aborts the run, the second ends the program; no command outlives it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from agent.cli.exit_codes import INTERRUPTED


@contextmanager
def abort_on_signals(abort: Callable[[], object]) -> Iterator[list[int]]:
    """While it lasts, Ctrl-C calls `abort`, and a second one ends the program at once with code 130.

    SIGTERM and SIGHUP end it at once, after killing every running command. Yields a list that holds the
    signals that came. Main thread only.
    """
    came: list[int] = []

    def interrupted(number: int, frame: FrameType | None) -> None:
        if came:
            end_now(INTERRUPTED)
        came.append(number)
        print("\naborting; Ctrl-C again ends at once", file=sys.stderr, flush=True)
        abort()

    def ended(number: int, frame: FrameType | None) -> None:
        end_now(128 + number)

    handlers = {signal.SIGINT: interrupted, signal.SIGTERM: ended}
    if hasattr(signal, "SIGHUP"):
        handlers[signal.SIGHUP] = ended
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield came
    finally:
        # After a Ctrl-C the program is about to end; the second one must find us until it has.
        for number, handler in () if came else before.items():
            signal.signal(number, handler)


def end_now(code: int) -> None:
    """End the program with this code, after killing every running command."""
    try:
        process = sys.modules.get("agent_tools.process.runner")
        if process is not None:
            process.kill_all(final=True)
        for stream in (sys.stdout, sys.stderr):
            # RuntimeError: the signal came in the middle of a write to this very stream.
            with suppress(OSError, ValueError, RuntimeError):
                stream.flush()
    finally:
        # Not sys.exit: a worker thread may hold a lock that the interpreter's shutdown would wait for.
        os._exit(code)
