"""Nothing outlives its use: threads, agents, interpreters."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
import threading
import tracemalloc
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.runs import NO_WAITS, until

from agent import Agent, tool
from agent.errors import RunError
from agent.events import Event
from agent.hooks import Hooks
from agent.stream import AgentContext, StreamDone, StreamOptions, StreamStart, TextDelta
from agent.testing import ScriptedModel, error, tool_call
from agent.tools import ToolSet

ROOT = Path(__file__).parents[2]


@tool
def echo(word: str) -> str:
    """Say it again."""
    return word


def agent_of(*turns: Any, **options: Any) -> Agent:
    model = ScriptedModel(*turns)
    given: dict[str, Any] = {"stream_fn": model.stream, "retry": NO_WAITS}
    return Agent(model.model, **(given | options))


def workers() -> int:
    return sum(thread.name.startswith(("agent-worker", "agent-tool")) for thread in threading.enumerate())


def collected(made: Callable[[], Agent]) -> bool:
    """Whether the agent that `made` leaves behind goes away, and its thread with it."""
    dead = weakref.ref(made())
    gc.collect()
    if dead() is not None:
        return False
    until(lambda: workers() == 0)
    return True


# --- forgotten agents ------------------------------------------------------------------------------


def test_a_new_agent_has_no_thread() -> None:
    before = threading.active_count()
    agent = Agent(ScriptedModel().model)
    assert threading.active_count() == before
    agent.close()


def test_a_forgotten_agent_is_collected_and_its_thread_ends() -> None:
    def made() -> Agent:
        agent = agent_of("ok")
        agent.run("hi")
        return agent

    assert collected(made)


def test_a_forgotten_agent_is_collected_without_the_cycle_collector() -> None:
    gc.disable()
    try:
        agent = agent_of([tool_call("echo", {"word": "x"})], "ok", tools=[echo])
        agent.run("hi")
        dead = weakref.ref(agent)
        until(lambda: workers() == 1)
        del agent
        until(lambda: dead() is None)
        until(lambda: workers() == 0)
    finally:
        gc.enable()


def test_an_agent_is_collected_after_a_run_that_failed() -> None:
    def made() -> Agent:
        agent = agent_of(error("400 no"))
        with pytest.raises(RunError):
            agent.run("hi")
        return agent

    assert collected(made)


def test_an_agent_is_collected_after_a_run_that_raised() -> None:
    class Faulty(ToolSet):
        def get(self, name: str) -> None:
            raise SystemExit

    def made() -> Agent:
        agent = agent_of([tool_call("any")], tools=Faulty())
        with pytest.raises(RunError, match="internal error"):
            agent.run("hi")
        return agent

    # The log records of pytest hold the exception, and with it the frames it passed through.
    assert collected_without_logging(made)


def collected_without_logging(made: Callable[[], Agent]) -> bool:
    logging.disable(logging.CRITICAL)
    try:
        return collected(made)
    finally:
        logging.disable(logging.NOTSET)


def test_an_agent_is_collected_after_an_aborted_run() -> None:
    def made() -> Agent:
        agent = agent_of("one two three")
        agent.subscribe(lambda event: agent.abort() if event.type == "message_update" else None)
        assert agent.run("hi").stop == "aborted"
        return agent

    assert collected(made)


def test_an_agent_is_collected_after_a_stream_that_was_left() -> None:
    def made() -> Agent:
        agent = agent_of("one two three four")
        for _ in agent.stream("hi"):
            break
        return agent

    assert collected(made)


def test_handles_and_results_do_not_keep_the_agent() -> None:
    kept: list[Any] = []

    def made() -> Agent:
        agent = agent_of("ok")
        run = agent.prompt("hi")
        events: list[Event] = []
        agent.subscribe(events.append)
        kept.extend((run, run.result(10), events, agent.state))
        return agent

    assert collected(made)


def test_the_exception_of_a_hook_does_not_keep_the_agent() -> None:
    kept: list[Any] = []

    def broken(info: object) -> Any:
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ValueError("outer") from error

    for hooks in (
        Hooks(prepare_turn=broken),
        Hooks(candidate_answer=broken),
        Hooks(input_guardrails=[("broken", broken)]),
        Hooks(output_guardrails=[("broken", broken)]),
    ):

        def made(hooks: Hooks = hooks) -> Agent:
            agent = agent_of("ok", hooks=hooks)
            events: list[Event] = []
            agent.subscribe(events.append)
            result = agent.prompt("hi").result(10)
            assert result.stop == "error"
            kept.extend((result, result.cause, events))
            return agent

        assert collected_without_logging(made)


def test_the_exception_of_a_hook_tells_where_it_was_raised() -> None:
    def broken(info: object) -> Any:
        raise ValueError("boom")

    with agent_of("ok", hooks=Hooks(prepare_turn=broken)) as agent:
        cause = agent.prompt("hi").result(10).cause
    assert isinstance(cause, ValueError)
    assert "in broken" in cause.__notes__[0]


def test_an_agent_dropped_during_its_run_finishes_it_first() -> None:
    go, ended = threading.Event(), threading.Event()

    def slow(model: Any, context: AgentContext, options: StreamOptions) -> Any:
        yield TextDelta(0, "a")
        assert go.wait(10)
        yield StreamDone()

    agent = Agent(ScriptedModel().model, stream_fn=slow)
    agent.subscribe(lambda event: ended.set() if event.type == "agent_end" else None)
    run = agent.prompt("hi")
    dead = weakref.ref(agent)
    del agent
    gc.collect()
    assert dead() is not None
    go.set()
    assert run.wait(10)
    assert ended.is_set()
    until(lambda: dead() is None)
    until(lambda: workers() == 0)


# --- closing ---------------------------------------------------------------------------------------


def test_leaving_the_with_block_ends_the_thread() -> None:
    with agent_of("ok") as agent:
        agent.run("hi")
        assert workers() == 1
    assert workers() == 0


def test_closing_during_a_run_aborts_it_and_waits() -> None:
    started = threading.Event()

    def slow(model: Any, context: AgentContext, options: StreamOptions) -> Any:
        yield TextDelta(0, "a")
        started.set()
        options.cancel.wait()

    agent = Agent(ScriptedModel().model, stream_fn=slow)
    run = agent.prompt("hi")
    assert started.wait(10)
    agent.close()
    assert run.result(0).stop == "aborted"
    assert workers() == 0


@pytest.mark.parametrize("place", ["subscriber", "tool"])
def test_closing_from_inside_a_run_ends_it(place: str) -> None:
    @tool
    def close() -> str:
        """Close the agent."""
        if place == "tool":
            agent.close()
        return "closed"

    agent = agent_of([tool_call("close")], "never", tools=[close])
    if place == "subscriber":
        agent.subscribe(lambda event: agent.close() if event.type == "tool_execution_start" else None)
    assert agent.prompt("hi").result(10).stop == "aborted"
    until(lambda: workers() == 0)


def test_closing_from_many_threads_is_closing_once() -> None:
    agent = agent_of("ok")
    agent.run("hi")
    threads = [threading.Thread(target=agent.close) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert workers() == 0


def test_a_worker_that_can_not_be_started_leaves_an_agent_that_can_try_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = threading.Thread.start

    def no_more(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    agent = agent_of("ok")
    monkeypatch.setattr(threading.Thread, "start", no_more)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        agent.prompt("hi")
    assert agent.wait_for_idle(0)
    assert agent.state.messages == []
    monkeypatch.setattr(threading.Thread, "start", start)
    assert agent.run("hi").text == "ok"
    agent.close()


# --- thousands -------------------------------------------------------------------------------------


def objects_of_ours() -> int:
    """Only those of the package: a tracer of a coverage tool keeps objects of its own per thread."""
    return sum(type(found).__module__.partition(".")[0] == "agent" for found in gc.get_objects())


def test_two_thousand_agents_one_after_another_leave_no_thread_and_no_objects() -> None:
    def use(count: int) -> None:
        for _ in range(count):
            agent_of([tool_call("echo", {"word": "x"})], "ok", tools=[echo]).run("hi")

    use(50)
    until(lambda: workers() == 0)
    gc.collect()
    before = objects_of_ours()
    use(2000)
    until(lambda: workers() == 0)
    gc.collect()
    assert objects_of_ours() - before < 500


def test_two_hundred_prompts_with_three_tools_each_leave_no_thread() -> None:
    """L18"""
    calls = [tool_call("echo", {"word": w}) for w in "abc"]
    turns = [turn for _ in range(200) for turn in (calls, "ok")]
    with agent_of(*turns, tools=[replace(echo, parallel=True)]) as agent:
        before = threading.active_count()
        for _ in range(200):
            assert agent.run("hi").stop == "end_turn"
            agent.clear_messages()
        until(lambda: threading.active_count() <= before + 1)  # the one worker
    until(lambda: threading.active_count() == before)


def test_a_long_conversation_keeps_its_messages_and_nothing_else_of_its_runs() -> None:
    class Endless:
        def stream(self, model: Any, context: AgentContext, options: StreamOptions) -> Any:
            yield StreamStart()
            for _ in range(50):
                yield TextDelta(0, "x")
            yield StreamDone()

    with Agent(ScriptedModel().model, stream_fn=Endless().stream) as agent:
        for _ in range(20):
            agent.run("hi")
            agent.clear_messages()
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(200):
            agent.run("hi")
            agent.clear_messages()
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
    assert grown < 64 * 1024


# --- interpreters ----------------------------------------------------------------------------------

CHILD = """
import sys, threading
from agent import Agent, AgentTool
from agent.stream import StreamDone, TextDelta
from agent.testing import ScriptedModel, tool_call

