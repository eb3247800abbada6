"""Invariants of every run, for any answers, tools, decisions of hooks and aborts from any thread."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.rounds import rounds
from support.runs import NO_WAITS, frozen

from agent import Agent
from agent.cancel import CancelToken
from agent.errors import PendingToolCallsError
from agent.events import AgentEnd, Event, ToolExecutionEnd, ToolExecutionStart, TurnEnd
from agent.hooks import (
    Candidate,
    CandidateInfo,
    Hooks,
    OutputInfo,
    RequestUpdate,
    RunInfo,
    ToolCallInfo,
    ToolDecision,
    ToolOverride,
    ToolResultInfo,
    Truncation,
    TruncationInfo,
    TurnUpdate,
)
from agent.limits import Limits
from agent.loop import LoopConfig, agent_loop
from agent.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from agent.stream import AgentContext
from agent.testing import ScriptedModel, done, error, tool_call
from agent.tools import AgentTool, ToolResult, ToolSet
from agent.transcript import find_pending
from agent.usage import Usage

SETTINGS = settings(
    max_examples=rounds(150),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


# -- the world ----------------------------------------------------------------------------------------


def _tools() -> ToolSet:
    def fails(arguments: dict[str, Any], context: Any) -> str:
        raise ValueError("boom")

    def chatty(arguments: dict[str, Any], context: Any) -> ToolResult:
        for number in range(arguments["n"] % 4):
            context.update(str(number))
        arguments["n"] = "spoilt"
        return ToolResult("text", details={"a": [1]})

    def waits(arguments: dict[str, Any], context: Any) -> str:
        context.cancel.wait(0.001)
        return "waited"

    def stops(arguments: dict[str, Any], context: Any) -> ToolResult:
        return ToolResult("stop", terminate=True)

    parts = {"fails": fails, "chatty": chatty, "waits": waits, "stops": stops}
    return ToolSet(
        AgentTool(f"{name}{'_p' * parallel}", "", {"type": "object"}, part, parallel=parallel)
        for name, part in parts.items()
        for parallel in (False, True)
    )


NAMES = (*_tools().names(), "unknown")
IDS = ("a", "b", "c", "d", "a")  # models do use one id twice


@st.composite
def answers(draw: st.DrawFn) -> Any:
    """One entry of a script."""
    usage = Usage(draw(st.integers(0, 20)), draw(st.integers(0, 20)))
    blocks: list[Any] = [draw(st.sampled_from(("some words", "more")))] if draw(st.booleans()) else []
    blocks += [
        tool_call(draw(st.sampled_from(NAMES)), {"n": draw(st.integers(0, 9))}, draw(st.sampled_from(IDS)))
        for _ in range(draw(st.sampled_from((0, 0, 1, 2, 4))))
    ]
    called = any(not isinstance(block, str) for block in blocks)
    match draw(st.sampled_from(("good", "good", "good", "good", "cut", "broken", "refused", "raised"))):
        case "cut":
            return [*blocks, done("length", usage)]
        case "broken":
            return [*blocks, error("connection reset by peer", usage=usage)]
        case "refused":
            return [*blocks, error("bad request", usage=usage)]
        case "raised":
            return ValueError("the stream function broke")
    return [*blocks, done("toolUse" if called else "stop", usage)]


@dataclass(frozen=True)
class World:
    """Everything that happens to a run but the script."""

    seed: int
    hooked: bool
    abort_at: int | None
    limits: Limits
    queued: int


WORLDS = st.builds(
    World,
    seed=st.integers(0, 2**32),
    hooked=st.booleans(),
    abort_at=st.none() | st.integers(0, 60),
    limits=st.builds(
        Limits,
        max_turns=st.none() | st.integers(1, 5),
        max_total_tokens=st.none() | st.integers(1, 120),
        parallel_tools=st.sampled_from((None, 1, 2, 4)),
        final_answer=st.booleans(),
    ),
    queued=st.integers(0, 3),
)
SCRIPTS = st.lists(answers(), min_size=1, max_size=6)


def _hooks(world: World) -> Hooks | None:
    """Hooks that decide, change, discard and raise by the seed."""
    if not world.hooked:
        return None
    dice = random.Random(world.seed)

    def before_tool(info: ToolCallInfo) -> ToolDecision | None:
        info.arguments.clear()
        match dice.randrange(12):
            case 0:
                return ToolDecision.pause({"n": 1})
            case 1 | 2:
                return ToolDecision.deny()
            case 3:
                return ToolDecision.allow({"n": 3})
            case 4:
                raise ValueError("the gate broke")
        return None

    def after_tool(info: ToolResultInfo) -> ToolOverride | None:
        match dice.randrange(8):
            case 0:
                return ToolOverride("other", terminate=True)
            case 1:
                raise ValueError("after_tool broke")
        return None

    def guard(info: OutputInfo) -> None:
        if dice.randrange(12) == 0:
            raise ValueError("not this")

    def candidate_answer(info: CandidateInfo) -> Candidate | None:
        info.messages.clear()
        match dice.randrange(8):
            case 0:
                return Candidate.retry(RequestUpdate(system_suffix="again"))
            case 1:
                return Candidate.abort("no")
        return None

    def prepare_turn(info: RunInfo) -> TurnUpdate | None:
        match dice.randrange(12):
            case 0:
                return TurnUpdate(tools=[])
            case 1:
                return TurnUpdate(next_request=RequestUpdate(tools=[], tool_choice="none"))
            case 2:
                raise ValueError("prepare_turn broke")
        return None

    def on_truncated(info: TruncationInfo) -> Truncation | None:
        match dice.randrange(4):
            case 0:
                return Truncation(retry=True, messages=[UserMessage("shorter", 0)])
            case 1:
                return Truncation(retry=False)
            case 2:
                raise ValueError("on_truncated broke")
        return None

    return Hooks(
        before_tool=before_tool,
        after_tool=after_tool,
        output_guardrails=[("guard", guard)],
        candidate_answer=candidate_answer,
        prepare_turn=prepare_turn,
        on_truncated=on_truncated,
        stop_when=lambda info: dice.randrange(10) == 0,
        after_tool_sees_denied=bool(world.seed % 2),
    )


# -- what must be true ----------------------------------------------------------------------------------


def assert_answered_in_order(messages: Sequence[Message]) -> None:
    """Each call has one result, behind its answer and in call order; only the last answer's may wait."""
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            assert waiting, "a result without a call"
            assert waiting.pop(0) == message.tool_call_id
            continue
        assert not waiting, "a message before all calls were answered"
        if isinstance(message, AssistantMessage) and message.stop_reason not in ("error", "aborted"):
            waiting = [call.id for call in message.tool_calls]
    assert waiting == [call.id for call in find_pending(messages).calls]


