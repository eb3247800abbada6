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


@pytest.mark.parametrize(("key", "answer"), [("y", YES), ("n", NO), ("a", ALWAYS)])
def test_a_key_answers(ask: Callable[..., _Asked], key: str, answer: Answer) -> None:
    asked = ask()
    assert "always: bash(make)" in asked.asking.hint
    assert asked.asking.key(key)
    assert asked.answer() == answer
    assert asked.asking.hint == ""


def test_other_keys_and_always_without_rules_answer_nothing(ask: Callable[..., _Asked]) -> None:
    asked = ask(rules=())
    assert not asked.asking.key("x")
    assert not asked.asking.key("a")
    assert "always" not in asked.asking.hint


def test_a_key_typed_with_the_question_answers_nothing(
    ask: Callable[..., _Asked], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_GRACE_SECONDS", 1000.0)
    assert not ask().asking.key("y")


def test_a_text_refuses_with_a_reason(ask: Callable[..., _Asked]) -> None:
    asked = ask()
    assert asked.asking.refuse("use make test")
    assert asked.answer() == Answer(False, reason="use make test")


def test_an_abort_is_a_no(ask: Callable[..., _Asked]) -> None:
    asked = ask()
    asked.cancel.cancel()
    assert asked.answer() == NO


def test_without_a_question_nothing_is_answered() -> None:
    asking = Asking(lambda parts: None)
    assert not asking.key("y")
    assert not asking.refuse("why")
    assert asking.hint == ""
