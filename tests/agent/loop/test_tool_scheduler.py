"""Calls of one answer side by side: slots, barriers, order, time limits, aborts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from support.runs import Played, assert_well_formed, play, text_of

import agent.loop.tool_call
from agent.cancel import CancelToken
from agent.events import Event, ToolExecutionEnd, ToolExecutionStart, ToolExecutionUpdate
from agent.hooks import Hooks, ToolDecision, ToolOverride, ToolResultInfo
from agent.limits import Limits
from agent.loop import LoopConfig, agent_loop
from agent.messages import ToolResultMessage
from agent.stream import AgentContext
from agent.testing import ScriptedModel, tool_call
from agent.tools import AgentTool, ToolResult


def ignore(value: object) -> None:
    """Discard a value where a callback must return None."""


class BlockingTools:
    """Tools that record which of them run together and block until they are released."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._gates: dict[str, threading.Event] = {}
        self._now: set[str] = set()
        self.most = 0
        self.together: list[frozenset[str]] = []

    def gate(self, name: str) -> threading.Event:
        with self._lock:
            return self._gates.setdefault(name, threading.Event())

    def tool(self, name: str, parallel: bool = True, timeout: float | None = None) -> AgentTool:
        return AgentTool(name, "", {"type": "object"}, self._run, parallel=parallel, timeout=timeout)

    def _run(self, arguments: dict[str, Any], context: Any) -> str:
        me = context.tool_call_id
        with self._lock:
            self._now.add(me)
            self.most = max(self.most, len(self._now))
            self.together.append(frozenset(self._now))
        after = arguments.get("after")
        if after and not self.gate(after).wait(5):
            return "never released"
        with self._lock:
            self._now.remove(me)
        self.gate(me).set()
        return f"{me} done"


def calls(*specs: str) -> list[Any]:
    """`p1` calls tool p as id p1; `p1<p2` is over only when p2 is."""
    made = []
    for spec in specs:
        id, _, after = spec.partition("<")
        made.append(tool_call(id[0], {"after": after}, id))
    return made


def run(blocking: BlockingTools, *specs: str, limit: int | None = 4, **more: Any) -> Played:
    tools = [blocking.tool("p"), blocking.tool("s", parallel=False)]
    played = play(calls(*specs), "ok", tools=tools, limits=Limits(parallel_tools=limit), **more)
    assert_well_formed(played.new)
    return played


def ends(played: Played) -> list[str]:
    return [e.tool_call_id for e in played.events if isinstance(e, ToolExecutionEnd)]


def results(played: Played) -> list[str]:
    return [m.tool_call_id for m in played.new if isinstance(m, ToolResultMessage)]


def test_the_slow_first_ends_last_and_results_keep_the_order_of_the_calls() -> None:
    played = run(BlockingTools(), "p1<p2", "p2")
    assert ends(played) == ["p2", "p1"]
    assert results(played) == ["p1", "p2"]
    assert [text_of(m) for m in played.new[2:4]] == ["p1 done", "p2 done"]


def test_a_result_enters_the_conversation_as_soon_as_those_before_it_have() -> None:
    seen: list[str] = []

    def on_event(event: Event) -> None:
        if event.type in ("tool_execution_end", "message_end"):
            seen.append(getattr(event, "tool_call_id", "") or getattr(event.message, "tool_call_id", ""))  # type: ignore[attr-defined]

    run(BlockingTools(), "p1", "p2<p3", "p3", on_event=on_event)
    recorded = [id for id in seen if id]
    assert recorded.index("p1", 1) < len(recorded)
    assert recorded[-2:] == ["p2", "p3"]


def test_a_limit_of_slots_is_kept() -> None:
    blocking = BlockingTools()
    run(blocking, *(f"p{n}" for n in range(12)), limit=3)
    assert blocking.most <= 3


@pytest.mark.parametrize("limit", [1, 0, -3])
def test_with_one_slot_all_run_in_turn(limit: int) -> None:
    blocking = BlockingTools()
    played = run(blocking, "p1", "p2", "p3", limit=limit)
    assert blocking.most == 1
    assert ends(played) == ["p1", "p2", "p3"]


def test_without_a_limit_a_hundred_run_at_once() -> None:
    blocking = BlockingTools()
    chain = [f"p{n}<p{n + 1}" for n in range(99)]
    played = run(blocking, *chain, "p99", limit=None)
    assert blocking.most == 100
    assert results(played) == [f"p{n}" for n in range(100)]


def test_a_tool_that_is_not_marked_runs_alone() -> None:
    blocking = BlockingTools()
    played = run(blocking, "p1<p2", "p2", "s3", "p4<p5", "p5", limit=2)
    assert frozenset({"s3"}) in blocking.together
    assert all(len(group) == 1 for group in blocking.together if "s3" in group)
    assert max(len(group) for group in blocking.together) == 2
    order = [(e.type[15:], e.tool_call_id) for e in played.events if hasattr(e, "tool_call_id")]
    assert order.index(("end", "p1")) < order.index(("start", "s3")) < order.index(("end", "s3"))
    assert order.index(("end", "s3")) < order.index(("start", "p4"))


