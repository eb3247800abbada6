"""Runs with random sets of features, handed over as JSON when they pause; what must hold always, holds.

Seeded: a failure names its seed. `AGENT_TEST_ROUNDS` multiplies the number of runs.
"""

from __future__ import annotations

import json
import random
from itertools import combinations
from typing import Any, get_args

import pytest
from pydantic import BaseModel
from support.rounds import rounds
from support.runs import NO_WAITS, assert_events_balance, assert_well_formed

from agent import Agent, AgentTool
from agent.errors import RunError, ToolError
from agent.events import AgentEnd, Event
from agent.hooks import (
    Candidate,
    Hooks,
    RequestUpdate,
    ToolDecision,
    ToolOverride,
    Truncation,
    TurnUpdate,
    merge_hooks,
)
from agent.limits import Limits
from agent.messages import AssistantMessage, ToolResultMessage, UserMessage
from agent.runs import RunResult, Stop
from agent.stream import StreamDone, StreamStart, TextDelta, ToolCallDelta, ToolCallEnd, ToolCallStart
from agent.testing import ScriptedModel, done, error, text, thinking, tool_call
from agent.tools import ToolResult
from agent.transcript import Transcript
from agent.usage import Usage

ROUNDS = rounds(200)
ERRORS = ["connection reset by peer", "400 bad request", "429 rate limit", "unexpected EOF"]
TOOLS = ["fine", "fails", "exits", "nonsense", "ends", "missing"]


class Answer(BaseModel):
    word: str


class Script:
    """The features, the model's turns and the tools of one agent. Everything random comes from the seed."""

    def __init__(self, seed: int, features: tuple[str, ...] | None = None) -> None:
        self.random = random.Random(seed)
        names = [name for name in dir(self) if name.startswith("with_")]
        self.features = features or tuple(self.random.sample(names, self.random.randint(0, 8)))
        self.model = ScriptedModel(*[self.turn() for _ in range(80)])
        self.tools = [AgentTool(name, "", {"type": "object"}, self.tool(name)) for name in TOOLS[:-1]]

    def chance(self, probability: float = 0.3) -> bool:
        return self.random.random() < probability

    def turn(self) -> Any:
        usage = Usage(input=self.random.randint(0, 9), output=self.random.randint(0, 9))
        calls = [
            tool_call(self.random.choice(TOOLS), {"a": [self.random.random()]})
            for _ in range(self.random.randint(1, 4))
        ]
        cut_call = [StreamStart(), ToolCallStart(0, "cut", "fine"), ToolCallDelta(0, '{"a": [')]
        turns: list[Any] = [
            *[[text(self.random.choice(["all done", '{"word": "w"}'])), done(usage=usage)]] * 6,
            *[[*calls, done("toolUse", usage=usage)]] * 8,
            [text("half"), done("length", usage=usage)],
            [*calls, done("length", usage=usage)],
            [*cut_call, ToolCallEnd(0), StreamDone("toolUse", usage)],
            [text("half"), error(self.random.choice(ERRORS), usage=usage)],
            [thinking("hmm"), done()],
            [done()],
            [tool_call("final_answer", {"word": "w"})],
            [tool_call("final_answer", {"wrong": 1}), *calls],
            [TextDelta(0, "searching"), StreamDone("stop", usage, paused=True)],
            RuntimeError("the provider has a bug"),
        ]
        return self.random.choice(turns)

    def tool(self, name: str) -> Any:
        def execute(arguments: dict[str, Any], context: Any) -> Any:
            match name:
                case "fails":
                    raise ToolError("it went wrong")
                case "exits":
                    raise SystemExit
                case "nonsense":
                    return ToolResult([5])  # type: ignore[list-item]
                case "ends":
                    return ToolResult("bye", terminate=True)
            context.add_usage(Usage(input=1))
            return f"fine {arguments}"

        return execute

    # -- features: each returns hooks or options of the agent --

    def with_gate(self) -> Hooks:
        decisions = [
            ToolDecision.allow(),
            ToolDecision.allow({"a": [1]}),
            ToolDecision.deny("no"),
            ToolDecision.pause({"a": [2]}),
            5,
            None,
        ]
        return Hooks(before_tool=lambda info: self.random.choice(decisions))  # type: ignore[arg-type, return-value]

    def with_override(self) -> Hooks:
        return Hooks(after_tool=lambda info: ToolOverride(is_error=True) if self.chance() else None)

    def with_broken_override(self) -> Hooks:
        return Hooks(after_tool=lambda info: 1 / 0 if self.chance() else None, after_tool_sees_denied=True)  # type: ignore[arg-type, return-value]

    def with_input_guardrail(self) -> Hooks:
        return Hooks(input_guardrails=[("in", lambda info: 1 / 0 if self.chance(0.1) else None)])

    def with_output_guardrail(self) -> Hooks:
        return Hooks(output_guardrails=[("out", lambda info: 1 / 0 if self.chance(0.1) else None)])

    def with_candidate(self) -> Hooks:
        retry = Candidate.retry(RequestUpdate((), None, "Again."))
        verdicts = [None, Candidate.accept(), retry, Candidate.abort("no")]
        return Hooks(candidate_answer=lambda info: self.random.choice(verdicts))

    def with_prepare(self) -> Hooks:
        def prepare(info: Any) -> TurnUpdate | None:
            return self.random.choice(
                [
                    None,
                    TurnUpdate(next_request=RequestUpdate(tools=self.tools[:1])),
                    TurnUpdate(tools=self.tools[:2]),
                    TurnUpdate(messages=[UserMessage("only this")]) if self.chance() else None,
                    TurnUpdate(messages=[5]) if self.chance(0.1) else None,  # type: ignore[list-item]
                ]
            )

        return Hooks(prepare_turn=prepare)

    def with_stops(self) -> Hooks:
        return Hooks(
            stop_when=lambda info: self.chance(0.1), should_stop_after_turn=lambda info: self.chance(0.1)
        )

    def with_polls(self) -> Hooks:
        def poll() -> list[Any]:
            return [UserMessage("queued")] if self.chance(0.1) else [5] if self.chance(0.1) else []

        return Hooks(steering_messages=poll, follow_up_messages=poll)

    def with_truncation(self) -> Hooks:
        def on_truncated(info: Any) -> Truncation | None:
            results = [ToolResultMessage(call.id, call.name, "given") for call in info.tool_calls[:1]]
            return self.random.choice(
                [None, Truncation(True, [*results, UserMessage("go on")]), Truncation(False, results)]
            )

        return Hooks(on_truncated=on_truncated)

    def with_transform(self) -> Hooks:
        return Hooks(transform_context=lambda messages: 1 / 0 if self.chance(0.1) else messages[-1:])  # type: ignore[arg-type, return-value]

    def with_limits(self) -> dict[str, Any]:
        return {
            "limits": Limits(
                max_turns=self.random.choice([None, 1, 2, 5]),
                max_total_tokens=self.random.choice([None, 10, 50]),
                parallel_tools=self.random.choice([None, 1, 2]),
                final_answer=self.chance(0.5),
                turns_since_input=self.chance(0.5),
            )
        }

    def with_fallback(self) -> dict[str, Any]:
        return {"fallbacks": ["ollama/another"]}

    def agent(self, transcript: Transcript | None = None) -> Agent:
        hooks: list[Hooks] = []
        options: dict[str, Any] = {"stream_fn": self.model.stream, "retry": NO_WAITS}
        for name in self.features:
            feature = getattr(self, name)()
            if isinstance(feature, Hooks):
                hooks.append(feature)
            else:
                options |= feature
        return Agent(
            self.model.model, tools=self.tools, hooks=merge_hooks(*hooks), transcript=transcript, **options
        )


