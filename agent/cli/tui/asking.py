"""Approval questions in the interactive mode, answered at the input line."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from rich.console import RenderableType
from rich.text import Text

from agent.cli.display.clean_text import clean, one_line
from agent.cli.permissions.gate import NO, Answer, Question
from agent.cli.permissions.question_text import question_rows
from agent.cli.permissions.terminal_prompt import choices, parse_answer

# An Enter within this time after a question appeared is no answer: the user had not seen the question yet.
_GRACE_SECONDS = 0.4

_RULE_LENGTH = 60

Taken = Literal["none", "early", "unclear", "answered"]


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
        # A rule for a whole command repeats it, and the command is shown above.
        rules = tuple(one_line(rule, _RULE_LENGTH) for rule in question.rules)
        return clean(choices(replace(question, rules=rules)))

    def answer(self, text: str) -> Taken:
        """Answer the open question with a typed line.

        Returns "none" when no question is open, "early" when it has just appeared, and "unclear" for a text
        that is no answer, such as a single letter. The question is then still open.
        """
        question = self._question
        if question is None:
            return "none"
        if time.monotonic() < self._since + _GRACE_SECONDS:
            return "early"
        answer = parse_answer(question, text)
        if answer is None:
            return "unclear"
        self._answer = answer
        self._answered.set()
        return "answered"


def _question(question: Question) -> Text:
    return Text("\n").join(Text.assemble(*row.segments) for row in question_rows(question))
