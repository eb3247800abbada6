"""Guardrails, candidate answers, and what a discarded answer leaves behind: its usage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.runs import Played, play, text_of

from agent import Agent, tool
from agent.cancel import CancelToken
from agent.errors import AgentError, GuardrailError, RunError
from agent.events import CandidateDiscarded, Event, MessageEnd, TurnEnd
from agent.hooks import (
    Candidate,
    CandidateInfo,
    Hooks,
    InputInfo,
    OutputInfo,
    RequestUpdate,
    RunInfo,
    TurnUpdate,
    merge_hooks,
)
from agent.limits import Limits
from agent.messages import UserMessage
from agent.testing import ScriptedModel, done, error, tool_call
from agent.usage import Usage


@tool
def echo(word: str) -> str:
    """Say it again."""
    return word


CALL = [tool_call("echo", {"word": "x"})]


def rejecting(what: Exception) -> Callable[[Any], None]:
    def guard(info: Any) -> None:
        raise what

    return guard


def agent_of(*turns: Any, **options: Any) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(*turns)
    return Agent(model.model, stream_fn=model.stream, tools=[echo], **options), model


# -- input ------------------------------------------------------------------------------------------


def test_a_rejected_input_leaves_the_conversation_as_it_was() -> None:
    cause = ValueError("rude")
    agent, model = agent_of("hi", "never")
    with agent:
        agent.run("a")
        before = agent.state.messages
        agent._set(hooks=Hooks(input_guardrails=[("manners", rejecting(cause))]))
        events: list[Event] = []
        agent.subscribe(events.append)
        with pytest.raises(RunError) as caught:
            agent.run("b")
        assert agent.state.messages == before
        assert agent.state.error == 'agent: input guardrail "manners": rude'
        assert not agent.state.is_streaming
    rejection = caught.value.__cause__
    assert isinstance(rejection, GuardrailError)
    assert (rejection.phase, rejection.name, rejection.__cause__) == ("input", "manners", cause)
    partial = caught.value.partial_result
    assert (partial.stop, partial.turns, partial.messages) == ("error", 0, ())
    assert partial.error == str(rejection) == str(caught.value)
    assert [e.type for e in events] == ["agent_start", "agent_end"]
    assert model.calls == 1


def test_an_input_guardrail_sees_what_was_and_what_is_new() -> None:
    seen: list[InputInfo] = []
    agent, _ = agent_of("one", "two", hooks=Hooks(input_guardrails=[("see", seen.append)]))
    with agent:
        agent.run("a")
        agent.run(["b", UserMessage("c")])
    assert [[text_of(m) for m in info.messages] for info in seen] == [[], ["a", "one"]]
    assert [[text_of(m) for m in info.input] for info in seen] == [["a"], ["b", "c"]]
    assert all(isinstance(info.input, list) and info.run for info in seen)


def test_what_a_guardrail_does_to_its_lists_changes_nothing() -> None:
    def spoil(info: InputInfo) -> None:
        info.messages.clear()
        info.input.clear()

    agent, model = agent_of("one", "two", hooks=Hooks(input_guardrails=[("spoil", spoil)]))
    with agent:
        agent.run("a")
        agent.run("b")
    assert [text_of(m) for m in model.contexts[1].messages] == ["a", "one", "b"]


def test_guardrails_are_called_in_order_once_per_run_until_the_first_rejection() -> None:
    called: list[str] = []

    def guard(name: str, fails: bool = False) -> tuple[str, Callable[[Any], None]]:
        def check(info: Any) -> None:
            called.append(name)
            if fails:
                raise ValueError(name)

        return name, check

    hooks = Hooks(input_guardrails=[guard("a"), guard("b", True), guard("c")])
    played = play("never", hooks=hooks)
    assert (played.end.stop, called) == ("error", ["a", "b"])
    called.clear()
    play(CALL, "done", tools=[echo], hooks=Hooks(input_guardrails=[guard("a"), guard("c")]))
    assert called == ["a", "c"]


def test_a_resumed_run_without_new_messages_has_no_input_to_check() -> None:
    seen: list[InputInfo] = []
    agent, _ = agent_of("one", hooks=Hooks(input_guardrails=[("see", seen.append)]))
    with agent:
        agent.append_message(UserMessage("a"))
        assert agent.resume().result(10).text == "one"
    assert seen == []


def test_steering_is_no_input() -> None:
    seen: list[InputInfo] = []
    agent, _ = agent_of("one", hooks=Hooks(input_guardrails=[("see", seen.append)]))
    with agent:
        agent.steer("s")
        agent.run("a")
    assert [text_of(m) for m in seen[0].input] == ["a"]


# -- output -----------------------------------------------------------------------------------------


def test_a_rejected_answer_is_not_stored_but_counted() -> None:
    agent, _ = agent_of(
        CALL,
        ["secret", done("stop", Usage(7))],
        hooks=Hooks(output_guardrails=[("leaks", rejecting(ValueError("a secret")))]),
    )
    with agent:
        events: list[Event] = []
        agent.subscribe(events.append)
        with pytest.raises(RunError, match=r'^agent: output guardrail "leaks": a secret$') as caught:
            agent.run("a")
        assert [m.role for m in agent.state.messages] == ["user", "assistant", "toolResult"]
        assert agent.state.stream_message is None
        assert agent.transcript.usage.total_tokens == 7
    partial = caught.value.partial_result
    assert (partial.turns, partial.usage.total_tokens, partial.text) == (2, 7, "")
    assert isinstance(caught.value.__cause__, GuardrailError)
    assert caught.value.__cause__.phase == "output"
    assert [e.type for e in events[-3:]] == ["candidate_discarded", "turn_end", "agent_end"]


def test_an_output_guardrail_sees_answers_without_calls_only_and_each_of_them() -> None:
    seen: list[OutputInfo] = []
    agent, _ = agent_of(CALL, "one", "two", hooks=Hooks(output_guardrails=[("see", seen.append)]))
    with agent:
        agent.follow_up("more")
        agent.run("a")
    assert [(info.message.text, info.turns) for info in seen] == [("one", 2), ("two", 3)]


def test_answers_that_failed_are_no_candidates() -> None:
    guard = Hooks(output_guardrails=[("no", rejecting(ValueError("never called")))])
    assert play(error("bad"), hooks=guard).end.error == "bad"
    aborted = CancelToken()
    aborted.cancel()
    assert play("x", hooks=guard, cancel=aborted).end.stop == "aborted"


def test_an_empty_answer_is_requested_again_before_it_is_reviewed() -> None:
    seen: list[OutputInfo] = []
    played = play("  ", "real", hooks=Hooks(output_guardrails=[("see", seen.append)]))
    assert [info.message.text for info in seen] == ["real"]
    assert played.end.stop == "end_turn"


def test_an_accepted_answer_is_emitted_and_stored_as_usual() -> None:
    quiet = Hooks(output_guardrails=[("ok", lambda info: None)], candidate_answer=lambda info: None)
    assert play("hi", hooks=quiet).story == play("hi").story


def test_an_abort_during_the_review_of_an_answer_ends_the_run_as_aborted() -> None:
    token = CancelToken()
    played = play("hi", hooks=Hooks(output_guardrails=[("x", lambda info: token.cancel())]), cancel=token)
    assert played.end.stop == "aborted"


# -- candidates -------------------------------------------------------------------------------------


def reviewer(*verdicts: Candidate | None, seen: list[CandidateInfo] | None = None) -> Hooks:
    left = list(verdicts)

    def candidate_answer(info: CandidateInfo) -> Candidate | None:
        if seen is not None:
            seen.append(info)
        return left.pop(0)

    return Hooks(candidate_answer=candidate_answer)


def test_a_discarded_answer_is_requested_again_and_leaves_only_its_usage() -> None:
    turns = (["bad", done("stop", Usage(5))], ["good", done("stop", Usage(6))])
    hooks = reviewer(Candidate.retry(RequestUpdate(system_suffix="Be good.")), Candidate.accept())
    agent, model = agent_of(*turns, hooks=hooks, system_prompt="You are it.")
    with agent:
        events: list[Event] = []
        agent.subscribe(events.append)
        result = agent.run("go")
        assert (result.text, result.turns, result.usage.total_tokens) == ("good", 2, 11)
        assert [text_of(m) for m in agent.state.messages] == ["go", "good"]
    assert [text_of(m) for m in model.contexts[1].messages] == ["go"]
    assert [c.system_prompt for c in model.contexts] == ["You are it.", "You are it.\nBe good."]
    ended = [e.message for e in events if isinstance(e, MessageEnd)]
    assert [text_of(m) for m in ended] == ["go", "good"]
    (discarded,) = [e for e in events if isinstance(e, CandidateDiscarded)]
    assert discarded.turn == 1
    assert [e.message is None for e in events if isinstance(e, TurnEnd)] == [True, False]


def test_discarding_for_ever_ends_at_the_limit_of_turns() -> None:
    hooks = Hooks(candidate_answer=lambda info: Candidate.retry(RequestUpdate()))
    agent, model = agent_of("a", "b", "c", "d", hooks=hooks, limits=Limits(max_turns=3))
    with agent:
        result = agent.run("go")
    assert (result.stop, result.turns, result.text, model.calls) == ("max_turns", 3, "", 3)


def test_the_text_of_a_run_whose_last_answer_was_discarded_is_that_of_the_one_before() -> None:
    agent, _ = agent_of(
        ["thinking aloud", *CALL], "bad", hooks=reviewer(Candidate.retry()), limits=Limits(max_turns=2)
    )
    with agent:
        assert agent.run("go").text == "thinking aloud"


def test_candidate_answer_gets_the_answer_the_conversation_and_the_turn_count() -> None:
    seen: list[CandidateInfo] = []
    play(
        [*CALL, done("toolUse", Usage(3))],
        ["a", done("stop", Usage(4))],
        tools=[echo],
        hooks=reviewer(None, seen=seen),
    )
    (info,) = seen
    assert (info.message.text, info.turns, info.usage.total_tokens) == ("a", 2, 7)
    assert [m.role for m in info.messages] == ["user", "assistant", "toolResult"]


def test_an_aborted_candidate_ends_the_run_with_the_error_unchanged() -> None:
    mine = LookupError("no good")
    agent, _ = agent_of("a", hooks=reviewer(Candidate.abort(mine)))
    with agent, pytest.raises(RunError, match="no good") as caught:
        agent.run("go")
    assert caught.value.__cause__ is mine
    agent, _ = agent_of("a", hooks=reviewer(Candidate.abort("in words")))
    with agent, pytest.raises(RunError, match="in words") as caught:
        agent.run("go")
    assert isinstance(caught.value.__cause__, AgentError)


def test_a_candidate_answer_hook_that_raises_ends_the_run() -> None:
    agent, _ = agent_of("a", hooks=Hooks(candidate_answer=rejecting(KeyError("x"))))
    with agent, pytest.raises(RunError) as caught:
        agent.run("go")
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize("name", ["candidate_answer", "prepare_turn"])
def test_a_hook_that_returns_the_wrong_type_ends_the_run_with_an_error_that_names_it(name: str) -> None:
    hook: dict[str, Any] = {name: lambda info: True}
    played = play("a", hooks=Hooks(**hook))
    assert played.end.stop == "error"
    assert f"{name} must return None or a" in played.end.error


def test_the_constraint_of_a_retry_wins_over_that_of_prepare_turn_and_holds_once() -> None:
    hooks = merge_hooks(
        reviewer(Candidate.retry(RequestUpdate(tools=[], system_suffix="mine")), None),
        Hooks(
            prepare_turn=lambda info: (
                TurnUpdate(next_request=RequestUpdate(system_suffix="other"))
                if info.message is None
                else None
            )
        ),
    )
    played = play("bad", [*CALL], "good", tools=[echo], hooks=hooks)
    assert [c.system_prompt for c in played.model.contexts] == ["", "mine", ""]
    assert [len(c.tools) for c in played.model.contexts] == [1, 0, 1]


def test_follow_ups_wait_while_an_answer_is_requested_again_and_steering_does_not() -> None:
    agent, model = agent_of("bad", "good", "more", hooks=reviewer(Candidate.retry(), None, None))
    with agent:
        agent.follow_up("f")

        def on_event(event: Event) -> None:
            if isinstance(event, CandidateDiscarded):
                agent.steer("s")

        agent.subscribe(on_event)
        agent.run("go")
    assert [[text_of(m) for m in c.messages] for c in model.contexts] == [
        ["go"],
        ["go", "s"],
        ["go", "s", "good", "f"],
    ]


def test_stop_tests_are_called_for_a_discarded_answer_too() -> None:
    seen: list[Any] = []

    def stop_when(info: RunInfo) -> bool:
        seen.append(info.message)
        return True

    hooks = merge_hooks(reviewer(Candidate.retry()), Hooks(stop_when=stop_when))
    assert play("bad", hooks=hooks).end.stop == "stop_when"
    assert seen == [None]


def test_a_retry_for_a_tool_that_is_not_there_ends_the_run() -> None:
    played = play("bad", hooks=reviewer(Candidate.retry(RequestUpdate(tool_choice="nope"))))
    assert played.end.stop == "error"
    assert "next model request" in played.end.error


def test_guardrails_review_an_answer_before_candidate_answer() -> None:
    order: list[str] = []
    hooks = Hooks(
        output_guardrails=[("g", lambda info: order.append("guardrail"))],
        candidate_answer=lambda info: order.append("candidate_answer"),
    )
    play("a", hooks=hooks)
    assert order == ["guardrail", "candidate_answer"]


def test_of_several_candidate_answer_hooks_the_first_that_does_not_accept_wins() -> None:
    seen: list[CandidateInfo] = []
    hooks = merge_hooks(
        reviewer(None, None),
        reviewer(Candidate.retry(RequestUpdate(system_suffix="second")), None),
        reviewer(Candidate.accept(), seen=seen),
    )
    played: Played = play("bad", "good", hooks=hooks)
    assert [c.system_prompt for c in played.model.contexts] == ["", "second"]
    assert [info.message.text for info in seen] == ["good"]


def test_an_answer_that_is_never_accepted_ends_the_run() -> None:
    """FR-29"""
    played = play(*["no"] * 30, hooks=Hooks(candidate_answer=lambda info: Candidate.retry()))
    assert played.model.calls == 10
    assert played.end.stop == "error"
    assert "discarded 10 answers in a row" in played.end.error
