"""The events of the loop, whole sequences compared with whole sequences."""

from __future__ import annotations

from typing import Any

import pytest
from support.runs import NO_WAITS, inbox, labels, play, queues, story, text_of

from agent import tool
from agent.cancel import CancelToken
from agent.errors import NothingToContinueError
from agent.events import Event, MessageEnd, StreamRetry, ToolExecutionStart, TurnEnd
from agent.hooks import Hooks, ToolDecision
from agent.limits import Limits
from agent.loop import LoopConfig, agent_loop
from agent.messages import AssistantMessage, ToolCall, UserMessage
from agent.retry import RetryPolicy
from agent.stream import (
    AgentContext,
    StreamDone,
    StreamStart,
    TextDelta,
)
from agent.testing import ScriptedModel, done, error, text, thinking, tool_call
from agent.tools import AgentTool, ToolResult

RESET = "connection reset by peer"
HI = "agent_start turn_start ms:hi me:hi"


@tool
def echo(word: str) -> str:
    """Say it again."""
    return word


def call(id: str = "c1", word: str = "x") -> ToolCall:
    return tool_call("echo", {"word": word}, id)


def stopping_tool(name: str = "stop", terminate: bool = True, is_error: bool = False) -> AgentTool:
    result = ToolResult("bye", terminate=terminate, is_error=is_error)
    return AgentTool(name, "", {"type": "object"}, lambda arguments, context: result)


# --- answers and tools -----------------------------------------------------------------------------


def test_a_plain_answer() -> None:
    assert play("hello there").story == f"{HI} ms:A upd me:A turn_end[A] agent_end[hi,A]"


def test_one_tool() -> None:
    def slow(arguments: dict[str, Any], context: Any) -> str:
        context.update("half")
        context.update("nearly")
        return "x"

    played = play([call()], "done", tools=[AgentTool("echo", "", {"type": "object"}, slow)])
    assert played.story == (
        f"{HI} ms:A upd me:A tes:c1 teu:c1 teu:c1 tee:c1 ms:T me:T turn_end[A;T] "
        "turn_start ms:A upd me:A turn_end[A] agent_end[hi,A,T,A]"
    )


def test_two_tools_run_one_after_the_other_in_one_turn() -> None:
    assert play([call("c1"), call("c2")], "done", tools=[echo]).story == (
        f"{HI} ms:A upd me:A tes:c1 tee:c1 ms:T me:T tes:c2 tee:c2 ms:T me:T turn_end[A;T,T] "
        "turn_start ms:A upd me:A turn_end[A] agent_end[hi,A,T,T,A]"
    )


def test_no_prompts_answer_the_context_as_it_is() -> None:
    played = play("ok", prompts=(), history=[UserMessage("before")])
    assert played.story == "agent_start turn_start ms:A upd me:A turn_end[A] agent_end[A]"
    assert played.sent() == ["before"]


def test_continuing_adds_no_prompt_and_takes_an_answer_as_the_last_message() -> None:
    played = play("more", history=[UserMessage("u"), AssistantMessage("a")], resume=True)
    assert played.story == "agent_start turn_start ms:A upd me:A turn_end[A] agent_end[A]"
    assert played.sent() == ["u,A"]


def test_continuing_from_nothing_raises_before_any_event() -> None:
    events: list[Event] = []
    with pytest.raises(NothingToContinueError, match="cannot continue: no messages in context"):
        play("x", resume=True, on_event=events.append)
    assert events == []


def test_tools_that_all_ask_to_stop_end_the_run() -> None:
    played = play([tool_call("stop", id="c1"), tool_call("stop", id="c2")], tools=[stopping_tool()])
    assert played.story == (
        f"{HI} ms:A upd me:A tes:c1 tee:c1 ms:T me:T tes:c2 tee:c2 ms:T me:T turn_end[A;T,T] "
        "agent_end[hi,A,T,T]"
    )
    assert played.end.stop == "terminated"


