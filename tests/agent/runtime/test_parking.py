"""Agents that park: a run that waits for a reply where it would have ended."""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from support.runs import NO_WAITS, assert_events_balance, label, until

from agent import Agent, AgentBusyError, Hooks, Limits, UserMessage, tool
from agent.events import AgentEnd, AgentParked, Event, MessageUpdate, event_to_json
from agent.runtime.inbox import Inbox
from agent.testing import ScriptedModel, error, tool_call


@tool
def echo(word: str) -> str:
    """Say it again."""
    return word


class Parking:
    """An agent that parks, its events, and a way to wait until it has parked so often."""

    def __init__(self, *turns: Any, **options: Any) -> None:
        self.model = ScriptedModel(*turns)
        self.events: list[Event] = []
        settings: dict[str, Any] = {"stream_fn": self.model.stream, "retry": NO_WAITS, "park": True}
        self.agent = Agent(self.model.model, **settings | options)
        self.agent.subscribe(self.events.append)

    def __enter__(self) -> Parking:
        return self

    def __exit__(self, *details: object) -> None:
        self.agent.close()

    @property
    def parked(self) -> int:
        return sum(isinstance(event, AgentParked) for event in self.events)

    def until_parked(self, times: int = 1) -> None:
        until(lambda: self.parked == times)

    @property
    def story(self) -> list[str]:
        return [label(message) for message in self.agent.state.messages]


def test_an_answered_run_parks_instead_of_ending_and_goes_on_with_the_reply() -> None:
    with Parking("one", "two") as made:
        run = made.agent.prompt("hi")
        made.until_parked()
        assert not run.done
        assert made.agent.state.is_streaming
        assert made.agent.reply("and then?")
        made.until_parked(2)
        assert made.story == ["hi", "A", "and then?", "A"]
        kinds = [event.type for event in made.events]
        at = kinds.index("agent_parked")
        assert kinds[at - 1 : at + 3] == ["turn_end", "agent_parked", "turn_start", "message_start"]
        made.agent.abort()
        assert run.result(10).stop == "aborted"
    assert_events_balance(made.events)


def test_an_abort_while_parked_ends_the_run_and_adds_no_message() -> None:
    with Parking("one") as made:
        run = made.agent.prompt("hi")
        made.until_parked()
        made.agent.abort()
        result = run.result(2)
        assert (result.stop, result.text, result.error) == ("aborted", "one", "")
        assert made.story == ["hi", "A"]
        assert made.agent.wait_for_idle(2)


def test_a_reply_before_the_run_has_parked_is_used_where_it_parks() -> None:
    go = threading.Event()

    def answer(context: Any) -> str:
        assert go.wait(10)
        return "one"

    with Parking(answer, "two") as made:
        made.agent.prompt("hi")
        assert made.agent.reply("early")
        assert not made.agent.reply("too many")
        go.set()
        made.until_parked(2)
        assert made.story == ["hi", "A", "early", "A"]


def test_there_is_one_place_for_a_reply() -> None:
    entered, go = threading.Event(), threading.Event()

    def hold(info: Any) -> None:
        entered.set()
        assert go.wait(10)

    with Parking("one", "two", hooks=Hooks(before_park=hold)) as made:
        made.agent.prompt("hi")
        assert entered.wait(10)
        assert [made.agent.reply("a"), made.agent.reply("b")] == [True, False]
        go.set()
        until(lambda: made.story == ["hi", "A", "a", "A"])


def test_a_reply_needs_a_run_that_parks() -> None:
    with Parking("one") as made:
        assert not made.agent.reply("no one there")
        run = made.agent.prompt("hi")
        made.until_parked()
        made.agent.abort()
        run.wait(10)
        assert not made.agent.reply("too late")
    with Parking("one", park=False) as made:
        made.agent.subscribe(lambda event: replies.append(made.agent.reply("x")))
        replies: list[bool] = []
        assert made.agent.run("hi").stop == "end_turn"
        assert not any(replies)
        assert not made.agent.parks


def test_a_reply_that_its_run_does_not_take_never_reaches_the_next() -> None:
    with Parking(error("400 no"), "two") as made:
        replied = iter((1,))

        def reply(event: Event) -> None:
            for _ in replied:
                assert made.agent.reply("lost")

        made.agent.subscribe(reply)
        assert made.agent.prompt("hi").result(10).stop == "error"
        made.agent.prompt("again")
        made.until_parked()
        assert made.story == ["hi", "A!", "again", "A"]


def test_an_error_and_a_limit_end_the_run_without_parking() -> None:
    with Parking(error("400 no")) as made:
        assert made.agent.prompt("hi").result(10).stop == "error"
        assert made.parked == 0
    with Parking([tool_call("echo", {"word": "x"})], tools=[echo], limits=Limits(max_turns=1)) as made:
        assert made.agent.prompt("hi").result(10).stop == "max_turns"
        assert made.parked == 0


