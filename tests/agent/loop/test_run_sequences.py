"""The events of the loop, whole sequences compared with whole sequences."""

from __future__ import annotations

from typing import Any

import pytest
from support.runs import NO_WAITS, labels, play, story, text_of

from agent import tool
from agent.cancel import CancelToken
from agent.errors import NothingToContinueError
from agent.events import AutoResume, Event, MessageEnd, StreamRetry, ToolExecutionStart, TurnEnd
from agent.hooks import Hooks, ToolDecision
from agent.limits import Limits
from agent.loop import AUTO_RESUME_MARKER, LoopConfig, agent_loop
from agent.messages import AssistantMessage, CustomMessage, TextContent, ToolCall, UserMessage
from agent.retry import RetryPolicy
from agent.runtime.inbox import Inbox
from agent.stream import (
    AgentContext,
    StreamDone,
    StreamError,
    StreamStart,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
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


def queues(inbox: Inbox) -> dict[str, Any]:
    return {
        "get_steering_messages": inbox.poll_steering,
        "get_follow_up_messages": inbox.poll_follow_ups,
        "has_queued_messages": inbox.has_messages,
    }


def inbox(steering: str = "", follow_ups: str = "", mode: str = "one-at-a-time") -> Inbox:
    made = Inbox(mode, mode)
    for word in steering.split():
        made.steer(UserMessage(word))
    for word in follow_ups.split():
        made.follow_up(UserMessage(word))
    return made


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


# --- errors ----------------------------------------------------------------------------------------


def test_an_error_that_nothing_cures_ends_the_run() -> None:
    played = play(error("400 bad request"))
    assert played.story == f"{HI} ms:A me:A! turn_end[A!] agent_end[hi,A!]"
    assert (played.end.stop, played.end.error) == ("error", "400 bad request")


def test_after_an_error_a_follow_up_goes_on() -> None:
    played = play(error("429 rate_limit_error"), "fine", **queues(inbox(follow_ups="again")))
    assert played.story == (
        f"{HI} ms:A me:A! turn_end[A!] turn_start ms:again me:again ms:A upd me:A turn_end[A] "
        "agent_end[hi,A!,again,A]"
    )
    assert played.end.stop == "end_turn"


def test_after_an_error_steering_stays_queued_and_no_stop_is_asked_for() -> None:
    asked: list[object] = []
    box = inbox()

    def broken(context: object) -> StreamError:
        box.steer(UserMessage("s"))
        return error("400 no")

    played = play(broken, should_stop_after_turn=asked.append, **queues(box))
    assert played.end.stop == "error"
    assert box.has_messages()
    assert asked == []


def test_an_error_after_some_text_keeps_the_text() -> None:
    played = play([text("half"), error("400 no")])
    assert played.story == f"{HI} ms:A upd me:A! turn_end[A!] agent_end[hi,A!]"
    assert text_of(played.new[-1]) == "half"


def test_a_broken_stream_is_taken_up_after_the_text_that_came() -> None:
    played = play([text("half"), error(RESET)], " rest")
    assert played.story == (
        f"{HI} ms:A upd me:A! auto_resume(1) turn_start ms:▶ me:▶ ms:A upd me:A turn_end[A] "
        "agent_end[hi,A,▶,A]"
    )
    kept, marker = played.new[1:3]
    assert isinstance(kept, AssistantMessage)
    assert (kept.stop_reason, kept.error_message, kept.text) == ("stop", "", "half")
    assert text_of(marker) == AUTO_RESUME_MARKER == "▶"
    assert played.sent() == ["hi", "hi,A,▶"]


def test_a_stream_that_broke_before_anything_came_is_asked_again_without_a_marker() -> None:
    played = play(error(RESET), "fine")
    assert played.story == (
        f"{HI} ms:A me:A! auto_resume(1) turn_start ms:A upd me:A turn_end[A] agent_end[hi,A]"
    )
    assert played.sent() == ["hi", "hi"]


def test_a_stream_that_keeps_breaking_is_given_up_after_three_resumes() -> None:
    played = play(*[error(RESET)] * 4)
    again = "".join(f"auto_resume({n}) turn_start ms:A me:A! " for n in (1, 2, 3))
    assert played.story == f"{HI} ms:A me:A! {again}turn_end[A!] agent_end[hi,A!]"
    assert played.model.calls == 4
    assert played.end.error == RESET


def test_a_kept_tail_loses_the_calls_that_never_ran() -> None:
    played = play([text("half"), call(), error(RESET)], "rest", tools=[echo])
    kept = played.new[1]
    assert isinstance(kept, AssistantMessage)
    assert kept.content == (TextContent("half"),)
    assert played.sent() == ["hi", "hi,A,▶"]


@pytest.mark.parametrize(
    ("blocks", "kept"),
    [
        ([text("hello")], True),
        ([thinking("", "sig")], True),
        ([thinking("hmm")], True),
        ([thinking("   ")], False),
        ([text("  \n")], False),
        ([call()], False),
    ],
)
def test_what_is_worth_keeping_of_a_broken_answer(blocks: list[Any], kept: bool) -> None:
    played = play([*blocks, error(RESET)], "fine", tools=[echo])
    assert played.sent()[1] == ("hi,A,▶" if kept else "hi")


@pytest.mark.parametrize(
    "broken",
    [
        RESET,
        "write: broken pipe",
        "unexpected EOF",
        "Anthropic stream ended before message_stop",
        "stream ended without result",
        "http2: server sent GOAWAY",
    ],
)
def test_a_failed_connection_is_resumed(broken: str) -> None:
    assert play(error(broken), "fine").end.stop == "end_turn"


@pytest.mark.parametrize(
    "refused",
    [
        "",
        "   ",
        "400 invalid request: messages.0 too long",
        "401 authentication_error",
        "prompt is too long: 250000 tokens > 200000 maximum",
        "429 rate_limit_error",
        "529 overloaded_error",
        "503 service unavailable",
    ],
)
def test_a_refusal_is_not_resumed(refused: str) -> None:
    played = play(error(refused))
    assert played.story == f"{HI} ms:A me:A! turn_end[A!] agent_end[hi,A!]"


def test_resumes_count_from_one_again_after_a_good_turn() -> None:
    played = play(error(RESET), [call()], error(RESET), "fine", tools=[echo])
    assert [e.attempt for e in played.events if isinstance(e, AutoResume)] == [1, 1]


def test_resumes_stay_used_up_across_an_errored_turn_and_its_follow_up() -> None:
    played = play(*[error(RESET)] * 5, **queues(inbox(follow_ups="f")))
    assert played.story.count("auto_resume") == 3
    assert played.story.endswith("turn_start ms:f me:f ms:A me:A! turn_end[A!] agent_end[hi,A!,f,A!]")


def test_an_abort_while_waiting_to_resume_ends_the_run() -> None:
    token = CancelToken()

    def on_event(event: Event) -> None:
        if isinstance(event, AutoResume):
            token.cancel()

    played = play(error(RESET), "never", cancel=token, on_event=on_event)
    assert played.story == f"{HI} ms:A me:A! auto_resume(1) turn_end[A!] agent_end[hi,A!]"
    assert played.end.stop == "aborted"
    assert played.model.calls == 1


# --- answers that break inside a tool call ---------------------------------------------------------

CUT = [StreamStart(), ToolCallStart(0, "c1", "echo"), StreamError("400 cut")]


def test_an_answer_that_broke_inside_a_call_is_asked_again() -> None:
    played = play(CUT, "fine")
    assert played.story == f"{HI} ms:A upd me:A! stream_retry(1) ms:A upd me:A turn_end[A] agent_end[hi,A]"
    assert played.sent() == ["hi", "hi"]
    retry = next(e for e in played.events if isinstance(e, StreamRetry))
    assert retry.error_message == "400 cut"


WHOLE = [ToolCallStart(0, "c0", "echo"), ToolCallDelta(0, '{"word": "x"}'), ToolCallEnd(0)]


@pytest.mark.parametrize(
    "pieces",
    [
        [ToolCallStart(0, "c1", "echo"), ToolCallDelta(0, '{"word": "a')],
        [ToolCallStart(0, "c1", "echo"), ToolCallDelta(0, '{"word": "a'), ToolCallEnd(0)],
        [ToolCallStart(0, "c1", "echo"), ToolCallDelta(0, '{"word": "a"}')],
        [ToolCallStart(0, "c1", "echo"), ToolCallDelta(0, '["word"]'), ToolCallEnd(0)],
        [*WHOLE, ToolCallStart(1, "c1", "echo"), ToolCallDelta(1, '{"word": "a')],
        [*WHOLE, ToolCallStart(1, "c1", "echo"), ToolCallDelta(1, '{"word": "a"}')],
        [TextDelta(0, "I will"), ToolCallStart(1, "c1", "echo"), ToolCallDelta(1, '{"wo')],
    ],
)
@pytest.mark.parametrize("failure", ["overloaded_error: Overloaded", RESET, "unexpected EOF", "400 cut"])
def test_an_incomplete_call_of_a_broken_stream_is_asked_for_again_and_never_run(
    pieces: list[Any], failure: str
) -> None:
    """FS-W1"""
    broken = [StreamStart(), *pieces, StreamError(failure)]
    played = play(broken, broken, broken, "fine", tools=[echo])
    assert [e.attempt for e in played.events if isinstance(e, StreamRetry)] == [1, 2, 3]
    assert not any(isinstance(e, (AutoResume, ToolExecutionStart)) for e in played.events)
    assert played.sent() == ["hi"] * 4
    assert labels(played.new) == "hi,A"


def test_a_broken_stream_whose_calls_are_complete_is_resumed_without_them() -> None:
    played = play([StreamStart(), TextDelta(1, "half"), *WHOLE, StreamError(RESET)], "fine", tools=[echo])
    assert not any(isinstance(e, (StreamRetry, ToolExecutionStart)) for e in played.events)
    assert played.sent() == ["hi", f"hi,A,{AUTO_RESUME_MARKER}"]


def test_a_model_that_keeps_breaking_inside_a_call_is_informed() -> None:
    played = play(CUT, CUT, CUT, CUT)
    again = "".join(f"stream_retry({n}) ms:A upd me:A! " for n in (1, 2, 3))
    assert played.story == f"{HI} ms:A upd me:A! {again}ms:NOTE me:NOTE turn_end[NOTE] agent_end[hi,NOTE]"
    note = text_of(played.new[-1])
    assert all(part in note for part in ("cut off", "mid-tool-call", "(400 cut)", "not executed"))
    assert played.end.stop == "error"


def test_the_note_is_folded_into_a_follow_up() -> None:
    box = Inbox("", "")
    box.follow_up(UserMessage("original", timestamp=7))
    played = play(CUT, CUT, CUT, CUT, "fine", **queues(box))
    assert played.story.endswith(
        "me:A! turn_start ms:NOTE+original me:NOTE+original ms:A upd me:A turn_end[A] "
        "agent_end[hi,NOTE+original,A]"
    )
    assert played.story.count("turn_end") == 1
    assert played.new[1].timestamp == 7


def test_only_the_first_of_several_follow_ups_takes_the_note() -> None:
    played = play(CUT, CUT, CUT, CUT, "fine", **queues(inbox(follow_ups="f g", mode="all")))
    assert played.sent()[-1] == "hi,NOTE+f,g"


@pytest.mark.parametrize(
    "unfoldable",
    [UserMessage([TextContent("f")]), AssistantMessage("f"), CustomMessage("note", {"f": 1})],
    ids=["blocks", "assistant", "custom"],
)
def test_the_note_goes_before_a_follow_up_that_it_can_not_be_folded_into(unfoldable: Any) -> None:
    box = Inbox("", "")
    box.follow_up(unfoldable)
    played = play(CUT, CUT, CUT, CUT, "fine", **queues(box))
    f = story([MessageEnd(unfoldable)])[3:]
    assert played.story.endswith(
        f"ms:NOTE me:NOTE turn_end[NOTE] turn_start ms:{f} me:{f} ms:A upd me:A turn_end[A] "
        f"agent_end[hi,NOTE,{f},A]"
    )


def test_an_abort_while_waiting_to_ask_again_counts_as_given_up() -> None:
    token = CancelToken()

    def on_event(event: Event) -> None:
        if isinstance(event, StreamRetry):
            token.cancel()

    played = play(CUT, "never", cancel=token, on_event=on_event, **queues(inbox(follow_ups="f")))
    assert played.story == (
        f"{HI} ms:A upd me:A! stream_retry(1) ms:NOTE me:NOTE turn_end[NOTE] agent_end[hi,NOTE]"
    )
    assert played.end.stop == "aborted"


def test_a_retry_that_fails_in_another_way_is_an_ordinary_failure() -> None:
    played = play(CUT, error(RESET), "fine")
    assert played.story == (
        f"{HI} ms:A upd me:A! stream_retry(1) ms:A me:A! auto_resume(1) turn_start ms:A upd me:A turn_end[A] "
        "agent_end[hi,A]"
    )


def test_a_blank_error_inside_a_call_is_named_in_the_note() -> None:
    cut = [StreamStart(), ToolCallStart(0, "c1", "echo"), StreamError("  ")]
    note = text_of(play(cut, cut, cut, cut).new[-1])
    assert "stop_reason=error, no error message" in note


def test_a_call_without_arguments_runs_when_the_answer_is_whole() -> None:
    ran: list[dict[str, Any]] = []
    now = AgentTool("now", "", {"type": "object"}, lambda arguments, context: ran.append(arguments))
    for end in (done("toolUse"), done("stop")):
        play([tool_call("now"), end], "fine", tools=[now])
    assert ran == [{}, {}]


def test_an_aborted_answer_with_an_unfinished_call_is_not_asked_again() -> None:
    cut = [StreamStart(), ToolCallStart(0, "c1", "echo"), StreamError(RESET, "aborted")]
    played = play(cut)
    assert played.story == f"{HI} ms:A upd me:A~ turn_end[A~] agent_end[hi,A~]"
    assert played.end.stop == "aborted"


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


def test_a_stream_that_just_ended_once_is_mended_without_a_trace() -> None:
    played = play([StreamStart(), TextDelta(0, "par")], "whole")
    assert [text_of(m) for m in played.new] == ["hi", "whole"]


def test_a_stream_without_any_event_says_nothing_and_is_asked_again() -> None:
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
def test_a_cut_answer_that_says_nothing_is_kept_and_ends_the_run_as_truncated(pieces: list[Any]) -> None:
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
