"""The state of an agent's runs, brought up to each event."""

from __future__ import annotations

import threading

import pytest

from agent.errors import PendingToolCallsError
from agent.events import (
    AgentEnd,
    MessageEnd,
    MessageStart,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
)
from agent.loop.history import History
from agent.messages import AssistantMessage, ToolCall, UserMessage
from agent.runtime.run_state import RunState
from agent.tools import ToolResult
from agent.usage import Usage

USED = Usage(input=1, total_tokens=1)
ASKING = AssistantMessage([ToolCall("c", "pay", {"sum": 1})], stop_reason="toolUse")


def state_of(*messages: AssistantMessage | UserMessage, spent: Usage | None = None) -> RunState:
    lock = threading.RLock()
    return RunState(lock, History(messages, lock), spent or Usage())


def test_a_message_streams_from_its_start_to_its_end() -> None:
    state, message = state_of(), UserMessage("hi")
    state.note(MessageStart(message))
    assert state.stream_message is message
    state.note(MessageEnd(message))
    assert state.stream_message is None


def test_a_call_runs_from_its_start_to_its_end() -> None:
    state = state_of()
    state.note(ToolExecutionStart("c", "pay", {}))
    assert state.running_calls == {"c"}
    state.note(ToolExecutionEnd("c", "pay", ToolResult("ok"), False))
    assert state.running_calls == set()


def test_usage_is_that_of_all_runs_and_counts_each_once() -> None:
    state = state_of(spent=USED)
    state.note(TurnEnd(None, (), USED))
    assert state.usage == USED + USED
    state.note(AgentEnd((), "end_turn"))
    assert state.usage == USED + USED
    state.clear()
    assert state.usage == Usage()


def test_the_last_error_stays_until_it_is_cleared() -> None:
    state = state_of()
    state.note(TurnEnd(AssistantMessage("", stop_reason="error", error_message="400 no")))
    state.note(TurnEnd(AssistantMessage("ok")))
    assert state.error == "400 no"
    state.note(AgentEnd((), "error", "ended badly"))
    assert state.error == "ended badly"
    state.clear()
    assert state.error == ""


def test_pending_calls_have_the_arguments_of_the_gate_that_paused_them() -> None:
    state = state_of(ASKING)
    assert state.pending_calls() == list(ASKING.tool_calls)
    state.note(AgentEnd((), "paused", "", (ToolCall("c", "pay", {"sum": 2}),)))
    assert [call.arguments for call in state.pending_calls()] == [{"sum": 2}]


def test_a_pending_call_is_named_where_it_stands_in_the_way() -> None:
    with pytest.raises(PendingToolCallsError, match=r"pay \(c\)"):
        state_of(ASKING).check_nothing_pending()
    state_of(UserMessage("hi")).check_nothing_pending()
