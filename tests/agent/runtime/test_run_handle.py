"""The handle on one run."""

from __future__ import annotations

import contextvars
import threading

import pytest

from agent.runs import RunMetadata, RunResult, enter_run
from agent.runtime.run_handle import Run, refuse_inside

KEY = object()
METADATA = RunMetadata("run_1", "", "me")


def test_a_new_run_is_not_done_and_waiting_for_it_gives_up() -> None:
    run = Run(METADATA, KEY)
    assert (run.run_id, run.metadata, run.done) == ("run_1", METADATA, False)
    assert not run.wait(0)
    with pytest.raises(TimeoutError, match=r"within 0\.01 seconds"):
        run.result(0.01)
    assert repr(run) == "<Run run_1 running>"


def test_all_who_wait_get_the_same_result() -> None:
    run = Run(METADATA, KEY)
    results: list[RunResult] = []
    waiters = [threading.Thread(target=lambda: results.append(run.result(10))) for _ in range(5)]
    for waiter in waiters:
        waiter.start()
    result = RunResult("end_turn")
    run.settle(result)
    for waiter in waiters:
        waiter.join(10)
    assert len(results) == 5
    assert all(each is result for each in results)
    assert run.wait(0)
    assert repr(run) == "<Run run_1 done>"


def test_waiting_inside_a_run_of_the_same_agent_raises_and_the_result_of_a_done_one_does_not() -> None:
    run = Run(METADATA, KEY)
    inside = contextvars.copy_context()
    inside.run(enter_run, METADATA, KEY)
    with pytest.raises(RuntimeError, match=r"Run\.wait\(\) was called from a tool, hook or subscriber"):
        inside.run(run.result)
    run.settle(RunResult("aborted"))
    assert inside.run(run.result).stop == "aborted"


def test_only_the_runs_of_that_agent_refuse() -> None:
    inside = contextvars.copy_context()
    inside.run(enter_run, METADATA, object())
    inside.run(refuse_inside, KEY, "x()")
