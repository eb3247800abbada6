"""What follows an answer that failed: resumed, handed over, or requested again."""

from __future__ import annotations

from typing import Any

import pytest
from support.runs import inbox, labels, play, queues, story, text_of

from agent import tool
from agent.cancel import CancelToken
from agent.events import AutoResume, Event, MessageEnd, StreamRetry, ToolExecutionStart
from agent.loop import AUTO_RESUME_MARKER
from agent.messages import AssistantMessage, CustomMessage, TextContent, ToolCall, UserMessage
from agent.runtime.inbox import Inbox
from agent.stream import (
    StreamError,
    StreamStart,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from agent.testing import done, error, text, thinking, tool_call
from agent.tools import AgentTool

RESET = "connection reset by peer"
HI = "agent_start turn_start ms:hi me:hi"


@tool
def echo(word: str) -> str:
    """Say it again."""
    return word


def call(id: str = "c1", word: str = "x") -> ToolCall:
    return tool_call("echo", {"word": word}, id)


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
    stop_tests: list[object] = []
    box = inbox()

    def broken(context: object) -> StreamError:
        box.steer(UserMessage("s"))
        return error("400 no")

    played = play(broken, should_stop_after_turn=stop_tests.append, **queues(box))
    assert played.end.stop == "error"
    assert box.has_messages()
    assert stop_tests == []


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
