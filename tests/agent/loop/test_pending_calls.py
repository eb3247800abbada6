"""Gates that pause, the calls that wait then, and how they are resolved and taken up, here or elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from support.runs import play, text_of

from agent import Agent, Transcript, tool
from agent.errors import (
    AgentBusyError,
    InvalidToolResolutionError,
    PendingToolCallsError,
    ToolCallNotPendingError,
    ToolError,
)
from agent.events import AgentEnd, Event, ToolExecutionStart, event_to_json
from agent.hooks import Hooks, RunInfo, ToolCallInfo, ToolDecision
from agent.limits import Limits
from agent.messages import (
    AssistantMessage,
    CustomMessage,
    ImageContent,
    Message,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from agent.testing import ScriptedModel, tool_call
from agent.tools import ToolResult
from agent.transcript import ToolResolution, find_pending
from agent.usage import Usage

ROOT = Path(__file__).parents[3]


@tool
def ls(path: str) -> str:
    """List."""
    return f"in {path}"


@tool
def rm(path: str) -> str:
    """Remove."""
    raise AssertionError("that was not allowed")


def pausing(*ids: str, updated: dict[str, Any] | None = None) -> Hooks:
    def before_tool(info: ToolCallInfo) -> ToolDecision | None:
        return ToolDecision.pause(updated) if info.id in ids else None

    return Hooks(before_tool=before_tool)


def batch(*ids: str) -> list[ToolCall]:
    """`l..` lists, `r..` removes."""
    return [tool_call("ls" if id[0] == "l" else "rm", {"path": id}, id) for id in ids]


def paused(
    *ids: str, at: str, updated: dict[str, Any] | None = None, then: Any = "done"
) -> tuple[Agent, Any]:
    model = ScriptedModel(batch(*ids), then)
    agent = Agent(model.model, stream_fn=model.stream, tools=[ls, rm], hooks=pausing(at, updated=updated))
    result = agent.prompt("go").result(10)
    assert result.stop == "paused"
    return agent, model


def results(messages: list[Message]) -> list[tuple[str, str]]:
    return [(m.tool_call_id, m.text) for m in messages if isinstance(m, ToolResultMessage)]


# -- pausing ----------------------------------------------------------------------------------------


def test_calls_before_the_pause_run_and_the_rest_waits() -> None:
    agent, model = paused("l1", "r2", "l3", at="r2")
    with agent:
        assert results(agent.state.messages) == [("l1", "in l1")]
        assert [c.id for c in agent.pending_calls] == ["r2", "l3"]
        agent.resolve_tool_calls(ToolResolution("l3", "three"), ToolResolution("r2", "two"))
        assert agent.pending_calls == []
        assert agent.resume().result(10).text == "done"
        assert results(model.contexts[1].messages) == [("l1", "in l1"), ("r2", "two"), ("l3", "three")]


def test_a_pause_of_the_first_call_runs_nothing() -> None:
    played = play(batch("r1", "l2"), tools=[ls, rm], hooks=pausing("r1"))
    assert played.end.stop == "paused"
    assert [m.role for m in played.new] == ["user", "assistant"]
    assert [c.id for c in played.end.pending_calls] == ["r1", "l2"]
    assert not [e for e in played.events if isinstance(e, ToolExecutionStart)]


def test_before_tool_is_not_called_for_calls_behind_a_pause() -> None:
    gated: list[str] = []

    def before_tool(info: ToolCallInfo) -> ToolDecision | None:
        gated.append(info.id)
        return {"r1": ToolDecision.deny("no"), "r2": ToolDecision.pause()}.get(info.id)

    played = play(batch("l0", "r1", "r2", "l3"), tools=[ls, rm], hooks=Hooks(before_tool=before_tool))
    assert gated == ["l0", "r1", "r2"]
    assert results(played.new) == [("l0", "in l0"), ("r1", "no")]
    assert [c.id for c in played.end.pending_calls] == ["r2", "l3"]


def test_a_pause_comes_before_every_other_ending_and_before_prepare_turn() -> None:
    def never(info: RunInfo) -> Any:
        raise AssertionError("not asked")

    hooks = Hooks(
        before_tool=lambda info: ToolDecision.pause(),
        prepare_turn=never,
        should_stop_after_turn=never,
        stop_when=never,
    )
    played = play(batch("r1"), tools=[ls, rm], hooks=hooks, limits=Limits(max_turns=1))
    assert played.end.stop == "paused"


def test_a_pause_after_tools_that_ask_to_stop_is_a_pause() -> None:
    @tool
    def last() -> ToolResult:
        """Stop."""
        return ToolResult("", terminate=True)

    played = play([tool_call("last", id="c1"), *batch("r2")], tools=[last, rm], hooks=pausing("r2"))
    assert played.end.stop == "paused"


def test_pending_calls_have_the_arguments_of_the_gate_and_the_messages_those_of_the_model() -> None:
    agent, _ = paused("r1", "l2", at="r1", updated={"path": "elsewhere"})
    with agent:
        assert [c.arguments for c in agent.pending_calls] == [{"path": "elsewhere"}, {"path": "l2"}]
        answer = agent.state.messages[1]
        assert isinstance(answer, AssistantMessage)
        assert answer.tool_calls[0].arguments == {"path": "r1"}
        kept = Transcript.from_json(json.loads(json.dumps(agent.transcript.to_json())))
    with Agent(transcript=kept) as other:
        assert [c.arguments for c in other.pending_calls] == [{"path": "r1"}, {"path": "l2"}]


def test_the_result_and_the_last_event_name_the_pending_calls() -> None:
    events: list[Event] = []
    model = ScriptedModel(batch("r1"))
    with Agent(model.model, stream_fn=model.stream, tools=[rm], hooks=pausing("r1")) as agent:
        agent.subscribe(events.append)
        result = agent.run("go")
        assert [c.id for c in result.pending_calls] == ["r1"]
    (end,) = [e for e in events if isinstance(e, AgentEnd)]
    results = json.loads(json.dumps(event_to_json(end)))
    assert (results["stop"], results["pending_calls"][0]["id"]) == ("paused", "r1")


def test_what_is_queued_stays_so_through_a_pause_and_enters_when_it_is_over() -> None:
    agent, model = paused("r1", at="r1")
    with agent:
        agent.steer("and be quick")
        agent.resolve_pending(lambda call: "ok")
        agent.resume().result(10)
        assert [text_of(m) for m in model.contexts[1].messages][-1] == "and be quick"


def test_aborting_a_paused_agent_changes_nothing() -> None:
    agent, _ = paused("r1", at="r1")
    with agent:
        agent.abort()
        assert [c.id for c in agent.pending_calls] == ["r1"]


# -- what waits ---------------------------------------------------------------------------------------


def calling(*ids: str, stop_reason: Any = "toolUse") -> AssistantMessage:
    return AssistantMessage(batch(*ids), stop_reason=stop_reason)


def ids(*messages: Message) -> list[str]:
    return [call.id for call in find_pending(messages).calls]


def answer(id: str) -> ToolResultMessage:
    return ToolResultMessage(id, "ls", "x")


def test_pending_are_the_unanswered_calls_of_the_last_answer() -> None:
    assert ids() == []
    assert ids(UserMessage("a")) == []
    assert ids(calling("l1", "l2")) == ["l1", "l2"]
    assert ids(calling("l1", "l2", "l3"), answer("l2")) == ["l1", "l3"]
    assert ids(calling("l1"), answer("l1")) == []
    assert ids(AssistantMessage([TextContent("hi")])) == []


def test_messages_behind_them_do_not_answer_them() -> None:
    """FR-21"""
    assert ids(calling("l1"), UserMessage("never mind")) == ["l1"]
    assert ids(calling("l1"), UserMessage("a"), AssistantMessage("b")) == []
    assert ids(
        calling("l1", "l2"),
        answer("l1"),
        CustomMessage("note", {}),
    ) == ["l2"]


@pytest.mark.parametrize("stop_reason", ["error", "aborted"])
def test_calls_of_an_answer_that_failed_never_wait(stop_reason: Any) -> None:
    assert ids(calling("l1", stop_reason=stop_reason)) == []


def test_one_id_twice_waits_twice() -> None:
    """Y17"""
    assert ids(calling("l1", "l1")) == ["l1", "l1"]
    assert ids(calling("l1", "l1"), answer("l1")) == ["l1"]
    agent = Agent(transcript=Transcript((calling("l1", "l1"),)))
    agent.resolve_tool_calls(ToolResolution("l1", "first"))
    agent.resolve_tool_calls(ToolResolution("l1", "second"))
    assert [text for _, text in results(agent.state.messages)] == ["first", "second"]
    with pytest.raises(ToolCallNotPendingError):
        agent.resolve_tool_calls(ToolResolution("l1", "third"))


def test_calls_of_a_running_run_are_not_pending() -> None:
    seen: list[Any] = []

    @tool
    def look() -> str:
        """Look."""
        seen.append(list(agent.pending_calls))
        with pytest.raises(AgentBusyError):
            agent.resolve_tool_calls(ToolResolution("c1", "x"))
        with pytest.raises(AgentBusyError):
            agent.resolve_pending(lambda call: "x")
        return "looked"

    model = ScriptedModel([tool_call("look", id="c1")], "ok")
    with Agent(model.model, stream_fn=model.stream, tools=[look]) as agent:
        assert agent.run("go").stop == "end_turn"
    assert seen == [[]]


# -- resolving ----------------------------------------------------------------------------------------


def waiting(*names: str) -> Agent:
    return Agent(transcript=Transcript((UserMessage("go"), calling(*names))))


def test_some_may_be_resolved_and_the_rest_later_in_any_order() -> None:
    agent = waiting("l1", "l2", "l3")
    agent.resolve_tool_calls(ToolResolution("l2", "two"))
    assert [c.id for c in agent.pending_calls] == ["l1", "l3"]
    agent.resolve_tool_calls(ToolResolution("l3", "three", is_error=True), ToolResolution("l1", "one"))
    assert results(agent.state.messages) == [("l1", "one"), ("l2", "two"), ("l3", "three")]
    assert [m.is_error for m in agent.state.messages[2:]] == [False, False, True]  # type: ignore[union-attr]
    assert agent.pending_calls == []


def test_resolving_nothing_changes_nothing() -> None:
    agent = waiting("l1")
    agent.resolve_tool_calls()
    assert len(agent.state.messages) == 2
    quiet = Agent()
    quiet.resolve_tool_calls()
    quiet.resolve_pending(lambda call: pytest.fail("there is none"))
    assert quiet.state.messages == []


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (["l1", "nope"], ToolCallNotPendingError),
        (["l1", "l1"], InvalidToolResolutionError),
        (["l1", ""], InvalidToolResolutionError),
    ],
)
def test_one_wrong_resolution_leaves_everything_as_it_is(given: list[str], error: type[Exception]) -> None:
    agent = waiting("l1", "l2")
    with pytest.raises(error):
        agent.resolve_tool_calls(*(ToolResolution(id, "x") for id in given))
    assert len(agent.state.messages) == 2


def test_a_call_that_is_answered_waits_no_more() -> None:
    agent = waiting("l1", "l2")
    agent.resolve_tool_calls(ToolResolution("l1", "x"))
    with pytest.raises(ToolCallNotPendingError, match="l1; pending: l2"):
        agent.resolve_tool_calls(ToolResolution("l1", "again"))


def test_content_may_be_blocks() -> None:
    agent = waiting("l1")
    image = ImageContent("aGk=", "image/png")
    agent.resolve_tool_calls(ToolResolution("l1", [TextContent("see"), image]))
    results = agent.state.messages[-1]
    assert isinstance(results, ToolResultMessage)
    assert results.content == (TextContent("see"), image)


def test_a_function_resolves_all_and_what_it_raises_is_an_error_result() -> None:
    agent = waiting("l1", "l2", "l3", "l4")

    def resolve(call: ToolCall) -> Any:
        match call.id:
            case "l1":
                return ToolResult("one", details={"a": 1})
            case "l2":
                raise ValueError("two")
            case "l3":
                raise ToolError("three; try four")
        return [TextContent("four")]

    agent.resolve_pending(resolve)
    results = [m for m in agent.state.messages if isinstance(m, ToolResultMessage)]
    assert [(m.text, m.is_error) for m in results] == [
        ("one", False),
        ("ValueError: two", True),
        ("three; try four", True),
        ("four", False),
    ]
    assert results[0].details == {"a": 1}


def test_a_function_that_is_stopped_half_way_answers_nothing() -> None:
    agent = waiting("l1", "l2")

    def resolve(call: ToolCall) -> str:
        if call.id == "l2":
            raise KeyboardInterrupt
        return "x"

    with pytest.raises(KeyboardInterrupt):
        agent.resolve_pending(resolve)
    assert len(agent.state.messages) == 2


def test_of_two_that_resolve_at_once_one_wins() -> None:
    agent = waiting("l1", "l2")

    def resolve(call: ToolCall) -> str:
        if call.id == "l2":
            agent.resolve_tool_calls(ToolResolution("l1", "quicker"))
        return "slower"

    with pytest.raises(ToolCallNotPendingError):
        agent.resolve_pending(resolve)
    assert results(agent.state.messages) == [("l1", "quicker")]


def test_threads_that_resolve_one_call_each_lose_none() -> None:
    names = [f"l{n}" for n in range(40)]
    agent = waiting(*names)
    start = threading.Barrier(8)

    def resolve(mine: list[str]) -> None:
        start.wait(5)
        for id in mine:
            agent.resolve_tool_calls(ToolResolution(id, id))

    threads = [threading.Thread(target=resolve, args=(names[n::8],)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(id for id, _ in results(agent.state.messages)) == sorted(names)
    assert agent.pending_calls == []


# -- going on -------------------------------------------------------------------------------------------


def test_neither_prompt_nor_resume_is_taken_while_calls_wait() -> None:
    agent, model = paused("r1", "l2", at="r1")
    with agent:
        for start in (lambda: agent.prompt("x"), agent.resume, lambda: agent.run("x")):
            with pytest.raises(PendingToolCallsError, match=r"rm \(r1\), ls \(l2\)"):
                start()
        agent.resolve_tool_calls(ToolResolution("r1", "x"))
        with pytest.raises(PendingToolCallsError, match=r"ls \(l2\)"):
            agent.resume()
        assert model.calls == 1


def test_the_agent_may_forget_instead() -> None:
    agent, _ = paused("r1", at="r1")
    with agent:
        agent.reset()
        assert agent.pending_calls == []
        assert agent.run("again").text == "done"


def test_a_paused_call_may_be_resolved_as_the_run_ends() -> None:
    agent_runs: list[Any] = []
    model = ScriptedModel(batch("r1"), "done")
    with Agent(model.model, stream_fn=model.stream, tools=[rm], hooks=pausing("r1")) as agent:

        def on_event(event: Event) -> None:
            if isinstance(event, AgentEnd) and event.stop == "paused":
                agent.resolve_pending(lambda call: "approved")
                agent_runs.append(agent.resume())

        agent.subscribe(on_event)
        assert agent.run("go").stop == "paused"
        assert agent_runs[0].result(10).text == "done"


def test_pausing_again_and_again_goes_on_from_where_it_was() -> None:
    model = ScriptedModel(batch("r1"), batch("r2"), "done")
    with Agent(model.model, stream_fn=model.stream, tools=[rm], hooks=pausing("r1", "r2")) as agent:
        agent.run("go")
        agent.resolve_pending(lambda call: "a")
        assert agent.resume().result(10).stop == "paused"
        agent.resolve_pending(lambda call: "b")
        assert agent.resume().result(10).stop == "end_turn"
        assert results(agent.state.messages) == [("r1", "a"), ("r2", "b")]


# -- transcripts ------------------------------------------------------------------------------------------


def test_the_json_of_a_transcript_is_exactly_messages_and_usage() -> None:
    kept = Transcript((UserMessage("a", 0), calling("l1")), Usage(3, 4))
    data = kept.to_json()
    assert set(data) == {"messages", "usage"}
    assert Transcript.from_json(json.loads(json.dumps(data))) == kept
    assert Transcript.from_json(Transcript().to_json()) == Transcript()
    assert Transcript.from_json({"messages": [], "usage": {}}) == Transcript()


def test_a_transcript_with_an_unknown_role_is_refused() -> None:
    with pytest.raises(ValueError, match="role"):
        Transcript.from_json({"messages": [{"role": "wizard"}], "usage": {}})


def test_an_agent_goes_on_from_a_transcript_and_adds_its_usage() -> None:
    model = ScriptedModel("hi", "there")
    kept = Transcript((UserMessage("a"), AssistantMessage([TextContent("b")])), Usage(100))
    with Agent(model.model, stream_fn=model.stream, transcript=kept) as agent:
        agent.run("c")
        assert len(agent.transcript.messages) == 4
        assert agent.transcript.usage.total_tokens == 100
        assert kept.messages == agent.transcript.messages[:2]
        agent.reset()
        assert agent.transcript == Transcript()


_OTHER = """
import json, sys
from agent import Agent, ToolResolution, Transcript
from agent.testing import ScriptedModel
model = ScriptedModel("done elsewhere")
agent = Agent(model.model, stream_fn=model.stream, transcript=Transcript.from_json(json.load(sys.stdin)))
print([c.name for c in agent.pending_calls])
agent.resolve_tool_calls(ToolResolution("r2", "approved"))
print([m.role for m in (agent.resume().result(10), agent.state.messages)[1]])
agent.close()
"""


def test_a_paused_run_goes_on_in_another_process() -> None:
    """S09"""
    agent, _ = paused("l1", "r2", at="r2")
    with agent:
        data = json.dumps(agent.transcript.to_json())
    child = subprocess.run(
        [sys.executable, "-c", _OTHER], input=data, capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert child.stdout.splitlines() == [
        "['rm']",
        "['user', 'assistant', 'toolResult', 'toolResult', 'assistant']",
    ]
