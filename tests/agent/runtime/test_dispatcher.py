"""What accepts runs and hands them to the worker, one after the other."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterator

import pytest

from agent.cancel import CancelToken
from agent.errors import AgentBusyError, AgentError
from agent.events import AgentEnd, Event
from agent.loop.history import History
from agent.messages import UserMessage
from agent.runs import new_metadata
from agent.runtime.active_run import Job
from agent.runtime.dispatcher import Dispatcher
from agent.runtime.event_relay import EventRelay
from agent.runtime.inbox import Inbox
from agent.runtime.run_handle import Run
from agent.runtime.run_state import RunState
from agent.runtime.settings import Settings
from agent.runtime.subscribers import SubscriberList
from agent.runtime.worker import Worker
from agent.testing import ScriptedModel
from agent.tools import ToolSet
from agent.usage import Usage


class Runs:
    """A dispatcher with its parts; a run asks a scripted model once."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.history = History((), self.lock)
        self.state = RunState(self.lock, self.history, Usage())
        self.inbox = Inbox("", "")
        self.subscribers = SubscriberList()
        self.dispatcher = Dispatcher(
            self.lock, self.history, self.state, self.inbox, EventRelay(), self.subscribers
        )

    def accept(self) -> Run:
        model, key = ScriptedModel("ok"), object()
        job = Job(
            owner=self,
            run=Run(new_metadata(key, ""), key),
            prompts=[UserMessage("hi")],
            settings=Settings(),
            model=model.model,
            stream_fn=model.stream,
            tools=ToolSet(),
            context=contextvars.copy_context(),
            sink=None,
            cancel=CancelToken(),
        )
        with self.lock:
            self.dispatcher.check_free("Wait.")
            self.dispatcher.accept(job, "x")
        return job.run


@pytest.fixture
def runs() -> Iterator[Runs]:
    made = Runs()
    yield made
    made.dispatcher.close(wait=True)


def test_runs_go_one_after_the_other_on_one_named_thread(runs: Runs) -> None:
    threads: set[str] = set()
    runs.subscribers.add(lambda event: threads.add(threading.current_thread().name), None, False, True, "")
    for _ in range(3):
        assert runs.accept().result(10).stop == "end_turn"
    assert threads == {"agent-worker-x"}
    assert not runs.dispatcher.is_worker()
    assert runs.dispatcher.wait(0)


def test_one_run_may_wait_behind_one_that_is_finishing_and_starts_in_the_step_that_settles_it(
    runs: Runs,
) -> None:
    accepted: list[Run] = []
    refused: list[str] = []

    def accept_twice(event: Event) -> None:
        if isinstance(event, AgentEnd) and not accepted:
            accepted.append(runs.accept())
            try:
                runs.accept()
            except AgentBusyError as error:
                refused.append(str(error))

    runs.subscribers.add(accept_twice, None, False, True, "")
    first = runs.accept()
    assert first.wait(10)
    assert runs.dispatcher.wait(10)
    assert accepted[0].done
    assert refused == ["the agent is already processing a prompt. Wait."]


def test_a_run_that_can_not_be_handed_over_leaves_no_trace(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FR-5"""
    runs.state.error = "before"

    def interrupted(worker: Worker, job: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Worker, "put", interrupted)
        with pytest.raises(KeyboardInterrupt):
            runs.accept()
    assert not runs.dispatcher.is_running()
    assert (runs.state.error, runs.history.messages) == ("before", [])
    assert runs.accept().result(10).stop == "end_turn"


def test_a_closed_dispatcher_accepts_nothing_and_may_be_closed_again(runs: Runs) -> None:
    runs.accept().wait(10)
    runs.dispatcher.close(wait=True)
    runs.dispatcher.close(wait=False)
    with pytest.raises(AgentError, match="closed"):
        runs.accept()


def test_only_the_run_that_is_meant_is_aborted(runs: Runs) -> None:
    first = runs.accept()
    assert first.wait(10)
    second = runs.accept()
    runs.dispatcher.abort(first)
    assert second.result(10).stop == "end_turn"
