"""Hooks: what each set may hold, and how several act as one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from agent.errors import ConfigurationError
from agent.hooks import (
    Hooks,
    RunInfo,
    ToolCallInfo,
    ToolDecision,
    ToolOverride,
    ToolResultInfo,
    merge_hooks,
)
from agent.messages import Message, UserMessage
from agent.runs import RunMetadata
from agent.tools import ToolResult

FIELDS = (
    "before_tool after_tool transform_context on_request input_guardrails output_guardrails "
    "candidate_answer prepare_turn should_stop_after_turn stop_when steering_messages follow_up_messages "
    "before_park on_truncated"
).split()

INFO = ToolCallInfo("c1", "bash", {"n": 0})


def outcome(result: ToolResult) -> ToolResultInfo:
    return ToolResultInfo("c1", "bash", {}, 1, 0, 1, None, result)


def test_the_positions_of_the_arguments_are_the_pinned_ones() -> None:
    assert list(inspect.signature(Hooks).parameters)[: len(FIELDS)] == FIELDS
    info = ToolCallInfo("c", "n", {"a": 1}, 2, 3, 4, RunMetadata("run_1"))
    shown = (info.id, info.name, info.arguments, info.turn, info.batch_index, info.batch_size, info.run)
    assert shown == ("c", "n", {"a": 1}, 2, 3, 4, RunMetadata("run_1"))
    assert (INFO.turn, INFO.batch_index, INFO.batch_size, INFO.run) == (1, 0, 1, None)
    assert list(inspect.signature(ToolOverride).parameters) == ["content", "is_error", "terminate"]


@pytest.mark.parametrize(
    "guards",
    [[("", print)], [print], [("a", None)], [("a", print, 1)], "ab"],
    ids=lambda value: repr(value)[:30],
)
@pytest.mark.parametrize("kind", ["input_guardrails", "output_guardrails"])
def test_a_guardrail_is_a_name_and_a_function(kind: str, guards: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"{kind} must be pairs"):
        Hooks(**{kind: guards})


def test_guardrails_are_kept_as_they_were_given_whatever_becomes_of_the_list() -> None:
    guards = [("a", print)]
    hooks = Hooks(input_guardrails=guards)
    guards.clear()
    assert hooks.input_guardrails == (("a", print),)
    assert Hooks(output_guardrails=None).output_guardrails == ()  # type: ignore[arg-type]


# -- merging ------------------------------------------------------------------------------------------


def gate(decision: ToolDecision | None, seen: list[Any]) -> Hooks:
    def before_tool(info: ToolCallInfo) -> ToolDecision | None:
        seen.append(dict(info.arguments))
        return decision

    return Hooks(before_tool=before_tool)


def decide(*hooks: Hooks) -> ToolDecision | None:
    before_tool = merge_hooks(*hooks).before_tool
    assert before_tool is not None
    return before_tool(INFO)


def test_nothing_merged_is_no_hook() -> None:
    assert merge_hooks() == merge_hooks(None) == merge_hooks(None, Hooks(), Hooks()) == Hooks()


def test_a_set_alone_is_itself_and_a_hook_alone_is_called_directly() -> None:
    def stop(info: RunInfo) -> bool:
        return True

    alone = Hooks(should_stop_after_turn=stop)
    assert merge_hooks(None, alone) is alone
    assert merge_hooks(Hooks(), alone, Hooks()).should_stop_after_turn is stop


def test_the_first_denial_wins_and_later_gates_are_not_called() -> None:
    seen: list[Any] = []
    decision = decide(
        gate(None, seen),
        gate(ToolDecision.deny("first"), seen),
        gate(ToolDecision.deny("second"), seen),
    )
    assert decision == ToolDecision.deny("first")
    assert len(seen) == 2


def test_a_denial_wins_over_an_earlier_permission() -> None:
    seen: list[Any] = []
    decision = decide(gate(ToolDecision.allow(), seen), gate(ToolDecision.deny("no"), seen))
    assert decision is not None
    assert decision.action == "deny"


def test_each_gate_sees_the_arguments_as_the_ones_before_changed_them() -> None:
    seen: list[Any] = []
    decision = decide(
        gate(ToolDecision.allow({"n": 1}), seen),
        gate(None, seen),
        gate(ToolDecision.allow({"n": 2}), seen),
        gate(ToolDecision.allow(), seen),
    )
    assert seen == [{"n": 0}, {"n": 1}, {"n": 1}, {"n": 2}]
    assert decision == ToolDecision.allow({"n": 2})
    assert INFO.arguments == {"n": 0}


def test_a_denial_carries_the_arguments_as_they_were_then() -> None:
    seen: list[Any] = []
    decision = decide(gate(ToolDecision.allow({"n": 1}), seen), gate(ToolDecision.deny("no"), seen))
    assert decision == ToolDecision.deny("no", {"n": 1})


def test_gates_that_say_nothing_allow_without_changing_anything() -> None:
    decision = decide(gate(None, []), gate(None, []))
    assert decision is None or decision == ToolDecision.allow()


def test_a_gate_that_raises_stops_the_asking() -> None:
    def broken(info: ToolCallInfo) -> ToolDecision | None:
        raise ValueError("boom")

    seen: list[Any] = []
    with pytest.raises(ValueError, match="boom"):
        decide(Hooks(before_tool=broken), gate(ToolDecision.allow(), seen))
    assert seen == []


def overriding(override: ToolOverride | None, seen: list[str]) -> Hooks:
    def after_tool(info: ToolResultInfo) -> ToolOverride | None:
        seen.append(info.result.text)
        return override

    return Hooks(after_tool=after_tool)


def after(result: ToolResult, *overrides: ToolOverride | None) -> tuple[ToolResult, list[str]]:
    seen: list[str] = []
    after_tool = merge_hooks(*(overriding(override, seen) for override in overrides)).after_tool
    assert after_tool is not None
    merged = after_tool(outcome(result))
    return result if merged is None else merged.apply(result), seen


def test_later_overrides_win_and_each_sees_the_result_as_the_ones_before_left_it() -> None:
    result, seen = after(
        ToolResult("x", details=1), ToolOverride("y"), None, ToolOverride(is_error=True), ToolOverride("z")
    )
    assert result == ToolResult("z", details=1, is_error=True)
    assert seen == ["x", "y", "y", "y"]


def test_a_request_to_terminate_stays_whatever_later_hooks_say() -> None:
    result, _ = after(ToolResult("x"), ToolOverride(terminate=True), ToolOverride(terminate=False))
    assert result.terminate
    result, _ = after(ToolResult("x", terminate=True), ToolOverride(terminate=False), None)
    assert not result.terminate
    result, _ = after(ToolResult("x"), ToolOverride(terminate=False), ToolOverride(terminate=True))
    assert result.terminate


def test_overriders_that_say_nothing_change_nothing() -> None:
    result = ToolResult("x", meta={"a": "b"}, status_message="s")
    assert after(result, None, None)[0] is result


def transforming(change: Callable[[list[Message]], Any]) -> Hooks:
    return Hooks(transform_context=change)


def test_transforms_run_one_after_the_other() -> None:
    first, second = UserMessage("1", 0), UserMessage("2", 0)
    merged = merge_hooks(
        transforming(lambda messages: [*messages, first]),
        transforming(lambda messages: None),
        transforming(lambda messages: (*messages, second)),
    )
    assert merged.transform_context is not None
    given: list[Message] = []
    assert list(merged.transform_context(given) or ()) == [first, second]
    assert given == []


def test_a_transform_that_spoils_its_list_and_returns_nothing_changes_nothing() -> None:
    kept: list[Message] = [UserMessage("1", 0)]
    spoil = transforming(lambda messages: messages.clear())
    merged = merge_hooks(spoil, spoil).transform_context
    assert merged is not None
    assert list(merged(kept) or ()) == kept == [UserMessage("1", 0)]


@pytest.mark.parametrize("answers", [(False, True, False), (True, True), (False, False)])
def test_a_run_stops_when_any_stop_test_is_true_and_all_are_called(answers: tuple[bool, ...]) -> None:
    calls: list[bool] = []

    def test(answer: bool) -> Hooks:
        def should_stop(info: RunInfo) -> bool:
            calls.append(answer)
            return answer

        return Hooks(should_stop_after_turn=should_stop)

    merged = merge_hooks(*(test(answer) for answer in answers)).should_stop_after_turn
    assert merged is not None
    assert merged(RunInfo()) is any(answers)
    assert calls == list(answers)


def test_merging_merged_sets_is_merging_them_all() -> None:
    seen: list[Any] = []
    inner = merge_hooks(gate(ToolDecision.allow({"n": 1}), seen), gate(None, seen))
    assert decide(inner, gate(ToolDecision.deny("no"), seen)) == ToolDecision.deny("no", {"n": 1})
    assert seen == [{"n": 0}, {"n": 1}, {"n": 1}]
