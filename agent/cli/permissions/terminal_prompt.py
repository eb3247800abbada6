"""Asks for approval on the terminal in the middle of a printed run; one key answers."""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from agent.cli.display.clean_text import clean
from agent.cli.permissions.gate import ALWAYS, NO, YES, Answer, Ask, Question

# The call, the change and the line with the keys fit on one screen.
_MAX_ROWS = 30
_MAX_ROW_LENGTH = 1000
# Seconds after which a wait for a key notices an abort.
_POLL_SECONDS = 0.05
_STYLES = {"+": "green", "-": "red"}


def terminal_prompt(renderer: Callable[[], Any]) -> Ask | None:
    """An `Ask` function for the terminal, or None when standard input or error is not one.

    `renderer` returns the run's renderer. When it has a rich console, the question is printed there, in order
    with the other output; else it goes to standard error.
    """
    try:
        import termios  # noqa: F401
    except ImportError:
        return None
    streams = (sys.stdin, sys.stderr)
    if not all(stream is not None and not stream.closed and stream.isatty() for stream in streams):
        return None
    return TerminalPrompt(renderer)


class TerminalPrompt:
    """Prints a question and waits for a key: y, n or a. Ctrl-C aborts the run.

    Threads: called on worker threads; `_lock` allows one question at a time.
    """

    def __init__(self, renderer: Callable[[], Any]) -> None:
        self._renderer = renderer
        self._lock = threading.Lock()

    def __call__(self, question: Question) -> Answer:
        """Ask, and return the answer; an abort while waiting counts as no."""
        with self._lock, self._waiting(), _keys(sys.stdin.fileno()):
            self._show(question)
            answer = _wait(question, sys.stdin.fileno())
            self._print([("  allowed" if answer.allowed else "  refused", "dim")])
        return answer

    def _waiting(self) -> AbstractContextManager[None]:
        """Shows in the renderer's status line that the run waits for the user."""
        asking: Callable[[], AbstractContextManager[None]] = getattr(self._renderer(), "asking", nullcontext)
        return asking()

    def _show(self, question: Question) -> None:
        always = f"   a always: {', '.join(question.rules)}" if question.rules else ""
        rows = [(f"? {headline(question)}", "bold yellow")]
        rows += [(f"  {row}", _STYLES.get(row[:1], "dim")) for row in body(question)]
        rows += [(f"  {question.why}", "dim"), (f"  y yes   n no{always}", "yellow")]
        self._print(rows)

    def _print(self, rows: list[tuple[str, str]]) -> None:
        renderer = self._renderer()
        console = getattr(renderer, "console", None)
        if console is None:
            for text, _ in rows:
                print(clean(text), file=sys.stderr, flush=True)
            return
        from rich.text import Text

        renderer.paint()  # print earlier output above the question
        console.print(Text("\n").join(Text(clean(text), style) for text, style in rows))


def headline(question: Question) -> str:
    """The title line of a question."""
    if question.command:
        return f"run {question.tool}"
    path = question.arguments.get("path")
    return f"{question.tool} {path}" if path else question.tool


def body(question: Question) -> list[str]:
    """The command, the change or the arguments as rows; a row marks each place where some are left out."""
    text = question.command or question.diff
    if not text:
        text = "\n".join(f"{key}: {value}" for key, value in question.arguments.items() if key != "path")
    rows = [_cut(row) for row in text.splitlines()]
    left = len(rows) - _MAX_ROWS
    if left <= 1:
        return rows
    half = _MAX_ROWS // 2
    return [*rows[:half], f"... {left} more lines ...", *rows[-half:]]


def _cut(row: str) -> str:
    left = len(row) - _MAX_ROW_LENGTH
    return row if left <= 0 else f"{row[:_MAX_ROW_LENGTH]} ... {left} more characters"


def _wait(question: Question, descriptor: int) -> Answer:
    while not question.cancel.is_set():
        if not select.select([descriptor], [], [], _POLL_SECONDS)[0]:
            continue
        # Several bytes at once are an arrow key or a paste, and no answer.
        match os.read(descriptor, 64):
            case b"y" | b"Y":
                return YES
            case b"a" | b"A" if question.rules:
                return ALWAYS
            case b"n" | b"N" | b"\x1b" | b"\x04" | b"":
                return NO
    return NO


@contextmanager
def _keys(descriptor: int) -> Iterator[None]:
    """Read keys one by one without echo. Input typed before the question is dropped: it is no answer."""
    import termios
    import tty

    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor, termios.TCSAFLUSH)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
