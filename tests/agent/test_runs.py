"""Which run the current code is part of."""

from __future__ import annotations

import contextvars
import threading

from agent.cancel import CancelToken
from agent.runs import (
    RunMetadata,
    cancel_with,
    current_cancel,
    current_run,
    depth,
    enter_run,
    forward_events_to,
    is_inside,
    new_metadata,
    parent_sink,
    restore_cancel,
)

OUTER, INNER = object(), object()
OUTER_RUN = RunMetadata("run_outer", "", "outer")


def inside(metadata: RunMetadata = OUTER_RUN, key: object = OUTER) -> contextvars.Context:
    context = contextvars.copy_context()
    context.run(enter_run, metadata, key)
    return context


def test_outside_of_any_run_there_is_none() -> None:
    assert (current_run(), depth(), parent_sink(), current_cancel()) == (None, 0, None, None)
    assert not is_inside(OUTER)
    assert new_metadata(OUTER, "a").parent_run_id == ""


def test_a_run_of_another_agent_is_a_child_and_one_of_the_same_agent_a_sibling() -> None:
    context = inside()
    assert context.run(new_metadata, INNER, "inner").parent_run_id == "run_outer"
    assert context.run(new_metadata, OUTER, "outer").parent_run_id == ""
    deeper = inside(RunMetadata("run_inner", "run_outer", "inner"), INNER)
    assert deeper.run(new_metadata, INNER, "inner").parent_run_id == "run_outer"


def test_code_is_inside_all_runs_around_it() -> None:
    context = inside()
    context.run(enter_run, RunMetadata("run_inner", "run_outer"), INNER)
    assert context.run(depth) == 2
    assert context.run(is_inside, OUTER)
    assert context.run(is_inside, INNER)
    run = context.run(current_run)
    assert run is not None
    assert run.run_id == "run_inner"


def test_two_runs_never_have_one_id() -> None:
    assert len({new_metadata(OUTER, "").run_id for _ in range(1000)}) == 1000


def test_sinks_and_signals_belong_to_a_context() -> None:
    context, token = contextvars.copy_context(), CancelToken()
    events: list[str] = []
    context.run(forward_events_to, events.append)
    before = context.run(cancel_with, token)
    sink = context.run(parent_sink)
    assert sink is not None
    sink("event")
    assert events == ["event"]
    assert context.run(current_cancel) is token
    context.run(restore_cancel, before)
    assert context.run(current_cancel) is None
    assert parent_sink() is None


def test_a_new_thread_is_part_of_no_run_unless_it_gets_the_context() -> None:
    seen: list[RunMetadata | None] = []
    context = inside()

    def start_two() -> None:
        for target in (current_run, contextvars.copy_context().run):
            arguments = () if target is current_run else (current_run,)
            thread = threading.Thread(target=lambda t=target, a=arguments: seen.append(t(*a)))  # type: ignore[misc]
            thread.start()
            thread.join(10)

    context.run(start_two)
    assert seen == [None, OUTER_RUN]
