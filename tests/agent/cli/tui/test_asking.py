"""Approval questions at the input line."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agent.cancel import CancelToken
from agent.cli.permissions.gate import ALWAYS, NO, YES, Answer, Question
from agent.cli.tui import asking as module
from agent.cli.tui.asking import Asking


class _Asked:
    """A question under way on a thread, as a run asks it."""

    def __init__(self, **changes: Any) -> None:
        self.cancel = CancelToken()
        fields = {"id": "c1", "tool": "bash", "arguments": {"command": "make"}, "why": "no rule allows it"}
        fields |= {"command": "make", "diff": "", "rules": ("bash(make)",), "cancel": self.cancel}
        self.question = Question(**(fields | changes))
        self.shown: list[Any] = []
        self.asking = Asking(self.shown.extend)
        self.answers: list[Answer] = []
        self.thread = threading.Thread(target=self._ask)
        self.thread.start()
        deadline = time.monotonic() + 10
        while not self.asking.hint and time.monotonic() < deadline:
            time.sleep(0.001)

    def _ask(self) -> None:
        self.answers.append(self.asking.ask(self.question))

    def answer(self) -> Answer:
        self.thread.join(10)
        return self.answers[0]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., _Asked]]:
    """Asks a question; what is still open afterwards is aborted."""
    monkeypatch.setattr(module, "_GRACE_SECONDS", 0.0)
    asked: list[_Asked] = []

    def start(**changes: Any) -> _Asked:
        asked.append(_Asked(**changes))
        return asked[-1]

    yield start
    for each in asked:
        each.cancel.cancel()
        each.thread.join(10)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("yes", YES),
        (" No ", NO),
        ("always", ALWAYS),
        ("use make test", Answer(False, reason="use make test")),
        ("yes but not there", Answer(False, reason="yes but not there")),
    ],
)
def test_a_whole_line_answers(ask: Callable[..., _Asked], text: str, answer: Answer) -> None:
    asked = ask()
    assert "always (bash(make))" in asked.asking.hint
    assert asked.asking.answer(text) == "answered"
    assert asked.answer() == answer
    assert asked.asking.hint == ""
    assert asked.asking.answer("yes") == "none"


@pytest.mark.parametrize("text", ["y", "n", "a", "", " ", "x"])
def test_a_letter_answers_nothing(ask: Callable[..., _Asked], text: str) -> None:
    asked = ask()
    assert asked.asking.answer(text) == "unclear"
    assert asked.asking.hint


def test_a_line_entered_with_the_question_answers_nothing(
    ask: Callable[..., _Asked], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_GRACE_SECONDS", 1000.0)
    assert ask().asking.answer("yes") == "early"


def test_without_rules_always_is_not_offered(ask: Callable[..., _Asked]) -> None:
    assert "always" not in ask(rules=()).asking.hint


def test_an_abort_is_a_no(ask: Callable[..., _Asked]) -> None:
    asked = ask()
    asked.cancel.cancel()
    assert asked.answer() == NO


def test_without_a_question_nothing_is_answered() -> None:
    asking = Asking(lambda parts: None)
    assert asking.answer("yes") == "none"
    assert asking.hint == ""


def test_a_long_rule_is_cut_in_the_line_of_answers(ask: Callable[..., _Asked]) -> None:
    asked = ask(rules=("bash(echo one\n" + "echo two\n" * 50 + ")",))
    assert "\n" not in asked.asking.hint
    assert len(asked.asking.hint) < 150