def test_one_tool_of_two_asking_to_stop_does_not() -> None:
    played = play([tool_call("stop", id="c1"), call("c2")], "on", tools=[stopping_tool(), echo])
    assert played.story.endswith("turn_end[A;T,T] turn_start ms:A upd me:A turn_end[A] agent_end[hi,A,T,T,A]")


def test_a_failed_or_unknown_call_never_asks_to_stop() -> None:
    failing = stopping_tool("fails", is_error=True)
    for name in ("fails", "missing"):
        played = play(
            [tool_call("stop", id="c1"), tool_call(name, id="c2")], "on", tools=[stopping_tool(), failing]
        )
        assert played.end.stop == "end_turn"


# --- queues ----------------------------------------------------------------------------------------


def test_steering_that_waits_at_the_start_enters_the_first_turn() -> None:
    played = play("ok", **queues(inbox("steer")))
    assert played.story == f"{HI} ms:steer me:steer ms:A upd me:A turn_end[A] agent_end[hi,steer,A]"
    assert played.sent() == ["hi,steer"]


def test_steering_during_a_turn_enters_the_next() -> None:
    box = inbox()

    def one(context: AgentContext) -> str:
        box.steer(UserMessage("steer"))
        return "one"

    played = play(one, "two", **queues(box))
    assert played.story == (
        f"{HI} ms:A upd me:A turn_end[A] turn_start ms:steer me:steer ms:A upd me:A turn_end[A] "
        "agent_end[hi,A,steer,A]"
    )


def test_steering_comes_before_a_follow_up_that_waited_longer() -> None:
    """L08"""
    box = inbox(follow_ups="f")
    steers = iter((UserMessage("s"),))

    def on_event(event: Event) -> None:
        if isinstance(event, MessageEnd) and isinstance(event.message, AssistantMessage):
            for message in steers:
                box.steer(message)

    played = play("one", "two", "three", on_event=on_event, **queues(box))
    assert [text_of(m) for m in played.new] == ["hi", "one", "s", "two", "f", "three"]


def test_two_steering_messages_take_two_turns_one_at_a_time() -> None:
    played = play("1", "2", **queues(inbox("a b")))
    assert played.sent() == ["hi,a", "hi,a,A,b"]


def test_two_steering_messages_take_one_turn_all_at_once() -> None:
    played = play("1", **queues(inbox("a b", mode="all")))
    assert played.sent() == ["hi,a,b"]


def test_a_follow_up_goes_on_in_the_same_run() -> None:
    played = play("1", "2", **queues(inbox(follow_ups="more")))
    assert played.story == (
        f"{HI} ms:A upd me:A turn_end[A] turn_start ms:more me:more ms:A upd me:A turn_end[A] "
        "agent_end[hi,A,more,A]"
    )


def test_three_follow_ups_take_three_turns_one_at_a_time() -> None:
    played = play("0", "1", "2", "3", **queues(inbox(follow_ups="a b c")))
    assert played.sent()[-1] == "hi,A,a,A,b,A,c"


def test_queued_messages_go_on_after_tools_that_asked_to_stop() -> None:
    played = play([tool_call("stop")], "ok", tools=[stopping_tool()], **queues(inbox(follow_ups="f")))
    assert played.sent()[-1] == "hi,A,T,f"
    assert played.end.stop == "end_turn"


def test_steering_waits_until_both_calls_of_an_answer_have_run() -> None:
    box = inbox()

    def on_event(event: Event) -> None:
        if isinstance(event, ToolExecutionStart) and event.tool_call_id == "c1":
            box.steer(UserMessage("steer"))

    played = play([call("c1"), call("c2")], "ok", tools=[echo], on_event=on_event, **queues(box))
    assert played.sent() == ["hi", "hi,A,T,T,steer"]


def test_a_stop_after_the_turn_leaves_the_queues_untouched() -> None:
    box = inbox("s1 s2", "f")
    played = play("one", should_stop_after_turn=lambda info: True, **queues(box))
    assert played.story == f"{HI} ms:s1 me:s1 ms:A upd me:A turn_end[A] agent_end[hi,s1,A]"
    assert played.end.stop == "stopped"
    assert [text_of(m) for m in box.poll_steering() + box.follow_ups()] == ["s2", "f"]


