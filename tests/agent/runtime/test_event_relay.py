"""Events of other threads, kept for the run's own."""

from __future__ import annotations

import threading

from agent.events import Event, TurnStart
from agent.runtime.event_relay import EventRelay


def test_events_are_taken_once_and_in_order() -> None:
    relay = EventRelay()
    events: list[Event] = [TurnStart() for _ in range(3)]
    for event in events:
        relay.forward(event)
    assert relay.has_pending
    assert relay.pending_events() == events
    assert not relay.has_pending
    assert relay.pending_events() == []


def test_the_waiting_thread_is_woken_for_each_event_and_not_after() -> None:
    relay = EventRelay()
    woken: list[str] = []
    relay.on_pending(lambda: woken.append("x"))
    relay.forward(TurnStart())
    relay.notify()
    relay.on_pending(None)
    relay.forward(TurnStart())
    assert woken == ["x", "x"]


def test_what_came_before_the_wait_began_wakes_at_once() -> None:
    relay = EventRelay()
    relay.forward(TurnStart())
    woken: list[str] = []
    relay.on_pending(lambda: woken.append("x"))
    assert woken == ["x"]


def test_no_event_is_lost_however_threads_meet() -> None:
    relay = EventRelay()
    threads = [
        threading.Thread(target=lambda: [relay.forward(TurnStart()) for _ in range(2000)]) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    taken = 0
    while any(thread.is_alive() for thread in threads) or relay.has_pending:
        taken += len(relay.pending_events())
    assert taken == 6000