def assert_events_hold(events: Sequence[Event]) -> None:
    kinds = [event.type for event in events]
    assert (kinds[0], kinds[-1]) == ("agent_start", "agent_end")
    assert kinds.count("agent_start") == kinds.count("agent_end") == 1
    running: list[str] = []
    spent = 0
    for event in events:
        match event:
            case ToolExecutionStart():
                running.append(event.tool_call_id)
            case ToolExecutionEnd():
                running.remove(event.tool_call_id)
            case TurnEnd():
                assert event.usage.total_tokens >= spent
                assert not running
                spent = event.usage.total_tokens
    assert not running


def assert_usage_adds_up(model: ScriptedModel, turns: Sequence[Any], events: Sequence[Event]) -> None:
    """The usage of the run is that of the answers it was given, shown and kept or not."""
    given = [turn[-1].usage for turn in turns[: model.calls] if isinstance(turn, list)]
    reported = [event.usage.total_tokens for event in events if isinstance(event, TurnEnd)]
    if reported:  # an answer that an abort cut off brought none
        assert reported[-1] <= sum(usage.total_tokens for usage in given if usage)


@SETTINGS
@given(script=SCRIPTS, world=WORLDS)
def test_every_run_of_the_loop_leaves_a_whole_transcript(script: list[Any], world: World) -> None:
    model = ScriptedModel(*script)
    cancel = CancelToken()
    events: list[Event] = []
    snapshots: list[Any] = []
    queue = [UserMessage(f"q{n}", 0) for n in range(world.queued)]

    def emit(event: Event) -> None:
        events.append(event)
        snapshots.append(frozen(event))
        if len(events) == world.abort_at:
            cancel.cancel("aborted")

    def poll() -> list[Message]:
        return [queue.pop()] if queue else []

    config = LoopConfig(
        model.model,
        hooks=_hooks(world),
        limits=world.limits,
        retry=NO_WAITS,
        cancel=cancel,
        get_follow_up_messages=poll,
        has_queued_messages=lambda: bool(queue),
    )
    context = AgentContext("", [], _tools())
    new = agent_loop([UserMessage("go", 0)], context, config, model.stream, emit)

    end = events[-1]
    assert isinstance(end, AgentEnd)
    assert end.messages == tuple(new)
    assert_answered_in_order(new)
    assert_events_hold(events)
    assert_usage_adds_up(model, script, events)
    assert [frozen(event) for event in events] == snapshots
    assert (end.stop == "error") == bool(end.error)
    assert (end.stop == "aborted") == (cancel.is_set() and world.abort_at != len(events))
    if end.stop == "paused":
        assert end.pending_calls
    turns = sum(
        event.message is None or getattr(event.message, "stop_reason", "error") not in ("error", "aborted")
        for event in events
        if isinstance(event, TurnEnd)
    )
    if world.limits.max_turns is not None:
        assert turns <= world.limits.max_turns + world.limits.final_answer


@settings(SETTINGS, max_examples=rounds(60))
@given(script=SCRIPTS, world=WORLDS)
def test_an_agent_is_fit_for_another_run_after_any_ending(script: list[Any], world: World) -> None:
    model = ScriptedModel(*script)
    events: list[Event] = []
    with Agent(
        model.model,
        stream_fn=model.stream,
        tools=_tools(),
        hooks=_hooks(world),
        limits=world.limits,
        retry=NO_WAITS,
    ) as agent:

        def on_event(event: Event) -> None:
            events.append(event)
            if len(events) == world.abort_at:
                agent.abort()

        unsubscribe = agent.subscribe(on_event)
        for number in range(world.queued):
            agent.follow_up(f"q{number}")
        result = agent.prompt("go").result(20)
        unsubscribe()
        assert agent.state.messages == list(result.messages)
        assert agent.transcript.usage == result.usage
        assert not agent.state.is_streaming
        assert agent.state.pending_tool_calls == set()
        assert agent.state.stream_message is None
        assert_answered_in_order(agent.state.messages)

        if agent.pending_calls:
            _assert_refused_until_resolved(agent)
        again = ScriptedModel("fine")
        agent.stream_fn = again.stream
        agent._set(hooks=None)
        agent.clear_all_queues()
        assert agent.prompt("once more").result(20).stop == "end_turn"


def _assert_refused_until_resolved(agent: Agent) -> None:
    try:
        agent.prompt("not yet")
    except PendingToolCallsError:
        agent.resolve_pending(lambda call: "resolved")
    else:
        raise AssertionError("a prompt was taken while calls were pending")
    assert agent.pending_calls == []
    assert_answered_in_order(agent.state.messages)
