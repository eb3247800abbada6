"""A run as an iterator of its events."""

from __future__ import annotations

import gc
import threading
import time
from typing import Any

import pytest
from support.runs import NO_WAITS, story, until

import agent.runtime.event_iterator
from agent import Agent, tool
from agent.errors import AgentBusyError, AgentError
from agent.events import AgentEnd, Event
from agent.runtime.active_run import ActiveRun
from agent.stream import AgentContext, StreamDone, StreamOptions, TextDelta
from agent.testing import ScriptedModel, error, tool_call
from agent.tools import ToolSet


@tool
def echo(word: str) -> str:
    """Say it again."""
    return word


def agent_of(*turns: Any, **options: Any) -> Agent:
    model = ScriptedModel(*turns)
    given: dict[str, Any] = {"stream_fn": model.stream, "retry": NO_WAITS}
    return Agent(model.model, **(given | options))


def waits_for_abort(model: Any, context: AgentContext, options: StreamOptions) -> Any:
    yield TextDelta(0, "half")
    options.cancel.wait()


def test_all_events_come_in_order_and_the_end_is_the_last() -> None:
    received: list[Event] = []
    with agent_of([tool_call("echo", {"word": "x"})], "ok", tools=[echo]) as agent:
        agent.subscribe(received.append)
        events = list(agent.stream("hi"))
        assert story(events).startswith("agent_start turn_start ms:hi me:hi ms:A")
        assert [e.type for e in events].count("agent_end") == 1
        assert isinstance(events[-1], AgentEnd)
        assert events == received


def test_the_prompt_is_made_by_the_call() -> None:
    with agent_of("ok") as agent:
        stream = agent.stream("hi")
        assert stream.run.wait(10)
        assert [m.role for m in agent.state.messages] == ["user", "assistant"]
        assert list(stream)[-1].type == "agent_end"


def test_a_prompt_that_is_refused_raises_at_the_call_and_leaves_no_subscriber() -> None:
    with Agent(ScriptedModel().model, stream_fn=waits_for_abort) as agent:
        agent.prompt("hi")
        before = agent._subscribers.subscriptions
        with pytest.raises(AgentBusyError):
            agent.stream("again")
        assert agent._subscribers.subscriptions == before
    with pytest.raises(AgentError, match="closed"):
        agent.stream("hi")


def test_after_the_end_the_run_is_done_and_the_iterator_stays_at_its_end() -> None:
    go = threading.Event()
    with agent_of("ok", "ok") as agent:
        stream = agent.stream("hi")
        agent.subscribe(lambda event: go.wait(10) if isinstance(event, AgentEnd) else None)
        threading.Timer(0.05, go.set).start()
        for event in stream:
            if isinstance(event, AgentEnd):
                assert stream.run.done
                assert agent.wait_for_idle(0)
        assert next(stream, None) is None
        stream.close()
        assert agent.run("again").stop == "end_turn"


def test_a_failed_run_ends_the_iterator_like_any_other() -> None:
    with agent_of(error("400 no")) as agent:
        end = list(agent.stream("hi"))[-1]
        assert isinstance(end, AgentEnd)
        assert (end.stop, end.error) == ("error", "400 no")


def leave_loop(agent: Agent) -> None:
    for _ in agent.stream("hi"):
        break


def leave_with(agent: Agent) -> None:
    with agent.stream("hi") as stream:
        next(stream)


def leave_by_raising(agent: Agent) -> None:
    def fail() -> None:
        with agent.stream("hi") as stream:
            next(stream)
            raise LookupError

    with pytest.raises(LookupError):
        fail()


def leave_by_closing(agent: Agent) -> None:
    stream = agent.stream("hi")
    next(stream)
    stream.close()
    stream.close()


def never_begin(agent: Agent) -> None:
    agent.stream("hi")


@pytest.mark.parametrize("leave", [leave_loop, leave_with, leave_by_raising, leave_by_closing, never_begin])
def test_leaving_early_aborts_the_run_and_waits_for_it(leave: Any) -> None:
    with Agent(ScriptedModel().model, stream_fn=waits_for_abort) as agent:
        ends: list[Event] = []
        agent.subscribe(lambda event: ends.append(event) if isinstance(event, AgentEnd) else None)
        leave(agent)
        assert agent.wait_for_idle(0)
        assert [e.stop for e in ends] == ["aborted"]  # type: ignore[attr-defined]
        assert len(agent._subscribers.subscriptions) == 1


def test_a_stream_in_a_cycle_of_references_aborts_its_run_when_it_is_collected() -> None:
    with Agent(ScriptedModel().model, stream_fn=waits_for_abort) as agent:
        run = held_in_a_cycle(agent.stream)
        gc.collect()
        assert run.done


def test_a_stream_collected_while_this_thread_holds_the_agents_lock_does_not_deadlock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agent.runtime.event_iterator, "_DROPPED_TIMEOUT", 0.05)
    with Agent(ScriptedModel().model, stream_fn=waits_for_abort) as busy:
        run = held_in_a_cycle(busy.stream)
        with busy._lock:
            gc.collect()
        assert run.result(10).stop == "aborted"


def held_in_a_cycle(start: Any) -> Any:
    holder: dict[str, Any] = {"stream": start("hi")}
    holder["self"] = holder
    return holder["stream"].run


