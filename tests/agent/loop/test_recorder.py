"""The events of a run and the messages that they stand for."""

from __future__ import annotations

from agent.events import Event, MessageEnd, MessageStart, TurnStart
from agent.loop import LoopConfig
from agent.loop.history import History
from agent.loop.recorder import RunRecorder
from agent.messages import UserMessage
from agent.models import Model
from agent.runs import RunMetadata
from agent.usage import Usage

RUN = RunMetadata("run_1")


def recorder_of(events: list[Event]) -> RunRecorder:
    config = LoopConfig(Model("m", "scripted", "scripted"), clock=lambda: 1.5, run=RUN)
    return RunRecorder(History(), config, events.append)


def test_an_event_has_the_time_and_the_run() -> None:
    events: list[Event] = []
    recorder = recorder_of(events)
    recorder.emit(TurnStart())
    assert (events[0].time, events[0].run) == (1.5, RUN)
    assert recorder.now_ms() == 1500


def test_a_forwarded_event_keeps_its_own() -> None:
    events: list[Event] = []
    other = RunMetadata("run_2")
    recorder_of(events).forward(TurnStart(time=9.0, run=other))
    assert (events[0].time, events[0].run) == (9.0, other)


def test_a_whole_message_is_in_the_history_from_its_end_on() -> None:
    message = UserMessage("hi")
    stored: list[tuple[type[Event], bool]] = []
    recorder = recorder_of([])
    recorder.forward = lambda event: stored.append((type(event), message in recorder.history.messages))
    recorder.add_whole(message)
    assert stored == [(MessageStart, False), (MessageEnd, True)]


def test_a_run_begins_without_usage() -> None:
    assert recorder_of([]).usage == Usage()
