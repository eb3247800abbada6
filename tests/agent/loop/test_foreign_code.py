"""Whatever the application's code does, a run ends in its documented way and every call has its result."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.runs import NO_WAITS, assert_events_balance, assert_well_formed, play, text_of

from agent import Agent
from agent.errors import RunError, ToolError
from agent.events import AgentEnd, Event, ToolExecutionEnd
from agent.hooks import Hooks, ToolDecision, ToolOverride, Truncation, TurnUpdate
from agent.loop import LoopConfig, agent_loop
from agent.messages import AssistantMessage, ImageContent, Message, TextContent, ToolCall, UserMessage
from agent.stream import AgentContext, StreamDone, TextDelta, ToolCallDelta, ToolCallEnd, ToolCallStart
from agent.testing import ScriptedModel, done, tool_call
from agent.tools import AgentTool, ToolResult


class Mute(Exception):
    """Has no text: making one fails."""

    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


FAULTS: list[Callable[[], BaseException]] = [
    SystemExit,
    KeyboardInterrupt,
    GeneratorExit,
    asyncio.CancelledError,
    Mute,
    RecursionError,
    lambda: StopIteration(1),
    lambda: BaseExceptionGroup("several", [SystemExit(), ValueError("x")]),
]
NAMES = ["exit", "interrupt", "generator", "cancelled", "mute", "recursion", "stop", "group"]
OBJECT = {"type": "object"}


def echo(arguments: dict[str, Any], context: Any) -> str:
    return "x"


ECHO = AgentTool("t", "", OBJECT, echo)
CALLS = [tool_call("t", {"a": 1}, id="c1"), tool_call("t", {"a": 2}, id="c2")]


def raiser(fault: Callable[[], BaseException]) -> Callable[..., Any]:
    def broken(*arguments: Any, **options: Any) -> Any:
        raise fault()

    return broken


def run_agent(
    *turns: Any, tools: Any = (ECHO,), **options: Any
) -> tuple[list[Event], list[Message], AgentEnd]:
    """One run on a worker thread, and a second one, which must work."""
    model = ScriptedModel(*turns, "still alive")
    events: list[Event] = []
    given: dict[str, Any] = {"stream_fn": model.stream, "retry": NO_WAITS}
    with Agent(model.model, tools=tools, **(given | options)) as agent:
        agent.subscribe(events.append)
        agent.prompt("hi").wait(10)
        messages = agent.state.messages
        end = next(event for event in events if isinstance(event, AgentEnd))
        assert_well_formed(messages)
        assert_events_balance(events[: events.index(end) + 1])
        agent.stream_fn = model.stream
        agent.prompt("again").wait(10)
        assert_well_formed(agent.state.messages)
    return events, messages, end


def results(messages: list[Message]) -> list[str]:
    return [text_of(message) for message in messages if message.role == "toolResult"]


@pytest.mark.parametrize("fault", FAULTS, ids=NAMES)
def test_a_gate_that_fails_in_any_way_denies(fault: Callable[[], BaseException]) -> None:
    """FR-3"""
    _, messages, end = run_agent(CALLS, "ok", hooks=Hooks(before_tool=raiser(fault)))
    assert end.stop == "end_turn"
    assert [text.startswith("tool call denied: ") for text in results(messages)] == [True, True]


@pytest.mark.parametrize("fault", FAULTS, ids=NAMES)
def test_an_override_that_fails_in_any_way_is_an_error_result(fault: Callable[[], BaseException]) -> None:
    """FR-3"""
    events, messages, end = run_agent(CALLS, "ok", hooks=Hooks(after_tool=raiser(fault)))
    assert end.stop == "end_turn"
    assert [text.startswith("the after_tool hook failed: ") for text in results(messages)] == [True, True]
    assert all(event.is_error for event in events if isinstance(event, ToolExecutionEnd))


@pytest.mark.parametrize("fault", FAULTS, ids=NAMES)
def test_a_tool_that_fails_in_any_way_is_an_error_result(fault: Callable[[], BaseException]) -> None:
    """FR-3"""
    _, messages, end = run_agent(CALLS, "ok", tools=[AgentTool("t", "", OBJECT, raiser(fault))])
    assert end.stop == "end_turn"
    assert results(messages) == results(messages)[:1] * 2
    assert results(messages)[0].startswith(type(fault()).__name__)


@pytest.mark.parametrize("fault", FAULTS, ids=NAMES)
@pytest.mark.parametrize("hook", ["on_truncated", "candidate_answer", "prepare_turn"])
def test_a_hook_that_fails_in_any_way_ends_the_run_with_its_exception(
    hook: str, fault: Callable[[], BaseException]
) -> None:
    """FR-3"""
    turns = [[[*CALLS, done(stop_reason="length")]], ["ok"], [CALLS]]
    turn = turns[["on_truncated", "candidate_answer", "prepare_turn"].index(hook)]
    _, _, end = run_agent(*turn, hooks=Hooks(**{hook: raiser(fault)}))
    assert end.stop == "error"
    assert type(end.cause) is type(fault())
    assert not end.error.startswith("internal error")


@pytest.mark.parametrize("fault", FAULTS, ids=NAMES)
@pytest.mark.parametrize("hook", ["input_guardrails", "output_guardrails"])
def test_a_guardrail_that_fails_in_any_way_rejects(hook: str, fault: Callable[[], BaseException]) -> None:
    """FR-3"""
    _, _, end = run_agent("ok", hooks=Hooks(**{hook: [("guard", raiser(fault))]}))
    assert end.stop == "error"
    assert f'{hook[:-11]} guardrail "guard"' in end.error


@pytest.mark.parametrize("fault", FAULTS, ids=NAMES)
@pytest.mark.parametrize("hook", ["transform_context", "on_request"])
def test_a_request_that_cannot_be_made_fails_with_the_exception_as_its_cause(
    hook: str, fault: Callable[[], BaseException]
) -> None:
    """FR-3, FS-M8"""
    _, _, end = run_agent("never", hooks=Hooks(**{hook: raiser(fault)}))
    assert end.stop == "error"
    assert type(end.cause) is type(fault())


def test_the_run_error_of_a_failed_transform_has_its_exception_as_cause() -> None:
    """FS-M8"""
    model = ScriptedModel("never")
    with (
        Agent(model.model, stream_fn=model.stream, transform_context=raiser(lambda: KeyError("k"))) as agent,
        pytest.raises(RunError) as caught,
    ):
        agent.run("hi")
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize("fault", FAULTS, ids=NAMES)
@pytest.mark.parametrize(
    "hook", ["stop_when", "should_stop_after_turn", "steering_messages", "follow_up_messages"]
)
def test_a_poll_or_stop_test_that_fails_in_any_way_counts_as_no(
    hook: str, fault: Callable[[], BaseException]
) -> None:
    """FR-3"""
    _, messages, end = run_agent(CALLS, "ok", hooks=Hooks(**{hook: raiser(fault)}))
    assert end.stop == "end_turn"
    assert text_of(messages[-1]) == "ok"


@pytest.mark.parametrize("fault", FAULTS, ids=NAMES)
def test_a_stream_function_that_fails_in_any_way_is_a_failed_answer(
    fault: Callable[[], BaseException],
) -> None:
    """FR-3"""

    def stream(model: Any, context: Any, options: Any) -> Iterator[Any]:
        yield TextDelta(0, "half")
        yield ToolCallStart(1, "c1", "t")
        raise fault()

    for broken in (stream, raiser(fault)):
        _, _, end = run_agent(stream_fn=broken)
        assert end.stop == "error"
        assert not end.error.startswith("internal error")


@pytest.mark.parametrize("fault", FAULTS, ids=NAMES)
def test_a_stream_function_that_fails_while_it_is_closed_changes_nothing(
    fault: Callable[[], BaseException],
) -> None:
    """FR-3"""

    def stream(model: Any, context: Any, options: Any) -> Iterator[Any]:
        try:
            yield TextDelta(0, "whole")
            yield StreamDone()
        finally:
            raise fault()

    _, messages, end = run_agent(stream_fn=stream)
    assert (end.stop, text_of(messages[-1])) == ("end_turn", "whole")


@pytest.mark.parametrize("usage", [None, 5, {"input": 3}])
def test_usage_that_is_none_is_a_fault_of_the_tool(usage: Any) -> None:
    """FR-3"""
    spend = AgentTool("t", "", OBJECT, lambda arguments, context: context.add_usage(usage))
    _, messages, end = run_agent(CALLS, "ok", tools=[spend])
    assert end.stop == "end_turn"
    assert results(messages)[0].startswith("TypeError: add_usage takes an agent.Usage")


@pytest.mark.parametrize("timeout", ["5", float("nan"), True, [1]])
def test_a_tool_with_a_senseless_timeout_is_refused(timeout: Any) -> None:
    """FR-3"""
    _, messages, end = run_agent(CALLS, "ok", tools=[AgentTool("t", "", OBJECT, echo, timeout=timeout)])
    assert end.stop == "end_turn"
    assert "timeout must be a number of seconds" in results(messages)[0]


def test_a_tool_whose_attributes_raise_is_refused() -> None:
    """FR-3"""

    class Odd:
        name, description, parameters = "t", "", OBJECT
        execute = staticmethod(echo)

        @property
        def display_hint(self) -> None:
            raise SystemExit

    _, messages, end = run_agent(CALLS, "ok", tools=[Odd()])
    assert end.stop == "end_turn"
    assert results(messages) == ["the tool can't be used: SystemExit"] * 2


@pytest.mark.parametrize(
    "answer",
    [
        5,
        Truncation(messages=None),  # type: ignore[arg-type]
        Truncation(messages=["ok", 5]),  # type: ignore[list-item]
        Truncation(messages=[UserMessage([5])]),  # type: ignore[list-item]
    ],
)
def test_a_truncation_that_makes_no_sense_ends_the_run_with_every_call_answered(answer: Any) -> None:
    """FR-3, FR-4"""
    _, messages, end = run_agent(
        [*CALLS, done(stop_reason="length")], hooks=Hooks(on_truncated=lambda info: answer)
    )
    assert end.stop == "error"
    assert isinstance(end.cause, TypeError)
    assert len(results(messages)) == 2


@pytest.mark.parametrize("decision", [5, "allow", ToolDecision("allow", updated_input={"a": lambda: 1})])
def test_a_decision_that_makes_no_sense_runs_nothing_or_what_it_allows(decision: Any) -> None:
    _, messages, end = run_agent(CALLS, "ok", hooks=Hooks(before_tool=lambda info: decision))
    assert end.stop == "end_turn"
    allowed = isinstance(decision, ToolDecision)
    assert [text == "x" for text in results(messages)] == [allowed, allowed]


# -- values that nothing can be done with -------------------------------------------------------------------


def nested(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


@pytest.mark.parametrize("depth", [150, 250, 500, 5_000, 100_000])
@pytest.mark.parametrize("hook", ["after_tool", "before_tool", "transform_context"])
def test_deeply_nested_arguments_leave_the_agent_usable(depth: int, hook: str) -> None:
    """FR-1"""
    calls = [ToolCallStart(0, "c1", "t"), ToolCallDelta(0, nested(depth)), ToolCallEnd(0)]
    more = [ToolCallStart(1, "c2", "t"), ToolCallEnd(1, json.loads(nested(min(depth, 900))))]
    hooks = Hooks(**{hook: lambda given: None})
    _, messages, end = run_agent([*calls, *more, done(stop_reason="toolUse")], "ok", hooks=hooks)
    assert end.stop == "end_turn"
    first, second = results(messages)
    for text in (first, second):
        assert (text == "x") if depth < 200 else ("nested" in text)


NONSENSE: list[Callable[[], Any]] = [
    lambda: ToolResult([5]),  # type: ignore[list-item]
    lambda: ToolResult(b"x"),  # type: ignore[arg-type]
    lambda: ToolResult(5),  # type: ignore[arg-type]
    lambda: ToolResult([{"type": "video", "data": "x"}]),
    lambda: ToolResult([TextContent(None)]),  # type: ignore[arg-type]
    lambda: ToolResult([ImageContent(b"x", "image/png")]),  # type: ignore[arg-type]
    lambda: ToolResult([ImageContent("x", None)]),  # type: ignore[arg-type]
    lambda: ToolResult("x", meta=["a"]),  # type: ignore[arg-type]
    lambda: ToolResult("x", meta={1: "a", "b": "c"}),  # type: ignore[dict-item]
    lambda: [object()],
    lambda: {"text": "x"},
]


@pytest.mark.parametrize("make", NONSENSE, ids=range(len(NONSENSE)))
def test_a_result_that_makes_no_sense_is_an_error_result(make: Callable[[], Any]) -> None:
    """FR-4"""
    tool = AgentTool("t", "", OBJECT, lambda arguments, context: make())
    _, messages, end = run_agent(CALLS, "ok", tools=[tool])
    assert end.stop == "end_turn"
    assert results(messages)[0].startswith("TypeError: ")


@pytest.mark.parametrize(
    "content", ["x", ["x"], TextContent("x"), [TextContent("x")], [{"type": "text", "text": "x"}]]
)
def test_a_result_takes_every_form_of_content_that_a_tool_may_return(content: Any) -> None:
    """FR-4"""
    assert ToolResult(content).content == (TextContent("x"),)


@pytest.mark.parametrize("content", [5, [5], b"x", [TextContent(None)]])  # type: ignore[arg-type]
def test_an_override_that_makes_no_sense_is_an_error_result(content: Any) -> None:
    """FR-4"""
    _, messages, end = run_agent(
        CALLS, "ok", hooks=Hooks(after_tool=lambda info: ToolOverride(content=content))
    )
    assert end.stop == "end_turn"
    assert results(messages)[0].startswith("the after_tool hook failed: TypeError")


BAD_MESSAGES: list[Any] = [
    5,
    None,
    UserMessage([5]),  # type: ignore[list-item]
    UserMessage([TextContent(None)]),  # type: ignore[arg-type]
    AssistantMessage([ToolCall("a", "t", None)]),  # type: ignore[arg-type]
    AssistantMessage([ImageContent("x", "image/png")]),  # type: ignore[list-item]
]


@pytest.mark.parametrize("message", BAD_MESSAGES)
def test_a_message_that_makes_no_sense_is_refused_where_it_is_given(message: Any) -> None:
    """FR-4"""
    played = play("ok", hooks=Hooks(steering_messages=lambda: [message]))
    assert played.end.stop == "end_turn"
    _, _, end = run_agent(CALLS, "ok", hooks=Hooks(prepare_turn=lambda info: TurnUpdate(messages=[message])))
    assert end.stop == "error"
    assert isinstance(end.cause, TypeError)
    with Agent("ollama/x") as agent:
        for give in (agent.append_message, lambda m: agent.replace_messages([m])):
            with pytest.raises(TypeError):
                give(message)
        assert agent.state.messages == []


# -- the last net --------------------------------------------------------------------------------------------


def test_a_ctrl_c_in_a_bare_loop_ends_the_run_and_passes_through() -> None:
    events: list[Event] = []
    model = ScriptedModel(CALLS)
    hooks = Hooks(before_tool=raiser(KeyboardInterrupt))
    context = AgentContext("", (), [ECHO])
    with pytest.raises(KeyboardInterrupt):
        agent_loop(
            [UserMessage("hi")], context, LoopConfig(model.model, hooks=hooks), model.stream, events.append
        )
    end = events[-1]
    assert isinstance(end, AgentEnd)
    assert_well_formed(end.messages)
    assert [message.role for message in end.messages] == ["user", "assistant", "toolResult", "toolResult"]


@pytest.mark.parametrize("when", ["tool_execution_start", "tool_execution_end", "message_end"])
def test_an_emit_that_raises_once_leaves_calls_with_results(when: str) -> None:
    events: list[Event] = []
    faults = iter((ZeroDivisionError(),))

    def emit(event: Event) -> None:
        if event.type == when and any(isinstance(e, AgentEnd) or e.type == "message_update" for e in events):
            for fault in faults:
                raise fault
        events.append(event)

    model = ScriptedModel(CALLS, "ok")
    context = AgentContext("", (), [ECHO])
    with pytest.raises(ZeroDivisionError):
        agent_loop([UserMessage("hi")], context, LoopConfig(model.model), model.stream, emit)
    end = events[-1]
    assert isinstance(end, AgentEnd)
    assert end.error == "internal error: ZeroDivisionError"
    assert_well_formed(end.messages)


def test_a_tool_error_without_a_text_has_its_name() -> None:
    _, messages, _ = run_agent(CALLS, "ok", tools=[AgentTool("t", "", OBJECT, raiser(ToolError))])
    assert results(messages)[0] == "ToolError"
