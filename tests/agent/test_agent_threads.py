"""The agent among threads: subscribers that do anything, calls from inside a run, races, crowds."""

from __future__ import annotations

import contextlib
import contextvars
import logging
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest
from support.runs import NO_WAITS, assert_events_balance, labels, story, until

import agent.cancel
from agent import Agent, AgentTool, tool
from agent.errors import AgentBusyError, AgentError
from agent.events import AgentEnd, AgentStart, AutoResume, Event, MessageUpdate, ToolExecutionStart, TurnEnd
from agent.hooks import Hooks
from agent.runtime.run_handle import Run
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


class Gate:
    """A model that answers once `go` is set; `requested` is set when a request waits."""

    def __init__(self) -> None:
        self.requested = threading.Event()
        self.go = threading.Event()

    def stream(self, model: Any, context: AgentContext, options: StreamOptions) -> Any:
        yield TextDelta(0, "half")
        self.requested.set()
        options.cancel.on_cancel(self.go.set)
        assert self.go.wait(10)
        yield StreamDone()


# --- subscribers -----------------------------------------------------------------------------------


def test_subscribers_are_called_in_order_on_the_worker_thread() -> None:
    calls: list[tuple[str, str]] = []
    with agent_of("ok", name="w") as agent:

        def subscribe(name: str) -> None:
            agent.subscribe(lambda event: calls.append((name, threading.current_thread().name)))

        for name in "abc":
            subscribe(name)
        agent.run("hi")
    assert {thread for _, thread in calls} == {"agent-worker-w"}
    assert [name for name, _ in calls] == list("abc") * (len(calls) // 3)


@pytest.mark.parametrize("raised", [ValueError("no"), SystemExit(1), KeyboardInterrupt()], ids=repr)
def test_a_subscriber_that_raises_does_not_keep_events_from_others(
    raised: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """L01"""
    received: list[Event] = []

    def broken(event: Event) -> None:
        raise raised

    with (
        caplog.at_level(logging.ERROR, "agent"),
        agent_of([tool_call("echo", {"word": "x"})], "ok", tools=[echo]) as agent,
    ):
        agent.subscribe(broken)
        agent.subscribe(received.append)
        result = agent.run("hi")
    assert result.stop == "end_turn"
    assert_events_balance(received)
    assert "a subscriber failed on agent_end" in caplog.text


def test_a_subscriber_may_unsubscribe_itself_and_others_and_again() -> None:
    received: list[str] = []
    with agent_of("ok", "ok") as agent:

        def once(event: Event) -> None:
            received.append(event.type)
            unsubscribe()
            unsubscribe()
            others()

        unsubscribe = agent.subscribe(once)
        others = agent.subscribe(lambda event: received.append("other"))
        agent.run("hi")
        agent.run("hi")
    # A subscriber that is removed during an event may still get that one.
    assert received in (["agent_start"], ["agent_start", "other"])


def test_a_subscriber_added_during_a_run_gets_the_rest() -> None:
    received: list[str] = []
    with agent_of("ok") as agent:
        added = iter((1,))

        def add(event: Event) -> None:
            for _ in added:
                agent.subscribe(lambda event: received.append(event.type))

        agent.subscribe(add)
        agent.run("hi")
    assert received[0] == "turn_start"
    assert received[-1] == "agent_end"


def test_the_same_function_may_subscribe_twice_and_leave_once() -> None:
    received: list[Event] = []
    with agent_of("ok") as agent:
        leave = agent.subscribe(received.append)
        agent.subscribe(received.append)
        leave()
        agent.run("hi")
    assert_events_balance(received)


def test_a_subscriber_that_blocks_delays_its_own_run_alone() -> None:
    entered, go = threading.Event(), threading.Event()
    with agent_of("ok") as agent:

        def block(event: Event) -> None:
            if isinstance(event, AgentStart):
                entered.set()
                go.wait(10)

        agent.subscribe(block)
        run = agent.prompt("hi")
        assert entered.wait(10)
        assert agent.state.is_streaming
        agent.steer("s")
        agent.follow_up("f")
        agent.clear_all_queues()
        assert not run.done
        assert not agent.wait_for_idle(0)
        go.set()
        assert run.wait(10)


def test_a_subscriber_may_call_everything_that_does_not_wait() -> None:
    with agent_of([tool_call("echo", {"word": "x"})], "ok", tools=[echo]) as agent:
        problems: list[BaseException] = []

        def use(event: Event) -> None:
            try:
                _ = agent.state, agent.model, agent.has_queued_messages, agent.follow_up_queue(), repr(agent)
                agent.system_prompt = event.type
                agent.update_tools(lambda tools: tools.names())
                agent.subscribe(lambda event: None)()
                agent.follow_up("f")
                agent.take_follow_ups()
            except BaseException as error:
                problems.append(error)

        agent.subscribe(use)
        assert agent.run("hi").stop == "end_turn"
        assert problems == []


# --- waiting inside a run --------------------------------------------------------------------------

WAITS: dict[str, Callable[[Agent, Run], object]] = {
    "wait_for_idle": lambda agent, run: agent.wait_for_idle(),
    "wait_for_idle(0)": lambda agent, run: agent.wait_for_idle(0),
    "run": lambda agent, run: agent.run("x"),
    "stream": lambda agent, run: agent.stream("x"),
    "Run.wait": lambda agent, run: run.wait(),
    "Run.result": lambda agent, run: run.result(),
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS.keys())
@pytest.mark.parametrize("place", ["subscriber", "tool", "hook", "nested tool", "thread of a tool"])
def test_waiting_for_the_agent_inside_its_own_run_raises_at_once(
    place: str, wait: Callable[[Agent, Run], object]
) -> None:
    """L03"""
    runs: list[Run] = []
    raised: list[BaseException] = []

    def attempt(*ignored: Any) -> None:
        until(lambda: runs)
        try:
            wait(agent, runs[0])
        except BaseException as error:
            raised.append(error)

    def inside(*ignored: Any) -> None:
        if place == "nested tool":
            with agent_of([tool_call("t")], "ok", tools=[made(attempt)]) as inner:
                inner.run("x")
        elif place == "thread of a tool":
            thread = threading.Thread(target=contextvars.copy_context().run, args=(attempt,))
            thread.start()
            thread.join()
        else:
            attempt()

    def made(function: Callable[..., None]) -> AgentTool:
        return AgentTool("t", "", {"type": "object"}, lambda arguments, context: function())

    hooks = Hooks(before_tool=inside if place == "hook" else None)
    in_tool = inside if place in ("tool", "nested tool", "thread of a tool") else lambda: None
    with agent_of([tool_call("t")], "ok", tools=[made(in_tool)], hooks=hooks) as agent:
        if place == "subscriber":
            agent.subscribe(lambda event: attempt() if isinstance(event, ToolExecutionStart) else None)
        runs.append(agent.prompt("hi"))
        assert runs[0].wait(10)
        assert runs[0].result().stop == "end_turn"
    assert [type(e) for e in raised] == [RuntimeError]
    assert "would wait for itself" in str(raised[0])


def test_a_run_that_has_ended_can_be_read_from_anywhere() -> None:
    seen: list[str] = []
    with agent_of("one", "two") as agent:
        first = agent.prompt("hi")
        assert first.wait(10)
        agent.subscribe(lambda event: seen.append(first.result().text))
        agent.run("again")
    assert set(seen) == {"one"}


def test_a_tool_may_wait_for_another_agent() -> None:
    with agent_of("inner") as inner:

        @tool
        def ask() -> str:
            """Ask."""
            inner.prompt("q")
            assert inner.wait_for_idle(10)
            return inner.state.messages[-1].text  # type: ignore[union-attr]

        with agent_of([tool_call("ask")], "ok", tools=[ask]) as outer:
            assert labels(outer.run("hi").messages) == "hi,A,T,A"


# --- prompts during a run --------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["subscriber", "tool", "thread"])
def test_a_prompt_during_a_run_is_refused_and_harms_nothing(place: str) -> None:
    """L03, L05"""
    refused: list[str] = []

    def prompt() -> None:
        try:
            agent.prompt("x")
        except AgentBusyError as error:
            refused.append(str(error))

    @tool
    def ask() -> str:
        """Prompt."""
        if place == "thread":
            thread = threading.Thread(target=prompt)
            thread.start()
            thread.join()
        if place == "tool":
            prompt()
        return "asked"

    with agent_of([tool_call("ask")], "ok", "f", "s", tools=[ask]) as agent:
        if place == "subscriber":
            agent.subscribe(lambda event: prompt() if isinstance(event, ToolExecutionStart) else None)
        result = agent.run("hi")
        assert labels(result.messages) == "hi,A,T,A"
    assert len(refused) == 1
    assert "already processing" in refused[0]
    assert "steer" in refused[0]
    assert "follow_up" in refused[0]


def test_steering_and_follow_ups_are_taken_during_a_slow_stream() -> None:
    """L05"""
    gate = Gate()
    agent = Agent(ScriptedModel().model, stream_fn=gate.stream)
    with agent:
        run = agent.prompt("hi")
        assert gate.requested.wait(10)
        with pytest.raises(AgentBusyError):
            agent.prompt("x")
        with pytest.raises(AgentBusyError):
            agent.resume()
        agent.steer("s")
        agent.follow_up("f")
        gate.go.set()
        assert run.wait(10)
        assert labels(run.result().messages) == "hi,A,s,A,f,A"


def test_of_two_racing_prompts_exactly_one_is_accepted() -> None:
    """L06"""
    rounds = 1000
    accepted = [0] * rounds
    refused = [0] * rounds
    barrier = threading.Barrier(2)
    gate = threading.Event()

    def hold(model: Any, context: AgentContext, options: StreamOptions) -> Any:
        assert gate.wait(10)
        yield TextDelta(0, "ok")
        yield StreamDone()

    with Agent(ScriptedModel().model, stream_fn=hold) as agent:

        def race() -> None:
            for turn in range(rounds):
                barrier.wait(10)
                try:
                    agent.prompt("hi")
                    accepted[turn] += 1
                except AgentBusyError:
                    refused[turn] += 1
                barrier.wait(10)
                if barrier.wait(10) == 0:
                    gate.set()
                    assert agent.wait_for_idle(10)
                    gate.clear()
                    agent.clear_messages()
                barrier.wait(10)

        threads = [threading.Thread(target=race) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert accepted == refused == [1] * rounds


def test_of_two_racing_resumes_one_is_accepted_and_no_queued_message_is_lost() -> None:
    with agent_of(*["ok"] * 400) as agent:
        agent.run("hi")
        for _ in range(100):
            agent.steer("s")
            barrier = threading.Barrier(2)
            accepted: list[Run] = []

            def resume(barrier: threading.Barrier = barrier, accepted: list[Run] = accepted) -> None:
                barrier.wait(10)
                with contextlib.suppress(AgentBusyError):
                    accepted.append(agent.resume())

            threads = [threading.Thread(target=resume) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(10)
            assert agent.wait_for_idle(10)
            # A resume that came after the end of the first is accepted too, and sends "continue".
            assert labels(accepted[0].result().messages) in ("s,A", "continue,A")
            stories = [labels(run.result().messages) for run in accepted]
            assert stories.count("s,A") == 1
        assert not agent.has_queued_messages


# --- prompts at the edge of a finishing run --------------------------------------------------------


def test_a_prompt_from_the_end_of_a_run_is_accepted_and_runs_next() -> None:
    events: list[Event] = []
    runs: list[Run] = []
    with agent_of("one", "two", "three") as agent:
        agent.subscribe(events.append)
        prompts = iter(("second", "third"))

        def again(event: Event) -> None:
            if isinstance(event, AgentEnd):
                assert not agent.state.is_streaming
                for word in prompts:
                    runs.append(agent.prompt(word))
                    assert agent.state.is_streaming
                    return

        agent.subscribe(again)
        first = agent.prompt("first")
        assert agent.wait_for_idle(10)
        assert first.done
        assert all(run.done for run in runs)
        assert labels(agent.state.messages) == "first,A,second,A,third,A"
    ids = [event.run_id for event in events]
    assert ids == sorted(ids, key=[first.run_id, *(run.run_id for run in runs)].index)


def test_only_one_prompt_may_wait_for_a_finishing_run() -> None:
    refused: list[BaseException] = []
    with agent_of("one", "two") as agent:
        once = iter((1,))

        def again(event: Event) -> None:
            if isinstance(event, AgentEnd):
                for _ in once:
                    agent.prompt("second")
                    for more in (lambda: agent.prompt("third"), agent.resume, agent.reset):
                        try:
                            more()
                        except AgentBusyError as error:
                            refused.append(error)

        agent.subscribe(again)
        agent.prompt("first")
        assert agent.wait_for_idle(10)
        assert labels(agent.state.messages) == "first,A,second,A"
    assert len(refused) == 3


def test_a_prompt_from_another_thread_while_a_run_finishes_runs_next() -> None:
    ending, go = threading.Event(), threading.Event()
    with agent_of("one", "two") as agent:

        def slow_end(event: Event) -> None:
            if isinstance(event, AgentEnd) and not ending.is_set():
                ending.set()
                assert go.wait(10)

        agent.subscribe(slow_end)
        first = agent.prompt("first")
        assert ending.wait(10)
        second = agent.prompt("second")
        with pytest.raises(AgentBusyError):
            agent.prompt("third")
        assert not first.done
        go.set()
        assert second.wait(10)
        assert first.done
        assert labels(second.result().messages) == "second,A"
        assert labels(agent.state.messages) == "first,A,second,A"


def test_a_waiting_run_that_is_aborted_still_starts_and_ends() -> None:
    events: list[Event] = []
    with agent_of("one", "never") as agent:
        agent.subscribe(events.append)
        once = iter((1,))

        def again(event: Event) -> None:
            if isinstance(event, AgentEnd):
                for _ in once:
                    agent.prompt("second")
                    agent.abort()

        agent.subscribe(again)
        agent.prompt("first")
        assert agent.wait_for_idle(10)
    assert story(events).endswith(
        "agent_end[first,A] agent_start turn_start ms:second me:second ms:A me:A~ turn_end[A~] "
        "agent_end[second,A~]"
    )


def test_closing_settles_the_run_that_waits() -> None:
    runs: list[Run] = []
    agent = agent_of("one", "never")
    once = iter((1,))

    def again(event: Event) -> None:
        if isinstance(event, AgentEnd):
            for _ in once:
                runs.append(agent.prompt("second"))
                agent.close()

    agent.subscribe(again)
    agent.prompt("first")
    assert agent.wait_for_idle(10)
    assert runs[0].result(0).stop == "aborted"
    with pytest.raises(AgentError, match="closed"):
        agent.prompt("third")


# --- waiting from outside --------------------------------------------------------------------------


def test_idle_means_that_no_retry_and_no_tool_turn_is_to_come() -> None:
    """L11"""
    ends: list[str] = []
    reset = error("connection reset by peer")
    with agent_of(reset, [tool_call("echo", {"word": "x"})], reset, "done", tools=[echo]) as agent:
        agent.subscribe(
            lambda event: ends.append(event.type) if isinstance(event, (AgentEnd, AutoResume)) else None
        )
        agent.prompt("hi")
        assert agent.wait_for_idle(10)
        assert ends == ["auto_resume", "auto_resume", "agent_end"]
        assert labels(agent.state.messages) == "hi,A,T,A"


def test_waiting_gives_up_after_its_time() -> None:
    gate = Gate()
    with Agent(ScriptedModel().model, stream_fn=gate.stream) as agent:
        run = agent.prompt("hi")
        assert not agent.wait_for_idle(0.01)
        assert not run.wait(0.01)
        with pytest.raises(TimeoutError):
            run.result(0.01)
        gate.go.set()


def test_many_threads_may_wait_for_one_run() -> None:
    gate = Gate()
    with Agent(ScriptedModel().model, stream_fn=gate.stream) as agent:
        run = agent.prompt("hi")
        results: list[str] = []
        waiters = [threading.Thread(target=lambda: results.append(run.result(10).stop)) for _ in range(20)]
        for waiter in waiters:
            waiter.start()
        gate.go.set()
        for waiter in waiters:
            waiter.join(10)
        assert results == ["end_turn"] * 20


@pytest.mark.parametrize("seconds", [60.0, 0.01], ids=["in one go", "in slices"])
def test_waits_end_in_time_also_when_they_poll_for_signals(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent.cancel, "SIGNAL_POLL_SECONDS", seconds)
    gate = Gate()
    with Agent(ScriptedModel().model, stream_fn=gate.stream) as mine:
        stream = mine.stream("hi")
        assert not stream.run.wait(0.03)
        assert not mine.wait_for_idle(0.03)
        assert not stream.run.wait(0)
        threading.Timer(0.03, gate.go.set).start()
        assert [event.type for event in stream][-1] == "agent_end"
        assert stream.run.wait()
        assert mine.wait_for_idle()


# --- signals ---------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs signals to a thread")
def test_a_signal_that_reaches_another_thread_is_handled_while_the_main_thread_waits() -> None:
    gate = Gate()
    handled = threading.Event()

    def interrupt_myself() -> None:
        assert gate.requested.wait(10)
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        if handled.wait(10):
            gate.go.set()

    before = signal.signal(signal.SIGUSR1, lambda number, frame: handled.set())
    other = threading.Thread(target=interrupt_myself)
    try:
        with Agent(ScriptedModel().model, stream_fn=gate.stream) as mine:
            run = mine.prompt("hi")
            other.start()
            assert run.wait(10)
            assert mine.wait_for_idle(10)
    finally:
        signal.signal(signal.SIGUSR1, before)
        other.join(10)
    assert handled.is_set()


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs signals to a thread")
def test_ctrl_c_while_waiting_in_run_aborts_it() -> None:
    gate = Gate()
    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        assert gate.requested.wait(10)
        signal.pthread_kill(main, signal.SIGINT)

    with Agent(ScriptedModel().model, stream_fn=gate.stream) as agent:
        ends: list[str] = []
        agent.subscribe(lambda event: ends.append(event.stop) if isinstance(event, AgentEnd) else None)
        presser = threading.Thread(target=interrupt)
        before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in background jobs
        try:
            presser.start()
            with pytest.raises(KeyboardInterrupt):
                agent.run("hi")
            presser.join(10)
        finally:
            signal.signal(signal.SIGINT, before)
        assert agent.wait_for_idle(10)
    assert ends == ["aborted"]


def test_a_signal_handler_may_abort_and_queue_whatever_it_interrupts() -> None:
    gate = Gate()
    with Agent(ScriptedModel().model, stream_fn=gate.stream) as agent:

        def handler(*ignored: Any) -> None:
            agent.abort()
            agent.steer("s")
            agent.follow_up("f")
            assert agent.has_queued_messages

        before = signal.signal(signal.SIGINT, handler)
        try:
            run = agent.prompt("hi")
            assert gate.requested.wait(10)
            with agent._lock, agent._inbox._lock:  # as if it came in the middle of a call
                signal.raise_signal(signal.SIGINT)
            assert run.result(10).stop == "aborted"
        finally:
            signal.signal(signal.SIGINT, before)


def test_an_abort_right_after_the_prompt_is_not_lost() -> None:
    gate = Gate()
    with Agent(ScriptedModel().model, stream_fn=gate.stream) as agent:
        for _ in range(200):
            run = agent.prompt("hi")
            agent.abort()
            assert run.result(10).stop == "aborted"
            agent.clear_messages()


# --- many at once ----------------------------------------------------------------------------------


def test_a_hundred_agents_run_at_once() -> None:
    everyone = threading.Barrier(101)

    @tool
    def meet() -> str:
        """Wait for all the others."""
        everyone.wait(30)
        return "met"

    agents = [agent_of([tool_call("meet")], "done", tools=[meet], name=str(n)) for n in range(100)]
    runs = [agent.prompt(str(n)) for n, agent in enumerate(agents)]
    everyone.wait(30)  # can only be passed when all hundred tools run at the same time
    for number, run in enumerate(runs):
        assert labels(run.result(30).messages) == f"{number},A,T,A"
    for mine in agents:
        mine.close()


def test_tools_changed_from_many_threads_keep_the_others() -> None:
    agent = Agent(tools=[echo])

    def change(number: int) -> None:
        extra = AgentTool(f"extra{number}", "", {"type": "object"}, lambda arguments, context: "")
        for _ in range(25):
            agent.update_tools(lambda tools: tools.add(extra))
            agent.update_tools(lambda tools: tools.remove(extra.name))

    threads = [threading.Thread(target=change, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tools = agent.state.tools
    assert isinstance(tools, ToolSet)
    assert tools.names() == ["echo"]


def test_messages_queued_from_many_threads_all_arrive_once() -> None:
    with agent_of(*["ok"] * 500, steering_mode="all", follow_up_mode="all") as agent:
        started = threading.Event()
        agent.subscribe(lambda event: started.set() if isinstance(event, MessageUpdate) else None)
        agent.prompt("hi")
        assert started.wait(10)

        def queue(thread: int) -> None:
            for number in range(25):
                (agent.steer if number % 2 else agent.follow_up)(f"{thread}-{number}")

        threads = [threading.Thread(target=queue, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert agent.wait_for_idle(10)
        while agent.has_queued_messages:
            agent.resume().wait(10)
        texts = [word for word in labels(agent.state.messages).split(",") if "-" in word]
    assert sorted(texts) == sorted(f"{t}-{n}" for t in range(4) for n in range(25))


def test_the_usage_of_turns_never_falls() -> None:
    events: list[Event] = []
    with agent_of([tool_call("echo", {"word": "x"})], "ok", tools=[echo]) as agent:
        agent.subscribe(events.append)
        agent.run("hi")
    assert len([e for e in events if isinstance(e, TurnEnd)]) == 2
    assert_events_balance(events)