# --- odd streams -----------------------------------------------------------------------------------


def test_a_stream_of_only_a_done_event_has_no_updates() -> None:
    played = play([StreamStart(), StreamDone(message=AssistantMessage("canned"))])
    assert played.story == f"{HI} ms:A me:A turn_end[A] agent_end[hi,A]"
    assert text_of(played.new[-1]) == "canned"


def test_an_answer_without_a_start_event_is_announced_all_the_same() -> None:
    events: list[Event] = []
    done_only = StreamDone(message=AssistantMessage("canned"))
    config = LoopConfig(ScriptedModel().model)
    agent_loop(
        [UserMessage("hi")], AgentContext(), config, lambda *request: iter((done_only,)), events.append
    )
    assert story(events) == f"{HI} ms:A me:A turn_end[A] agent_end[hi,A]"


def test_a_delta_before_any_start_opens_the_message_and_its_block() -> None:
    played = play([TextDelta(0, "hello"), StreamDone()])
    assert played.story == f"{HI} ms:A upd me:A turn_end[A] agent_end[hi,A]"
    assert text_of(played.new[-1]) == "hello"


def test_a_stream_that_just_ends_is_an_error_that_keeps_its_text_and_is_asked_again() -> None:
    """P09"""
    broken = [StreamStart(), TextDelta(0, "par")]
    played = play(broken, broken, broken, broken)
    again = "".join(f"auto_resume({n}) turn_start ms:A upd " for n in (1, 2, 3))
    assert played.story == f"{HI} ms:A upd {again}turn_end[A!] agent_end[hi,A!]"
    last = played.new[-1]
    assert isinstance(last, AssistantMessage)
    assert (last.text, last.stop_reason, last.error_message) == ("par", "error", "stream ended unexpectedly")
    assert played.sent() == ["hi"] * 4


def test_a_stream_that_ended_early_once_is_retried_without_a_trace() -> None:
    played = play([StreamStart(), TextDelta(0, "par")], "whole")
    assert [text_of(m) for m in played.new] == ["hi", "whole"]


def test_a_stream_without_any_event_emits_nothing_and_is_requested_again() -> None:
    events: list[Event] = []
    config = LoopConfig(ScriptedModel().model, retry=NO_WAITS)
    agent_loop([UserMessage("hi")], AgentContext(), config, lambda *request: iter(()), events.append)
    again = "".join(f"auto_resume({n}) turn_start " for n in (1, 2, 3))
    assert story(events) == f"{HI} {again}turn_end[A!] agent_end[hi,A!]"


def test_a_stream_function_that_raises_is_a_failed_answer() -> None:
    """L20"""
    played = play(RuntimeError("boom"))
    assert played.story == f"{HI} ms:A me:A! turn_end[A!] agent_end[hi,A!]"
    assert played.end.error == "boom"


@pytest.mark.parametrize("hook", ["transform_context", "convert_to_llm"])
def test_a_context_that_can_not_be_made_is_an_errored_turn_without_a_message_of_its_own(hook: str) -> None:
    def fail(messages: list[Any]) -> list[Any]:
        raise ValueError("no context for you")

    broken: dict[str, Any] = {hook: fail}
    played = play("never", **broken)
    assert played.story == f"{HI} turn_end[A!] agent_end[hi,A!]"
    assert played.end.error == "no context for you"
    assert played.model.calls == 0


def test_a_missing_converter_is_an_errored_turn() -> None:
    played = play("never", convert_to_llm=None)
    assert played.story == f"{HI} turn_end[A!] agent_end[hi,A!]"
    assert "no ConvertToLLM function configured" in played.end.error


# --- empty answers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("empty", ["", "  \n", [done()]], ids=["nothing", "blanks", "no blocks"])
def test_an_empty_answer_is_asked_again(empty: Any) -> None:
    """L22"""
    played = play(empty, "fine")
    words = played.story.replace("ms:A upd me:A stream", "ms:A me:A stream")
    assert words == f"{HI} ms:A me:A stream_retry(1) ms:A upd me:A turn_end[A] agent_end[hi,A]"


