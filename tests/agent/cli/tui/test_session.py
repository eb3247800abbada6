"""The conversation of the interactive mode, without a terminal."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from agent import Agent
from agent.cli.tui.session import Session
from agent.testing import ScriptedModel, error


def _printed(session: Session) -> str:
    frame = session.frame(80, 20)
    assert frame is not None
    return frame.printed


def _session(*turns: Any) -> Session:
    model = ScriptedModel(*turns)
    return Session(Agent(model.model, stream_fn=model.stream), "/", lambda: 80, lambda: None, ["welcome"])


@pytest.fixture
def session() -> Iterator[Session]:
    session = _session("One.", "Two.")
    yield session
    session.close()


def test_a_frame_holds_what_is_new(session: Session) -> None:
    assert "welcome" in _printed(session)
    session.send("hi")
    session.agent.wait_for_idle()
    printed = _printed(session)
    assert "hi" in printed
    assert "One." in printed
    assert _printed(session) == ""
    assert session.last_answer() == "One."


def test_a_note_is_cleaned(session: Session) -> None:
    session.note("a\x1b]52;c;QQ==\x07b")
    assert "a]52;c;QQ==b" in _printed(session)


def test_the_footer_names_model_level_context_and_cost(session: Session) -> None:
    assert session.footer()["thinking"] == "thinking off"
    assert {"model", "context", "cost"} <= session.footer().keys()


def test_a_message_during_a_run_is_queued_and_returned_by_an_abort() -> None:
    started, go = threading.Event(), threading.Event()

    def first(context: object) -> str:
        started.set()
        go.wait(10)
        return "late"

    session = _session(first)
    try:
        session.send("go")
        started.wait(10)
        session.send("steer")
        session.follow_up("later")
        frame = session.frame(80, 20)
        assert frame is not None
        assert frame.queued == ["steering: steer", "follow-up: later"]
        assert session.abort() == ["steer", "later"]
    finally:
        go.set()
        session.close()


def test_a_failed_run_returns_what_was_queued() -> None:
    session = _session(error("401 no"))
    try:
        session.send("go")
        session.agent.wait_for_idle()
        assert "401 no" in _printed(session)
    finally:
        session.close()
