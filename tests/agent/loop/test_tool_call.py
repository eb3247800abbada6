"""Tool calls: gates, overrides, time limits, failures; each call gets exactly one result."""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
from support.runs import Played, assert_well_formed, play, text_of

import agent.loop.tool_call
from agent import tool
from agent.cancel import CancelToken
from agent.errors import ToolError
from agent.events import Event, ToolExecutionEnd, ToolExecutionStart, ToolExecutionUpdate
from agent.hooks import Hooks, ToolCallInfo, ToolDecision, ToolOverride, ToolResultInfo
from agent.loop import LoopConfig, agent_loop
from agent.messages import ImageContent, TextContent, ToolCall, ToolResultMessage
from agent.runs import current_run
from agent.stream import AgentContext, StreamDone, StreamStart, ToolCallDelta, ToolCallEnd, ToolCallStart
from agent.testing import ScriptedModel, tool_call
from agent.tools import AgentTool, ToolResult, ToolSet

Execute = Callable[[dict[str, Any], Any], Any]


@tool
def echo(word: str) -> str:
    """Say it again."""
    return word


def call(id: str = "c1", word: str = "x") -> ToolCall:
    return tool_call("echo", {"word": word}, id)


def made(execute: Execute, timeout: float | None = None, name: str = "t") -> AgentTool:
    return AgentTool(name, "", {"type": "object"}, execute, timeout=timeout)


def run_one(execute: Execute, timeout: float | None = None, **more: Any) -> Played:
    return play([tool_call("t", {"a": [1]}, "c1")], "ok", tools=[made(execute, timeout)], **more)


def results(played: Played) -> list[ToolResultMessage]:
    assert_well_formed(played.new)
    return [m for m in played.new if isinstance(m, ToolResultMessage)]


def result(played: Played) -> ToolResultMessage:
    (only,) = results(played)
    return only


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent.loop.tool_call, "GRACE", 0.05)


# --- what tools return -----------------------------------------------------------------------------


def test_content_details_and_meta_are_kept_and_the_status_is_not() -> None:
    full = ToolResult(
        [TextContent("a"), ImageContent("aGk=", "image/png")], {"d": 1}, {"m": "x"}, True, False, "busy"
    )
    returned = result(run_one(lambda arguments, context: full))
    assert returned.content == full.content
    assert (returned.details, returned.meta, returned.is_error) == ({"d": 1}, {"m": "x"}, True)
    assert not hasattr(returned, "status_message")


@pytest.mark.parametrize(
    ("value", "text"),
    [("plain", "plain"), (None, ""), ([TextContent("a"), "b"], "ab"), (iter(["a", "b"]), "ab")],
)
def test_text_blocks_and_nothing_are_results_too(value: Any, text: str) -> None:
    assert result(run_one(lambda arguments, context: value)).text == text


def test_anything_else_is_an_error_that_says_what_a_tool_must_return() -> None:
    returned = result(run_one(lambda arguments, context: 42))
    assert returned.is_error
    assert "a tool must return" in returned.text


# --- failures --------------------------------------------------------------------------------------


