"""Typed results: how they are requested, parsed, validated, reviewed and abandoned."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field
from support.runs import assert_well_formed, text_of

from agent import Agent, tool
from agent.errors import ConfigurationError, GuardrailError, RunError
from agent.hooks import Candidate, CandidateInfo, Hooks, OutputInfo, ToolDecision, TurnUpdate
from agent.limits import Limits
from agent.stream import AgentContext
from agent.testing import ScriptedModel, done, error, thinking, tool_call
from agent.transcript import Transcript


class City(BaseModel):
    """A city."""

    name: str
    people: int = Field(gt=0)


class Node(BaseModel):
    name: str
    children: list[Node] = []


@dataclass
class Point:
    x: int
    y: int


@tool
def look(name: str) -> str:
    """Look a city up."""
    return f"{name}: two million"


PARIS: dict[str, Any] = {"name": "Paris", "people": 2_000_000}


def final(arguments: dict[str, Any], id: str = "") -> Any:
    return tool_call("final_answer", arguments, id)


def agent_of(*turns: Any, **options: Any) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(*turns)
    return Agent(model.model, stream_fn=model.stream, **options), model


def test_the_answer_comes_as_a_value_of_the_type() -> None:
    agent, model = agent_of([tool_call("look", {"name": "Paris"})], [final(PARIS)], tools=[look])
    with agent:
        result = agent.run("How big is Paris?", output_type=City)
        assert result.output == City(name="Paris", people=2_000_000)
        assert (result.stop, result.turns, result.error) == ("end_turn", 2, "")
        assert_well_formed(agent.state.messages)
        assert agent.state.tools is not None
        assert agent.state.tools.names() == ["look"]
    assert [t.name for t in model.contexts[0].tools] == ["look", "final_answer"]
    schema = model.contexts[0].tools[1].parameters
    assert schema["required"] == ["name", "people"]
    assert schema["properties"]["people"] == {"exclusiveMinimum": 0, "type": "integer"}
    assert "final_answer" in model.contexts[0].system_prompt


def test_without_a_type_there_is_no_output_and_nothing_is_added() -> None:
    agent, model = agent_of("hi")
    with agent:
        assert agent.run("x").output is None
    assert (list(model.contexts[0].tools), model.contexts[0].system_prompt) == ([], "")


@pytest.mark.parametrize(
    "text", ['{"name": "Paris", "people": 2000000}', '```json\n{"name": "Paris", "people": 2000000}\n```']
)
def test_json_in_text_is_an_answer_too(text: str) -> None:
    agent, model = agent_of(text)
    with agent:
        assert agent.run("x", output_type=City).output == City(**PARIS)
    assert model.calls == 1


def test_other_text_is_discarded_and_the_tool_asked_for_by_name() -> None:
    agent, model = agent_of("Paris has many people.", [final(PARIS)], tools=[look])
    with agent:
        result = agent.run("x", output_type=City)
        assert result.output == City(**PARIS)
        assert not [m for m in agent.state.messages if text_of(m).startswith("Paris has")]
    assert [o.tool_choice for o in model.options] == ["", "final_answer"]


def test_a_value_that_does_not_fit_goes_back_with_what_is_wrong() -> None:
    agent, _ = agent_of([final({"name": "Paris", "people": -1})], [final({"name": "Paris"})], [final(PARIS)])
    with agent:
        result = agent.run("x", output_type=City)
        results = [text_of(m) for m in agent.state.messages if m.role == "toolResult"]
    assert result.output == City(**PARIS)
    assert "people" in results[0]
    assert "greater than 0" in results[0]
    assert "people is required" in results[1]


@pytest.mark.parametrize("bad", ["just text", [final({"name": 1})]])
def test_a_model_that_never_fits_is_given_up(bad: Any) -> None:
    agent, model = agent_of(*[bad] * 9)
    with agent, pytest.raises(RunError, match="no valid typed answer in 4 attempts") as caught:
        agent.run("x", output_type=City)
    assert model.calls == 4
    assert caught.value.partial_result.output is None


@pytest.mark.parametrize(
    ("output_type", "arguments", "value"),
    [
        (Point, {"x": 1, "y": 2}, Point(1, 2)),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (int, {"value": 3}, 3),
        (list[City], {"value": [PARIS]}, [City(**PARIS)]),
        (Literal["yes", "no"], {"value": "yes"}, "yes"),
        (
            Node,
            {"value": {"name": "a", "children": [{"name": "b"}]}},
            Node(name="a", children=[Node(name="b")]),
        ),
        (City | None, {"value": None}, None),
    ],
)
def test_any_type_that_pydantic_can_describe_will_do(output_type: Any, arguments: Any, value: Any) -> None:
    agent, model = agent_of([final(arguments)])
    with agent:
        result = agent.run("x", output_type=output_type)
        assert result.output == value
        assert result.stop == "end_turn"
    assert model.contexts[0].tools[0].parameters["type"] == "object"


def test_a_type_without_a_schema_is_refused_before_anything_is_sent() -> None:
    agent, model = agent_of("never")
    with agent:
        with pytest.raises(ConfigurationError, match="no schema can be made for output_type"):
            agent.run("x", output_type=threading_lock_type())
        assert agent.state.messages == []
    assert model.calls == 0


def threading_lock_type() -> Any:
    class Opaque:
        pass

    return Opaque


def test_a_tool_of_ones_own_of_that_name_stays() -> None:
    @tool
    def final_answer(name: str) -> str:
        """Mine."""
        return "mine"

    agent, model = agent_of(
        [final({"name": "x"})], [tool_call("final_answer_2", PARIS)], tools=[final_answer]
    )
    with agent:
        assert agent.run("x", output_type=City).output == City(**PARIS)
    assert [t.name for t in model.contexts[0].tools] == ["final_answer", "final_answer_2"]


def test_only_a_model_that_does_not_think_is_forced_to_call_at_once() -> None:
    agent, model = agent_of([final(PARIS)], [thinking("hm"), final(PARIS)])
    with agent:
        agent.run("x", output_type=City)
        agent.thinking_level = "high"
        agent.run("y", output_type=City)
    assert [o.tool_choice for o in model.options] == ["final_answer", ""]


def test_calls_beside_the_answer_run_and_the_text_after_them_needs_no_schema() -> None:
    both = [tool_call("look", {"name": "x"}, "c1"), final(PARIS, "c2")]
    agent, _ = agent_of(both, "That was it.", tools=[look])
    with agent:
        result = agent.run("x", output_type=City)
    assert (result.output, result.text, result.stop) == (City(**PARIS), "That was it.", "end_turn")


def test_a_follow_up_goes_on_and_the_last_answer_counts() -> None:
    second: dict[str, Any] = {"name": "Rome", "people": 1}
    agent, _ = agent_of([final(PARIS)], [final(second)])
    with agent:
        agent.follow_up("and Rome?")
        assert agent.run("x", output_type=City).output == City(**second)


def test_guardrails_and_candidate_answer_review_a_typed_answer_before_it_counts() -> None:
    def no_paris(info: OutputInfo) -> None:
        if "Paris" in info.message.text:
            raise ValueError("not Paris")

    agent, _ = agent_of([final(PARIS)], hooks=Hooks(output_guardrails=[("places", no_paris)]))
    with agent:
        with pytest.raises(RunError, match="not Paris") as caught:
            agent.run("x", output_type=City)
        assert isinstance(caught.value.__cause__, GuardrailError)
        assert [m.role for m in agent.state.messages] == ["user"]

    def candidate_answer(info: CandidateInfo) -> Candidate | None:
        return Candidate.retry() if "Paris" in info.message.text else None

    agent, _ = agent_of(
        [final(PARIS)], [final({"name": "Rome", "people": 1})], hooks=Hooks(candidate_answer=candidate_answer)
    )
    with agent:
        assert agent.run("x", output_type=City).output == City(name="Rome", people=1)


def test_before_tool_is_not_called_for_the_answer_tool() -> None:
    hooks = Hooks(before_tool=lambda info: ToolDecision.pause())
    agent, _ = agent_of([final(PARIS)], hooks=hooks)
    with agent:
        assert agent.run("x", output_type=City).output == City(**PARIS)


def test_a_hook_that_replaces_the_tools_does_not_take_the_answer_away() -> None:
    hooks = Hooks(prepare_turn=lambda info: TurnUpdate(tools=[]))
    agent, model = agent_of([tool_call("look", {"name": "x"})], [final(PARIS)], tools=[look], hooks=hooks)
    with agent:
        assert agent.run("x", output_type=City).output == City(**PARIS)
    assert [t.name for t in model.contexts[1].tools] == ["final_answer"]


def test_the_last_answer_at_a_limit_may_be_the_typed_one() -> None:
    limits = Limits(max_turns=1, final_answer=True)
    agent, model = agent_of([tool_call("look", {"name": "x"})], [final(PARIS)], tools=[look], limits=limits)
    with agent:
        result = agent.run("x", output_type=City)
    assert (result.output, result.stop) == (City(**PARIS), "max_turns")
    assert [t.name for t in model.contexts[1].tools] == ["final_answer"]


def test_a_run_that_ends_before_has_no_output() -> None:
    agent, _ = agent_of([tool_call("look", {"name": "x"})], tools=[look], limits=Limits(max_turns=1))
    with agent:
        result = agent.run("x", output_type=City)
    assert (result.output, result.stop) == (None, "max_turns")


def test_a_cut_answer_is_none() -> None:
    agent, _ = agent_of([final(PARIS), done("length")], [final(PARIS)])
    with agent:
        assert agent.run("x", output_type=City).turns == 2


def test_tools_that_a_call_adds_are_there_for_the_next_call() -> None:
    @tool
    def grow() -> str:
        """Grow."""
        agent.update_tools(lambda tools: tools.add(look))
        return "grown"

    def answer(context: AgentContext) -> Any:
        assert [t.name for t in context.tools] == ["grow", "look", "final_answer"]
        return [final(PARIS)]

    agent, _ = agent_of([tool_call("grow"), tool_call("look", {"name": "x"})], answer, tools=[grow])
    with agent:
        result = agent.run("x", output_type=City)
        results = [text_of(m) for m in agent.state.messages if m.role == "toolResult"]
    assert results[:2] == ["grown", "x: two million"]
    assert result.output == City(**PARIS)


def test_two_runs_of_one_agent_share_no_answer() -> None:
    agent, _ = agent_of([final(PARIS)], "7")
    with agent:
        assert agent.run("x", output_type=City).output == City(**PARIS)
        assert agent.run("y", output_type=int).output == 7


# -- values that do not count (FR-6) ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "hooks",
    [
        Hooks(candidate_answer=lambda info: Candidate.retry()),
        Hooks(candidate_answer=lambda info: Candidate.abort("no")),
        Hooks(output_guardrails=[("never", lambda info: 1 / 0)]),
        Hooks(prepare_turn=lambda info: TurnUpdate(error="no more")),
    ],
)
def test_a_value_that_was_rejected_is_no_output(hooks: Hooks) -> None:
    """FR-6"""
    answer = json.dumps(PARIS)
    agent, _ = agent_of(answer, answer, answer, hooks=hooks, limits=Limits(max_turns=2))
    with agent:
        try:
            result = agent.run("How big is Paris?", output_type=City)
        except RunError as error:
            result = error.partial_result
    assert result.stop in ("max_turns", "error")
    assert result.output is None


@pytest.mark.parametrize("restart", [False, True])
def test_a_typed_run_that_paused_reaches_its_value_after_resume(restart: bool) -> None:
    """FR-6"""
    gated: list[str] = []

    def gate(info: Any) -> ToolDecision:
        gated.append(info.name)
        return ToolDecision.pause()

    hooks = Hooks(before_tool=gate)
    agent, model = agent_of(
        [tool_call("look", {"name": "Paris"}, "c1")],
        [final(PARIS)],
        "more",
        tools=[look],
        hooks=hooks,
    )
    with agent:
        result = agent.run("How big is Paris?", output_type=City)
        assert (result.stop, result.output) == ("paused", None)
        kept = Transcript.from_json(json.loads(json.dumps(agent.transcript.to_json())))
        following = (
            Agent(
                model.model,
                stream_fn=model.stream,
                tools=[look],
                transcript=kept,
                hooks=hooks,
            )
            if restart
            else agent
        )
        with following:
            following.resolve_pending(lambda call: "two million")
            run = following.resume(output_type=City) if restart else following.resume()
            result = run.result(10)
            assert (result.stop, result.output) == ("end_turn", City(**PARIS))
            assert gated == ["look"]
            assert following.resume().result(10).output is None  # the typed run is over


def test_a_typed_run_that_failed_reaches_its_value_after_resume() -> None:
    """FR-6"""
    agent, _ = agent_of(error("400 no"), [final(PARIS)])
    with agent:
        with pytest.raises(RunError):
            agent.run("How big is Paris?", output_type=City)
        assert agent.resume().result(10).output == City(**PARIS)


def test_a_prompt_after_a_typed_run_without_a_value_is_not_typed() -> None:
    agent, _ = agent_of(error("400 no"), "plain")
    with agent:
        with pytest.raises(RunError):
            agent.run("How big is Paris?", output_type=City)
        assert agent.run("again").text == "plain"
