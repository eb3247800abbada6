"""One run in progress, made from its parts."""

from __future__ import annotations

import contextvars
import threading
from typing import Any

import pytest
from support.runs import NO_WAITS, labels

from agent.cancel import CancelToken
from agent.events import AgentEnd, AgentStart, Event, QueueUpdate, TurnStart
from agent.loop.history import History
from agent.messages import AssistantMessage, Message, UserMessage
from agent.runs import RunMetadata
from agent.runtime.active_run import ActiveRun, Job
from agent.runtime.event_relay import EventRelay
from agent.runtime.inbox import Inbox
from agent.runtime.run_handle import Run
from agent.runtime.run_state import RunState
from agent.runtime.settings import Settings
from agent.runtime.subscribers import SubscriberList
from agent.testing import ScriptedModel
from agent.tools import ToolSet
from agent.usage import Usage

METADATA = RunMetadata("run_1")


class Parts:
    """What an agent gives to its runs."""

    def __init__(self, *turns: Any, messages: tuple[Message, ...] = (), parks: bool = False) -> None:
        lock = threading.RLock()
        self.model = ScriptedModel(*turns)
        self.history = History(messages, lock)
        self.state = RunState(lock, self.history, Usage())
        self.relay = EventRelay()
        self.inbox = Inbox("", "", self.relay.notify)
        self.subscribers = SubscriberList()
        self.forwarded: list[Event] = []
        self.events: list[Event] = []
        self.subscribers.add(self.events.append, None, False, True, "")
        self.parks = parks

    def job(self, prompts: list[Message] | None) -> Job:
        return Job(
            owner=self,
            run=Run(METADATA, object()),
            prompts=prompts,
            settings=Settings(retry=NO_WAITS),
            model=self.model.model,
            stream_fn=self.model.stream,
            tools=ToolSet(),
            context=contextvars.copy_context(),
            sink=self.forwarded.append,
            cancel=CancelToken(),
            parks=self.parks,
        )

    def run(self, prompts: list[Message] | None) -> Run:
        job = self.job(prompts)
        active = ActiveRun(job, self.history, self.state, self.inbox, self.relay, self.subscribers)
        active.run()
        active.settle()
        return job.run


def test_the_result_is_that_of_the_events_and_the_signal_is_set_at_the_end() -> None:
    parts = Parts("ok")
    result = parts.run([UserMessage("hi")]).result(0)
    assert (result.stop, result.turns, result.text, result.run_id) == ("end_turn", 1, "ok", "run_1")
    assert labels(parts.history.messages) == "hi,A"
    assert parts.forwarded == parts.events


@pytest.mark.parametrize(
    ("queued", "story"),
    [("", "A,continue,A"), ("s", "A,s,A"), ("f", "A,f,A"), ("sf", "A,s,A,f,A")],
)
def test_a_run_without_prompts_begins_with_what_is_queued(queued: str, story: str) -> None:
    parts = Parts("ok", "ok", messages=(AssistantMessage("earlier"),))
    for name in queued:
        (parts.inbox.steer if name == "s" else parts.inbox.follow_up)(UserMessage(name))
    parts.run(None)
    assert labels(parts.history.messages) == story


def test_what_other_threads_forwarded_is_emitted_with_its_own_run() -> None:
    parts = Parts("ok")
    child = TurnStart(run=RunMetadata("run_2", "run_1"))
    parts.relay.forward(child)
    parts.inbox.steer(UserMessage("s"))
    parts.run([UserMessage("hi")])
    types = [type(event) for event in parts.events]
    assert parts.events.index(child) == types.index(QueueUpdate) - 1 > 0


def test_a_fault_of_the_runtime_ends_the_run_and_settles_it(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = Parts("ok")

    def broken(turn: int) -> list[Message]:
        raise SystemError("a fault of ours")

    monkeypatch.setattr(parts.inbox, "poll_steering", broken)
    job = parts.job(None)
    active = ActiveRun(job, parts.history, parts.state, parts.inbox, parts.relay, parts.subscribers)
    active.run()
    active.settle()
    result = job.run.result(0)
    assert (result.stop, result.error) == ("error", "internal error: SystemError: a fault of ours")
    assert [type(event) for event in parts.events] == [AgentStart, AgentEnd]
    assert job.cancel.is_set()
