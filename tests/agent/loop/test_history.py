"""One list of messages, as the application and a run change it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.errors import ToolCallNotPendingError
from agent.loop.history import History
from agent.messages import AssistantMessage, Message, ToolCall, ToolResultMessage, UserMessage

FIRST, SECOND, OUTSIDE = UserMessage("first"), UserMessage("second"), UserMessage("outside")
ANSWER = AssistantMessage("answer")
FAILED = AssistantMessage("", stop_reason="error", error_message="400 no")
CALLING = AssistantMessage([ToolCall("a", "echo", {}), ToolCall("b", "echo", {})], stop_reason="toolUse")


def result(id: str) -> ToolResultMessage:
    return ToolResultMessage(id, "echo", f"result {id}", timestamp=1)


def running(*messages: Message) -> History:
    history = History(messages)
    history.begin_run()
    return history


def test_what_a_run_adds_is_kept_sent_and_new() -> None:
    history = running(FIRST)
    history.add(SECOND)
    assert history.messages == history.to_send() == [FIRST, SECOND]
    assert history.new == (SECOND,)


def test_the_list_given_and_the_lists_returned_are_copies() -> None:
    mine: list[Message] = [FIRST]
    history = running(*mine)
    history.add(SECOND)
    history.messages.clear()
    history.to_send().clear()
    assert (mine, history.messages) == ([FIRST], [FIRST, SECOND])


def test_a_message_that_is_only_recorded_is_not_sent_by_this_run() -> None:
    history = running(FIRST)
    history.add(FAILED, send=False)
    history.add(SECOND)
    assert history.to_send() == [FIRST, SECOND]
    assert history.messages == [FIRST, FAILED, SECOND]
    assert history.new == (FAILED, SECOND)
    history.end_run()
    assert history.to_send() == [FIRST, FAILED, SECOND]


def test_the_last_message_of_equal_ones_is_dropped_or_swapped() -> None:
    twin, twice = UserMessage("x", timestamp=1), UserMessage("x", timestamp=1)
    history = running(twin)
    history.add(twice)
    history.swap(twice, ANSWER)
    assert history.messages == [twin, ANSWER]
    history.drop(ANSWER)
    history.drop(twice)  # it is not there any more
    assert history.messages == history.to_send() == [twin]


def test_a_restart_by_the_run_counts_new_messages_from_there() -> None:
    history = running(FIRST)
    history.add(ANSWER)
    history.restart([SECOND])
    history.add(ANSWER)
    assert history.messages == history.to_send() == [SECOND, ANSWER]
    assert history.new == (ANSWER,)


def test_a_replacement_by_the_application_counts_for_the_next_run() -> None:
    history = running(FIRST)
    history.replace([SECOND])
    history.add(ANSWER)
    assert history.to_send() == [FIRST, ANSWER]
    assert history.messages == [SECOND, ANSWER]
    assert history.new == (ANSWER,)
    history.end_run()
    history.begin_run()
    assert history.to_send() == [SECOND, ANSWER]


def test_a_message_appended_during_a_run_is_sent_with_the_next_request() -> None:
    history = running(FIRST)
    history.append(OUTSIDE)
    history.add(ANSWER)
    assert history.to_send() == history.messages == [FIRST, OUTSIDE, ANSWER]
    assert history.new == (OUTSIDE, ANSWER)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_message_appended_while_calls_run_stands_behind_their_results(replaced: bool) -> None:
    """FS-M6"""
    history = running(FIRST)
    history.add(CALLING)
    if replaced:
        history.replace([SECOND])
    history.append(OUTSIDE)
    assert history.messages[-1] is OUTSIDE
    history.add(result("a"))
    history.add(result("b"))
    assert history.to_send() == [FIRST, CALLING, result("a"), result("b"), OUTSIDE]
    history.add(ANSWER)
    kept = [SECOND] if replaced else [FIRST, CALLING]
    assert history.messages == [*kept, result("a"), result("b"), OUTSIDE, ANSWER]


def test_a_message_appended_while_calls_run_is_there_when_the_run_ends_with_them() -> None:
    history = running(FIRST)
    history.add(CALLING)
    history.append(OUTSIDE)
    history.end_run()
    assert history.messages == [FIRST, CALLING, OUTSIDE]


def test_an_appended_message_is_new_to_the_run_that_follows_only_if_it_came_during_it() -> None:
    history = History([FIRST])
    history.append(OUTSIDE)
    history.begin_run()
    history.add(ANSWER)
    assert history.new == (ANSWER,)


def test_calls_that_got_a_result_meanwhile_are_not_answered_again() -> None:
    history = History([CALLING])
    before = history.pending()
    history.answer(before, [result("a")])
    with pytest.raises(ToolCallNotPendingError):
        history.answer(before, [result("a"), result("b")])
    assert history.pending().calls == [ToolCall("b", "echo", {})]


def test_a_dropped_answer_leaves_no_calls_that_hold_messages_back() -> None:
    history = running(FIRST)
    history.add(CALLING)
    history.drop(CALLING)
    history.append(OUTSIDE)
    assert history._messages == [FIRST, OUTSIDE]


def test_an_answer_without_its_calls_holds_nothing_back() -> None:
    history = running(FIRST)
    history.add(CALLING)
    history.swap(CALLING, ANSWER)
    history.append(OUTSIDE)
    assert history._messages == [FIRST, ANSWER, OUTSIDE]


def test_calls_of_an_answer_that_failed_hold_nothing_back() -> None:
    history = running(FIRST)
    history.add(replace(CALLING, stop_reason="error"))
    history.append(OUTSIDE)
    assert history._messages[-1] is OUTSIDE
