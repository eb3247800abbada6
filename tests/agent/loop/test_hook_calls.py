"""Calls of the hooks that decide about a run, and the failure that follows when one raises."""

from __future__ import annotations

import gc
import logging
import weakref
from typing import Any

import pytest

from agent.errors import AgentError, GuardrailError
from agent.hook_types import (
    Candidate,
    InputInfo,
    OutputInfo,
    RequestUpdate,
    RunInfo,
    TruncationInfo,
    TurnUpdate,
)
from agent.hooks import Hooks, Truncation
from agent.loop.hook_calls import (
    RunFailed,
    call_hook,
    call_on_truncated,
    call_prepare_turn,
    check_input,
    detached,
    park_payload,
    poll_safely,
    review,
    should_stop,
    sorted_truncation,
)
from agent.messages import AssistantMessage, TextContent, ToolCall, ToolResultMessage, UserMessage

ANSWER = AssistantMessage((TextContent("text"),), "scripted", "scripted", "m")
OUTPUT = OutputInfo(ANSWER, turns=3)


def fail(*arguments: Any) -> Any:
    raise ValueError("broken hook")


def test_the_first_input_guardrail_that_rejects_is_named_and_the_rest_are_not_called() -> None:
    called: list[str] = []
    hooks = Hooks(
        input_guardrails=[
            ("first", lambda info: called.append("first")),
            ("second", fail),
            ("third", lambda info: called.append("third")),
        ]
    )
    with pytest.raises(RunFailed, match='input guardrail "second": broken hook') as failed:
        check_input(hooks, InputInfo([], [UserMessage("hi")]))
    cause = failed.value.cause
    assert isinstance(cause, GuardrailError)
    assert (cause.phase, cause.name) == ("input", "second")
    assert isinstance(cause.__cause__, ValueError)
    assert called == ["first"]


@pytest.mark.parametrize(
    ("candidate", "constraint"),
    [
        (None, None),
        (Candidate.accept(), None),
        (Candidate.retry(), RequestUpdate()),
        (Candidate("retry"), RequestUpdate()),
        (Candidate.retry(RequestUpdate(tool_choice="none")), RequestUpdate(tool_choice="none")),
    ],
)
def test_the_review_of_an_answer_returns_the_constraint_of_a_retry(
    candidate: Candidate | None, constraint: RequestUpdate | None
) -> None:
    hooks = Hooks(candidate_answer=lambda info: candidate)
    assert review(hooks, OUTPUT, [UserMessage("hi")]) == constraint


def test_the_review_shows_a_copy_of_the_conversation_and_the_answer() -> None:
    messages: list[Any] = [UserMessage("hi")]
    shown: list[Any] = []

    def candidate_answer(info: Any) -> None:
        shown.append((info.message, list(info.messages), info.turns))
        info.messages.clear()

    review(Hooks(candidate_answer=candidate_answer), OUTPUT, messages)
    assert shown == [(ANSWER, [UserMessage("hi")], 3)]
    assert len(messages) == 1


@pytest.mark.parametrize("error", ["", "too short", ValueError("too short")])
def test_an_aborted_candidate_fails_the_run_with_its_error(error: Any) -> None:
    hooks = Hooks(candidate_answer=lambda info: Candidate.abort(error))
    with pytest.raises(RunFailed) as failed:
        review(hooks, OUTPUT, [])
    if isinstance(error, str):
        assert isinstance(failed.value.cause, AgentError)
        assert str(failed.value.cause) == (error or "the answer was not accepted")
    else:
        assert failed.value.cause is error


def test_a_hook_that_returns_an_object_of_another_kind_fails_the_run() -> None:
    with pytest.raises(RunFailed, match="prepare_turn must return None or a TurnUpdate, not 'yes'"):
        call_hook("prepare_turn", lambda info: "yes", None, TurnUpdate)


def test_an_update_with_an_error_fails_the_run() -> None:
    update = TurnUpdate(error="over budget")
    with pytest.raises(RunFailed, match="over budget"):
        call_prepare_turn(Hooks(prepare_turn=lambda info: update), RunInfo)


def test_the_information_for_a_hook_that_is_not_set_is_not_built() -> None:
    assert call_prepare_turn(Hooks(), fail) is None
    assert park_payload(Hooks(), fail) is None


def test_texts_of_a_truncation_become_user_messages_and_other_objects_fail_the_run() -> None:
    messages: Any = ["shorter"]
    hooks = Hooks(on_truncated=lambda info: Truncation(True, messages))
    truncation = call_on_truncated(hooks, TruncationInfo(ANSWER))
    assert truncation is not None
    assert [(m.role, m.text) for m in truncation.messages if isinstance(m, UserMessage)] == [
        ("user", "shorter")
    ]
    messages = [3]
    with pytest.raises(RunFailed):
        call_on_truncated(hooks, TruncationInfo(ANSWER))


def test_a_stop_test_that_raises_is_logged_by_name_and_the_run_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR, "agent"):
        assert should_stop(fail, RunInfo) is False
    assert "fail failed; the run goes on" in caplog.text
    returned: Any
    for returned in (1, "yes", 0, None):
        assert should_stop(lambda info, value=returned: value, RunInfo) is bool(returned)


def test_a_park_payload_that_raises_is_none() -> None:
    assert park_payload(Hooks(before_park=lambda info: {"a": 1}), RunInfo) == {"a": 1}
    assert park_payload(Hooks(before_park=fail), RunInfo) is None


@pytest.mark.parametrize("returned", [None, [], ()])
def test_a_poll_that_returns_nothing_has_no_messages(returned: Any) -> None:
    assert poll_safely(lambda: returned) == ()
    assert poll_safely(None) == ()


def test_the_results_of_a_truncation_are_assigned_to_calls_by_id() -> None:
    calls = [ToolCall("a", "read", {}), ToolCall("b", "read", {}), ToolCall("a", "read", {})]
    messages = [
        ToolResultMessage("b", "read", "of b"),
        UserMessage("hint"),
        ToolResultMessage("a", "read", "of a", is_error=True),
        ToolResultMessage("a", "read", "of the second a"),
    ]
    results, others = sorted_truncation(calls, messages)
    assert {position: result.text for position, result in results.items()} == {
        1: "of b",
        0: "of a",
        2: "of the second a",
    }
    assert results[0].is_error
    assert others == [UserMessage("hint")]


def test_a_result_for_an_unknown_call_is_dropped_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "agent"):
        assert sorted_truncation([], [ToolResultMessage("x", "read", "?")]) == ({}, [])
    assert "a call that does not exist: x" in caplog.text


def test_a_detached_exception_keeps_no_frame_alive_and_notes_its_traceback() -> None:
    class Local:
        pass

    def hook() -> None:
        local = Local()
        held.append(weakref.ref(local))
        try:
            fail()
        except ValueError as error:
            raise KeyError("outer") from error

    held: list[weakref.ref[Local]] = []
    try:
        hook()
    except KeyError as error:
        kept = detached(error)
    gc.collect()
    assert held[0]() is None
    assert kept.__traceback__ is None
    assert kept.__cause__ is not None
    assert kept.__cause__.__traceback__ is None
    assert any(note.startswith("Raised in a hook:") for note in kept.__notes__)


def test_detaching_ends_on_exceptions_that_refer_to_each_other() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__context__ = second, first
    assert detached(first) is first
