"""The queues of an agent: receipts, events and order."""

from __future__ import annotations

import json
import threading
from typing import Any

from support.runs import NO_WAITS, until

from agent import Agent, Receipt, tool
from agent.events import Event, QueueUpdate, TurnEnd, event_to_json
from agent.limits import Limits
from agent.messages import UserMessage
from agent.runtime.inbox import Inbox
from agent.testing import ScriptedModel, error, tool_call


@tool
def echo(word: str) -> str:
    """Say it again."""
    return word


def agent_of(*turns: Any, **options: Any) -> Agent:
    model = ScriptedModel(*turns)
    settings: dict[str, Any] = {"stream_fn": model.stream, "retry": NO_WAITS} | options
    return Agent(model.model, **settings)


def queues(events: list[Event]) -> list[tuple[list[str], list[str]]]:
    """Each update of the queues, as texts."""
    return [
        ([str(m.content) for m in e.steering], [str(m.content) for m in e.follow_ups])  # type: ignore[union-attr]
        for e in events
        if isinstance(e, QueueUpdate)
    ]


# --- receipts --------------------------------------------------------------------------------------


def test_a_receipt_has_the_turn_in_which_a_message_was_delivered() -> None:
    receipts: list[Receipt] = []
    with agent_of([tool_call("echo", {"word": "x"})], "two", "three", tools=[echo]) as agent:

        def queue(event: Event) -> None:
            if isinstance(event, TurnEnd) and not receipts:
                receipts.extend((agent.steer("s"), agent.follow_up("f")))
                assert [receipt.state for receipt in receipts] == ["queued", "queued"]
                assert receipts[0].turn is None

        agent.subscribe(queue)
        agent.run("hi")
    assert [(receipt.state, receipt.turn) for receipt in receipts] == [("delivered", 2), ("delivered", 3)]


def test_what_waits_before_the_prompt_is_delivered_in_the_first_turn() -> None:
    with agent_of("ok") as agent:
        receipt = agent.steer("s")
        assert (receipt.state, receipt.turn) == ("queued", None)
        agent.run("hi")
        assert (receipt.state, receipt.turn) == ("delivered", 1)


def test_what_a_resume_takes_is_delivered_in_the_first_turn_of_its_run() -> None:
    with agent_of("ok", "again", "more") as agent:
        agent.run("hi")
        first, second = agent.follow_up("f"), agent.follow_up("g")
        agent.resume().wait(10)
        assert (first.state, first.turn) == ("delivered", 1)
        assert (second.state, second.turn) == ("delivered", 2)


def test_a_message_taken_back_is_returned() -> None:
    agent = agent_of()
    removed, taken, dropped = agent.follow_up("a"), agent.follow_up("b"), agent.steer("c")
    agent.remove_follow_up(0)
    assert [receipt.state for receipt in (removed, taken, dropped)] == ["returned", "queued", "queued"]
    assert [message.content for message in agent.take_follow_ups()] == ["b"]  # type: ignore[union-attr]
    agent.clear_steering_queue()
    assert [receipt.state for receipt in (removed, taken, dropped)] == ["returned"] * 3
    assert dropped.turn is None
    cleared, also, reset = agent.follow_up("d"), agent.steer("e"), agent.follow_up("f")
    agent.clear_follow_up_queue()
    assert (cleared.state, also.state, reset.state) == ("returned", "queued", "returned")
    agent.clear_all_queues()
    assert also.state == "returned"
    last = agent.steer("g")
    agent.reset()
    assert last.state == "returned"


def test_what_a_limit_or_an_abort_leaves_in_the_queue_stays_queued() -> None:
    with agent_of("one", limits=Limits(max_turns=1)) as agent:
        receipt = agent.follow_up("f")
        assert agent.run("hi").stop == "max_turns"
        assert receipt.state == "queued"
    with agent_of("one") as agent:
        agent.subscribe(lambda event: agent.abort() if event.type == "message_update" else None)
        receipt = agent.steer("before")
        late = agent.follow_up("after")
        assert agent.run("hi").stop == "aborted"
        assert (receipt.state, late.state) == ("delivered", "queued")


def test_a_receipt_shows_its_state() -> None:
    inbox = Inbox("", "")
    receipt = inbox.steer(UserMessage("s"))
    assert repr(receipt) == "<Receipt queued>"
    inbox.poll_steering(3)
    assert repr(receipt) == "<Receipt delivered in turn 3>"