def test_two_tools_that_are_not_marked_never_meet() -> None:
    blocking = BlockingTools()
    run(blocking, "s1", "s2", "s3")
    assert blocking.most == 1


def test_an_unknown_tool_is_a_barrier_and_may_be_added_by_a_call_before_it() -> None:
    blocking = BlockingTools()
    played = run(blocking, "p1<p2", "p2", "x3", "p4")
    order = [(e.type[15:], e.tool_call_id) for e in played.events if hasattr(e, "tool_call_id")]
    assert order.index(("end", "p1")) < order.index(("start", "x3"))
    assert "not found" in text_of(played.new[4])


def test_a_denied_call_is_settled_at_once_and_is_no_barrier() -> None:
    blocking = BlockingTools()
    gate = Hooks(before_tool=lambda info: ToolDecision.deny("no") if info.id == "s2" else None)

    def on_event(event: Event) -> None:
        if isinstance(event, ToolExecutionEnd) and event.tool_call_id == "s2":
            blocking.gate("release p1").set()

    played = run(blocking, "p1<release p1", "s2", "p3", hooks=gate, on_event=on_event)
    assert ends(played)[0] == "s2"
    assert results(played) == ["p1", "s2", "p3"]


def test_two_calls_with_one_id_both_run_and_both_have_a_result() -> None:
    """Y17"""
    blocking = BlockingTools()
    played = run(blocking, "p1", "p1")
    assert results(played) == ["p1", "p1"]
    assert ends(played) == ["p1", "p1"]


def test_updates_of_tools_side_by_side_come_before_their_ends() -> None:
    def busy(arguments: dict[str, Any], context: Any) -> str:
        for number in range(50):
            context.update(f"{context.tool_call_id} {number}")
        return "done"

    tools = [AgentTool("p", "", {"type": "object"}, busy, parallel=True)]
    played = play(calls("p1", "p2", "p3"), "ok", tools=tools)
    for id in ("p1", "p2", "p3"):
        of_call = [e for e in played.events if getattr(e, "tool_call_id", "") == id]
        assert isinstance(of_call[0], ToolExecutionStart)
        assert isinstance(of_call[-1], ToolExecutionEnd)
        texts = [e.partial_result.text for e in of_call if isinstance(e, ToolExecutionUpdate)]
        assert texts == [f"{id} {n}" for n in range(50)]


def test_after_tool_is_called_in_the_order_in_which_tools_end_on_one_thread() -> None:
    seen: list[tuple[str, int]] = []

    def after_tool(info: ToolResultInfo) -> ToolOverride:
        seen.append((info.id, threading.get_ident()))
        return ToolOverride(info.result.text.upper())

    played = run(BlockingTools(), "p1<p2", "p2", hooks=Hooks(after_tool=after_tool))
    assert [id for id, _ in seen] == ["p2", "p1"]
    assert {thread for _, thread in seen} == {threading.get_ident()}
    assert [text_of(m) for m in played.new[2:4]] == ["P1 DONE", "P2 DONE"]


def test_one_tool_that_fails_leaves_the_others_alone() -> None:
    blocking = BlockingTools()

    def boom(arguments: dict[str, Any], context: Any) -> str:
        raise ValueError("boom")

    tools = [blocking.tool("p"), AgentTool("b", "", {"type": "object"}, boom, parallel=True)]
    played = play([*calls("p1"), tool_call("b", id="b2"), *calls("p3")], "ok", tools=tools)
    assert [text_of(m) for m in played.new[2:5]] == ["p1 done", "ValueError: boom", "p3 done"]


def test_a_timeout_is_emitted_at_once_and_the_other_calls_run_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent.loop.tool_call, "GRACE", 0.05)
    blocking = BlockingTools()
    release = threading.Event()

    def uncancellable(arguments: dict[str, Any], context: Any) -> str:
        release.wait(10)
        return "too late"

    def on_event(event: Event) -> None:
        if isinstance(event, ToolExecutionEnd) and event.tool_call_id == "d1":
            blocking.gate("release p2").set()

    tools = [
        blocking.tool("p"),
        AgentTool("d", "", {"type": "object"}, uncancellable, parallel=True, timeout=0.02),
    ]
    made = [tool_call("d", {"a": 1}, "d1"), *calls("p2<release p2")]
    played = play(made, "ok", tools=tools, on_event=on_event)
    release.set()
    assert ends(played) == ["d1", "p2"]
    assert [text_of(m) for m in played.new[2:4]] == ["Tool d timed out after 0.02 seconds", "p2 done"]


