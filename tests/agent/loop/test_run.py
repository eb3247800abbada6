"""What the loop sends, what it asks its config for, and when it stops."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from support.runs import NO_WAITS, Played, play, text_of

from agent import tool
from agent.cancel import CancelToken
from agent.events import AgentEnd, Event, MessageEnd, TurnEnd
from agent.hooks import Hooks, RunInfo
from agent.limits import Limits
from agent.loop import LoopConfig, agent_loop
from agent.loop.history import History
from agent.loop.run import run_on_history
from agent.messages import AssistantMessage, CustomMessage, Message, ToolCall, ToolResultMessage, UserMessage
from agent.models import Model
from agent.retry import RetryPolicy, is_resumable, is_retryable
from agent.runtime.inbox import Inbox
from agent.stream import (
    AgentContext,
    StreamDone,
    StreamError,
    StreamOptions,
    StreamStart,
    TextDelta,
    ToolCallStart,
)
from agent.testing import FakeClock, ScriptedModel, done, error, text, tool_call
from agent.tools import AgentTool, ToolSet
from agent.usage import ModelCost, Usage

RESET = "connection reset by peer"


@tool
def echo(word: str) -> str:
    """Say it again."""
    return word


def call(id: str = "c1") -> ToolCall:
    return tool_call("echo", {"word": "x"}, id)


def options_of(played: Played) -> StreamOptions:
    return played.model.options[0]


# --- what is sent ----------------------------------------------------------------------------------


def test_the_context_given_is_not_changed() -> None:
    history: list[Message] = [UserMessage("old"), AssistantMessage("answer")]
    played = play("ok", history=history)
    assert len(history) == 2
    assert played.sent() == ["old,A,hi"]
    assert [text_of(m) for m in played.new] == ["hi", "ok"]


def test_transform_changes_what_is_sent_and_not_what_is_kept() -> None:
    seen: list[int] = []

    def convert(messages: list[Message]) -> list[Message]:
        seen.append(len(messages))
        return messages

    played = play(
        [call()],
        "ok",
        history=[UserMessage("old")],
        tools=[echo],
        transform_context=lambda messages: messages[-1:],
        convert_to_llm=convert,
    )
    assert seen == [1, 1]
    assert len(played.new) == 4


def test_transform_that_returns_none_sends_the_messages_as_they_are() -> None:
    assert play("ok", transform_context=lambda messages: None).sent() == ["hi"]


def test_a_transform_that_changes_its_list_in_place_changes_no_history() -> None:
    played = play(
        [call()], "ok", tools=[echo], hooks=Hooks(transform_context=lambda messages: messages.clear())
    )
    assert played.sent() == ["hi", "hi,A,T"]


def test_a_converter_that_changes_its_list_in_place_changes_no_history() -> None:
    def spoil(messages: list[Message]) -> list[Message]:
        kept = list(messages)
        messages.clear()
        return kept

    played = play([call()], "ok", tools=[echo], convert_to_llm=spoil)
    assert played.sent() == ["hi", "hi,A,T"]
    assert len(played.new) == 4


def test_transform_sees_steering_that_just_came_in() -> None:
    box = Inbox("", "")
    box.steer(UserMessage("steer"))
    seen: list[list[Message]] = []
    play("ok", transform_context=lambda m: seen.append(m), get_steering_messages=box.poll_steering)
    assert [text_of(m) for m in seen[0]] == ["hi", "steer"]


def test_the_shorthand_transform_comes_before_the_one_in_hooks() -> None:
    order: list[str] = []
    play(
        "ok",
        transform_context=lambda m: order.append("shorthand"),
        hooks=Hooks(transform_context=lambda m: order.append("hooks")),
    )
    assert order == ["shorthand", "hooks"]


def test_entries_of_the_application_are_not_sent() -> None:
    played = play("ok", prompts=[CustomMessage("note", {}), UserMessage("hi")])
    assert played.sent() == ["hi"]
    assert [m.role for m in played.new] == ["custom", "user", "assistant"]


def test_tools_are_sent_in_order_and_a_tool_added_by_a_tool_is_sent_next_time() -> None:
    tools = ToolSet()

    def grow(arguments: dict[str, Any], context: Any) -> str:
        tools.add(echo)
        return "grown"

    tools.add(AgentTool("grow", "", {"type": "object"}, grow))
    model = ScriptedModel([tool_call("grow")], "ok")
    agent_loop(
        [UserMessage("hi")], AgentContext("", (), tools), LoopConfig(model.model), model.stream, print_nothing
    )
    assert [[t.name for t in context.tools] for context in model.contexts] == [["grow"], ["grow", "echo"]]


def print_nothing(event: Event) -> None:
    pass


def test_options_of_the_config_reach_the_stream_function() -> None:
    def on_payload(payload: dict[str, Any], model: Model) -> None:
        return None

    given: dict[str, Any] = {
        "api_key": "k",
        "session_id": "s",
        "thinking_budgets": {"low": 5},
        "transport": "sse",
        "max_retry_delay": 7.0,
        "server_tools": ({"type": "search"},),
        "server_compaction": {"on": True},
        "cache_retention": "long",
        "headers": {"x": "y"},
        "temperature": 0.5,
        "max_tokens": 99,
        "timeout": 3.0,
        "on_payload": on_payload,
        "retry": RetryPolicy(request=(1,)),
    }
    options = options_of(play("ok", **given))
    assert {name: getattr(options, name) for name in given} == given


def test_the_level_is_clamped_to_the_model_and_off_is_sent_as_nothing() -> None:
    assert options_of(play("ok", reasoning="medium")).reasoning == "medium"
    assert options_of(play("ok", reasoning="max")).reasoning == "high"
    assert options_of(play("ok", reasoning="off")).reasoning == ""
    plain = ScriptedModel("ok", model=Model("plain", "scripted", "scripted"))
    agent_loop(
        [UserMessage("hi")],
        AgentContext(),
        LoopConfig(plain.model, reasoning="high"),
        plain.stream,
        print_nothing,
    )
    assert plain.options[0].reasoning == ""


def test_the_cancel_token_reaches_the_stream_function() -> None:
    token = CancelToken()
    assert options_of(play("ok", cancel=token)).cancel is token


def test_a_key_callback_replaces_the_key_and_serves_to_refresh_it() -> None:
    calls: list[str] = []

    def key(provider: str) -> str:
        calls.append(provider)
        return "fresh"

    options = options_of(play("ok", get_api_key=key, api_key="old"))
    assert (options.api_key, options.api_key_error) == ("fresh", "")
    assert options.refresh_api_key is not None
    assert options.refresh_api_key("scripted") == "fresh"
    assert calls == ["scripted", "scripted"]


def test_a_key_callback_that_fails_leaves_the_key_and_its_text() -> None:
    def key(provider: str) -> str:
        raise OSError("the safe is locked")

    options = options_of(play("ok", get_api_key=key, api_key="old"))
    assert (options.api_key, options.api_key_error) == ("old", "the safe is locked")
    assert options.refresh_api_key is not None
    assert options.refresh_api_key("scripted") == ""


KEYS = [
    "sk-ant-api03-aB3dE5gH7jK9mN1pQ3sT5vX7zA9cE1gI3kM5oQ7sU9",
    "AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "0123456789abcdef0123456789abcdef",
    "Zx81kQ29vTq4Lm77Rb3N",
]


@pytest.mark.parametrize("key", KEYS)
def test_a_key_in_the_text_of_a_key_callback_is_not_shown(key: str, caplog: pytest.LogCaptureFixture) -> None:
    """API-2-decisions, General 4"""

    def broken(provider: str) -> str:
        raise PermissionError(f"the key {key} has expired, see keys.toml")

    options = options_of(play("ok", get_api_key=broken, api_key="old"))
    assert options.api_key_error == "the key *** has expired, see keys.toml"
    assert options.refresh_api_key is not None
    assert options.refresh_api_key("scripted") == ""
    assert key not in caplog.text
    assert "getting a fresh API key failed: PermissionError: the key *** has expired" in caplog.text


def test_a_key_callback_that_finds_none_leaves_the_key() -> None:
    options = options_of(play("ok", get_api_key=lambda provider: None, api_key="old"))
    assert (options.api_key, options.api_key_error) == ("old", "")


def test_without_a_key_callback_there_is_nothing_to_refresh_with() -> None:
    assert options_of(play("ok")).refresh_api_key is None


def test_an_on_retry_that_raises_is_logged_and_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    retries: list[tuple[int, float, str]] = []

    def on_retry(attempt: int, delay: float, error_text: str) -> None:
        retries.append((attempt, delay, error_text))
        raise ValueError("no")

    def answer(model: Model, context: AgentContext, options: StreamOptions) -> Any:
        assert options.on_retry is not None
        options.on_retry(1, 0.5, "busy")
        yield StreamDone(message=AssistantMessage("ok"))

    config = LoopConfig(ScriptedModel().model, on_retry=on_retry)
    with caplog.at_level(logging.CRITICAL, "agent"):
        new = agent_loop([UserMessage("hi")], AgentContext(), config, answer, print_nothing)
    assert retries == [(1, 0.5, "busy")]
    assert text_of(new[-1]) == "ok"


# --- time ------------------------------------------------------------------------------------------


def test_waits_and_times_come_from_the_config() -> None:
    clock = FakeClock(now=5_000.0)
    played = play(
        *[error(RESET)] * 4, retry=RetryPolicy(), cancel=clock.cancel, clock=clock.time, wait=clock.wait
    )
    assert clock.waits == [0.5, 1.5, 4.0]
    assert played.events[0].time == 5_000.0
    assert played.events[-1].time == 5_006.0
    assert played.new[-1].timestamp == 5_006_000


def test_waits_between_answers_that_broke_inside_a_call() -> None:
    cut = [StreamStart(), ToolCallStart(0, "c", "echo"), StreamError("cut")]
    clock = FakeClock()
    play(cut, cut, cut, cut, retry=RetryPolicy(), cancel=clock.cancel, clock=clock.time, wait=clock.wait)
    assert clock.waits == [0.25, 0.75, 2.0]


# --- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("blank", ["", "  \n"])
def test_an_error_without_a_text_gets_one_that_says_what_is_known(blank: str) -> None:
    last = play([text("hello"), error(blank)]).new[-1]
    assert isinstance(last, AssistantMessage)
    for part in (
        "stop_reason=error",
        "no error message",
        "provider=scripted",
        "model=scripted",
        "text(len=5)",
    ):
        assert part in last.error_message
    assert not is_resumable(last.error_message)
    assert not is_retryable(last.error_message)


def test_the_message_of_the_provider_is_not_changed_for_it() -> None:
    theirs = AssistantMessage("x", stop_reason="error")
    play([StreamStart(), StreamDone(message=theirs)])
    assert theirs.error_message == ""


def test_what_is_no_stream_event_is_an_error_that_shows_it() -> None:
    played = play([StreamStart(), {"type": "text_delta"}])
    assert played.end.stop == "error"
    assert "no stream event" in played.end.error
    assert "text_delta" in played.end.error


def test_a_stream_function_that_returns_no_iterator_is_an_error() -> None:
    model = ScriptedModel()
    ends: list[Event] = []
    agent_loop(
        [UserMessage("hi")],
        AgentContext(),
        LoopConfig(model.model),
        lambda *request: None,  # type: ignore[arg-type]
        ends.append,
    )
    assert isinstance(ends[-1], AgentEnd)
    assert ends[-1].stop == "error"


def test_events_after_the_terminal_one_are_not_read() -> None:
    read: list[str] = []

    def chatty(model: Model, context: AgentContext, options: StreamOptions) -> Any:
        yield TextDelta(0, "ok")
        yield StreamDone()
        read.append("more")
        yield TextDelta(0, "never")

    new = agent_loop(
        [UserMessage("hi")], AgentContext(), LoopConfig(ScriptedModel().model), chatty, print_nothing
    )
    assert text_of(new[-1]) == "ok"
    assert read == []


def test_a_stream_is_closed_after_its_message_was_announced() -> None:
    order: list[str] = []

    def answer(model: Model, context: AgentContext, options: StreamOptions) -> Any:
        try:
            yield TextDelta(0, "ok")
            yield StreamDone()
        finally:
            order.append("closed")

    def emit(event: Event) -> None:
        if isinstance(event, MessageEnd) and event.message.role == "assistant":
            order.append("announced")

    agent_loop([UserMessage("hi")], AgentContext(), LoopConfig(ScriptedModel().model), answer, emit)
    assert order == ["announced", "closed"]


def test_a_stream_that_fails_to_close_harms_nothing() -> None:
    def answer(model: Model, context: AgentContext, options: StreamOptions) -> Any:
        try:
            yield StreamDone(message=AssistantMessage("ok"))
        finally:
            raise OSError("close failed")

    new = agent_loop(
        [UserMessage("hi")], AgentContext(), LoopConfig(ScriptedModel().model), answer, print_nothing
    )
    assert text_of(new[-1]) == "ok"


@pytest.mark.parametrize("poll", ["get_steering_messages", "get_follow_up_messages"])
def test_a_poll_that_raises_counts_as_no_messages(poll: str) -> None:
    def fail() -> list[Message]:
        raise ValueError("no queue")

    broken: dict[str, Any] = {poll: fail}
    assert play("ok", **broken).end.stop == "end_turn"
    assert play(error("400 no"), **broken).end.stop == "error"


def test_a_stop_test_that_raises_counts_as_no() -> None:
    def fail(info: RunInfo) -> bool:
        raise ValueError("no idea")

    played = play([call()], "ok", tools=[echo], should_stop_after_turn=fail)
    assert played.end.stop == "end_turn"
    assert played.model.calls == 2


def test_an_emit_that_raises_reaches_the_caller_and_closes_the_stream() -> None:
    closed: list[bool] = []

    def answer(model: Model, context: AgentContext, options: StreamOptions) -> Any:
        try:
            yield TextDelta(0, "ok")
            yield StreamDone()
        finally:
            closed.append(True)

    def emit(event: Event) -> None:
        if event.type == "message_update":
            raise LookupError("mine")

    with pytest.raises(LookupError) as caught:
        agent_loop([UserMessage("hi")], AgentContext(), LoopConfig(ScriptedModel().model), answer, emit)
    assert closed == [True]
    assert caught.value.__traceback__ is not None  # its frames keep the stream: only a close can close it


# --- the stop test ---------------------------------------------------------------------------------


def test_the_stop_test_sees_the_turn() -> None:
    infos: list[RunInfo] = []

    def stop(info: RunInfo) -> bool:
        infos.append(info)
        return False

    play([call()], "ok", history=[UserMessage("old")], tools=[echo], should_stop_after_turn=stop)
    first, second = infos
    assert (first.turns, second.turns) == (1, 2)
    assert first.message is not None
    assert first.message.tool_calls[0].id == "c1"
    assert [r.tool_call_id for r in first.tool_results] == ["c1"]
    assert [m.role for m in first.new_messages] == ["user", "assistant", "toolResult"]
    assert first.context is not None
    assert [m.role for m in first.context.messages] == ["user", "user", "assistant", "toolResult"]
    assert second.tool_results == ()


def test_both_stop_tests_are_called_and_one_true_is_enough() -> None:
    calls: list[str] = []

    def test(name: str, answer: bool) -> Callable[[RunInfo], bool]:
        def stop(info: RunInfo) -> bool:
            calls.append(name)
            return answer

        return stop

    played = play(
        [call()],
        "never",
        tools=[echo],
        should_stop_after_turn=test("short", True),
        hooks=Hooks(should_stop_after_turn=test("hooks", False)),
    )
    assert played.end.stop == "stopped"
    assert calls == ["short", "hooks"]


# --- max_turns -------------------------------------------------------------------------------------


def limited(turns: int, box: Inbox | None = None, **more: Any) -> dict[str, Any]:
    polls: dict[str, Any] = {}
    if box is not None:
        polls = {
            "get_steering_messages": box.poll_steering,
            "get_follow_up_messages": box.poll_follow_ups,
            "has_queued_messages": box.has_messages,
        }
    return {"limits": Limits(max_turns=turns), "tools": [echo]} | polls | more


def test_a_run_stops_after_its_last_turn_with_the_results_in_place() -> None:
    played = play([call()], "never", **limited(1))
    assert played.end.stop == "max_turns"
    assert [m.role for m in played.new] == ["user", "assistant", "toolResult"]


def test_an_answer_on_the_last_turn_is_a_natural_end() -> None:
    played = play([call()], "ok", **limited(2))
    assert played.end.stop == "end_turn"


def test_queued_work_on_the_last_turn_stays_queued() -> None:
    for queue in ("steer", "follow_up"):
        box = Inbox("", "")
        played = play(
            lambda context, box=box, queue=queue: getattr(box, queue)(UserMessage("more")) and "one",
            **limited(1, box),
        )
        assert played.end.stop == "max_turns"
        assert box.has_messages()


def test_polls_without_a_check_are_not_called_on_the_last_turn() -> None:
    polled: list[str] = []

    def poll() -> list[Message]:
        polled.append("x")
        return [UserMessage("more")] if len(polled) > 1 else []

    played = play("one", **limited(1, get_steering_messages=poll))
    assert played.end.stop == "end_turn"
    assert polled == ["x"]


def test_a_check_of_the_queues_that_raises_counts_as_none() -> None:
    def fail() -> bool:
        raise ValueError("no queue")

    assert play("one", **limited(1, has_queued_messages=fail)).end.stop == "end_turn"


def test_failed_turns_do_not_count() -> None:
    assert play(error(RESET), error(RESET), "ok", **limited(1)).end.stop == "end_turn"


# --- usage -----------------------------------------------------------------------------------------


def test_usage_is_the_sum_of_all_answers_also_of_those_that_were_dropped() -> None:
    def used(tokens: int) -> Usage:
        return Usage(input=tokens, total_tokens=tokens)

    played = play(
        [done("stop", used(1))],  # empty, dropped
        [text("a"), error(RESET, usage=used(10))],
        [call(), done("toolUse", used(100))],
        [text("b"), done("stop", used(1000))],
        tools=[echo],
    )
    turns = [e.usage.total_tokens for e in played.events if isinstance(e, TurnEnd)]
    assert turns == [111, 1111]


def test_usage_without_a_cost_is_priced_by_the_model() -> None:
    model = Model("m", "scripted", "scripted", cost=ModelCost(3.0, 15.0))
    scripted = ScriptedModel([text("a"), done("stop", Usage(input=1_000_000, output=1_000_000))], model=model)
    new = agent_loop([UserMessage("hi")], AgentContext(), LoopConfig(model), scripted.stream, print_nothing)
    assert isinstance(new[-1], AssistantMessage)
    assert new[-1].usage.cost.total == pytest.approx(18.0)


# --- a history that the caller keeps ---------------------------------------------------------------


def test_a_kept_history_ends_up_with_the_messages_of_the_run() -> None:
    before = UserMessage("before")
    history = History([before])
    script = ScriptedModel(
        error(RESET), "", [text("half"), error(RESET)], [call()], [text("x"), error("400 no")]
    )
    config = LoopConfig(script.model, retry=NO_WAITS)
    context = AgentContext("", (), [echo])
    new = run_on_history(history, [UserMessage("hi")], context, config, script.stream, print_nothing)
    assert history.messages == [before, *new]


def test_no_result_is_lost_when_a_call_id_comes_twice() -> None:
    """Y17: the provider may use one id twice in a batch, and again in a later turn."""
    twice = [tool_call("echo", {"word": "a"}, "call_0"), tool_call("echo", {"word": "b"}, "call_0")]
    played = play(twice, [tool_call("echo", {"word": "c"}, "call_0")], "ok", tools=[echo], retry=NO_WAITS)
    results = [m for m in played.new if isinstance(m, ToolResultMessage)]
    assert [(m.tool_call_id, m.text) for m in results] == [("call_0", "a"), ("call_0", "b"), ("call_0", "c")]
    assert played.sent()[-1] == "hi,A,T,T,A,T"
