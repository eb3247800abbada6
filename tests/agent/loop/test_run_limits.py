"""Limits on whole runs: what ends them, in which order, and what a run may still say at its limit."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from support.runs import NO_WAITS, Played, assert_well_formed, play, text_of, until

from agent import Agent, tool
from agent.cancel import CancelToken
from agent.errors import ConfigurationError
from agent.events import MaxTurnsReached, TurnEnd
from agent.hooks import Hooks, RunInfo, TurnUpdate
from agent.limits import Limits
from agent.messages import ServerContent, ToolCall, UserMessage
from agent.models import Model
from agent.runtime.inbox import Inbox
from agent.stream import AgentContext, StreamDone, StreamEvent, StreamOptions, StreamStart, TextDelta
from agent.testing import ScriptedModel, done, error, tool_call
from agent.tools import AgentTool, ToolResult
from agent.usage import Cost, ModelCost, Usage

PRICED = Model("priced", "scripted", "scripted", cost=ModelCost(1.0, 2.0))


@tool
def echo(word: str) -> str:
    """Say it again."""
    return word


def work(usage: Usage | None = None) -> list[Any]:
    return [tool_call("echo", {"word": "x"}), done("toolUse", usage)]


def answer(usage: Usage) -> list[Any]:
    return ["done", done("stop", usage)]


def spending(tokens: int) -> Usage:
    return Usage(tokens, 0)


def run(*turns: Any, hooks: Hooks | None = None, box: Inbox | None = None, **limits: Any) -> Played:
    queues: dict[str, Any] = {}
    if box is not None:
        queues = {
            "get_steering_messages": box.poll_steering,
            "get_follow_up_messages": box.poll_follow_ups,
            "has_queued_messages": box.has_messages,
        }
    return play(*turns, tools=[echo], limits=Limits(**limits), hooks=hooks, **queues)


def stopwatches() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "agent-stopwatch"]


def queued(*, steer: str = "", follow_up: str = "") -> Inbox:
    box = Inbox("", "")
    if steer:
        box.steer(UserMessage(steer))
    if follow_up:
        box.follow_up(UserMessage(follow_up))
    return box


# -- tokens and money -------------------------------------------------------------------------------


def test_tokens_end_a_run_that_is_not_done() -> None:
    played = run(work(spending(60)), work(spending(40)), "never", max_total_tokens=100)
    assert (played.end.stop, played.model.calls) == ("budget", 2)
    assert_well_formed(played.new)


def test_cached_tokens_count() -> None:
    played = run(work(Usage(1, 1, 98, 0)), "never", max_total_tokens=100)
    assert played.end.stop == "budget"


def test_an_answer_that_uses_the_tokens_up_ends_the_run_as_usual() -> None:
    played = run(work(spending(60)), answer(spending(40)), max_total_tokens=100)
    assert played.end.stop == "end_turn"


def test_used_up_tokens_leave_a_follow_up_in_its_queue() -> None:
    box = queued(follow_up="more")
    played = run(answer(spending(100)), "never", box=box, max_total_tokens=100)
    assert played.end.stop == "budget"
    assert [text_of(m) for m in box.follow_ups()] == ["more"]


def test_no_usage_counts_nothing() -> None:
    played = run(work(), work(), "done", max_total_tokens=1)
    assert played.end.stop == "end_turn"


def test_money_is_worked_out_from_the_price_and_ends_the_run() -> None:
    model = ScriptedModel(work(spending(500_000)), work(spending(500_000)), "never", model=PRICED)
    with Agent(PRICED, stream_fn=model.stream, tools=[echo], limits=Limits(max_cost=1.0)) as agent:
        result = agent.run("go")
    assert (result.stop, result.turns, result.usage.cost.total) == ("budget", 2, 1.0)


def test_each_run_has_a_budget_of_its_own() -> None:
    model = ScriptedModel(answer(spending(90)), answer(spending(90)))
    with Agent(model.model, stream_fn=model.stream, limits=Limits(max_total_tokens=100)) as agent:
        assert agent.run("a").stop == agent.run("b").stop == "end_turn"
        assert agent.transcript.usage.total_tokens == 180


def test_ten_times_ten_cents_is_a_dollar() -> None:
    turns = [work(Usage(1, cost=Cost(total=0.1))) for _ in range(12)]
    model = ScriptedModel(*turns, model=PRICED)
    with Agent(PRICED, stream_fn=model.stream, tools=[echo], limits=Limits(max_cost=1.0)) as agent:
        assert agent.run("go").turns == 10


def test_money_is_refused_at_the_prompt_when_the_price_is_not_known() -> None:
    model = ScriptedModel("never")
    with Agent(model.model, stream_fn=model.stream, limits=Limits(max_cost=1.0)) as agent:
        with pytest.raises(ConfigurationError, match="price of scripted"):
            agent.prompt("go")
        assert agent.wait_for_idle(0)
        assert agent.state.messages == []
    with pytest.raises(ConfigurationError, match="price of scripted"):
        play("never", limits=Limits(max_cost=1.0))


def test_a_hook_can_not_bring_in_a_model_without_a_price() -> None:
    model = ScriptedModel(work(), "never", model=PRICED)
    hooks = Hooks(prepare_turn=lambda info: TurnUpdate(model=Model("m", "a", "p")))
    agent = Agent(PRICED, stream_fn=model.stream, tools=[echo], limits=Limits(max_cost=1.0), hooks=hooks)
    with agent:
        result = agent.prompt("go").result(10)
    assert result.stop == "error"
    assert "price of m" in result.error


# -- turns ------------------------------------------------------------------------------------------


def test_the_event_of_used_up_turns_tells_how_many() -> None:
    played = run(work(), work(), "never", max_turns=2)
    (reached,) = [e for e in played.events if isinstance(e, MaxTurnsReached)]
    assert reached.turns == 2
    assert [e.type for e in played.events[-2:]] == ["max_turns_reached", "agent_end"]


def test_a_run_that_ends_on_its_last_turn_has_not_reached_its_limit() -> None:
    played = run(work(), "done", max_turns=2)
    assert played.end.stop == "end_turn"
    assert not [e for e in played.events if isinstance(e, MaxTurnsReached)]


def test_turns_come_before_tokens() -> None:
    assert run(work(spending(100)), max_turns=1, max_total_tokens=100).end.stop == "max_turns"


# -- the last answer --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "stop"), [({"max_turns": 1}, "max_turns"), ({"max_total_tokens": 50}, "budget")]
)
def test_a_limit_may_ask_for_one_last_answer_without_tools(limit: dict[str, Any], stop: str) -> None:
    played = run(work(spending(50)), "so far: x", final_answer=True, **limit)
    assert played.end.stop == stop
    assert text_of(played.new[-1]) == "so far: x"
    assert [len(context.tools) for context in played.model.contexts] == [1, 0]
    assert "no further work is possible" in played.model.contexts[1].system_prompt


def test_calls_in_the_last_answer_get_results_and_no_further_request_is_sent() -> None:
    played = run(work(), work(), "never", max_turns=1, final_answer=True)
    assert (played.end.stop, played.model.calls) == ("max_turns", 2)
    assert_well_formed(played.new)
    assert text_of(played.new[-1]) == "Tool echo not found. Available: none"


def test_what_is_queued_stays_so_behind_the_last_answer() -> None:
    box = queued(follow_up="f")

    def late(context: AgentContext) -> str:
        box.steer(UserMessage("s"))
        return "last"

    played = run(work(), late, "never", box=box, max_turns=1, final_answer=True)
    assert (played.end.stop, played.model.calls) == ("max_turns", 2)
    assert box.has_messages()


def test_a_natural_answer_needs_no_last_one() -> None:
    box = queued(follow_up="f")
    played = run("done", "never", box=box, max_turns=1, final_answer=True)
    assert (played.end.stop, played.model.calls) == ("max_turns", 1)


def test_a_last_answer_that_fails_ends_the_run_in_its_error() -> None:
    played = run(work(), error("bad request"), max_turns=1, final_answer=True)
    assert (played.end.stop, played.end.error) == ("error", "bad request")


def test_a_last_answer_that_breaks_off_is_taken_up_without_tools() -> None:
    broken = ["so f", error("connection reset by peer")]
    played = run(work(), broken, "ar", max_turns=1, final_answer=True)
    assert played.end.stop == "max_turns"
    assert [len(context.tools) for context in played.model.contexts] == [1, 0, 0]


# -- stop tests -------------------------------------------------------------------------------------


def stop_test(answers: list[bool], seen: list[int]) -> Any:
    def stop_when(info: RunInfo) -> bool:
        seen.append(info.turns)
        return answers.pop(0)

    return stop_when


def test_stop_when_ends_a_run_that_would_go_on() -> None:
    seen: list[int] = []
    played = run(work(), work(), "never", hooks=Hooks(stop_when=stop_test([False, True], seen)))
    assert (played.end.stop, seen) == ("stop_when", [1, 2])


def test_stop_when_is_not_called_when_the_run_ends_anyway() -> None:
    seen: list[int] = []
    hooks = Hooks(stop_when=stop_test([False], seen))
    assert run(work(), "done", hooks=hooks).end.stop == "end_turn"
    assert seen == [1]
    assert run(work(), hooks=hooks, max_turns=1).end.stop == "max_turns"
    assert seen == [1]


def test_stop_when_is_called_for_an_answer_with_a_queued_follow_up() -> None:
    box = queued(follow_up="f")
    played = run("done", "never", box=box, hooks=Hooks(stop_when=stop_test([True], [])))
    assert played.end.stop == "stop_when"
    assert box.has_messages()


def test_a_requested_stop_comes_before_every_limit() -> None:
    hooks = Hooks(should_stop_after_turn=lambda info: True, stop_when=lambda info: True)
    assert run(work(), hooks=hooks, max_turns=1).end.stop == "stopped"


@pytest.mark.parametrize("name", ["stop_when", "should_stop_after_turn"])
def test_a_stop_test_that_raises_is_logged_and_the_run_goes_on(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(info: RunInfo) -> bool:
        raise ValueError("boom")

    hook: dict[str, Any] = {name: broken}
    played = run(work(), "done", hooks=Hooks(**hook))
    assert played.end.stop == "end_turn"
    assert "the run goes on" in caplog.text


# -- time -------------------------------------------------------------------------------------------


def hanging(model: Model, context: AgentContext, options: StreamOptions) -> Iterator[StreamEvent]:
    yield StreamStart()
    yield TextDelta(0, "so far")
    options.cancel.wait(30)
    yield StreamDone()


def test_time_cuts_a_stream_that_hangs() -> None:
    model = ScriptedModel()
    with Agent(model.model, stream_fn=hanging, limits=Limits(max_seconds=0.05)) as agent:
        result = agent.prompt("go").result(5)
        assert result.stop == "budget"
        assert result.error == ""
        assert "max_seconds" in agent.state.error
        assert agent.state.messages[-1].stop_reason == "aborted"  # type: ignore[union-attr]


def test_time_that_can_not_be_measured_ends_the_run_before_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """FR-31"""

    def refuse(timer: threading.Timer) -> None:
        raise RuntimeError("can't start new thread")

    model = ScriptedModel("ok")
    with Agent(model.model, stream_fn=model.stream, limits=Limits(max_seconds=60)) as agent:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Timer, "start", refuse)
            result = agent.prompt("go").result(5)
        assert result.stop == "error"
        assert result.error == "the time limit (max_seconds) can't be kept: can't start new thread"
        assert agent.state.messages == []
        assert agent.run("go").text == "ok"


def test_time_cuts_a_tool_and_leaves_the_transcript_whole() -> None:
    def wait(arguments: dict[str, Any], context: Any) -> str:
        context.cancel.wait(30)
        return f"stopped by {context.cancel.reason}"

    slow = AgentTool("slow", "", {"type": "object"}, wait)
    played = play([tool_call("slow", {"a": 1})], "never", tools=[slow], limits=Limits(max_seconds=0.2))
    assert (played.end.stop, played.model.calls) == ("budget", 1)
    assert text_of(played.new[-1]) == "stopped by max_seconds"
    assert_well_formed(played.new)


def test_time_that_is_up_leaves_none_for_a_last_answer() -> None:
    def wait(arguments: dict[str, Any], context: Any) -> str:
        context.cancel.wait(30)
        return "x"

    slow = AgentTool("slow", "", {"type": "object"}, wait)
    limits = Limits(max_seconds=0.02, final_answer=True)
    played = play([tool_call("slow", {"a": 1})], "never", tools=[slow], limits=limits)
    assert played.model.calls == 1


def test_time_cuts_the_wait_before_a_stream_is_taken_up_again() -> None:
    retry = NO_WAITS.__class__(auto_resume=(60.0,))
    limits = Limits(max_seconds=0.05)
    played = play(["a", error("connection reset by peer")], "never", limits=limits, retry=retry)
    assert played.end.stop == "budget"


def test_an_abort_within_the_time_is_an_abort() -> None:
    model = ScriptedModel()
    started = threading.Event()

    def stream(model: Model, context: AgentContext, options: StreamOptions) -> Iterator[StreamEvent]:
        started.set()
        yield from hanging(model, context, options)

    with Agent(model.model, stream_fn=stream, limits=Limits(max_seconds=60)) as agent:
        run = agent.prompt("go")
        assert started.wait(5)
        agent.abort()
        assert run.result(5).stop == "aborted"


def test_a_run_within_its_time_leaves_no_timer_behind() -> None:
    played = run(work(), "done", max_seconds=60)
    assert played.end.stop == "end_turn"
    until(lambda: not stopwatches())


# -- time per tool ----------------------------------------------------------------------------------


def test_tool_timeout_bounds_every_call_and_the_run_goes_on() -> None:
    def wait(arguments: dict[str, Any], context: Any) -> ToolResult:
        context.cancel.wait(30)
        return ToolResult("")

    slow = AgentTool("slow", "", {"type": "object"}, wait, timeout=20)
    played = play([tool_call("slow", {"a": 1})], "ok", tools=[slow], limits=Limits(tool_timeout=0.02))
    assert text_of(played.new[2]) == "Tool slow timed out after 0.02 seconds"
    assert played.end.stop == "end_turn"


# -- parked runs ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("since_input", "calls"), [(True, 4), (False, 2)])
def test_turns_may_be_counted_from_the_last_reply(since_input: bool, calls: int) -> None:
    replies = [[UserMessage("again")], []]
    limits = Limits(max_turns=2, turns_since_input=since_input)
    turns = [work(), "one", work(), "two"]
    played = play(*turns, tools=[echo], limits=limits, park=lambda cancel: replies.pop(0))
    assert (played.end.stop, played.model.calls) == ("end_turn", calls)


def test_the_time_a_run_is_parked_does_not_count() -> None:
    replies = [[UserMessage("again")], []]

    def park(cancel: CancelToken) -> list[UserMessage]:
        until(lambda: not stopwatches())  # it stands still
        return replies.pop(0)

    def answer(context: AgentContext) -> str:
        assert stopwatches()
        return "answer"

    played = play(answer, answer, limits=Limits(max_seconds=60), park=park)
    assert (played.end.stop, played.model.calls) == ("end_turn", 2)


# -- usage ------------------------------------------------------------------------------------------


def test_the_usage_of_a_run_never_falls_and_is_the_sum_of_its_answers() -> None:
    played = run(work(spending(5)), work(spending(7)), answer(spending(11)))
    reported = [e.usage.total_tokens for e in played.events if isinstance(e, TurnEnd)]
    assert reported == [5, 12, 23]


def test_server_blocks_and_calls_beside_each_other_are_no_answer() -> None:
    block = ServerContent("web", "{}")
    call = ToolCall("c", "echo", {"word": "x"})
    played = run([block, call], "done", max_turns=2)
    assert played.end.stop == "end_turn"