def test_an_answer_that_stays_empty_is_an_error_after_two_retries() -> None:
    played = play("", "", "")
    assert played.story.replace("upd ", "") == (
        f"{HI} ms:A me:A stream_retry(1) ms:A me:A stream_retry(2) ms:A me:A! turn_end[A!] agent_end[hi,A!]"
    )
    assert "the model returned an empty answer" in played.end.error
    assert played.model.calls == 3


def test_an_empty_answer_is_asked_again_also_where_no_waits_are_set() -> None:
    assert play("", "", "fine", retry=RetryPolicy((), (), ())).end.stop == "end_turn"


def test_thinking_alone_is_an_empty_answer() -> None:
    """FR-23"""
    played = play([thinking("hmm")], "fine")
    assert played.sent() == ["hi", "hi"]
    assert played.end.stop == "end_turn"


def test_an_abort_while_waiting_to_ask_an_empty_answer_again_ends_in_an_aborted_answer() -> None:
    token = CancelToken()

    def on_event(event: Event) -> None:
        if isinstance(event, StreamRetry):
            token.cancel()

    played = play([done()], "never", cancel=token, on_event=on_event)
    assert played.story == f"{HI} ms:A me:A stream_retry(1) ms:A me:A~ turn_end[A~] agent_end[hi,A~]"


# --- aborts ----------------------------------------------------------------------------------------


def test_an_abort_before_the_request_makes_none() -> None:
    token = CancelToken()
    token.cancel()
    played = play("never", cancel=token)
    assert played.story == f"{HI} ms:A me:A~ turn_end[A~] agent_end[hi,A~]"
    assert played.model.calls == 0
    assert played.end.stop == "aborted"


def test_an_abort_inside_a_batch_settles_every_call_and_makes_no_further_request() -> None:
    token = CancelToken()

    def on_event(event: Event) -> None:
        if isinstance(event, ToolExecutionStart):
            token.cancel()

    played = play([call("c1"), call("c2")], "never", tools=[echo], cancel=token, on_event=on_event)
    assert played.story == (
        f"{HI} ms:A upd me:A tes:c1 tee:c1! ms:T me:T tes:c2 tee:c2! ms:T me:T turn_end[A;T,T] "
        "turn_start ms:A me:A~ turn_end[A~] agent_end[hi,A,T,T,A~]"
    )
    assert [text_of(m) for m in played.new[2:4]] == ["aborted", "aborted"]
    assert played.model.calls == 1


def test_an_abort_leaves_the_queues_as_they_are() -> None:
    token = CancelToken()
    box = inbox(follow_ups="f")

    def on_event(event: Event) -> None:
        if isinstance(event, TurnEnd):
            box.steer(UserMessage("s"))
            token.cancel()

    played = play("one", cancel=token, on_event=on_event, **queues(box))
    assert played.end.stop == "aborted"
    assert played.model.calls == 1
    assert [text_of(m) for m in box.poll_steering() + box.follow_ups()] == ["s", "f"]


def test_an_abort_leaves_no_call_pending() -> None:
    token = CancelToken()

    def abort(arguments: dict[str, Any], context: Any) -> str:
        token.cancel()
        return "done anyway"

    played = play(
        [tool_call("abort", id="c1"), call("c2"), call("c3")],
        tools=[AgentTool("abort", "", {"type": "object"}, abort), echo],
        hooks=Hooks(before_tool=lambda info: ToolDecision.pause() if info.id == "c2" else None),
        cancel=token,
    )
    assert played.story == (
        f"{HI} ms:A upd me:A tes:c1 tee:c1 ms:T me:T tes:c2 tee:c2! ms:T me:T tes:c3 tee:c3! ms:T me:T "
        "turn_end[A;T,T,T] turn_start ms:A me:A~ turn_end[A~] agent_end[hi,A,T,T,T,A~]"
    )
    assert [text_of(m) for m in played.new[2:5]] == ["done anyway", "aborted", "aborted"]
    assert played.end.stop == "aborted"
    assert played.end.pending_calls == ()


