"""Queued messages, delivered or taken back."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from agent import Agent
from agent.cli.tui.outbox import Outbox
from agent.messages import UserMessage
from agent.testing import ScriptedModel


class _Running:
    """An agent whose first answer waits, and its outbox."""

    def __init__(self) -> None:
        started, self.go = threading.Event(), threading.Event()

        def first(context: object) -> str:
            started.set()
            self.go.wait(10)
            return "one"

        self.model = ScriptedModel(first, "two", "three")
        self.agent = Agent(self.model.model, stream_fn=self.model.stream)
        self.outbox = Outbox(self.agent)
        self.run = self.agent.prompt("go")
        started.wait(10)

    def texts(self) -> list[str]:
        return [queued.message.text for queued in self.outbox.waiting()]


@pytest.fixture
def running() -> Iterator[_Running]:
    state = _Running()
    yield state
    state.go.set()
    state.run.wait(10)
    state.agent.close()


def test_messages_wait_until_they_are_delivered(running: _Running) -> None:
    steering, later = UserMessage("now"), UserMessage("later")
    running.outbox.add("steering", steering)
    running.outbox.add("follow-up", later)
    assert running.texts() == ["now", "later"]
    running.go.set()
    running.run.wait(10)
    assert running.texts() == []
    assert running.outbox.note(steering) == "(steering, delivered in turn 2)"
    assert running.outbox.note(later) == "(follow-up, delivered in turn 3)"
    assert running.outbox.note(UserMessage("now")) == ""


def test_the_last_message_is_taken_back_and_the_others_keep_their_order(running: _Running) -> None:
    for text in ("a", "b", "c"):
        running.outbox.add("steering", UserMessage(text))
    assert running.outbox.take_last() == "c"
    assert running.texts() == ["a", "b"]
    assert running.outbox.take_all() == ["a", "b"]
    assert running.outbox.take_last() is None
    assert running.outbox.take_all() == []
