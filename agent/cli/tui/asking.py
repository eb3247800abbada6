"""Approval questions in the interactive mode, answered at the input line."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from rich.console import RenderableType
from rich.text import Text

from agent.cli.permissions.gate import ALWAYS, NO, YES, Answer, Question
from agent.cli.permissions.question_text import question_rows

# Letters typed within this time after a question appeared are text: the user had not seen it yet.
_GRACE_SECONDS = 0.4
_ANSWERS = {"y": YES, "n": NO, "a": ALWAYS}


class Asking:
    """Asks one question at a time and waits for its answer.

    Threads: `ask` is called on a run's threads and waits there; the terminal's thread reads `hint` and
    answers. `_one` admits one question at a time. `show(parts)` prints and may be called from both.
    """

    def __init__(self, show: Callable[[Sequence[RenderableType]], None]) -> None:
        self._show = show
        self._one = threading.Lock()
        self._question: Question | None = None
        self._since = 0.0
        self._answer = NO
        self._answered = threading.Event()

    def ask(self, question: Question) -> Answer:
        """Ask and return the answer; no when the run is aborted meanwhile."""
        with self._one:
            self._answer = NO
            self._answered.clear()
            self._since = time.monotonic()
            self._question = question
            self._show([_question(question)])
            remove = question.cancel.on_cancel(self._answered.set)
            try:
                self._answered.wait()
            finally:
                remove()
                self._question = None
            answer = self._answer
            self._show([Text("  allowed" if answer.allowed else "  refused", "dim")])
            return answer

    @property
    def hint(self) -> str:
        """The possible answers to the open question; empty when there is none."""
        question = self._question
        if question is None:
            return ""
        always = f" · a always: {', '.join(question.rules)}" if question.rules else ""
        return f"y yes · n no{always} · or say what to do instead"

    def key(self, key: str) -> bool:
        """Answer with one key; returns False when the key is no answer, or was typed too early to be one."""
        question = self._question
        if question is None or key not in _ANSWERS or time.monotonic() < self._since + _GRACE_SECONDS:
            return False
        if key == "a" and not question.rules:
            return False
        self._settle(_ANSWERS[key])
        return True

    def refuse(self, reason: str) -> bool:
        """Answer no, with a reason for the model; returns False when no question is open."""
        if self._question is None:
            return False
        self._settle(Answer(False, reason=reason))
        return True

    def _settle(self, answer: Answer) -> None:
        self._answer = answer
        self._answered.set()


def _question(question: Question) -> Text:
    return Text("\n").join(Text.assemble(*row.segments) for row in question_rows(question))