def raises(error: BaseException) -> Execute:
    def execute(arguments: dict[str, Any], context: Any) -> str:
        raise error

    return execute


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ToolError("no such file; try ls"), "no such file; try ls"),
        (ValueError("bad"), "ValueError: bad"),
        (ValueError(), "ValueError"),
        (ExceptionGroup("many", [ValueError("a")]), "ExceptionGroup: many (1 sub-exception)"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_exception_is_an_error_result_without_a_traceback(error: BaseException, text: str) -> None:
    returned = result(run_one(raises(error)))
    assert (returned.text, returned.is_error) == (text, True)


def test_an_unknown_tool_is_an_error_that_names_those_at_hand() -> None:
    """L15"""
    played = play([tool_call("serch", id="c1")], "ok", tools=[echo, made(raises(ValueError()), name="other")])
    assert result(played).text == "Tool serch not found. Available: echo, other"
    assert result(played).is_error
    assert played.end.stop == "end_turn"


def test_an_unknown_tool_where_there_are_none() -> None:
    assert result(play([tool_call("x", id="c")], "ok")).text == "Tool x not found. Available: none"


def test_arguments_that_were_cut_are_not_run() -> None:
    """L14: a gateway may call a cut answer a finished one."""
    cut = [
        StreamStart(),
        ToolCallStart(0, "c1", "echo"),
        ToolCallDelta(0, '{"path":"f","content":"abc'),
        ToolCallEnd(0),
        StreamDone("toolUse"),
    ]
    played = play(cut, "ok", tools=[echo])
    assert result(played).is_error
    assert "send it again" in result(played).text
    assert played.end.stop == "end_turn"


@pytest.mark.parametrize("arguments_text", ["[1]", '"text"', "7"])
def test_arguments_that_are_no_object_are_not_run(arguments_text: str) -> None:
    answer = [
        StreamStart(),
        ToolCallStart(0, "c1", "echo"),
        ToolCallDelta(0, arguments_text),
        StreamDone("toolUse"),
    ]
    returned = result(play(answer, "ok", tools=[echo]))
    assert returned.is_error
    assert "object" in returned.text


def test_calls_beside_a_refused_one_run() -> None:
    played = play([tool_call("nope", id="c1"), call("c2")], "ok", tools=[echo])
    assert [(r.tool_call_id, r.is_error) for r in results(played)] == [("c1", True), ("c2", False)]


def test_a_tool_that_can_not_be_started_is_an_error_result(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def no_more(thread: threading.Thread) -> None:
        if thread.name.startswith("agent-tool-"):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", no_more)
    token = CancelToken()
    returned = result(play([call()], "ok", tools=[echo], cancel=token))
    assert returned.is_error
    assert "can't start new thread" in returned.text
    assert token._callbacks == {}


# --- arguments and the thread ----------------------------------------------------------------------


def test_a_tool_may_change_its_arguments_without_changing_the_history() -> None:
    played = run_one(lambda arguments, context: arguments["a"].append(2))
    answer = played.new[1]
    assert answer.tool_calls[0].arguments == {"a": [1]}  # type: ignore[union-attr]
    started = next(e for e in played.events if isinstance(e, ToolExecutionStart))
    assert started.arguments == {"a": [1]}


def test_a_tool_runs_on_a_daemon_thread_of_its_own_with_the_context_variables_of_its_caller() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="")
    variable.set("from outside")
    seen: list[Any] = []

    def look(arguments: dict[str, Any], context: Any) -> None:
        thread = threading.current_thread()
        seen.extend((thread.name, thread.daemon, thread is not threading.main_thread(), variable.get()))
        variable.set("from inside")

    run_one(look)
    assert seen == ["agent-tool-t", True, True, "from outside"]
    assert variable.get() == "from outside"


def test_the_context_names_the_call() -> None:
    seen: list[Any] = []
    run_one(
        lambda arguments, context: seen.extend((context.tool_call_id, context.cancel.is_set(), current_run()))
    )
    assert seen == ["c1", False, None]


def test_tools_look_each_other_up_at_the_last_moment() -> None:
    tools = ToolSet()

    def grow(arguments: dict[str, Any], context: Any) -> str:
        tools.add(echo)
        tools.remove("gone")
        return "grown"

    tools.add(made(grow, name="grow"))
    tools.add(made(lambda arguments, context: "still here", name="gone"))
    calls = [tool_call("grow", id="c1"), call("c2"), tool_call("gone", id="c3")]
    model = ScriptedModel(calls, "ok")
    new = agent_loop(
        (), AgentContext("", (), tools), LoopConfig(model.model), model.stream, lambda event: None
    )
    assert [text_of(m) for m in new[1:4]] == ["grown", "x", "Tool gone not found. Available: grow, echo"]


# --- progress --------------------------------------------------------------------------------------


def test_a_thousand_updates_come_in_order_before_the_end() -> None:
    def busy(arguments: dict[str, Any], context: Any) -> str:
        for number in range(1000):
            context.update(ToolResult(str(number), status_message=f"at {number}"))
        return "done"

    events = run_one(busy).events
    updates = [e for e in events if isinstance(e, ToolExecutionUpdate)]
    assert [e.status_message for e in updates] == [f"at {n}" for n in range(1000)]
    last = max(i for i, e in enumerate(events) if isinstance(e, ToolExecutionUpdate))
    assert isinstance(events[last + 1], ToolExecutionEnd)


def test_an_update_after_the_result_is_dropped() -> None:
    kept: list[Any] = []
    played = run_one(lambda arguments, context: kept.append(context))
    before = len(played.events)
    kept[0].update("too late")
    assert len(played.events) == before
    assert kept[0].cancel.is_set()


def test_the_stop_signal_of_a_settled_call_is_set_so_that_nothing_it_left_waits_for_ever() -> None:
    helpers: list[threading.Thread] = []
    reasons: list[str] = []

    def leave_a_helper(arguments: dict[str, Any], context: Any) -> str:
        def wait() -> None:
            context.cancel.wait()
            reasons.append(context.cancel.reason)

        helpers.append(threading.Thread(target=wait))
        helpers[0].start()
        return "done"

    token = CancelToken()
    run_one(leave_a_helper, cancel=token)
    helpers[0].join(10)
    assert reasons == ["settled"]
    assert not token.is_set()
    assert token._callbacks == {}


def test_updates_may_come_from_other_threads() -> None:
    def helped(arguments: dict[str, Any], context: Any) -> str:
        helpers = [threading.Thread(target=context.update, args=(str(n),)) for n in range(8)]
        for helper in helpers:
            helper.start()
        for helper in helpers:
            helper.join()
        return "done"

    updates = [e.partial_result.text for e in run_one(helped).events if isinstance(e, ToolExecutionUpdate)]
    assert sorted(updates) == [str(n) for n in range(8)]


# --- time limits and aborts ------------------------------------------------------------------------


def test_a_tool_that_obeys_its_time_limit_may_still_return_a_partial_result() -> None:
    def patient(arguments: dict[str, Any], context: Any) -> str:
        context.cancel.wait()
        return f"so far: 3 files ({context.cancel.reason})"

    returned = result(run_one(patient, timeout=0.02))
    assert returned.is_error
    assert returned.text == "so far: 3 files (timeout)\n\nTool t timed out after 0.02 seconds"


@pytest.mark.usefixtures("short_grace")
def test_a_tool_that_ignores_its_time_limit_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    release = threading.Event()
    with caplog.at_level(logging.WARNING, "agent"):
        returned = result(run_one(lambda arguments, context: release.wait(), timeout=0.02))
    release.set()
    assert (returned.text, returned.is_error) == ("Tool t timed out after 0.02 seconds", True)
    assert "did not stop" in caplog.text


@pytest.mark.usefixtures("short_grace")
def test_a_flood_of_updates_does_not_put_the_time_limit_off() -> None:
    contexts: list[Any] = []

    def flood(arguments: dict[str, Any], context: Any) -> str:
        contexts.append(context)
        context.update("first")
        context.cancel.wait()
        return "so far"

    def on_event(event: Event) -> None:
        if isinstance(event, ToolExecutionUpdate):
            contexts[0].update("more")  # there is always another one

    returned = result(run_one(flood, timeout=0.02, on_event=on_event))
    assert returned.text == "so far\n\nTool t timed out after 0.02 seconds"


@pytest.mark.usefixtures("short_grace")
def test_a_flood_of_updates_does_not_put_the_abort_off() -> None:
    stop = threading.Event()
    token = CancelToken()

    def flood(arguments: dict[str, Any], context: Any) -> str:
        while not stop.is_set():
            context.update("more")
        return "never shown"

    def on_event(event: Event) -> None:
        if isinstance(event, ToolExecutionUpdate):
            token.cancel()

    try:
        played = run_one(flood, cancel=token, on_event=on_event)
    finally:
        stop.set()
    assert result(played).text == "aborted"
    assert sum(isinstance(e, ToolExecutionUpdate) for e in played.events) == 1


def test_a_tool_that_ended_while_a_subscriber_slept_has_not_timed_out() -> None:
    ended = threading.Event()

    def quick(arguments: dict[str, Any], context: Any) -> str:
        context.update("one")
        ended.set()
        return "in time"

    def on_event(event: Event) -> None:
        if isinstance(event, ToolExecutionUpdate):
            ended.wait()
            threading.Event().wait(0.06)  # past the tool's time limit

    assert result(run_one(quick, timeout=0.05, on_event=on_event)).text == "in time"


def test_an_abort_is_no_time_out() -> None:
    token = CancelToken()

    def patient(arguments: dict[str, Any], context: Any) -> str:
        token.cancel("aborted")
        context.cancel.wait()
        raise TimeoutError("was cancelled")

    returned = result(run_one(patient, timeout=30, cancel=token))
    assert (returned.text, returned.is_error) == ("aborted", True)


def test_the_result_of_an_aborted_tool_is_kept_when_it_comes_in_time() -> None:
    token = CancelToken()

    def polite(arguments: dict[str, Any], context: Any) -> str:
        token.cancel()
        return "wrote 2 of 5 files"

    assert result(run_one(polite, cancel=token)).text == "wrote 2 of 5 files"


def test_a_tool_that_raises_at_the_moment_of_the_abort_counts_as_aborted() -> None:
    for _ in range(50):
        token = CancelToken()
        # This callback runs before the one that wakes the worker, so the tool always answers first.
        seen = threading.Event()
        token.on_cancel(seen.set)

        def quick(arguments: dict[str, Any], context: Any, token: CancelToken = token) -> str:
            threading.Thread(target=token.cancel).start()
            context.cancel.wait()
            raise ToolError("interrupted")

        assert result(run_one(quick, cancel=token)).text == "aborted"


@pytest.mark.usefixtures("short_grace")
def test_a_tool_that_ignores_the_abort_is_detached_after_the_grace_and_its_late_result_dropped() -> None:
    """L10"""
    release = threading.Event()
    ended = threading.Event()
    token = CancelToken()

    def uncancellable(arguments: dict[str, Any], context: Any) -> str:
        token.cancel()
        release.wait()
        context.update("late update")
        ended.set()
        return "late result"

    played = run_one(uncancellable, cancel=token)
    emitted = len(played.events)
    release.set()
    assert ended.wait(5)
    assert result(played).text == "aborted"
    assert len(played.events) == emitted
    assert "late" not in repr(played.new)


# --- before_tool -----------------------------------------------------------------------------------


def gated(gate: Callable[[ToolCallInfo], ToolDecision | None], *calls: ToolCall, **more: Any) -> Played:
    return play(list(calls or (call(),)), "ok", tools=[echo], hooks=Hooks(before_tool=gate), **more)


def test_before_tool_is_called_for_every_call_of_a_batch_before_any_runs() -> None:
    order: list[str] = []

    @tool
    def log(word: str) -> str:
        """Note."""
        order.append(f"run {word}")
        return word

    calls = [tool_call("log", {"word": w}, w) for w in "ab"]
    play(calls, "ok", tools=[log], hooks=Hooks(before_tool=lambda info: order.append(f"gate {info.id}")))
    assert order == ["gate a", "gate b", "run a", "run b"]


def test_before_tool_gets_every_detail_of_the_call() -> None:
    infos: list[ToolCallInfo] = []
    token = CancelToken()
    gated(infos.append, call("c1", "a"), call("c2", "b"), cancel=token)
    first, second = infos
    assert (first.id, first.name, first.arguments, first.turn) == ("c1", "echo", {"word": "a"}, 1)
    assert [(i.batch_index, i.batch_size) for i in infos] == [(0, 2), (1, 2)]
    assert second.cancel is token


def test_turns_count_from_one() -> None:
    turns: list[int] = []
    hooks = Hooks(before_tool=lambda info: turns.append(info.turn))
    play([call()], [call()], "ok", tools=[echo], hooks=hooks)
    assert turns == [1, 2]


@pytest.mark.parametrize(("reason", "shown"), [("not today", "not today"), ("", "tool call denied")])
def test_a_denied_call_gets_an_error_result_and_the_run_goes_on(reason: str, shown: str) -> None:
    played = gated(lambda info: ToolDecision.deny(reason))
    assert (result(played).text, result(played).is_error) == (shown, True)
    assert played.end.stop == "end_turn"


def test_calls_around_a_denied_one_run() -> None:
    played = gated(
        lambda info: ToolDecision.deny() if info.id == "c2" else None,
        call("c1", "a"),
        call("c2", "b"),
        call("c3", "c"),
    )
    assert [r.text for r in results(played)] == ["a", "tool call denied", "c"]


def test_a_gate_that_raises_denies_and_the_model_sees_why() -> None:
    def broken(info: ToolCallInfo) -> None:
        raise ValueError("rules file is gone")

    returned = result(gated(broken))
    assert returned.is_error
    assert returned.text == "tool call denied: ValueError: rules file is gone"


def test_a_gate_that_returns_the_wrong_type_denies() -> None:
    assert result(gated(lambda info: True)).is_error  # type: ignore[arg-type,return-value]


def test_updated_arguments_reach_the_tool_and_the_events_while_the_message_keeps_its_own() -> None:
    shared = {"word": "safe"}
    played = gated(lambda info: ToolDecision.allow(shared))
    shared["word"] = "changed later"
    started = next(e for e in played.events if isinstance(e, ToolExecutionStart))
    assert result(played).text == "safe"
    assert started.arguments == {"word": "safe"}
    assert played.new[1].tool_calls[0].arguments == {"word": "x"}  # type: ignore[union-attr]


def test_empty_updated_arguments_are_arguments() -> None:
    returned = result(gated(lambda info: ToolDecision.allow({})))
    assert "word is required" in returned.text


def test_a_gate_may_change_what_it_is_shown_without_changing_the_call() -> None:
    def meddle(info: ToolCallInfo) -> None:
        info.arguments["word"] = "mine"

    assert result(gated(meddle)).text == "x"


def test_an_unknown_tool_passes_the_gate_first() -> None:
    calls_seen: list[str] = []
    hooks = Hooks(before_tool=lambda info: calls_seen.append(info.name))
    played = play([tool_call("nope", id="c1")], "ok", tools=[echo], hooks=hooks)
    assert calls_seen == ["nope"]
    assert "not found" in result(played).text


def test_before_tool_is_not_called_for_truncated_or_broken_calls() -> None:
    calls_seen: list[str] = []
    hooks = Hooks(before_tool=lambda info: calls_seen.append(info.name))
    cut = [StreamStart(), ToolCallStart(0, "c", "echo"), ToolCallDelta(0, '{"w'), ToolCallEnd(0)]
    play([*cut, StreamDone("toolUse")], [*cut, StreamDone("length")], "ok", tools=[echo], hooks=hooks)
    assert calls_seen == []


def test_once_the_run_is_aborted_before_tool_is_not_called_and_nothing_runs() -> None:
    calls_seen: list[str] = []
    token = CancelToken()

    def abort(info: ToolCallInfo) -> None:
        calls_seen.append(info.id)
        token.cancel()

    played = gated(abort, call("c1"), call("c2"), cancel=token)
    assert calls_seen == ["c1"]
    assert [r.text for r in results(played)] == ["aborted", "aborted"]


# --- after_tool ------------------------------------------------------------------------------------


def overridden(override: Any, *calls: ToolCall, execute: Execute = lambda a, c: "raw", **more: Any) -> Played:
    tools = [made(execute)]
    given = list(calls or (tool_call("t", {"a": [1]}, "c1"),))
    return play(given, "ok", tools=tools, hooks=Hooks(after_tool=override), **more)


def test_an_override_replaces_what_it_names() -> None:
    full = ToolResult("raw", {"d": 1}, {"m": "x"}, True)
    played = overridden(lambda info: ToolOverride(content="clean", is_error=False), execute=lambda a, c: full)
    returned = result(played)
    assert (returned.text, returned.is_error, returned.details, returned.meta) == (
        "clean",
        False,
        {"d": 1},
        {"m": "x"},
    )
    ended = next(e for e in played.events if isinstance(e, ToolExecutionEnd))
    assert ended.result.text == "clean"
    assert not ended.is_error


def test_an_empty_content_is_a_replacement() -> None:
    assert result(overridden(lambda info: ToolOverride(content=()))).content == ()


def test_no_override_keeps_the_result() -> None:
    assert result(overridden(lambda info: None)).text == "raw"


def test_terminate_can_be_given_and_taken() -> None:
    assert overridden(lambda info: ToolOverride(terminate=True)).end.stop == "terminated"
    played = overridden(
        lambda info: ToolOverride(terminate=False), execute=lambda a, c: ToolResult("x", terminate=True)
    )
    assert played.end.stop == "end_turn"


def test_an_override_that_raises_is_an_error_result_and_drops_terminate() -> None:
    def broken(info: ToolResultInfo) -> None:
        raise ValueError("no filter")

    played = overridden(broken, execute=lambda a, c: ToolResult("secret", terminate=True))
    assert result(played).text == "the after_tool hook failed: ValueError: no filter"
    assert result(played).is_error
    assert played.end.stop == "end_turn"
    assert "secret" not in repr(played.new)


def test_an_override_of_the_wrong_type_is_an_error_result() -> None:
    returned = result(overridden(lambda info: "clean"))
    assert returned.is_error
    assert "raw" not in returned.text


def test_overrides_see_failures_and_time_outs() -> None:
    seen: list[str] = []

    def look(info: ToolResultInfo) -> None:
        seen.append(info.result.text)

    overridden(look, execute=raises(ValueError("bad")))
    hooks = Hooks(after_tool=look)
    run_one(lambda arguments, context: context.cancel.wait() and "", timeout=0.01, hooks=hooks)
    assert seen == ["ValueError: bad", "Tool t timed out after 0.01 seconds"]


def test_overrides_do_not_see_calls_that_never_ran() -> None:
    seen: list[str] = []
    hooks = Hooks(
        before_tool=lambda info: ToolDecision.deny() if info.id == "denied" else None,
        after_tool=lambda info: seen.append(info.id),
    )
    calls = [call("denied"), tool_call("nope", id="unknown"), call("ran")]
    play(calls, "ok", tools=[echo], hooks=hooks)
    assert seen == ["ran"]


def test_an_override_may_change_what_it_is_shown_without_changing_the_history() -> None:
    def meddle(info: ToolResultInfo) -> None:
        info.arguments["a"].append("mine")

    played = overridden(meddle)
    assert played.new[1].tool_calls[0].arguments == {"a": [1]}  # type: ignore[union-attr]
    started = next(e for e in played.events if isinstance(e, ToolExecutionStart))
    assert started.arguments == {"a": [1]}


def test_all_denied_never_ends_the_run_as_terminated() -> None:
    assert gated(lambda info: ToolDecision.deny()).end.stop == "end_turn"