def test_a_prompt_while_parked_is_refused_with_what_to_use_instead() -> None:
    with Parking("one") as made:
        made.agent.prompt("hi")
        made.until_parked()
        with pytest.raises(AgentBusyError, match=r"Use reply\(\)"):
            made.agent.prompt("again")


@pytest.mark.parametrize("way", ["steer", "follow_up"])
def test_what_is_queued_while_it_is_parked_wakes_it_too(way: str) -> None:
    with Parking("one", "two") as made:
        made.agent.prompt("hi")
        made.until_parked()
        receipt = getattr(made.agent, way)("queued")
        made.until_parked(2)
        assert made.story == ["hi", "A", "queued", "A"]
        assert (receipt.state, receipt.turn) == ("delivered", 2)


def test_queued_messages_are_sent_before_it_parks() -> None:
    with Parking("one", "two") as made:
        made.agent.follow_up("f")
        made.agent.prompt("hi")
        made.until_parked()
        assert made.story == ["hi", "A", "f", "A"]


def test_a_reply_may_be_a_message() -> None:
    with Parking("one", "two") as made:
        made.agent.prompt("hi")
        made.until_parked()
        assert made.agent.reply(UserMessage("said", 1))
        made.until_parked(2)
        assert made.agent.state.messages[2] == UserMessage("said", 1)


def test_the_payload_is_what_the_hook_gives() -> None:
    infos: list[Any] = []

    def payload(info: Any) -> dict[str, int]:
        infos.append(info)
        return {"turns": info.turns}

    with Parking("one", hooks=Hooks(before_park=payload)) as made:
        made.agent.prompt("hi")
        made.until_parked()
        parked = next(event for event in made.events if isinstance(event, AgentParked))
        assert parked.payload == {"turns": 1}
        assert event_to_json(parked)["payload"] == {"turns": 1}
        assert infos[0].message.text == "one"


def test_a_hook_that_raises_is_logged_and_it_parks_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    def broken(info: Any) -> None:
        raise ValueError("no")

    with caplog.at_level(logging.ERROR, "agent"), Parking("one", hooks=Hooks(before_park=broken)) as made:
        made.agent.prompt("hi")
        made.until_parked()
        assert [event.payload for event in made.events if isinstance(event, AgentParked)] == [None]
    assert "before_park failed" in caplog.text


def test_a_reply_resets_the_count_of_turns_with_turns_since_input() -> None:
    def played(limits: Limits) -> tuple[str, int]:
        call = [tool_call("echo", {"word": "x"})]
        with Parking(call, "one", call, "two", tools=[echo], limits=limits) as made:
            run = made.agent.prompt("hi")
            until(lambda: run.done or made.parked == 1)
            if not run.done:
                made.agent.reply("more")
                until(lambda: run.done or made.parked == 2)
            made.agent.abort()
            return run.result(10).stop, made.parked

    assert played(Limits(max_turns=2, turns_since_input=True)) == ("aborted", 2)
    assert played(Limits(max_turns=3)) == ("max_turns", 1)


def test_closing_ends_a_parked_run() -> None:
    made = Parking("one")
    run = made.agent.prompt("hi")
    made.until_parked()
    made.agent.close()
    assert run.result(2).stop == "aborted"


def test_the_run_handle_waits_through_the_parking() -> None:
    with Parking("one", "two") as made:

        def reply() -> None:
            made.until_parked()
            made.agent.reply("more")

        threading.Thread(target=reply).start()
        run = made.agent.prompt("hi")
        assert not run.wait(0)
        made.until_parked(2)
        made.agent.abort()
        assert run.result(10).turns == 2


def test_of_many_replies_at_once_one_is_accepted() -> None:
    inbox = Inbox("", "")
    inbox.open_replies()
    for _ in range(100):
        accepted: list[bool] = []
        barrier = threading.Barrier(4, timeout=10)

        def reply(accepted: list[bool] = accepted, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            accepted.append(inbox.reply(UserMessage("x")))

        threads = [threading.Thread(target=reply) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert accepted.count(True) == 1
        assert inbox.take_reply() is not None


def test_an_agent_is_collected_after_it_has_parked_and_ended() -> None:
    def made() -> weakref.ref[Agent]:
        parking = Parking("one")
        run = parking.agent.prompt("hi")
        parking.until_parked()
        parking.agent.abort()
        run.wait(10)
        return weakref.ref(parking.agent)

    dead = made()
    collected: Callable[[], bool] = lambda: (gc.collect(), dead() is None)[1]  # noqa: E731
    until(collected)


def test_run_returns_when_another_thread_ends_the_conversation() -> None:
    with Parking("one") as made:
        made.agent.subscribe(lambda event: made.agent.abort() if isinstance(event, AgentParked) else None)
        assert made.agent.run("hi").stop == "aborted"
        assert isinstance(made.events[-1], AgentEnd)
        assert any(isinstance(event, MessageUpdate) for event in made.events)
