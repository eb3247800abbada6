"""Subscribers behind a queue: order, back-pressure, what is dropped, and that their threads end."""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from support.runs import NO_WAITS, assert_events_balance, until

from agent import Agent, ConfigurationError
from agent.events import AgentEnd, AgentStart, Event, MessageUpdate, TurnEnd, TurnStart
from agent.runtime.subscribers import FULL_QUEUE_TIMEOUT, QueuedSubscriber
from agent.stream import PartialMessage, StreamDone, StreamStart, TextDelta
from agent.testing import ScriptedModel

DELTAS = 200


def agent_of(*turns: Any, **options: Any) -> Agent:
    model = ScriptedModel(*turns)
    settings: dict[str, Any] = {"stream_fn": model.stream, "retry": NO_WAITS} | options
    return Agent(model.model, **settings)


def long_answer(deltas: int = DELTAS) -> list[Any]:
    return [StreamStart(), *(TextDelta(0, f"{n} ") for n in range(deltas)), StreamDone()]


def threads() -> int:
    return sum(thread.name.startswith("agent-subscriber") for thread in threading.enumerate())


class Held:
    """A subscriber that stops at its first event until it is let go."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.entered = threading.Event()
        self.go = threading.Event()

    def __call__(self, event: Event) -> None:
        self.entered.set()
        assert self.go.wait(20)
        self.events.append(event)


def update() -> MessageUpdate:
    return MessageUpdate(PartialMessage([], 0), TextDelta(0, "x"))


class Clock:
    """Waits for a place in the queue that take no time; each is recorded and returns what `on_wait` does."""

    def __init__(self, on_wait: Callable[[threading.Semaphore], bool] = lambda slots: False) -> None:
        self.waits: list[float] = []
        self._on_wait = on_wait

    def __call__(self, slots: threading.Semaphore, seconds: float) -> bool:
        self.waits.append(seconds)
        return self._on_wait(slots)


# --- order and threads -----------------------------------------------------------------------------


def test_events_come_in_order_on_a_thread_of_their_own() -> None:
    received: list[Event] = []
    names: set[str] = set()

    def note(event: Event) -> None:
        received.append(event)
        names.add(threading.current_thread().name)

    with agent_of(long_answer(), name="q") as agent:
        everything: list[Event] = []
        agent.subscribe(everything.append)
        subscription = agent.subscribe(note, queue=4)
        agent.run("hi")
    assert received == everything
    assert names == {"agent-subscriber-q"}
    assert subscription.dropped == 0


def test_a_queue_as_long_as_the_run_holds_nothing_up() -> None:
    held = Held()
    with agent_of("ok") as agent:
        agent.subscribe(held, queue=100)
        agent.run("hi")
        assert held.events == []
        held.go.set()
    assert_events_balance(held.events)


def test_a_subscriber_without_events_has_no_thread() -> None:
    with agent_of("ok") as agent:
        agent.subscribe(lambda event: None, queue=4)
        assert threads() == 0


def test_closing_delivers_what_is_queued_and_ends_the_thread() -> None:
    held = Held()
    agent = agent_of("ok")
    agent.subscribe(held, queue=100)
    agent.run("hi")
    assert threads() == 1
    closing = threading.Thread(target=agent.close)
    closing.start()
    held.go.set()
    closing.join()
    assert isinstance(held.events[-1], AgentEnd)
    assert threads() == 0


def test_closing_from_inside_a_run_ends_the_threads_too() -> None:
    received: list[Event] = []
    agent = agent_of(long_answer())
    agent.subscribe(lambda event: agent.close() if isinstance(event, MessageUpdate) else None)
    agent.subscribe(received.append, queue=4)
    agent.prompt("hi")
    until(lambda: received and isinstance(received[-1], AgentEnd))
    until(lambda: threads() == 0)


def test_a_queued_subscriber_may_close_the_agent() -> None:
    agent = agent_of("ok")
    agent.subscribe(lambda event: agent.close() if isinstance(event, AgentEnd) else None, queue=4)
    agent.run("hi")
    until(lambda: threads() == 0)


def test_ending_the_subscription_ends_its_thread_and_delivers_nothing_more() -> None:
    held = Held()
    with agent_of("ok", "ok") as agent:
        end = agent.subscribe(held, queue=100)
        agent.run("hi")
        assert held.entered.wait(10)
        end()
        end()
        held.go.set()
        until(lambda: threads() == 0)
        agent.run("hi")
        assert threads() == 0
    assert [event.type for event in held.events] == ["agent_start"]


def test_a_forgotten_agent_takes_the_threads_of_its_subscribers_with_it() -> None:
    def made() -> weakref.ref[Agent]:
        agent = agent_of("ok")
        received: list[Event] = []

        def note(event: Event) -> None:  # holds the agent, as a screen would
            received.append(event)
            assert agent.name == ""

        agent.subscribe(note, queue=4)
        agent.run("hi")
        until(lambda: len(received) and isinstance(received[-1], AgentEnd))
        return weakref.ref(agent)

    dead = made()
    until(lambda: (gc.collect(), dead() is None)[1])
    until(lambda: threads() == 0)


def test_a_hundred_subscriptions_leave_no_thread() -> None:
    with agent_of(*["ok"] * 20) as agent:
        for _ in range(20):
            ends = [agent.subscribe(lambda event: None, queue=2) for _ in range(5)]
            agent.run("hi")
            for end in ends:
                end()
        until(lambda: threads() == 0)


def test_it_counts_as_inside_the_run_like_any_subscriber() -> None:
    raised: list[str] = []
    with agent_of("ok") as agent:

        def wait(event: Event) -> None:
            if isinstance(event, AgentStart):
                try:
                    agent.wait_for_idle()
                except RuntimeError as error:
                    raised.append(str(error))

        agent.subscribe(wait, queue=4)
        agent.run("hi")
    assert len(raised) == 1


def test_one_that_raises_is_logged_and_gets_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    received: list[Event] = []

    def broken(event: Event) -> None:
        received.append(event)
        raise SystemExit(1)

    with caplog.at_level(logging.ERROR, "agent"), agent_of("ok") as agent:
        agent.subscribe(broken, queue=4)
        assert agent.run("hi").stop == "end_turn"
    assert_events_balance(received)
    assert "a subscriber failed on agent_end" in caplog.text


# --- a full queue ----------------------------------------------------------------------------------


def test_streaming_events_are_dropped_and_counted_while_control_events_all_arrive_in_order() -> None:
    held = Held()
    everything: list[Event] = []
    with agent_of(long_answer()) as agent:
        end = agent.subscribe(held, queue=8, drop_streaming=True)

        def release(event: Event) -> None:
            everything.append(event)
            if isinstance(event, MessageUpdate) and len(everything) > DELTAS:
                held.go.set()

        agent.subscribe(release)
        agent.run("hi")
    received = [event.type for event in held.events if not isinstance(event, MessageUpdate)]
    assert received == [event.type for event in everything if not isinstance(event, MessageUpdate)]
    assert held.events == [event for event in everything if event in held.events]
    assert end.dropped == len(everything) - len(held.events)
    assert end.dropped >= DELTAS - 30


def test_without_dropping_the_run_waits_for_a_slow_reader_and_nothing_is_lost() -> None:
    received: list[Event] = []
    tick = threading.Semaphore(0)

    def slow(event: Event) -> None:
        assert tick.acquire(timeout=10)
        received.append(event)

    with agent_of(long_answer(40)) as agent:
        end = agent.subscribe(slow, queue=1)
        run = agent.prompt("hi")
        while not run.done or not received or not isinstance(received[-1], AgentEnd):
            tick.release()
            run.wait(0.001)
        tick.release(5)
    assert end.dropped == 0
    assert sum(isinstance(event, MessageUpdate) for event in received) == 40


def test_a_control_event_waits_five_seconds_for_a_place_and_is_then_dropped_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, held = Clock(), Held()
    queued = QueuedSubscriber(held, 1, True, wait=clock)
    queued(AgentStart())
    assert held.entered.wait(10)
    queued(TurnStart())  # the one place
    queued(update())
    assert clock.waits == []
    with caplog.at_level(logging.WARNING, "agent"):
        queued(TurnEnd(None))
    assert clock.waits == [FULL_QUEUE_TIMEOUT] == [5.0]
    assert "took no event for 5.0 s; turn_end is dropped" in caplog.text
    assert queued.dropped == 2
    held.go.set()
    queued.finish()
    queued.join(10)
    assert [event.type for event in held.events] == ["agent_start", "turn_start"]


def test_a_reader_that_never_reads_costs_the_run_one_wait() -> None:
    clock, held = Clock(), Held()
    queued = QueuedSubscriber(held, 1, wait=clock)
    queued(TurnStart())
    assert held.entered.wait(10)
    for _ in range(99):
        queued(TurnStart())
    assert len(clock.waits) == 1
    assert queued.dropped >= 98
    held.go.set()
    queued.close()
    queued.join(10)


def test_a_reader_that_comes_back_is_waited_for_again() -> None:
    clock, held = Clock(), Held()
    queued = QueuedSubscriber(held, 1, wait=clock)
    queued(AgentStart())
    assert held.entered.wait(10)
    for _ in range(3):
        queued(TurnStart())
    assert (len(clock.waits), queued.dropped) == (1, 2)
    held.go.set()
    until(lambda: len(held.events) == 2)
    held.go.clear()
    held.entered.clear()
    queued(update())
    assert held.entered.wait(10)
    queued(update())
    queued(update())
    assert (len(clock.waits), queued.dropped) == (2, 3)
    held.go.set()
    queued.close()
    queued.join(10)


def test_a_place_that_becomes_free_while_the_run_waits_is_taken() -> None:
    held = Held()

    def free(slots: threading.Semaphore) -> bool:
        held.go.set()
        return slots.acquire(timeout=10)

    queued = QueuedSubscriber(held, 1, wait=Clock(free))
    for _ in range(20):
        queued(TurnStart())
    queued.finish()
    queued.join(10)
    assert (len(held.events), queued.dropped) == (20, 0)


def test_ending_the_subscription_frees_a_run_that_waits_for_a_place() -> None:
    held = Held()
    with agent_of(long_answer()) as agent:
        end = agent.subscribe(held, queue=1)
        run = agent.prompt("hi")
        assert held.entered.wait(10)
        end()
        assert run.wait(4)  # less than the patience
        held.go.set()


@pytest.mark.parametrize("size", [0, -1, 1.5, True, "4"])
def test_a_queue_that_is_no_size_is_refused(size: Any) -> None:
    with agent_of() as agent, pytest.raises(ConfigurationError, match="queue must be a whole number"):
        agent.subscribe(lambda event: None, queue=size)


def test_a_subscriber_without_a_queue_drops_nothing() -> None:
    with agent_of(long_answer()) as agent:
        end = agent.subscribe(lambda event: None)
        agent.run("hi")
    assert end.dropped == 0


def test_a_subscriber_without_a_thread_counts_what_it_misses_and_gives_its_places_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """FR-20"""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    clock, held = Clock(), Held()
    held.go.set()
    queued = QueuedSubscriber(held, 1, wait=clock)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        for _ in range(3):
            queued(TurnStart())
    assert (queued.dropped, clock.waits) == (3, [])
    assert "can't start new thread" in caplog.text
    queued(AgentStart())
    queued.finish()
    queued.join(10)
    assert [event.type for event in held.events] == ["agent_start"]
    assert queued.dropped == 3