def test_an_abort_settles_all_that_run_and_all_that_wait() -> None:
    token = CancelToken()
    running = threading.Barrier(2, action=lambda: ignore(token.cancel()))

    def wait(arguments: dict[str, Any], context: Any) -> str:
        running.wait(5)
        context.cancel.wait(5)
        return "cancelled"

    tools = [AgentTool("p", "", {"type": "object"}, wait, parallel=True)]
    made = [tool_call("p", {"n": n}, f"p{n}") for n in range(5)]
    played = play(made, "never", tools=tools, limits=Limits(parallel_tools=2), cancel=token)
    assert played.end.stop == "aborted"
    assert_well_formed(played.new)
    assert [text_of(m) for m in played.new[2:7]] == [
        "cancelled",
        "cancelled",
        "aborted",
        "aborted",
        "aborted",
    ]


def test_parallel_tools_that_ignore_the_abort_are_detached_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent.loop.tool_call, "GRACE", 0.1)
    token = CancelToken()
    release = threading.Event()
    running = threading.Barrier(4, action=lambda: ignore(token.cancel()))

    def uncancellable(arguments: dict[str, Any], context: Any) -> str:
        running.wait(5)
        release.wait(10)
        return "too late"

    tools = [AgentTool("p", "", {"type": "object"}, uncancellable, parallel=True)]
    made = [tool_call("p", {"n": n}, f"p{n}") for n in range(4)]
    begun = time.monotonic()
    played = play(made, "never", tools=tools, cancel=token)
    took = time.monotonic() - begun
    release.set()
    assert [text_of(m) for m in played.new[2:6]] == ["aborted"] * 4
    assert took < 2.0  # one grace, not four; generous


def test_a_flood_from_one_tool_does_not_put_the_abort_of_another_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agent.loop.tool_call, "GRACE", 0.05)
    token = CancelToken()
    stop = threading.Event()

    def flood(arguments: dict[str, Any], context: Any) -> str:
        while not stop.is_set():
            context.update("more")
        return "never shown"

    def patient(arguments: dict[str, Any], context: Any) -> str:
        context.cancel.wait(5)
        return "cancelled"

    def on_event(event: Event) -> None:
        if isinstance(event, ToolExecutionUpdate):
            token.cancel()

    tools = [
        AgentTool("f", "", {"type": "object"}, flood, parallel=True),
        AgentTool("p", "", {"type": "object"}, patient, parallel=True),
    ]
    made = [tool_call("p", {"a": 1}, "p1"), tool_call("f", {"a": 1}, "f2")]
    try:
        played = play(made, "never", tools=tools, cancel=token, on_event=on_event)
    finally:
        stop.set()
    assert [text_of(m) for m in played.new[2:4]] == ["cancelled", "aborted"]


def test_an_emit_that_raises_cancels_the_running_calls() -> None:
    cancelled = threading.Event()

    def wait(arguments: dict[str, Any], context: Any) -> str:
        context.update("here")
        context.cancel.wait(10)
        cancelled.set()
        return ""

    model = ScriptedModel([tool_call("p", {"a": 1})])
    context = AgentContext("", [], [AgentTool("p", "", {"type": "object"}, wait, parallel=True)])

    def emit(event: Event) -> None:
        if isinstance(event, ToolExecutionUpdate):
            raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        agent_loop((), context, LoopConfig(model.model), model.stream, emit)
    assert cancelled.wait(5)


def test_all_results_must_ask_to_stop_also_side_by_side() -> None:
    def give(terminate: bool) -> Callable[..., ToolResult]:
        return lambda arguments, context: ToolResult("x", terminate=terminate)

    tools = [
        AgentTool("y", "", {"type": "object"}, give(True), parallel=True),
        AgentTool("n", "", {"type": "object"}, give(False), parallel=True),
    ]
    both = play([tool_call("y", {"a": 1}), tool_call("y", {"a": 2})], tools=tools)
    assert both.end.stop == "terminated"
    one = play([tool_call("y", {"a": 1}), tool_call("n", {"a": 2})], "ok", tools=tools)
    assert one.end.stop == "end_turn"


def test_eight_short_tools_take_about_as_long_as_one() -> None:
    barrier = threading.Barrier(8)  # each call waits for all of them: they must run at the same time

    def meet(arguments: dict[str, Any], context: Any) -> str:
        barrier.wait(5)
        return "rested"

    tools = [AgentTool("p", "", {"type": "object"}, meet, parallel=True)]
    made = [tool_call("p", {"n": n}) for n in range(8)]
    played = play(made, "ok", tools=tools, limits=Limits(parallel_tools=8))
    assert [text_of(m) for m in played.new[2:10]] == ["rested"] * 8


def test_only_true_marks_a_tool_as_parallel() -> None:
    blocking = BlockingTools()
    odd = AgentTool("p", "", {"type": "object"}, blocking._run, parallel="no")  # type: ignore[arg-type]
    play(calls("p1", "p2"), "ok", tools=[odd])
    assert blocking.most == 1