def test_ten_thousand_unread_deltas_hold_nothing_up() -> None:
    """L17"""

    def flood(model: Any, context: AgentContext, options: StreamOptions) -> Any:
        for _ in range(10_000):
            yield TextDelta(0, "x")
        yield StreamDone()

    with Agent(ScriptedModel().model, stream_fn=flood) as agent:
        stream = agent.stream("hi")
        next(stream)
        began = time.monotonic()
        stream.close()
        assert time.monotonic() - began < 2.0
        assert stream.run.done


def test_closing_a_stream_aborts_no_other_run() -> None:
    with agent_of("one", "two") as agent:
        stream = agent.stream("first")
        assert stream.run.wait(10)  # its end was emitted, but not read
        second = agent.prompt("second")
        stream.close()
        assert second.result(10).stop == "end_turn"


def test_a_stream_begun_while_another_run_finishes_tells_its_own_events_only() -> None:
    ending, go = threading.Event(), threading.Event()
    with agent_of("one", "two") as agent:

        def slow_end(event: Event) -> None:
            if isinstance(event, AgentEnd) and not ending.is_set():
                ending.set()
                assert go.wait(10)

        agent.subscribe(slow_end)
        agent.prompt("first")
        assert ending.wait(10)
        stream = agent.stream("second")
        go.set()
        events = list(stream)
        assert {e.run_id for e in events} == {stream.run.run_id}
        assert story(events).startswith("agent_start turn_start ms:second")


def test_a_stream_begun_at_the_very_end_of_another_run_does_not_end_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held: list[Any] = []
    note = ActiveRun._note

    def late(run: ActiveRun, event: Event) -> None:
        """Lets another thread in between the moment a run counts as finishing and the telling of it."""
        note(run, event)
        if isinstance(event, AgentEnd) and not held:
            thread = threading.Thread(target=lambda: held.append(mine.stream("second")))
            thread.start()
            thread.join(10)

    monkeypatch.setattr(ActiveRun, "_note", late)
    model = ScriptedModel("one", "two")
    with Agent(model.model, stream_fn=model.stream) as mine:
        mine.prompt("first")
        until(lambda: held)
        events = list(held[0])
    assert {e.run_id for e in events} == {held[0].run.run_id}
    assert story(events).endswith("agent_end[second,A]")


def test_a_stream_ends_when_the_agent_is_closed_before_its_run_began() -> None:
    ending, go = threading.Event(), threading.Event()
    agent = agent_of("one", "two")

    def slow_end(event: Event) -> None:
        if isinstance(event, AgentEnd) and not ending.is_set():
            ending.set()
            assert go.wait(10)

    agent.subscribe(slow_end)
    agent.prompt("first")
    assert ending.wait(10)
    stream = agent.stream("second")
    closer = threading.Thread(target=agent.close)
    closer.start()
    until(agent._runs.closing.is_set)
    go.set()
    assert list(stream)[-1].type == "agent_end"
    closer.join(10)


def test_a_stream_ends_when_the_loop_has_a_fault() -> None:
    class Faulty(ToolSet):
        def get(self, name: str) -> None:
            raise SystemExit

    with agent_of([tool_call("any")], tools=Faulty()) as agent:
        end = list(agent.stream("hi"))[-1]
        assert isinstance(end, AgentEnd)
        assert end.error.startswith("internal error")


@pytest.mark.parametrize("place", ["subscriber", "tool"])
def test_a_stream_dropped_inside_its_own_run_aborts_and_does_not_wait_for_itself(place: str) -> None:
    held: list[Any] = []

    @tool
    def drop() -> str:
        """Drop the stream."""
        if place == "tool":
            until(lambda: held)
            held.clear()
        return "dropped"

    with agent_of([tool_call("drop")], "never", tools=[drop]) as agent:

        def forget(event: Event) -> None:
            if place == "subscriber" and event.type == "tool_execution_start":
                until(lambda: held)
                held.clear()

        agent.subscribe(forget)
        held.append(agent.stream("hi"))
        run_done = held[0].run if held else None
        assert agent.wait_for_idle(10)
        if run_done is not None:
            assert run_done.result(10).stop == "aborted"


def test_iterating_over_its_own_run_raises_at_once() -> None:
    """L03"""
    held: list[Any] = []

    @tool
    def read() -> str:
        """Read the events of the run this is part of."""
        until(lambda: held)
        return str(next(held[0]))

    with agent_of([tool_call("read")], "ok", tools=[read]) as mine:
        held.append(mine.stream("hi"))
        held[0].run.wait(10)
        result = mine.state.messages[2]
        assert result.is_error  # type: ignore[union-attr]
        assert "RuntimeError" in result.text  # type: ignore[union-attr]
        held[0].close()


def test_iterating_in_one_thread_while_another_closes() -> None:
    with Agent(ScriptedModel().model, stream_fn=waits_for_abort) as agent:
        stream = agent.stream("hi")
        read: list[Event] = []
        reader = threading.Thread(target=lambda: read.extend(stream))
        reader.start()
        until(lambda: any(e.type == "message_update" for e in read) or len(read) >= 5)
        stream.close()
        reader.join(5)
        assert not reader.is_alive()