def check(agent: Agent, result: RunResult, events: list[Event], typed: bool) -> None:
    """What must hold at the end of every run."""
    assert result.stop in get_args(Stop)
    assert_events_balance(events)
    end = events[-1]
    assert isinstance(end, AgentEnd)
    messages = agent.state.messages
    assert tuple(messages[len(messages) - len(end.messages) :]) == end.messages
    assert bool(result.pending_calls) == (result.stop == "paused")
    assert "internal error" not in result.error
    json.dumps(agent.transcript.to_json())
    if result.stop != "paused":
        assert agent.pending_calls == []
        assert_well_formed(messages)
    if result.output is not None:
        assert typed
        assert result.stop not in ("error", "aborted", "paused")


def play(seed: int, features: tuple[str, ...] | None = None) -> None:
    script = Script(seed, features)
    typed = script.chance()
    agent = script.agent()
    for part in range(6):
        events: list[Event] = []
        unsubscribe = agent.subscribe(events.append)
        output_type = Answer if typed else None
        if script.chance(0.1):
            agent.subscribe(lambda event, mine=agent: mine.abort() if script.chance(0.02) else None)
        if part == 0:
            try:
                result = agent.run("hi", output_type=output_type)
            except RunError as failure:
                result = failure.partial_result
        else:
            result = agent.resume(output_type=output_type).result(30)
        unsubscribe()
        check(agent, result, events, typed)
        if result.stop == "paused":
            kept = json.loads(json.dumps(agent.transcript.to_json()))
            agent.close()
            agent = script.agent(Transcript.from_json(kept))
            answers = ["resolved", ToolResult("no", is_error=True)]
            agent.resolve_pending(lambda call: script.random.choice(answers))  # noqa: B023
            assert_well_formed(agent.state.messages)
        elif script.chance(0.7) or not agent.state.messages:  # a rejected input leaves none
            break
    agent.close()
    plain = ScriptedModel("still alive")
    with Agent(plain.model, stream_fn=plain.stream, transcript=agent.transcript) as following:
        if following.pending_calls:
            following.resolve_pending(lambda call: "late")
        assert following.run("again").text == "still alive"
        assert isinstance(following.state.messages[-1], AssistantMessage)


@pytest.mark.parametrize("block", range(10))
def test_runs_with_random_features_end_well(block: int) -> None:
    for seed in range(block * ROUNDS // 10, (block + 1) * ROUNDS // 10):
        try:
            play(seed)
        except Exception as failure:
            raise AssertionError(f"play({seed}) failed") from failure


FEATURES = [name for name in dir(Script) if name.startswith("with_")]


@pytest.mark.parametrize("first", FEATURES)
def test_runs_with_any_two_features_end_well(first: str) -> None:
    for pair in combinations(FEATURES, 2):
        if pair[0] == first:
            for seed in range(max(1, ROUNDS // 200)):
                try:
                    play(seed, pair)
                except Exception as failure:
                    raise AssertionError(f"play({seed}, {pair}) failed") from failure
