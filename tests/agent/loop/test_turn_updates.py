"""What hooks change of what comes: request, model, tools, history; and answers that were cut."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.runs import assert_well_formed, play, text_of

from agent import Agent, tool
from agent.errors import ConfigurationError, RunError, ToolError
from agent.events import ToolExecutionEnd, ToolExecutionStart
from agent.hooks import (
    Hooks,
    RequestUpdate,
    RunInfo,
    ToolDecision,
    ToolOverride,
    ToolResultInfo,
    Truncation,
    TruncationInfo,
    TurnUpdate,
    merge_hooks,
)
from agent.limits import Limits
from agent.messages import Message, ToolResultMessage, UserMessage
from agent.models import Model
from agent.stream import AgentContext, StreamOptions
from agent.testing import ScriptedModel, done, error, tool_call
from agent.tools import AgentTool, ToolSet


@tool
def echo(word: str) -> str:
    """Say it again."""
    return word


@tool
def other(word: str) -> str:
    """Something else."""
    return f"other {word}"


def call(name: str = "echo", id: str = "c1") -> list[Any]:
    return [tool_call(name, {"word": "x"}, id)]


def once(update: TurnUpdate) -> Hooks:
    left = [update]
    return Hooks(prepare_turn=lambda info: left.pop() if left else None)


# -- the request ------------------------------------------------------------------------------------


def test_a_request_may_be_changed_in_place_for_itself_alone() -> None:
    seen: list[tuple[str, int, float | None]] = []

    def on_request(context: AgentContext, options: StreamOptions) -> None:
        seen.append((context.system_prompt, len(context.tools), options.temperature))
        context.system_prompt += "changed"
        context.tools.clear()
        options.temperature = 0.5

    played = play(call(), "done", tools=[echo], hooks=Hooks(on_request=on_request))
    assert seen == [("", 1, None), ("", 1, None)]
    assert [c.system_prompt for c in played.model.contexts] == ["changed", "changed"]
    assert [len(c.tools) for c in played.model.contexts] == [0, 0]
    assert [o.temperature for o in played.model.options] == [0.5, 0.5]
    assert text_of(played.new[2]) == "x"  # the tool was not sent to the model, and runs all the same


def test_a_request_may_be_replaced_and_the_conversation_stays() -> None:
    def on_request(context: AgentContext, options: StreamOptions) -> tuple[AgentContext, StreamOptions]:
        return replace(context, messages=[UserMessage("instead")]), replace(options, max_tokens=7)

    played = play("done", hooks=Hooks(on_request=on_request))
    assert [text_of(m) for m in played.model.contexts[0].messages] == ["instead"]
    assert played.model.options[0].max_tokens == 7
    assert [text_of(m) for m in played.new] == ["hi", "done"]


def test_a_request_hook_that_raises_makes_an_errored_turn() -> None:
    def on_request(context: AgentContext, options: StreamOptions) -> None:
        raise ValueError("boom")

    played = play("never", hooks=Hooks(on_request=on_request))
    assert (played.end.stop, played.end.error, played.model.calls) == ("error", "boom", 0)


def test_a_request_hook_can_not_take_the_stop_signal_away() -> None:
    def on_request(context: AgentContext, options: StreamOptions) -> tuple[AgentContext, StreamOptions]:
        return context, StreamOptions()

    played = play("done", hooks=Hooks(on_request=on_request), limits=Limits(max_seconds=60))
    assert played.model.options[0].cancel.reason == "the run has ended"


def test_request_hooks_are_called_one_after_the_other() -> None:
    def adding(text: str) -> Hooks:
        def on_request(context: AgentContext, options: StreamOptions) -> Any:
            return replace(context, system_prompt=context.system_prompt + text), options

        return Hooks(on_request=on_request)

    played = play("done", hooks=merge_hooks(adding("a"), Hooks(), adding("b")))
    assert played.model.contexts[0].system_prompt == "ab"


# -- the turn to come -------------------------------------------------------------------------------


def test_another_model_answers_from_now_on_in_this_run_alone() -> None:
    second = Model("second", "scripted", "scripted")
    models: list[str] = []
    script = ScriptedModel(call(), call(), "done", "again")

    def stream(model: Model, context: AgentContext, options: StreamOptions) -> Any:
        models.append(model.id)
        return script.stream(model, context, options)

    agent = Agent(script.model, stream_fn=stream, tools=[echo], hooks=once(TurnUpdate(model=second)))
    with agent:
        result = agent.run("go")
        assert [m.model for m in result.messages if m.role == "assistant"] == ["scripted", "second", "second"]  # type: ignore[union-attr]
        agent.run("once more")
    assert models == ["scripted", "second", "second", "scripted"]


def test_an_unknown_model_ends_the_run() -> None:
    played = play(call(), tools=[echo], hooks=once(TurnUpdate(model="openai/nope-9")))
    assert played.end.stop == "error"
    assert isinstance(played.end.cause, ConfigurationError)


def test_a_replaced_history_is_what_the_agent_has_then() -> None:
    summary = UserMessage("what was: nothing much")
    agent_model = ScriptedModel(call(), "done", "more")
    hooks = once(TurnUpdate(messages=[summary]))
    with Agent(agent_model.model, stream_fn=agent_model.stream, tools=[echo], hooks=hooks) as agent:
        result = agent.run("go")
        assert [text_of(m) for m in agent.state.messages] == [summary.content, "done"]
        assert [text_of(m) for m in result.messages] == ["done"]
        agent.run("next")
        assert [text_of(m) for m in agent_model.contexts[2].messages] == [summary.content, "done", "next"]


def test_an_empty_history_clears() -> None:
    played = play(call(), "done", tools=[echo], hooks=once(TurnUpdate(messages=[])))
    assert played.sent() == ["hi", ""]


def test_replaced_tools_are_sent_and_run() -> None:
    tools = ToolSet([echo])
    played = play(
        call(),
        call("echo", "c2") + call("other", "c3"),
        "ok",
        tools=tools,
        hooks=once(TurnUpdate(tools=[other])),
    )
    assert [[t.name for t in c.tools] for c in played.model.contexts] == [["echo"], ["other"], ["other"]]
    texts = [text_of(m) for m in played.new if isinstance(m, ToolResultMessage)]
    assert texts == ["x", "Tool echo not found. Available: other", "other x"]
    assert tools.names() == ["echo"]


def test_tools_and_messages_may_come_from_any_iterable() -> None:
    given: dict[str, Any] = {"tools": iter([other]), "messages": iter([UserMessage("new")])}
    model = ScriptedModel(call(), "done")
    hooks = once(TurnUpdate(**given))
    with Agent(model.model, stream_fn=model.stream, tools=[echo], hooks=hooks) as agent:
        agent.run("go")
        assert [text_of(m) for m in agent.state.messages] == ["new", "done"]
    assert [t.name for t in model.contexts[1].tools] == ["other"]


def test_no_tools_are_tools_too() -> None:
    played = play(call(), "done", tools=[echo], hooks=once(TurnUpdate(tools=[])))
    assert [len(c.tools) for c in played.model.contexts] == [1, 0]


@pytest.mark.parametrize("tools", [[echo, echo], [object()], [AgentTool("", "", {}, print)]])
def test_tools_that_are_none_or_collide_end_the_run(tools: list[Any]) -> None:
    played = play(call(), "never", tools=[echo], hooks=once(TurnUpdate(tools=tools)))
    assert played.end.stop == "error"
    assert isinstance(played.end.cause, ConfigurationError)


def test_an_error_ends_the_run_even_after_its_last_turn() -> None:
    mine = RuntimeError("enough")
    model = ScriptedModel("done")
    hooks = Hooks(prepare_turn=lambda info: TurnUpdate(error=mine))
    with Agent(model.model, stream_fn=model.stream, hooks=hooks) as agent:
        with pytest.raises(RunError, match="enough") as caught:
            agent.run("go")
        assert caught.value.__cause__ is mine
        assert caught.value.partial_result.turns == 1
        assert [text_of(m) for m in agent.state.messages] == ["go", "done"]
        assert agent.state.error == "enough"


def test_a_hook_that_raises_ends_the_run_and_leaves_the_agent_fit() -> None:
    def broken(info: RunInfo) -> TurnUpdate | None:
        if info.turns == 1:
            raise KeyError("lost")
        return None

    model = ScriptedModel(call(), "fine")
    with Agent(model.model, stream_fn=model.stream, tools=[echo], hooks=Hooks(prepare_turn=broken)) as agent:
        result = agent.prompt("go").result(5)
        assert (result.stop, result.error) == ("error", "'lost'")
        assert_well_formed(agent.state.messages)
        assert agent.pending_calls == []


def test_what_comes_is_prepared_after_every_turn_with_what_it_brought() -> None:
    seen: list[tuple[int, list[str], int]] = []

    def prepare(info: RunInfo) -> None:
        seen.append((info.turns, [text_of(r) for r in info.tool_results], len(info.new_messages)))

    play(call(), "done", tools=[echo], hooks=Hooks(prepare_turn=prepare))
    assert seen == [(1, ["x"], 3), (2, [], 4)]


def test_later_updates_win_field_by_field_and_the_first_error_stays() -> None:
    info = RunInfo()
    first, second = RequestUpdate(system_suffix="1"), RequestUpdate(system_suffix="2")
    merged = merge_hooks(
        Hooks(prepare_turn=lambda info: TurnUpdate(model="a/b", next_request=first)),
        Hooks(prepare_turn=lambda info: None),
        Hooks(prepare_turn=lambda info: TurnUpdate(tools=[echo], next_request=second)),
    ).prepare_turn
    assert merged is not None
    assert merged(info) == TurnUpdate(model="a/b", tools=[echo], next_request=second)
    failing = merge_hooks(
        Hooks(prepare_turn=lambda info: TurnUpdate(error="one")),
        Hooks(prepare_turn=lambda info: TurnUpdate(error="two")),
    ).prepare_turn
    assert failing is not None
    assert failing(info) == TurnUpdate(error="one")


# -- the next request only --------------------------------------------------------------------------


def next_request(**update: Any) -> Hooks:
    return once(TurnUpdate(next_request=RequestUpdate(**update)))


def test_tools_of_one_request_run_in_that_turn_and_are_gone_in_the_next() -> None:
    turns = (call(), call("other", "c2"), call("other", "c3"), "done")
    played = play(*turns, tools=[echo], hooks=next_request(tools=[other], tool_choice="other"))
    assert [[t.name for t in c.tools] for c in played.model.contexts] == [
        ["echo"],
        ["other"],
        ["echo"],
        ["echo"],
    ]
    assert [o.tool_choice for o in played.model.options] == ["", "other", "", ""]
    texts = [text_of(m) for m in played.new if isinstance(m, ToolResultMessage)]
    assert texts == ["x", "other x", "Tool other not found. Available: echo"]


@pytest.mark.parametrize(("prompt", "sent"), [("You are it.", "You are it.\nHurry."), ("", "Hurry.")])
def test_a_suffix_goes_behind_the_system_prompt(prompt: str, sent: str) -> None:
    model = ScriptedModel(call(), "done")
    options: dict[str, Any] = {"tools": [echo], "hooks": next_request(system_suffix="Hurry.")}
    with Agent(model.model, stream_fn=model.stream, system_prompt=prompt, **options) as agent:
        agent.run("go")
        assert agent.system_prompt == prompt
    assert [c.system_prompt for c in model.contexts] == [prompt, sent]


def test_the_constraint_wins_over_the_request_hook() -> None:
    def on_request(context: AgentContext, options: StreamOptions) -> None:
        options.tool_choice = "none"
        context.tools[:] = []

    hooks = merge_hooks(next_request(tools=[other], tool_choice="required"), Hooks(on_request=on_request))
    played = play(call(), "done", tools=[echo], hooks=hooks)
    assert [o.tool_choice for o in played.model.options] == ["none", "required"]
    assert [len(c.tools) for c in played.model.contexts] == [0, 1]


@pytest.mark.parametrize("choice", ["auto", "none", "required", "echo"])
def test_a_choice_that_can_be_kept_is_sent(choice: str) -> None:
    played = play(call(), "done", tools=[echo], hooks=next_request(tool_choice=choice))
    assert played.model.options[1].tool_choice == choice


@pytest.mark.parametrize(
    "update",
    [
        {"tool_choice": "nope"},
        {"tool_choice": "echo", "tools": [other]},
        {"tool_choice": "required", "tools": []},
        {"tools": [echo, echo]},
    ],
)
def test_a_constraint_that_can_not_be_kept_ends_the_run(update: dict[str, Any]) -> None:
    played = play(call(), "never", tools=[echo], hooks=next_request(**update))
    assert (played.end.stop, played.model.calls) == ("error", 1)
    assert isinstance(played.end.cause, ConfigurationError)


def test_an_answer_that_breaks_off_is_taken_up_under_the_same_constraint_and_no_longer() -> None:
    turns = (call(), ["br", error("connection reset by peer")], "oken", "more")
    follow_ups = [[UserMessage("f")], []]
    played = play(
        *turns,
        tools=[echo],
        hooks=next_request(tool_choice="none"),
        get_follow_up_messages=lambda: follow_ups.pop(0),
    )
    assert [o.tool_choice for o in played.model.options] == ["", "none", "none", ""]


def test_a_constraint_is_used_up_by_a_request_that_fails() -> None:
    follow_ups = [[UserMessage("f")], []]
    played = play(
        call(),
        error("bad request"),
        "after all",
        tools=[echo],
        hooks=next_request(tool_choice="none"),
        get_follow_up_messages=lambda: follow_ups.pop(0),
    )
    assert [o.tool_choice for o in played.model.options] == ["", "none", ""]


# -- queues ------------------------------------------------------------------------------------------


def test_hooks_are_polled_beside_the_queues() -> None:
    steering: list[list[Message]] = [[], [UserMessage("s")], [], [], []]
    follow_ups: list[list[Message]] = [[UserMessage("f")], []]
    hooks = Hooks(steering_messages=lambda: steering.pop(0), follow_up_messages=lambda: follow_ups.pop(0))
    box = [[UserMessage("q")], [], []]
    played = play("a", "b", "c", "d", hooks=hooks, get_follow_up_messages=lambda: box.pop(0))
    assert [text_of(m) for m in played.new] == ["hi", "a", "s", "b", "q", "f", "c"]


def test_text_from_a_hook_is_a_user_message() -> None:
    left = ["more"]
    hooks = Hooks(follow_up_messages=lambda: [left.pop()] if left else [])  # type: ignore[list-item]
    played = play("a", "b", hooks=hooks)
    assert [text_of(m) for m in played.new] == ["hi", "a", "more", "b"]


def test_a_poll_that_raises_is_logged_and_the_other_queue_is_still_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken() -> list[Message]:
        raise ValueError("boom")

    box = [[UserMessage("q")], [], []]
    hooks = Hooks(steering_messages=broken, follow_up_messages=broken)
    played = play("a", "b", hooks=hooks, get_follow_up_messages=lambda: box.pop(0))
    assert [text_of(m) for m in played.new] == ["hi", "a", "q", "b"]
    assert "counted as none" in caplog.text or "gives none" in caplog.text


def test_the_messages_of_several_sets_are_joined() -> None:
    merged = merge_hooks(
        Hooks(steering_messages=lambda: [UserMessage("1", 0)]),
        Hooks(steering_messages=lambda: ()),
        Hooks(steering_messages=lambda: [UserMessage("2", 0)]),
    ).steering_messages
    assert merged is not None
    assert list(merged()) == [UserMessage("1", 0), UserMessage("2", 0)]


# -- answers that were cut --------------------------------------------------------------------------


def cut(*blocks: Any) -> list[Any]:
    return [*blocks, done("length")]


def truncating(decision: Truncation | None, seen: list[TruncationInfo] | None = None) -> Hooks:
    def on_truncated(info: TruncationInfo) -> Truncation | None:
        if seen is not None:
            seen.append(info)
        return decision

    return Hooks(on_truncated=on_truncated)


def test_a_truncated_answer_may_be_requested_again_with_a_custom_message() -> None:
    seen: list[TruncationInfo] = []
    answer = ToolResultMessage("c1", "echo", "cut; use smaller pieces", is_error=True)
    decision = Truncation(retry=True, messages=[UserMessage("shorter please"), answer])
    played = play(cut(*call(), *call("echo", "c2")), "done", tools=[echo], hooks=truncating(decision, seen))
    assert_well_formed(played.new)
    assert [c.id for c in seen[0].tool_calls] == ["c1", "c2"]
    texts = [text_of(m) for m in played.new[2:]]
    assert texts[0] == "cut; use smaller pieces"
    assert texts[1].startswith("This call was not run")  # it had no result, so the loop added one
    assert texts[2:] == ["shorter please", "done"]
    assert played.end.stop == "end_turn"


def test_a_cut_answer_may_end_the_run() -> None:
    decision = Truncation(retry=False, messages=[UserMessage("too long", 0)])
    played = play(cut(*call()), "never", tools=[echo], hooks=truncating(decision))
    assert (played.end.stop, played.end.error, played.model.calls) == ("truncated", "", 1)
    assert text_of(played.new[-1]) == "too long"
    assert len([e for e in played.events if isinstance(e, ToolExecutionStart | ToolExecutionEnd)]) == 2


def test_a_cut_text_may_be_taken_further() -> None:
    played = play(
        cut("Once upon"), "a time", hooks=truncating(Truncation(retry=True, messages=[UserMessage("go on")]))
    )
    assert [text_of(m) for m in played.new] == ["hi", "Once upon", "go on", "a time"]
    silent = play(cut("Once upon"), "a time", hooks=truncating(None))
    assert silent.end.stop == "truncated"
    assert [text_of(m) for m in silent.new] == ["hi", "Once upon"]


def test_calls_of_a_cut_answer_run_under_no_decision() -> None:
    ran: list[int] = []
    danger = AgentTool("echo", "", {"type": "object"}, lambda arguments, context: ran.append(1))
    for decision in (None, Truncation(retry=True), Truncation(retry=False)):
        play(cut(*call()), "ok", tools=[danger], hooks=truncating(decision))
    assert ran == []


def test_asking_again_for_ever_ends_at_the_limit_of_turns() -> None:
    turns = [cut(*call()) for _ in range(9)]
    played = play(*turns, tools=[echo], hooks=truncating(Truncation(retry=True)), limits=Limits(max_turns=5))
    assert (played.end.stop, played.model.calls) == ("max_turns", 5)
    assert_well_formed(played.new)


def test_a_hook_for_cut_answers_that_raises_ends_the_run_with_every_call_answered() -> None:
    def broken(info: TruncationInfo) -> Truncation | None:
        raise ValueError("boom")

    played = play(cut(*call()), "never", tools=[echo], hooks=Hooks(on_truncated=broken))
    assert (played.end.stop, played.end.error) == ("error", "boom")
    assert_well_formed(played.new)


def test_a_result_for_a_call_that_is_not_there_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    stray = Truncation(retry=True, messages=[ToolResultMessage("c9", "echo", "whose?")])
    played = play(cut(*call()), "ok", tools=[echo], hooks=truncating(stray))
    assert_well_formed(played.new)
    assert "c9" in caplog.text


def test_of_several_decisions_the_last_counts() -> None:
    hooks = merge_hooks(truncating(Truncation(retry=True)), truncating(None), truncating(Truncation()))
    assert play(cut("Once"), hooks=hooks).end.stop == "truncated"


# -- denied calls and after_tool --------------------------------------------------------------------


def watching(seen: list[tuple[str, bool]], **more: Any) -> Hooks:
    return Hooks(after_tool=lambda info: seen.append((info.id, info.denied)), **more)


DENY = Hooks(before_tool=lambda info: ToolDecision.deny() if info.id == "c1" else None)


def test_denied_calls_are_shown_to_after_tool_only_on_request() -> None:
    calls = call("echo", "c1") + call("echo", "c2")
    deaf: list[tuple[str, bool]] = []
    keen: list[tuple[str, bool]] = []
    play(calls, "ok", tools=[echo], hooks=merge_hooks(DENY, watching(deaf)))
    play(calls, "ok", tools=[echo], hooks=merge_hooks(DENY, watching(keen, after_tool_sees_denied=True)))
    assert (deaf, keen) == ([("c2", False)], [("c1", True), ("c2", False)])


def test_a_set_that_did_not_ask_for_denied_calls_never_sees_them() -> None:
    deaf: list[tuple[str, bool]] = []
    keen: list[tuple[str, bool]] = []
    hooks = merge_hooks(DENY, watching(deaf), watching(keen, after_tool_sees_denied=True))
    play(call("echo", "c1"), "ok", tools=[echo], hooks=hooks)
    assert (deaf, keen) == ([], [("c1", True)])


def test_the_result_of_a_denied_call_may_be_overridden() -> None:
    def after_tool(info: ToolResultInfo) -> ToolOverride:
        return ToolOverride(f"{info.result.text}, ask a person")

    hooks = merge_hooks(DENY, Hooks(after_tool=after_tool, after_tool_sees_denied=True))
    played = play(call(), "ok", tools=[echo], hooks=hooks)
    assert text_of(played.new[2]) == "tool call denied, ask a person"


def test_unknown_and_cut_calls_are_shown_to_no_after_tool() -> None:
    seen: list[tuple[str, bool]] = []
    hooks = watching(seen, after_tool_sees_denied=True)
    play(call("nope"), cut(*call()), "ok", tools=[echo], hooks=hooks)
    assert seen == []


def test_a_failed_tool_may_be_made_a_success() -> None:
    @tool
    def fails() -> str:
        """Fail."""
        raise ToolError("no")

    hooks = Hooks(after_tool=lambda info: ToolOverride("fine", is_error=False, terminate=True))
    played = play([tool_call("fails")], tools=[fails], hooks=hooks)
    assert played.end.stop == "terminated"
