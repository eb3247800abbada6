"""Agents run by tools and hooks of other agents: ids, events, results, aborts, depth, usage."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
from support.runs import NO_WAITS, assert_events_balance, assert_well_formed, until

from agent import (
    Agent,
    ConfigurationError,
    Hooks,
    Limits,
    RunError,
    ToolDecision,
    Usage,
    agent_loop,
    as_tool,
    current_run,
    tool,
)
from agent.events import AgentEnd, Event, MessageEnd, MessageUpdate, ToolExecutionEnd, TurnEnd
from agent.loop import LoopConfig
from agent.messages import ToolResultMessage, UserMessage
from agent.stream import AgentContext
from agent.testing import ScriptedModel, done, error, tool_call

SPENT = Usage(10, 5, 0, 0, 15)


def agent_of(*turns: Any, **options: Any) -> Agent:
    model = ScriptedModel(*turns)
    settings: dict[str, Any] = {"stream_fn": model.stream, "retry": NO_WAITS} | options
    return Agent(model.model, **settings)


def child_of(*turns: Any, **options: Any) -> Callable[[], Agent]:
    return lambda: agent_of(*turns, **{"name": "child"} | options)


def ask(prompt: str = "find out", name: str = "helper") -> Any:
    return tool_call(name, {"prompt": prompt})


def helper(*turns: Any, tool_options: dict[str, Any] | None = None, **options: Any) -> Any:
    return as_tool(child_of(*turns, **options), "helper", "Finds things out.", **tool_options or {})


def results(agent: Agent) -> list[ToolResultMessage]:
    return [m for m in agent.state.messages if isinstance(m, ToolResultMessage)]


# --- results ---------------------------------------------------------------------------------------


def test_the_last_text_of_the_child_is_the_result() -> None:
    with agent_of([ask()], "done", tools=[helper("it is 5")]) as agent:
        assert agent.run("hi").text == "done"
    (result,) = results(agent)
    assert (result.text, result.is_error) == ("it is 5", False)
    assert result.details["stop"] == "end_turn"
    assert result.details["turns"] == 1


def test_each_call_gets_an_agent_of_its_own() -> None:
    made: list[Agent] = []

    def make() -> Agent:
        made.append(agent_of(lambda context: str(len(context.messages))))
        return made[-1]

    child = as_tool(make, "helper", "")
    with agent_of([ask()], [ask()], "done", tools=[child]) as agent:
        agent.run("hi")
    assert [result.text for result in results(agent)] == ["1", "1"]
    assert len(made) == 2


def test_the_tool_takes_a_prompt() -> None:
    child = helper("x")
    assert child.parameters["required"] == ["prompt"]
    assert child.parallel is False
    assert as_tool(child_of("x"), "helper", "", parallel=True).parallel is True


@pytest.mark.parametrize("arguments", [{}, {"prompt": " "}, {"prompt": 5}])
def test_a_call_without_a_prompt_is_an_error_result(arguments: dict[str, Any]) -> None:
    with agent_of([tool_call("helper", arguments)], "ok", tools=[helper("x")]) as agent:
        agent.run("hi")
    (result,) = results(agent)
    assert result.is_error
    assert "prompt must be a text" in result.text


def test_a_failed_child_is_an_error_result_with_its_text() -> None:
    with agent_of([ask()], "ok", tools=[helper(error("400 no such model"))]) as agent:
        agent.run("hi")
    (result,) = results(agent)
    assert (result.text, result.is_error) == ("helper failed: 400 no such model", True)


def test_the_error_of_a_guardrail_of_the_child_reaches_the_model() -> None:
    def refuse(info: Any) -> None:
        raise ValueError("not about that")

    child = helper("x", hooks=Hooks(input_guardrails=[("topic", refuse)]))
    with agent_of([ask()], "ok", tools=[child]) as agent:
        agent.run("hi")
    (result,) = results(agent)
    assert result.is_error
    assert "not about that" in result.text
    assert "topic" in result.text


def test_a_paused_child_is_an_error_result_that_counts_the_calls() -> None:
    @tool
    def danger() -> str:
        """Do it."""
        return "done"

    hooks = Hooks(before_tool=lambda info: ToolDecision.pause())
    calls = [tool_call("danger"), tool_call("danger")]
    with agent_of([ask()], "ok", tools=[helper(calls, tools=[danger], hooks=hooks)]) as agent:
        agent.run("hi")
    (result,) = results(agent)
    assert result.is_error
    assert result.text.startswith("SubagentPausedError: helper paused with 2 pending tool calls")


def test_a_child_that_a_limit_ends_gives_the_text_so_far() -> None:
    @tool
    def look() -> str:
        """Look."""
        return "seen"

    child = helper(["so far", tool_call("look")], tools=[look], limits=Limits(max_turns=1))
    with agent_of([ask()], "ok", tools=[child]) as agent:
        agent.run("hi")
    (result,) = results(agent)
    assert (result.text, result.is_error, result.details["stop"]) == ("so far", False, "max_turns")


def test_an_empty_last_text_is_an_empty_result() -> None:
    @tool
    def finish() -> Any:
        """End."""
        from agent import ToolResult

        return ToolResult("", terminate=True)

    with agent_of([ask()], "ok", tools=[helper([tool_call("finish")], tools=[finish])]) as agent:
        assert agent.run("hi").text == "ok"
    (result,) = results(agent)
    assert (result.text, result.is_error) == ("", False)


def test_a_child_that_parks_is_refused_instead_of_waiting_for_ever() -> None:
    with agent_of([ask()], "ok", tools=[helper("x", park=True)]) as agent:
        agent.run("hi")
    (result,) = results(agent)
    assert result.is_error
    assert "park=True" in result.text


def test_a_child_that_can_not_be_made_is_an_error_result() -> None:
    def make() -> Agent:
        raise ConfigurationError("no model today")

    with agent_of([ask()], "ok", tools=[as_tool(make, "helper", "")]) as agent:
        agent.run("hi")
    (result,) = results(agent)
    assert result.is_error
    assert "no model today" in result.text


# --- ids and events --------------------------------------------------------------------------------


def test_the_subscribers_of_the_caller_get_the_events_of_the_child_with_its_own_ids() -> None:
    events: list[Event] = []
    threads: set[str] = set()

    def note(event: Event) -> None:
        events.append(event)
        threads.add(threading.current_thread().name)

    with agent_of([ask()], "done", tools=[helper("it is 5")], name="boss") as agent:
        agent.subscribe(note)
        run_id = agent.run("hi").run_id
    child = [event for event in events if event.run_id != run_id]
    assert_events_balance(child)
    assert_events_balance([event for event in events if event.run_id == run_id])
    assert {event.parent_run_id for event in child} == {run_id}
    assert {event.agent_name for event in child} == {"child"}
    assert threads == {"agent-worker-boss"}
    kinds = [event.type for event in events]
    assert kinds[kinds.index("tool_execution_start") + 1] == "agent_start"
    assert kinds[kinds.index("tool_execution_end") - 1] == "agent_end"


def test_events_of_the_child_come_while_it_runs() -> None:
    seen, go = threading.Event(), threading.Event()

    def answer(context: Any) -> str:
        assert go.wait(10)
        return "late"

    with agent_of([ask()], "done", tools=[helper(answer)]) as agent:
        agent.subscribe(
            lambda event: seen.set() if event.parent_run_id and event.type == "turn_start" else None
        )
        run = agent.prompt("hi")
        assert seen.wait(10)
        assert not run.done
        go.set()
        assert run.wait(10)


def test_the_state_and_the_result_of_the_caller_are_untouched_by_events_of_the_child() -> None:
    texts: list[Any] = []
    with agent_of([ask()], "done", tools=[helper("one two three")]) as agent:

        def look(event: Event) -> None:
            if event.parent_run_id and isinstance(event, MessageUpdate | MessageEnd | AgentEnd):
                state = agent.state
                texts.append((state.stream_message, state.is_streaming, len(state.messages)))

        agent.subscribe(look)
        result = agent.run("hi")
    assert set(texts) == {(None, True, 2)}
    assert (result.turns, len(result.messages)) == (2, 4)


def test_events_of_three_levels_reach_the_top() -> None:
    events: list[Event] = []
    grandchild = helper("deep", name="grandchild")
    child = as_tool(child_of([ask()], "middle", tools=[grandchild]), "helper", "")
    with agent_of([ask()], "top", tools=[child], name="top") as agent:
        agent.subscribe(events.append)
        agent.run("hi")
    runs = {event.agent_name: (event.run_id, event.parent_run_id) for event in events}
    assert list(runs) == ["top", "child", "grandchild"]
    assert runs["top"][1] == ""
    assert runs["child"][1] == runs["top"][0]
    assert runs["grandchild"][1] == runs["child"][0]
    for run_id, _ in runs.values():
        assert_events_balance([event for event in events if event.run_id == run_id])


def test_a_subscriber_may_leave_out_events_of_children() -> None:
    events: list[Event] = []
    with agent_of([ask()], "done", tools=[helper("x")]) as agent:
        agent.subscribe(events.append, children=False)
        agent.run("hi")
    assert_events_balance(events)


def test_a_stream_of_events_is_that_of_the_run_alone() -> None:
    with agent_of([ask()], "done", tools=[helper("x")]) as agent:
        events = list(agent.stream("hi"))
    assert_events_balance(events)


def test_a_queued_subscriber_gets_the_events_of_children_too() -> None:
    events: list[Event] = []
    with agent_of([ask()], "done", tools=[helper("x")]) as agent:
        agent.subscribe(events.append, queue=100)
        agent.run("hi")
    assert [event.type for event in events].count("agent_end") == 2


def test_events_of_a_child_run_by_a_hook_come_before_the_next_event() -> None:
    events: list[Event] = []

    def gate(info: Any) -> ToolDecision:
        with agent_of("yes", name="gate") as other:
            return ToolDecision.allow() if other.run("may it?").text == "yes" else ToolDecision.deny()

    @tool
    def act() -> str:
        """Act."""
        return "acted"

    with agent_of([tool_call("act")], "done", tools=[act], hooks=Hooks(before_tool=gate)) as agent:
        agent.subscribe(events.append)
        agent.run("hi")
    names = [event.agent_name for event in events]
    kinds = [event.type for event in events]
    first, last = names.index("gate"), len(names) - names[::-1].index("gate")
    assert set(names[first:last]) == {"gate"}
    assert kinds[last] == "tool_execution_start"


def test_events_of_a_run_that_outlives_the_run_it_was_started_in_are_not_kept() -> None:
    events: list[Event] = []
    go = threading.Event()

    def answer(context: Any) -> str:
        assert go.wait(10)
        return "late"

    other = agent_of(answer)

    def start(info: Any) -> None:
        other.prompt("go on without me")

    with agent_of("done", "again", hooks=Hooks(prepare_turn=start, should_stop_after_turn=None)) as agent:
        agent.subscribe(events.append)
        agent.run("hi")
        go.set()
        assert other.wait_for_idle(10)
        emitted = len(events)
        assert not agent._relay.has_pending
    assert [event.type for event in events[:emitted]].count("agent_end") == 1
    other.close()


def test_a_run_that_an_agent_starts_from_its_own_subscriber_is_not_its_child() -> None:
    events: list[Event] = []
    with agent_of("one", "two") as agent:
        again = iter((1,))

        def once_more(event: Event) -> None:
            events.append(event)
            if isinstance(event, AgentEnd):
                for _ in again:
                    agent.prompt("again")

        agent.subscribe(once_more)
        agent.run("hi")
        agent.wait_for_idle(10)
    assert [event.type for event in events].count("agent_end") == 2
    assert {event.parent_run_id for event in events} == {""}


def test_the_bare_loop_tells_events_of_children_too() -> None:
    model = ScriptedModel([ask()], "done")
    events: list[Event] = []
    context = AgentContext("", [], [helper("x")])
    agent_loop([UserMessage("hi")], context, LoopConfig(model.model), model.stream, events.append)
    assert [event.type for event in events].count("agent_end") == 2


def test_the_child_knows_its_run() -> None:
    known: list[Any] = []

    @tool
    def look() -> str:
        """Look."""
        known.append(current_run())
        return "seen"

    with agent_of([ask()], "done", tools=[helper([tool_call("look")], "x", tools=[look])]) as agent:
        run_id = agent.run("hi").run_id
    assert known[0].parent_run_id == run_id
    assert known[0].agent_name == "child"
    assert current_run() is None


# --- side by side ----------------------------------------------------------------------------------


def test_parallel_children_run_beside_each_other_independently() -> None:
    together = threading.Barrier(3, timeout=10)

    def answer(context: Any) -> str:
        together.wait()
        return f"seen: {context.messages[0].content}; {len(context.messages)}"

    child = as_tool(child_of(answer), "helper", "", parallel=True)
    events: list[Event] = []
    with agent_of([ask("a"), ask("b"), ask("c")], "done", tools=[child]) as agent:
        agent.subscribe(events.append)
        run_id = agent.run("hi").run_id
    assert [result.text for result in results(agent)] == ["seen: a; 1", "seen: b; 1", "seen: c; 1"]
    children = {event.run_id for event in events} - {run_id}
    assert len(children) == 3
    for child_id in children:
        assert_events_balance([event for event in events if event.run_id == child_id])


# --- aborts ----------------------------------------------------------------------------------------


def test_aborting_the_caller_aborts_the_child() -> None:
    started, ended = threading.Event(), threading.Event()

    @tool
    def wait(context: Any) -> str:
        """Wait for the stop signal."""
        started.set()
        assert context.cancel.wait(10)
        ended.set()
        return "stopped"

    events: list[Event] = []
    with agent_of([ask()], tools=[helper([tool_call("wait")], tools=[wait])]) as agent:
        agent.subscribe(events.append)
        run = agent.prompt("hi")
        assert started.wait(10)
        agent.abort()
        assert run.wait(5)
        assert run.result().stop == "aborted"
        assert ended.wait(5)
    assert_well_formed(agent.state.messages)
    (result,) = results(agent)
    assert (result.text, result.is_error) == ("aborted", True)
    assert [e.stop for e in events if isinstance(e, AgentEnd)] == ["aborted", "aborted"]


def test_a_child_that_is_aborted_alone_is_an_error_result() -> None:
    made: list[Agent] = []

    def make() -> Agent:
        made.append(agent_of("one two three"))
        made[-1].subscribe(lambda event: made[-1].abort() if isinstance(event, MessageUpdate) else None)
        return made[-1]

    with agent_of([ask()], "ok", tools=[as_tool(make, "helper", "")]) as agent:
        assert agent.run("hi").stop == "end_turn"
    (result,) = results(agent)
    assert (result.text, result.is_error) == ("helper was aborted", True)


def test_children_leave_no_thread(caplog: pytest.LogCaptureFixture) -> None:
    child = as_tool(child_of("x"), "helper", "", parallel=True)
    with caplog.at_level(logging.WARNING, "agent"):
        with agent_of([ask() for _ in range(20)], "done", tools=[child]) as agent:
            agent.run("hi")
            until(lambda: sum(t.name.startswith("agent-") for t in threading.enumerate()) == 1)
    assert caplog.text == ""


# --- depth and usage -------------------------------------------------------------------------------


def nested(levels: int, max_depth: int) -> Any:
    """A tool whose agent calls the same tool, `levels` deep."""

    def make() -> Agent:
        def answer(context: Any) -> Any:
            last = context.messages[-1]
            if isinstance(last, ToolResultMessage):
                return f"[{last.text}]"
            left = int(last.content)
            return [ask(str(left - 1))] if left else "bottom"

        return agent_of(answer, answer, tools=[child])

    child = as_tool(make, "helper", "", max_depth=max_depth)
    return child


def test_children_nest_as_deep_as_allowed_and_no_deeper() -> None:
    with agent_of([ask("2")], "done", tools=[nested(2, 3)]) as agent:
        agent.run("hi")
    assert results(agent)[0].text == "[[bottom]]"
    with agent_of([ask("2")], "done", tools=[nested(2, 2)]) as agent:
        agent.run("hi")
    text = results(agent)[0].text
    assert text == "[[helper can't be used here: such agents may nest 2 deep at most]]"


def test_a_depth_of_one_lets_the_outermost_agent_use_it() -> None:
    with agent_of([ask("0")], "done", tools=[nested(0, 1)]) as agent:
        agent.run("hi")
    assert results(agent)[0].text == "bottom"


@pytest.mark.parametrize("depth", [0, -1, 1.5, True])
def test_a_depth_that_is_none_is_refused(depth: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_depth"):
        as_tool(child_of("x"), "helper", "", max_depth=depth)


def test_the_usage_of_a_child_is_its_own_unless_it_is_rolled_up() -> None:
    answer = ["x", done("stop", SPENT)]
    with agent_of([ask()], "done", tools=[helper(answer)]) as agent:
        assert agent.run("hi").usage.total_tokens == 0
    assert results(agent)[0].details["usage"]["totalTokens"] == 15
    events: list[Event] = []
    rolled = helper(answer, tool_options={"roll_up_usage": True})
    with agent_of([ask(), done("toolUse", SPENT)], "done", tools=[rolled]) as agent:
        agent.subscribe(events.append, children=False)
        result = agent.run("hi")
    assert result.usage.total_tokens == 30
    assert [e.usage.total_tokens for e in events if isinstance(e, TurnEnd)] == [30, 30]


def test_rolled_up_usage_counts_towards_the_limits_of_the_caller() -> None:
    rolled = helper(["x", done("stop", SPENT)], tool_options={"roll_up_usage": True})
    with agent_of([ask()], "never", tools=[rolled], limits=Limits(max_total_tokens=15)) as agent:
        assert agent.run("hi").stop == "budget"


def test_usage_of_a_failed_child_is_rolled_up_too() -> None:
    rolled = helper([error("400 no", usage=SPENT)], tool_options={"roll_up_usage": True})
    with agent_of([ask()], "ok", tools=[rolled]) as agent:
        assert agent.run("hi").usage.total_tokens == 15
    assert results(agent)[0].is_error


def test_a_tool_may_add_what_it_spent_itself() -> None:
    @tool
    def think(context: Any) -> str:
        """Think."""
        context.add_usage(SPENT)
        context.add_usage(SPENT)
        return "thought"

    kept: list[Any] = []

    @tool
    def keep(context: Any) -> str:
        """Keep the context."""
        kept.append(context)
        return "kept"

    with agent_of([tool_call("think"), tool_call("keep")], "ok", tools=[think, keep]) as agent:
        agent.subscribe(
            lambda event: kept[0].add_usage(SPENT) if isinstance(event, ToolExecutionEnd) and kept else None
        )
        assert agent.run("hi").usage.total_tokens == 30


def test_the_error_of_a_child_is_not_raised_by_the_caller() -> None:
    with agent_of([ask()], error("400 also"), tools=[helper(error("400 no"))]) as agent:
        with pytest.raises(RunError, match="400 also"):
            agent.run("hi")


# --- under random aborts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(25))
def test_every_run_at_every_level_begins_and_ends_once_whenever_it_is_aborted(seed: int) -> None:
    chance = random.Random(seed)

    def answer(level: int) -> Callable[[Any], Any]:
        def reply(context: Any) -> Any:
            if level < 3 and chance.random() < 0.5:
                return [tool_call("sub", {"prompt": "go"}, f"c{chance.random()}") for _ in range(3)]
            return "word " * chance.randint(1, 20)

        return reply

    def made(level: int) -> Agent:
        below = as_tool(lambda: made(level + 1), "sub", "", parallel=chance.random() < 0.7)
        options: dict[str, Any] = {"tools": [below], "limits": Limits(max_turns=4), "name": f"level {level}"}
        return agent_of(*[answer(level)] * 4, **options)

    events: list[Event] = []
    queued: list[Event] = []
    abort_at = chance.randint(1, 150)

    def note(event: Event) -> None:
        events.append(event)
        if len(events) == abort_at:
            agent.abort()

    with made(0) as agent:
        agent.subscribe(note)
        end = agent.subscribe(
            queued.append, queue=chance.randint(1, 30), drop_streaming=chance.random() < 0.5
        )
        run = agent.prompt("hi")
        assert run.wait(20)
    assert_well_formed(agent.state.messages)
    assert isinstance(events[-1], AgentEnd)
    assert events[-1].run_id == run.run_id
    for run_id in {event.run_id for event in events}:
        kinds = [event.type for event in events if event.run_id == run_id]
        assert (kinds[0], kinds[-1]) == ("agent_start", "agent_end")
        assert kinds.count("agent_start") == kinds.count("agent_end") == 1
    assert len(queued) + end.dropped == len(events)
