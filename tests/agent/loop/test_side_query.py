"""Questions on the side: one answer from clean history, nothing else touched."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from support.runs import NO_WAITS, labels, story, until

from agent import Agent, AgentTool, ToolContext, tool
from agent.block_summary import render_summary, summarize_blocks
from agent.cancel import CancelToken
from agent.errors import AgentError, ConfigurationError, SideQueryError
from agent.events import Event
from agent.hooks import Hooks
from agent.loop import LoopConfig
from agent.loop.side_query import SideQuery, render_answer, strip_unmatched_tool_calls
from agent.messages import (
    AssistantMessage,
    CustomMessage,
    Message,
    ServerContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from agent.retry import ABORTED_TEXT, RetryPolicy
from agent.stream import AgentContext, StreamDone, StreamError, StreamOptions, StreamStart, TextDelta
from agent.testing import ScriptedModel, done, error, thinking, tool_call

RESET = "connection reset by peer"


def agent_of(*turns: Any, **options: Any) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(*turns)
    given: dict[str, Any] = {"stream_fn": model.stream, "retry": NO_WAITS}
    return Agent(model.model, **(given | options)), model


def levels(model: ScriptedModel) -> list[str]:
    return [options.reasoning for options in model.options]


# --- what is sent ----------------------------------------------------------------------------------


def test_a_question_is_answered_on_the_callers_thread() -> None:
    threads: list[threading.Thread] = []

    def answer(context: AgentContext) -> str:
        threads.append(threading.current_thread())
        return "42"

    agent, _ = agent_of(answer)
    assert agent.simple_prompt("6 x 7?") == "42"
    assert threads == [threading.current_thread()]


def test_only_the_question_and_the_system_prompt_are_sent() -> None:
    transforms: list[str] = []
    agent, model = agent_of(
        "42",
        system_prompt="be brief",
        tools=[AgentTool("t", "", {"type": "object"}, lambda a, c: "")],
        server_tools=[{"type": "search"}],
        server_compaction={"on": True},
        on_payload=lambda payload, model: None,
        on_retry=lambda attempt, delay, text: None,
        transform_context=lambda messages: transforms.append("shorthand"),
        hooks=Hooks(transform_context=lambda messages: transforms.append("hooks")),
        session_id="s",
        transport="sse",
        thinking_budgets={"low": 1},
        max_retry_delay=5.0,
        get_api_key=lambda provider: "key",
        initial_state=None,
    )
    agent.replace_messages([UserMessage("history")])
    agent.simple_prompt(["one", UserMessage("two")])
    (context,), (options,) = model.contexts, model.options
    assert (context.system_prompt, labels(context.messages), tuple(context.tools)) == (
        "be brief",
        "one,two",
        (),
    )
    assert (options.server_tools, options.server_compaction) == ((), None)
    assert (options.on_payload, options.on_retry) == (None, None)
    assert transforms == []
    assert (options.session_id, options.transport, options.api_key) == ("s", "sse", "key")
    assert (options.thinking_budgets, options.max_retry_delay) == ({"low": 1}, 5.0)


def test_nothing_of_the_agent_changes() -> None:
    received: list[Event] = []
    agent, _ = agent_of("42", error("400 no"))
    agent.subscribe(received.append)
    agent.steer("s")
    agent.follow_up("f")
    before = agent.state
    agent.simple_prompt("q")
    with pytest.raises(SideQueryError):
        agent.simple_prompt("q")
    assert agent.state == before
    assert received == []
    assert agent.has_queued_messages


def test_a_side_query_may_overlap_a_run() -> None:
    requested, go = threading.Event(), threading.Event()

    def slow(context: AgentContext) -> str:
        requested.set()
        assert go.wait(10)
        return "main"

    agent, _ = agent_of(slow, "side")
    with agent:
        run = agent.prompt("hi")
        assert requested.wait(10)
        assert agent.simple_prompt("q") == "side"
        assert not run.done
        go.set()
        assert run.result(10).text == "main"
        assert labels(agent.state.messages) == "hi,A"


def test_a_tool_may_ask_on_the_side() -> None:
    @tool
    def ask() -> str:
        """Ask the model."""
        return agent.simple_prompt("q")

    agent, _ = agent_of([tool_call("ask")], "side", "main", tools=[ask])
    with agent:
        assert agent.run("hi").messages[2].text == "side"  # type: ignore[union-attr]


def test_another_model_and_level_may_be_given_for_once() -> None:
    agent, model = agent_of("42", thinking_level="low")
    other = ScriptedModel().model
    seen: list[Any] = []

    def watch(model: Any, context: AgentContext, options: StreamOptions) -> Any:
        seen.append((model, options.reasoning))
        yield TextDelta(0, "x")
        yield StreamDone()

    agent.stream_fn = watch
    agent.simple_prompt("q", model=other, reasoning="high")
    assert seen == [(other, "high")]
    assert (agent.model, agent.thinking_level) == (model.model, "low")


def test_no_level_is_sent_as_off_where_the_loop_sends_nothing() -> None:
    agent, model = agent_of("side", "main")
    agent.simple_prompt("q")
    with agent:
        agent.run("hi")
    assert levels(model) == ["off", ""]


def test_no_messages_is_an_empty_list() -> None:
    agent, model = agent_of("42")
    assert agent.simple_prompt([]) == "42"
    assert model.contexts[0].messages == []


def test_without_a_model_it_raises() -> None:
    with pytest.raises(ConfigurationError, match="no model selected"):
        Agent(stream_fn=ScriptedModel("x").stream).simple_prompt("q")


def test_without_a_converter_it_raises() -> None:
    model = ScriptedModel("x")
    query = SideQuery("", [UserMessage("q")], LoopConfig(model.model, convert_to_llm=None), model.stream)
    with pytest.raises(SideQueryError, match="no ConvertToLLM"):
        query.ask()


# --- events ----------------------------------------------------------------------------------------


def test_events_of_every_attempt_come_on_the_callers_thread_and_only_for_messages() -> None:
    events: list[Event] = []
    threads: set[threading.Thread] = set()

    def on_event(event: Event) -> None:
        events.append(event)
        threads.add(threading.current_thread())

    agent, _ = agent_of(error(RESET), "ok")
    answer, message = agent.simple_prompt_stream("q", on_event=on_event)
    assert story(events) == "ms:A me:A! ms:A upd me:A"
    assert threads == {threading.current_thread()}
    assert answer == message.text == "ok"


def test_an_exception_of_on_event_reaches_the_caller() -> None:
    def fail(event: Event) -> None:
        raise LookupError("mine")

    agent, _ = agent_of("ok")
    with pytest.raises(LookupError):
        agent.simple_prompt_stream("q", on_event=fail)


# --- attempts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        (["ok"], ["medium"]),
        ([[thinking("", "sig")], "ok"], ["medium", "off"]),
        ([error(RESET), "ok"], ["medium", "medium"]),
        ([[done()], error(RESET), "ok"], ["medium", "off", "medium"]),
        ([error("429 rate limit"), error("529 overloaded"), "ok"], ["medium", "medium", "medium"]),
        ([error("503 service unavailable"), "ok"], ["medium", "medium"]),
    ],
)
def test_what_is_tried_again_and_with_which_level(turns: list[Any], expected: list[str]) -> None:
    agent, model = agent_of(*turns, thinking_level="medium")
    assert agent.simple_prompt("q") == "ok"
    assert levels(model) == expected
    assert {labels(c.messages) for c in model.contexts} == {"q"}


@pytest.mark.parametrize(
    "final", ["400 bad request", "401 unauthorized", "prompt is too long", "quota exceeded"]
)
def test_a_failure_that_stays_is_not_tried_again(final: str) -> None:
    agent, model = agent_of(error(final))
    with pytest.raises(SideQueryError, match=final):
        agent.simple_prompt("q")
    assert model.calls == 1


def test_a_stream_that_just_ends_is_not_tried_again() -> None:
    agent, model = agent_of([StreamStart(), TextDelta(0, "par")])
    with pytest.raises(SideQueryError, match="stream ended unexpectedly") as caught:
        agent.simple_prompt("q")
    assert model.calls == 1
    assert caught.value.message.text == "par"


def test_after_three_empty_answers_it_raises_and_shows_what_came() -> None:
    redacted = ThinkingContent("", "0123456789abcdef", redacted=True)
    agent, model = agent_of([done()], [done()], [redacted])
    with pytest.raises(SideQueryError) as caught:
        agent.simple_prompt("q")
    assert model.calls == 3
    assert "no usable content" in str(caught.value)
    assert "thinking(th=0,sig=16)" in str(caught.value)
    assert "stop_reason=stop" in str(caught.value)
    assert [str(block) for block in caught.value.blocks] == ["thinking(th=0,sig=16)"]
    assert isinstance(caught.value.message, AssistantMessage)


def test_a_failure_without_a_text_has_the_known_reason() -> None:
    agent, model = agent_of(error(" "))
    with pytest.raises(SideQueryError) as caught:
        agent.simple_prompt("q")
    assert model.calls == 1
    for part in ("stop_reason=error", "provider=scripted", "blocks: []"):
        assert part in str(caught.value)
    assert "no usable content" not in str(caught.value)


def test_an_error_text_is_a_failure_whatever_the_stop_reason() -> None:
    failed = AssistantMessage("text", stop_reason="stop", error_message="rate limit exceeded")
    answers = [lambda context: [StreamStart(), StreamDone(message=failed)]] * 3
    agent, model = agent_of(*answers)
    with pytest.raises(SideQueryError, match="rate limit exceeded"):
        agent.simple_prompt("q")
    assert model.calls == 3


def test_waits_between_attempts_come_from_the_policy_and_end_when_cancelled() -> None:
    token = CancelToken()
    model = ScriptedModel(lambda context: (token.cancel(), error(RESET))[1])
    config = LoopConfig(model.model, retry=RetryPolicy(side_query=(60.0, 60.0)), cancel=token)
    with pytest.raises(SideQueryError, match="Request was aborted"):
        SideQuery("", [UserMessage("q")], config, model.stream).ask()
    assert model.calls == 1


def test_an_empty_answer_and_a_cancelled_wait_is_an_abort() -> None:
    token = CancelToken()
    model = ScriptedModel("")
    config = LoopConfig(model.model, retry=RetryPolicy(side_query=(60.0,)), cancel=token)

    def on_event(event: Event) -> None:
        if event.type == "message_end":
            token.cancel()

    with pytest.raises(SideQueryError, match="Request was aborted"):
        SideQuery("", [UserMessage("q")], config, model.stream, on_event).ask()
    assert model.calls == 1


def test_no_waits_means_one_attempt() -> None:
    agent, model = agent_of(error(RESET), retry=RetryPolicy(side_query=()))
    with pytest.raises(SideQueryError):
        agent.simple_prompt("q")
    assert model.calls == 1


# --- rendering -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "rendered"),
    [
        (
            [TextContent("a"), ThinkingContent("b"), ToolCall("1", "Bash", {"command": "ls"})],
            'a\n[think] b\n[tool Bash {"command":"ls"}]',
        ),
        ([ToolCall("1", "t", {"b": 1, "a": "é"})], '[tool t {"a":"é","b":1}]'),
        ([ToolCall("1", "t", {"x": {1, 2}})], "[tool t {}]"),
        ([ThinkingContent("only")], "[think] only"),
        ([TextContent("  ")], "  "),
        ([TextContent(""), TextContent("x")], "x"),
        ([ServerContent("search", "{}"), TextContent("x")], "x"),
    ],
)
def test_an_answer_as_text(content: list[Any], rendered: str) -> None:
    assert render_answer(AssistantMessage(content)) == (rendered, "")


@pytest.mark.parametrize(
    "content", [[], [ServerContent("search", "{}")], [ThinkingContent("", "sig")], [TextContent("")]]
)
def test_an_answer_without_anything_usable(content: list[Any]) -> None:
    rendered, problem = render_answer(AssistantMessage(content))
    assert rendered == ""
    assert "no usable content" in problem
    assert "(stop_reason=stop)" in problem


def test_blocks_in_numbers_are_bytes() -> None:
    content = [
        TextContent("héllo"),
        ThinkingContent("", "s" * 16),
        ToolCall("1", "t", {"a": 1}),
        ServerContent("x", "{}       "),
    ]
    assert render_summary(content) == "[text(len=6), thinking(th=0,sig=16), toolCall(len=7), server(len=9)]"
    assert render_summary(None) == render_summary([object()]) == "[]"
    first = summarize_blocks(content)[0]
    assert (first.type, first.len, first.sig_len) == ("text", 6, 0)


# --- strip_unmatched_tool_calls --------------------------------------------------------------------


def answered(*ids: str) -> list[ToolResultMessage]:
    return [ToolResultMessage(id, "t", "ok") for id in ids]


def calls(*ids: str) -> list[ToolCall]:
    return [ToolCall(id, "t", {}) for id in ids]


def test_calls_without_results_are_taken_out() -> None:
    plan = AssistantMessage([TextContent("x"), *calls("plan_1", "aside_1")], model="m", stop_reason="toolUse")
    messages: list[Message] = [UserMessage("u"), plan, *answered("plan_1")]
    stripped = strip_unmatched_tool_calls(messages)
    kept = stripped[1]
    assert isinstance(kept, AssistantMessage)
    assert [b.type for b in kept.content] == ["text", "toolCall"]
    assert (kept.model, kept.stop_reason) == ("m", "toolUse")
    assert len(plan.content) == 3
    assert messages[1] is plan


@pytest.mark.parametrize(
    ("content", "left"),
    [
        (calls("aside_1"), None),
        ([ThinkingContent("hmm"), *calls("aside_1")], None),
        ([ThinkingContent("hmm"), TextContent("x"), *calls("aside_1")], ["thinking", "text"]),
        ([TextContent("  "), *calls("aside_1")], ["text"]),
        ([ServerContent("search", "{}"), *calls("aside_1")], ["server"]),
    ],
)
def test_a_message_with_nothing_left_to_say_goes_too(content: list[Any], left: list[str] | None) -> None:
    stripped = strip_unmatched_tool_calls([UserMessage("u"), AssistantMessage(content)])
    if left is None:
        assert [m.role for m in stripped] == ["user"]
    else:
        assert [b.type for b in stripped[1].content] == left  # type: ignore[union-attr]


def test_what_is_matched_passes_untouched_wherever_its_result_stands() -> None:
    untouched: list[Message] = [
        *answered("early"),
        UserMessage("u"),
        AssistantMessage(calls("early")),
        AssistantMessage([]),
        AssistantMessage([ThinkingContent("only")]),
        CustomMessage("note", {}),
    ]
    assert strip_unmatched_tool_calls(untouched) is untouched
    stripped = strip_unmatched_tool_calls([*untouched, AssistantMessage(calls("late"))])
    assert all(a is b for a, b in zip(stripped, untouched, strict=True))


@pytest.mark.parametrize("nothing", [[], None])
def test_nothing_stays_nothing(nothing: Any) -> None:
    assert strip_unmatched_tool_calls(nothing) is nothing


# --- how it ends early -----------------------------------------------------------------------------


def hangs(model: Any, context: AgentContext, options: StreamOptions) -> Any:
    yield TextDelta(0, "so far")
    options.cancel.wait(30)
    yield StreamDone()


def fails_at_once(model: Any, context: AgentContext, options: StreamOptions) -> Any:
    yield StreamError(RESET)


@pytest.mark.parametrize("stream", [hangs, fails_at_once], ids=["while it streams", "between attempts"])
def test_a_timeout_is_for_the_whole_question(stream: Any) -> None:
    """FS-M1"""
    agent, _ = agent_of(stream_fn=stream, retry=RetryPolicy(side_query=(30.0,)))
    with pytest.raises(SideQueryError, match=r"the answer did not come within 0\.05 seconds"):
        agent.simple_prompt("?", timeout=0.05)


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan")])
def test_a_timeout_that_is_no_time_is_refused(timeout: float) -> None:
    agent, _ = agent_of("ok")
    with pytest.raises(ConfigurationError, match="timeout must be a number of seconds above 0"):
        agent.simple_prompt("?", timeout=timeout)


def test_an_answer_in_time_leaves_no_thread_and_no_callback_behind() -> None:
    cancel = CancelToken()
    agent, _ = agent_of("ok")
    before = threading.active_count()
    assert agent.simple_prompt("?", timeout=30, cancel=cancel) == "ok"
    until(lambda: threading.active_count() == before)
    assert (cancel._callbacks, agent._runs.closing._callbacks) == ({}, {})


@pytest.mark.parametrize("stream", [hangs, fails_at_once], ids=["while it streams", "between attempts"])
@pytest.mark.parametrize("how", ["cancel", "close"])
def test_a_question_ends_with_its_signal_and_with_the_agent(stream: Any, how: str) -> None:
    """FS-M1"""
    cancel = CancelToken()
    agent, _ = agent_of(stream_fn=stream, retry=RetryPolicy(side_query=(30.0,)))
    ends: list[str] = []

    def ask() -> None:
        try:
            agent.simple_prompt_stream("?", on_event=lambda event: requested.set(), cancel=cancel)
        except SideQueryError as error:
            ends.append(str(error))

    requested = threading.Event()
    thread = threading.Thread(target=ask)
    thread.start()
    assert requested.wait(10)
    if how == "close":
        agent.close()
    else:
        cancel.cancel()
    thread.join(10)
    assert ends == [ABORTED_TEXT]


def test_a_closed_agent_takes_no_questions() -> None:
    agent, _ = agent_of("ok")
    agent.close()
    with pytest.raises(AgentError, match="the agent is closed"):
        agent.simple_prompt("?")


@pytest.mark.parametrize("place", ["tool", "hook", "subscriber"])
def test_a_question_inside_a_run_ends_with_that_run(place: str) -> None:
    """FS-M1"""
    inner, _ = agent_of(stream_fn=hangs)
    asking = threading.Event()
    ends: list[str] = []

    def ask(*ignored: Any) -> None:
        if asking.is_set():
            return
        try:
            inner.simple_prompt_stream("?", on_event=lambda event: asking.set())
        except SideQueryError as error:
            ends.append(str(error))

    @tool(name="ask")
    def ask_tool() -> str:
        """Ask on the side."""
        ask()
        return "asked"

    hooks = Hooks(before_tool=ask) if place == "hook" else None
    agent, _ = agent_of([tool_call("ask")], "ok", tools=[ask_tool], hooks=hooks)
    with agent:
        if place == "subscriber":
            agent.subscribe(lambda event: ask() if event.type == "turn_start" else None)
        run = agent.prompt("go")
        assert asking.wait(10)
        agent.abort()
        assert run.result(10).stop == "aborted"
    assert ends == [ABORTED_TEXT]


def test_a_question_in_a_tool_ends_with_the_time_of_the_tool() -> None:
    """FS-M1"""
    inner, _ = agent_of(stream_fn=hangs)
    ends: list[str] = []

    @tool(timeout=0.05)
    def ask() -> str:
        """Ask on the side."""
        try:
            return inner.simple_prompt("?")
        except SideQueryError as error:
            ends.append(str(error))
            return "late"

    agent, _ = agent_of([tool_call("ask")], "ok", tools=[ask])
    with agent:
        assert agent.run("go").stop == "end_turn"
    assert ends == [ABORTED_TEXT]


def test_a_signal_of_its_own_replaces_that_of_the_run() -> None:
    agent, _ = agent_of([tool_call("ask")], "ok", park=False)
    inner, _ = agent_of("fine")
    answers: list[str] = []

    @tool
    def ask(context: ToolContext) -> str:
        """Ask on the side after an abort."""
        context.cancel.cancel()
        answers.append(inner.simple_prompt("?", cancel=CancelToken()))
        return "ok"

    agent.update_tools(lambda tools: tools.add(ask))
    with agent:
        agent.run("go")
    assert answers == ["fine"]