def forever(*ignored):
    print("running", flush=True)
    threading.Event().wait()

def stalled(model, context, options):
    yield TextDelta(0, "a")
    forever()

place = sys.argv[1]
model = ScriptedModel([tool_call("t")])
tool = AgentTool("t", "", {"type": "object"}, forever)
agent = Agent(model.model, stream_fn=stalled if place == "stream" else model.stream, tools=[tool])
if place == "subscriber":
    agent.subscribe(forever)
agent.prompt("hi")
"""


@pytest.mark.parametrize("place", ["stream", "tool", "subscriber"])
def test_an_interpreter_exits_while_a_run_hangs(place: str) -> None:
    child = subprocess.run(
        [sys.executable, "-c", CHILD, place],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (child.returncode, child.stderr) == (0, "")


IDLE = """
from agent import Agent
from agent.testing import ScriptedModel

agents = []
for number in range(3):
    model = ScriptedModel("ok")
    agents.append(Agent(model.model, stream_fn=model.stream))
    print(agents[-1].run("hi").text)
agents[0].close()
stream = iter(Agent(model.model, stream_fn=ScriptedModel("a b c d").stream).stream("hi"))
next(stream)
"""


def test_an_interpreter_exits_quietly_with_idle_agents_and_an_open_stream() -> None:
    child = subprocess.run(
        [sys.executable, "-c", IDLE], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False
    )
    assert (child.returncode, child.stdout, child.stderr) == (0, "ok\n" * 3, "")
