"""Asks for approval on the terminal in the middle of a printed run; a typed word answers."""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from agent.cli.display.clean_text import clean
from agent.cli.permissions.gate import ALWAYS, NO, YES, Answer, Ask, Question
from agent.cli.permissions.question_text import Row, escape_hidden, excerpt, question_rows

# More rows than this are shown only on request, and before it nothing is allowed.
_MAX_ROWS = 400
# A longer text of the rules that "always" stores is not repeated below the command.
_MAX_RULES_LENGTH = 100
# Seconds after which a wait for input notices an abort.
_POLL_SECONDS = 0.05


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
    """Prints a question and waits for a typed line. Ctrl-C aborts the run.

    Threads: called on worker threads; `_lock` allows one question at a time.
    """

    def __init__(self, renderer: Callable[[], Any]) -> None:
        self._renderer = renderer
        self._lock = threading.Lock()

    def __call__(self, question: Question) -> Answer:
        """Ask, and return the answer; an abort or the end of the input while waiting counts as no."""
        descriptor = sys.stdin.fileno()
        with self._lock, self._waiting(), _line_input(descriptor):
            rows = question_rows(question)
            self._print(excerpt(rows, _MAX_ROWS, "type show to see them"))
            all_shown = len(rows) <= _MAX_ROWS
            while True:
                self._print([Row((("  ", ""), *escape_hidden(choices(question), "yellow")))])
                line = _read_line(question, descriptor)
                if line is None:
                    return NO
                if line.strip().casefold() == "show":
                    self._print(rows)
                    all_shown = True
                    continue
                answer = parse_answer(question, line)
                if answer is not None and answer.allowed and not all_shown:
                    self._print([Row((("  Not all of it was shown yet: type show first.", "yellow"),))])
                elif answer is not None:
                    self._print([Row(((f"  {'allowed' if answer.allowed else 'refused'}", "dim"),))])
                    return answer

    def _waiting(self) -> AbstractContextManager[None]:
        """Shows in the renderer's status line that the run waits for the user."""
        asking: Callable[[], AbstractContextManager[None]] = getattr(self._renderer(), "asking", nullcontext)
        return asking()

    def _print(self, rows: Sequence[Row]) -> None:
        renderer = self._renderer()
        console = getattr(renderer, "console", None)
        if console is None:
            for row in rows:
                print(clean(row.text), file=sys.stderr, flush=True)
            return
        from rich.text import Text

        renderer.paint()  # print earlier output above the question
        console.print(Text("\n").join(Text.assemble(*row.segments) for row in rows))


def parse_answer(question: Question, text: str) -> Answer | None:
    """The answer that a typed line means; None for an empty one or a single letter.

    Answers are whole words, so that a letter typed for something else allows and refuses nothing. Any other
    text refuses the call and is the reason.
    """
    text = text.strip()
    word = text.casefold()
    if len(text) < 2:
        return None
    if word == "always" and question.rules:
        return ALWAYS
    return {"yes": YES, "no": NO}.get(word) or Answer(False, reason=text)


def choices(question: Question) -> str:
    """The possible answers, in one line."""
    rules = ", ".join(question.rules)
    if len(rules) > _MAX_RULES_LENGTH or not rules.isprintable():
        rules = "exactly this"
    always = f" · always ({rules})" if rules else ""
    return f"yes · no{always} · or say what to do instead"


def _read_line(question: Question, descriptor: int) -> str | None:
    """The next line that is typed; None after an abort, or Ctrl-D on an empty line."""
    line = b""
    while not question.cancel.is_set():
        if not select.select([descriptor], [], [], _POLL_SECONDS)[0]:
            continue
        data = os.read(descriptor, 4096)
        line += data
        if not data:
            return None
        if line.endswith((b"\n", b"\r")):
            return line.decode("utf-8", "replace")
    return None


@contextmanager
def _line_input(descriptor: int) -> Iterator[None]:
    """Line input with echo. What was typed before the question is dropped: it is no answer."""
    import termios

    before = termios.tcgetattr(descriptor)
    lines = termios.tcgetattr(descriptor)
    lines[0] |= termios.ICRNL
    lines[3] |= termios.ICANON | termios.ECHO | termios.ECHOE | termios.ISIG
    try:
        termios.tcsetattr(descriptor, termios.TCSAFLUSH, lines)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
