"""The conversation of the interactive mode, without a terminal."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from agent import Agent
from agent.cli.tui.frame import Frame
from agent.cli.tui.session import Session
from agent.messages import UserMessage
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


def _frame_after_failure(session: Session) -> Frame:
    session.agent.wait_for_idle()
    frame = session.frame(80, 20)
    assert frame is not None
    return frame


def test_a_prompt_that_got_no_answer_returns_and_leaves_the_conversation() -> None:
    """N42 N43"""
    session = _session("One.", error("400 prompt is too long"), "Two.")
    try:
        session.send("first")
        session.agent.wait_for_idle()
        session.send("much too long")
        frame = _frame_after_failure(session)
        assert frame.returned == ["much too long"]
        assert "/clear" in frame.printed
        assert [message.text for message in session.agent.state.messages] == ["first", "One."]
        session.send("short")
        session.agent.wait_for_idle()
        assert session.last_answer() == "Two."
    finally:
        session.close()


def test_a_prompt_with_half_an_answer_stays() -> None:
    """N43"""
    session = _session(["Half an", error("400 no")])
    try:
        session.send("go")
        assert _frame_after_failure(session).returned == []
        assert session.agent.state.messages[0].text == "go"
    finally:
        session.close()


def test_the_output_of_a_shell_command_stays_when_the_prompt_after_it_fails() -> None:
    """N43"""
    session = _session(error("401 no"))
    try:
        session._add_silently(UserMessage("$ ls"))
        session.send("go")
        assert _frame_after_failure(session).returned == ["go"]
        assert [message.text for message in session.agent.state.messages] == ["$ ls"]
    finally:
        session.close()
