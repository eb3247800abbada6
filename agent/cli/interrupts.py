"""Signals: the first Ctrl-C aborts the run, the second ends the program; no child command survives it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TypeAlias

from agent.cli.exit_codes import INTERRUPTED
from agent.cli.terminal_state import TerminalState

Handler: TypeAlias = Callable[[int, FrameType | None], object] | int | None


@contextmanager
def abort_on_signals(abort: Callable[[], object]) -> Iterator[list[int]]:
    """While open, Ctrl-C calls `abort`; a second one ends the program at once with code 130.

    SIGTERM and SIGHUP end it at once. Either way the terminal is restored and every running command is
    killed. Yields the list of the SIGINTs received so far. Main thread only.
    """
    received: list[int] = []
    terminal = TerminalState.saved()

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        if received:
            end_now(INTERRUPTED, terminal)
        received.append(number)
        # Not print: the signal may have interrupted a write to this very stream.
        with suppress(OSError, ValueError, RuntimeError):
            sys.stderr.write("\naborting; Ctrl-C again ends at once\n")
            sys.stderr.flush()
        abort()

    before = _set_handlers(_termination_handlers(terminal) | {signal.SIGINT: on_interrupt})
    try:
        yield received
    finally:
        # After a Ctrl-C the program is about to end; a second one must still be handled until it has.
        if not received:
            _set_handlers(before)


@contextmanager
def end_on_termination(terminal: TerminalState) -> Iterator[None]:
    """While open, SIGTERM and SIGHUP end the program at once with code 128 + signal. Main thread only."""
    before = _set_handlers(_termination_handlers(terminal))
    try:
        yield
    finally:
        _set_handlers(before)


def _termination_handlers(terminal: TerminalState) -> dict[int, Handler]:
    def on_termination(number: int, frame: FrameType | None) -> None:
        end_now(128 + number, terminal)

    return {getattr(signal, name): on_termination for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)}


def _set_handlers(handlers: Mapping[int, Handler]) -> dict[int, Handler]:
    """Install the handlers; returns those that they replace."""
    return {number: signal.signal(number, handler) for number, handler in handlers.items()}


def end_now(code: int, terminal: TerminalState) -> None:
    """End the program with this code; kills every command, deletes temporary files, restores the terminal."""
    try:
        terminal.restore()
        process = sys.modules.get("agent_tools.process.runner")
        if process is not None:
            process.kill_all(final=True)
        scratch = sys.modules.get("agent_tools.process.scratch")
        if scratch is not None:
            scratch.delete_all()
        for stream in (sys.stdout, sys.stderr):
            # RuntimeError: the signal interrupted a write to this stream.
            with suppress(OSError, ValueError, RuntimeError):
                stream.flush()
    finally:
        # Not sys.exit: a worker thread may hold a lock that the interpreter's shutdown would wait for.
        os._exit(code)