def test_each_of_many_receipts_from_many_threads_is_delivered_once() -> None:
    receipts: list[Receipt] = []
    with agent_of(*["ok"] * 60, follow_up_mode="all") as agent:

        def queue() -> None:
            for _ in range(10):
                receipts.append(agent.follow_up("f"))

        threads = [threading.Thread(target=queue) for _ in range(5)]
        for thread in threads:
            thread.start()
        agent.run("hi")
        for thread in threads:
            thread.join()
        while agent.has_queued_messages:
            agent.resume().wait(10)
    assert {receipt.state for receipt in receipts} == {"delivered"}
    assert len(receipts) == 50


# --- updates of the queues -------------------------------------------------------------------------


def test_a_change_of_the_queues_during_a_run_is_an_event() -> None:
    events: list[Event] = []
    with agent_of("one", "two") as agent:

        def queue(event: Event) -> None:
            events.append(event)
            if isinstance(event, TurnEnd) and len(queues(events)) == 0:
                agent.follow_up("f")

        agent.subscribe(queue)
        agent.run("hi")
    assert queues(events) == [([], ["f"]), ([], [])]
    kinds = [event.type for event in events if event.type != "message_update"]
    end = kinds.index("turn_end")
    assert kinds[end : end + 5] == ["turn_end", "queue_update", "queue_update", "turn_start", "message_start"]
    assert {event.run_id for event in events} == {events[0].run_id}


def test_a_change_is_announced_at_once_while_a_tool_runs() -> None:
    entered, announced = threading.Event(), threading.Event()

    @tool
    def wait() -> str:
        """Wait for the event."""
        entered.set()
        return "received" if announced.wait(10) else "never received"

    with agent_of([tool_call("wait")], "ok", "ok", tools=[wait]) as agent:
        agent.subscribe(lambda event: announced.set() if isinstance(event, QueueUpdate) else None)
        run = agent.prompt("hi")
        assert entered.wait(10)
        agent.follow_up("f")
        assert run.wait(10)
    assert agent.state.messages[2].text == "received"  # type: ignore[union-attr]


def test_messages_queued_before_the_run_are_announced_at_its_start() -> None:
    events: list[Event] = []
    with agent_of("one") as agent:
        agent.subscribe(events.append)
        agent.steer("s")
        assert events == []
        agent.run("hi")
    assert [event.type for event in events[:3]] == ["agent_start", "queue_update", "turn_start"]
    assert queues(events) == [(["s"], []), ([], [])]


def test_a_run_without_queued_messages_tells_of_no_queues() -> None:
    events: list[Event] = []
    with agent_of([tool_call("echo", {"word": "x"})], "ok", tools=[echo]) as agent:
        agent.subscribe(events.append)
        agent.run("hi")
    assert queues(events) == []


def test_clearing_an_empty_queue_is_no_change() -> None:
    inbox = Inbox("", "")
    inbox.clear()
    inbox.take_follow_ups()
    inbox.poll_steering(1)
    assert inbox.take_change() is None


def test_taking_a_message_back_is_an_event() -> None:
    events: list[Event] = []

    with agent_of([tool_call("hesitate")], "ok") as agent:

        @tool
        def hesitate() -> str:
            """Queue something and take it back."""
            agent.follow_up("f")
            until(lambda: agent.follow_up_queue())
            agent.take_follow_ups()
            agent.steer("s")
            return "done"

        agent.update_tools(lambda tools: tools.add(hesitate))
        agent.subscribe(events.append)
        agent.run("hi")
    assert queues(events)[-2:] == [(["s"], []), ([], [])]
    assert all(len(steering) + len(follow_ups) <= 1 for steering, follow_ups in queues(events))


def test_the_lists_of_an_update_are_copies() -> None:
    events: list[Event] = []
    with agent_of("one", "two") as agent:
        agent.subscribe(events.append)
        agent.follow_up("f")
        agent.subscribe(lambda event: event.follow_ups.clear() if isinstance(event, QueueUpdate) else None)
        agent.run("hi")
    assert agent.state.messages[2].content == "f"  # type: ignore[union-attr]


def test_a_subscriber_that_queues_at_every_update_does_not_hold_the_run_up() -> None:
    with agent_of(*["ok"] * 3, error("enough"), limits=Limits(max_turns=3)) as agent:
        agent.subscribe(lambda event: agent.steer("s") if isinstance(event, QueueUpdate) else None)
        agent.steer("s")
        assert agent.run("hi").stop == "max_turns"


def test_an_update_as_json() -> None:
    data = event_to_json(QueueUpdate([UserMessage("s", 1)], [], time=1.0))
    assert data["steering"] == [{"role": "user", "content": "s", "timestamp": 1}]
    assert data["follow_ups"] == []
    assert data["type"] == "queue_update"
    json.dumps(data)
