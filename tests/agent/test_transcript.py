"""Where the results of pending calls are stored."""

from __future__ import annotations

import asyncio
import json
from itertools import permutations
from typing import Any

import pytest

from agent import Agent
from agent.errors import PendingToolCallsError, ToolError
from agent.messages import AssistantMessage, CustomMessage, Message, ToolCall, ToolResultMessage, UserMessage
from agent.testing import ScriptedModel
from agent.transcript import ToolResolution, Transcript, find_pending, insert_results

LATER = UserMessage("later")
NOTE = CustomMessage("note", {})


def answer_of(*ids: str) -> AssistantMessage:
    return AssistantMessage([ToolCall(id, "pay", {}) for id in ids], stop_reason="toolUse")


def result(id: str, text: str = "") -> ToolResultMessage:
    return ToolResultMessage(id, "pay", text or id, timestamp=1)


def stored(messages: list[Message]) -> list[str]:
    return [message.text for message in messages if isinstance(message, ToolResultMessage)]


@pytest.mark.parametrize("order", list(permutations("abc")), ids="".join)
def test_results_stand_in_call_order_whatever_the_order_of_the_steps(order: tuple[str, ...]) -> None:
    """FR-22, FS-W6"""
    agent = Agent(transcript=Transcript((UserMessage("go"), answer_of("a", "b", "c"))))
    for id in order:
        agent.resolve_tool_calls(ToolResolution(id, id))
    assert stored(agent.state.messages) == ["a", "b", "c"]
    assert agent.pending_calls == []


@pytest.mark.parametrize("first", ["a", "b", "c"])
def test_two_steps_of_several_results_are_merged(first: str) -> None:
    messages: list[Message] = [answer_of("a", "b", "c")]
    insert_results(messages, find_pending(messages), [result(first)])
    rest = [result(id) for id in "abc" if id != first]
    insert_results(messages, find_pending(messages), rest)
    assert stored(messages) == ["a", "b", "c"]


def test_calls_of_one_id_are_answered_one_after_the_other() -> None:
    """Y17"""
    messages: list[Message] = [answer_of("x", "y", "x")]
    insert_results(messages, find_pending(messages), [result("y")])
    insert_results(messages, find_pending(messages), [result("x", "first")])
    assert stored(messages) == ["first", "y"]
    insert_results(messages, find_pending(messages), [result("x", "second")])
    assert stored(messages) == ["first", "y", "second"]


def test_other_messages_stay_behind_the_results() -> None:
    """FR-21"""
    messages: list[Message] = [answer_of("a", "b"), result("a"), NOTE, LATER]
    insert_results(messages, find_pending(messages), [result("b")])
    assert messages == [answer_of("a", "b"), result("a"), result("b"), NOTE, LATER]


def test_the_last_of_equal_answers_is_the_one_that_is_answered() -> None:
    messages: list[Message] = [answer_of("a"), result("a"), answer_of("a")]
    insert_results(messages, find_pending(messages), [result("a", "again")])
    assert stored(messages) == ["a", "again"]
    assert messages[-1] == result("a", "again")


def test_a_message_appended_while_calls_wait_leaves_them_pending_and_goes_out_behind_their_results() -> None:
    """FR-21"""
    model = ScriptedModel("ok")
    transcript = Transcript((UserMessage("go"), answer_of("a")))
    with Agent(model.model, stream_fn=model.stream, transcript=transcript) as agent:
        agent.append_message(LATER)
        assert [call.id for call in agent.pending_calls] == ["a"]
        with pytest.raises(PendingToolCallsError):
            agent.prompt("and now?")
        agent.resolve_tool_calls(ToolResolution("a", "done"))
        assert agent.resume().result(10).stop == "end_turn"
    assert [m.role for m in model.contexts[0].messages] == ["user", "assistant", "toolResult", "user"]


class Silent(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


class SilentToolError(ToolError):
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no money"), "ValueError: no money"),
        (ToolError("no money"), "no money"),
        (SystemExit(3), "SystemExit: 3"),
        (asyncio.CancelledError(), "CancelledError"),
        (Silent(), "Silent"),
        (SilentToolError("x"), "SilentToolError"),
    ],
)
def test_whatever_a_resolver_raises_is_an_error_result(error: BaseException, text: str) -> None:
    """API-2-decisions, General 2"""

    def resolve(call: ToolCall) -> str:
        raise error

    agent = Agent(transcript=Transcript((UserMessage("go"), answer_of("a", "b"))))
    agent.resolve_pending(resolve)
    assert stored(agent.state.messages) == [text, text]
    assert agent.pending_calls == []


def test_a_ctrl_c_in_a_resolver_comes_through_and_leaves_the_calls_pending() -> None:
    def resolve(call: ToolCall) -> str:
        raise KeyboardInterrupt

    agent = Agent(transcript=Transcript((UserMessage("go"), answer_of("a"))))
    with pytest.raises(KeyboardInterrupt):
        agent.resolve_pending(resolve)
    assert [call.id for call in agent.pending_calls] == ["a"]


@pytest.mark.parametrize("answer", [object(), 5, b"bytes", None])
def test_nonsense_of_a_resolver_never_breaks_the_conversation(answer: Any) -> None:
    agent = Agent(transcript=Transcript((UserMessage("go"), answer_of("a"))))
    agent.resolve_pending(lambda call: answer)
    assert len(stored(agent.state.messages)) == 1
    json.dumps(agent.transcript.to_json())