def test_an_abort_after_a_pause_comes_too_late() -> None:
    token = CancelToken()

    def on_event(event: Event) -> None:
        if isinstance(event, TurnEnd):
            token.cancel()

    hooks = Hooks(before_tool=lambda info: ToolDecision.pause())
    played = play([call("c1")], tools=[echo], hooks=hooks, cancel=token, on_event=on_event)
    assert played.story == f"{HI} ms:A upd me:A turn_end[A] agent_end[hi,A]"
    assert played.end.stop == "paused"
    assert [c.id for c in played.end.pending_calls] == ["c1"]


def test_the_text_of_an_abort_does_not_matter() -> None:
    played = play(error(RESET, "aborted"))
    assert "auto_resume" not in played.story


# --- answers cut by their length -------------------------------------------------------------------


def test_calls_of_a_cut_answer_are_refused_and_the_loop_goes_on() -> None:
    """L12"""
    played = play([call("c1"), call("c2"), done("length")], "fine", tools=[echo])
    assert played.story == (
        f"{HI} ms:A upd me:A tes:c1 tee:c1! ms:T me:T tes:c2 tee:c2! ms:T me:T turn_end[A;T,T] "
        "turn_start ms:A upd me:A turn_end[A] agent_end[hi,A,T,T,A]"
    )
    assert "Send the call again" in text_of(played.new[2])


def test_an_answer_that_is_always_cut_inside_its_calls_ends_in_an_error() -> None:
    """L13"""
    played = play(*[[call(f"c{n}"), done("length")] for n in range(9)], tools=[echo])
    assert played.model.calls == 3
    assert played.story.endswith(
        "turn_end[A;T] turn_start ms:A me:A! turn_end[A!] agent_end[hi,A,T,A,T,A,T,A!]"
    )
    assert "cut off by the output limit" in played.end.error


def test_a_cut_text_ends_the_run_as_truncated() -> None:
    """FR-7"""
    assert play([text("half"), done("length")]).end.stop == "truncated"


@pytest.mark.parametrize("pieces", [[], [text(" ")], [thinking("hmm")]])
def test_a_truncated_answer_without_text_is_kept_and_ends_the_run_as_truncated(pieces: list[Any]) -> None:
    """FR-7"""
    played = play([*pieces, done("length")], "never")
    assert played.end.stop == "truncated"
    assert labels(played.new) == "hi,A"
    assert played.model.calls == 1


def test_a_queued_message_is_sent_after_a_cut_text() -> None:
    box = inbox(follow_ups="more")
    played = play([text("half"), done("length")], "whole", **queues(box))
    assert labels(played.new) == "hi,A,more,A"
    assert played.end.stop == "end_turn"


# --- answers that the provider pauses --------------------------------------------------------------

PAUSED = [TextDelta(0, "searching"), StreamDone("stop", paused=True)]


def test_a_paused_answer_is_sent_back_with_nothing_behind_it() -> None:
    """FR-24"""
    box = inbox(steering="later")
    played = play(PAUSED, PAUSED, "done", "and more", **queues(box))
    assert played.sent() == ["hi,later", "hi,later,A", "hi,later,A,A"]
    box = inbox()
    hooks = Hooks(steering_messages=lambda: [UserMessage("now")])
    played = play(PAUSED, "done", hooks=hooks, limits=Limits(max_turns=2), **queues(box))
    assert played.sent() == ["hi,now", "hi,now,A"]


def test_a_paused_answer_is_sent_back_ten_times_at_most() -> None:
    """FR-24"""
    played = play(*[PAUSED] * 20)
    assert played.model.calls == 11
    assert played.end.stop == "truncated"


def test_a_paused_answer_is_no_candidate() -> None:
    """FR-24"""
    seen: list[str] = []
    hooks = Hooks(candidate_answer=lambda info: seen.append(info.message.text))
    play(PAUSED, "done", hooks=hooks)
    assert seen == ["done"]


def test_cut_turns_are_counted_only_in_a_row() -> None:
    cut = [call(), done("length")]
    played = play(cut, cut, [call()], cut, cut, "fine", tools=[echo])
    assert played.end.stop == "end_turn"
