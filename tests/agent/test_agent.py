"""The agent on one thread: construction, state, queues, resuming, settings, runs and their results."""

from __future__ import annotations

import inspect
import logging
import pydoc
from dataclasses import replace
from typing import Any

import pytest
from support.runs import NO_WAITS, assert_well_formed, label, labels, story, text_of

import agent as package
from agent import Agent, AgentContext, LoopConfig, agent_loop, tool
from agent.agent import AgentState
from agent.errors import AgentBusyError, AgentError, ConfigurationError, NothingToContinueError, RunError
from agent.events import AgentEnd, Event, MessageEnd, MessageStart, MessageUpdate, ToolExecutionStart, TurnEnd
from agent.hooks import Hooks
from agent.limits import Limits
from agent.messages import AssistantMessage, ImageContent, Message, TextContent, ToolCall, UserMessage
from agent.runs import current_run
from agent.stream import (
    StreamDone,
    StreamError,
    StreamStart,
    TextDelta,
    ToolCallStart,
)
from agent.testing import ScriptedModel, error, text, tool_call
from agent.tools import AgentTool, ToolSet

RESET = "connection reset by peer"


@tool
def echo(word: str) -> str:
    """Say it again."""
    return word


def call(id: str = "c1") -> ToolCall:
    return tool_call("echo", {"word": "x"}, id)


class Made:
    """An agent with a scripted model and its events."""

    def __init__(self, *turns: Any, **options: Any) -> None:
        self.model = ScriptedModel(*turns)
        self.events: list[Event] = []
        given: dict[str, Any] = {"model": self.model.model, "stream_fn": self.model.stream, "retry": NO_WAITS}
        self.agent = Agent(**(given | options))
        self.agent.subscribe(self.events.append)

    def __enter__(self) -> Made:
        return self

    def __exit__(self, *details: object) -> None:
        self.agent.close()

    def go(self, prompt: Any = "hi") -> Made:
        self.agent.prompt(prompt).wait(10)
        return self

    @property
    def story(self) -> str:
        return story(self.events)

    @property
    def messages(self) -> list[Message]:
        return self.agent.state.messages


def sent(model: ScriptedModel) -> list[str]:
    return [labels(context.messages) for context in model.contexts]


# --- construction ----------------------------------------------------------------------------------


def test_defaults() -> None:
    agent = Agent()
    state = agent.state
    assert (state.system_prompt, state.model, state.thinking_level) == ("", None, "off")
    assert (list(state.tools or ()), state.messages, state.pending_tool_calls) == ([], [], set())
    assert (state.is_streaming, state.stream_message, state.error) == (False, None, "")
    assert (agent.steering_mode, agent.follow_up_mode) == ("one-at-a-time", "one-at-a-time")
    assert (agent.transport, agent.session_id, agent.thinking_budgets) == ("auto", "", None)
    assert (agent.max_retry_delay, agent.server_tools, agent.server_compaction) == (60.0, (), None)
    assert agent.stream_fn is None
    assert not agent.has_queued_messages
    assert agent.wait_for_idle(0)


def test_the_initial_state_wins_over_the_options_where_it_is_not_empty() -> None:
    theirs = ScriptedModel().model
    history: list[Message] = [UserMessage("old")]
    start = AgentState(system_prompt="theirs", model=theirs, thinking_level="high", messages=history)
    agent = Agent("ollama/any", system_prompt="mine", thinking_level="low", initial_state=start)
    assert (agent.system_prompt, agent.model, agent.thinking_level) == ("theirs", theirs, "high")
    assert agent.state.messages == history
    silent = Agent(theirs, system_prompt="mine", thinking_level="low", initial_state=AgentState())
    assert (silent.system_prompt, silent.model, silent.thinking_level) == ("mine", theirs, "low")


def test_the_run_in_an_initial_state_is_ignored() -> None:
    start = AgentState(
        is_streaming=True, error="old", pending_tool_calls={"c"}, stream_message=UserMessage("x")
    )
    state = Agent(initial_state=start).state
    assert (state.is_streaming, state.error, state.pending_tool_calls, state.stream_message) == (
        False,
        "",
        set(),
        None,
    )


def test_the_tools_of_an_agent_are_the_set_it_was_given() -> None:
    tools = ToolSet([echo])
    assert Agent(tools=tools).state.tools is tools


def test_options_that_are_not_supported_yet_are_named() -> None:
    with pytest.raises(ConfigurationError, match="compaction"):
        Agent(compaction=object())


@pytest.mark.parametrize("mode", ["steering_mode", "follow_up_mode"])
def test_an_unknown_queue_mode_is_refused(mode: str) -> None:
    with pytest.raises(ConfigurationError, match=mode):
        Agent(**{mode: "sometimes"})  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=mode):
        setattr(Agent(), mode, "sometimes")


# --- a run -----------------------------------------------------------------------------------------


def test_a_run_ends_with_the_state_holding_its_messages() -> None:
    with Made([call()], "done", tools=[echo]) as made:
        made.go()
        end = made.events[-1]
        assert isinstance(end, AgentEnd)
        assert made.messages == list(end.messages)
        assert labels(made.messages) == "hi,A,T,A"
        assert not made.agent.state.is_streaming
        assert made.agent.state.stream_message is None


def test_a_second_prompt_goes_on_with_the_conversation() -> None:
    with Made("one", "two") as made:
        made.go("a").go("b")
        assert sent(made.model) == ["a", "a,A,b"]


def test_a_prompt_may_be_a_message_a_list_or_a_text_with_images() -> None:
    image = ImageContent("aGk=", "image/png")
    with Made("1", "2", "3") as made:
        made.go(UserMessage("m")).go(["a", UserMessage("b")])
        made.agent.prompt("look", images=[image]).wait(10)
        assert labels(made.messages) == "m,A,a,b,A,look,A"
        last = made.messages[-2]
        assert isinstance(last, UserMessage)
        assert last.content == (TextContent("look"), image)


@pytest.mark.parametrize("nonsense", [7, None, {"role": "user"}])
def test_a_prompt_that_is_no_message_is_refused(nonsense: Any) -> None:
    agent = Agent(ScriptedModel().model, stream_fn=ScriptedModel().stream)
    with pytest.raises(ConfigurationError, match="must be text or a message"):
        agent.prompt(nonsense)


def test_an_empty_prompt_of_a_new_agent_has_nothing_to_send() -> None:
    with Made() as made, pytest.raises(NothingToContinueError, match="no messages"):
        made.agent.prompt([])


def test_an_empty_prompt_asks_again_with_the_conversation_as_it_is() -> None:
    with Made("one", "two") as made:
        made.go().go([])
        assert sent(made.model) == ["hi", "hi,A"]


def test_every_event_tells_its_run() -> None:
    with Made("one", "two", name="smith") as made:
        first = made.agent.prompt("a")
        first.wait(10)
        seen = {e.run_id for e in made.events}
        assert seen == {first.run_id}
        assert {e.agent_name for e in made.events} == {"smith"}
        assert {e.parent_run_id for e in made.events} == {""}
        second = made.agent.prompt("b")
        second.wait(10)
        assert second.run_id != first.run_id


def test_the_state_is_up_to_date_when_a_subscriber_gets_an_event() -> None:
    seen: list[tuple[str, Any]] = []
    with Made([call()], "done", tools=[echo]) as made:

        def look(event: Event) -> None:
            state = made.agent.state
            match event:
                case MessageStart(message) | MessageUpdate(message):
                    seen.append(("streams", state.stream_message is message))
                case MessageEnd(message):
                    seen.append(("stored", state.messages[-1] is message and state.stream_message is None))
                case ToolExecutionStart():
                    seen.append(("pending", state.pending_tool_calls == {"c1"}))
                case AgentEnd():
                    seen.append(("ended", not state.is_streaming))
                case _:
                    seen.append(("running", state.is_streaming))

        made.agent.subscribe(look)
        made.go()
    assert {name for name, _ in seen} == {"streams", "stored", "pending", "ended", "running"}
    assert [name for name, ok in seen if not ok] == []


def test_a_snapshot_is_not_changed_by_what_comes() -> None:
    with Made("one", "two") as made:
        made.go()
        before = made.agent.state
        before.messages.append(UserMessage("mine"))
        before.pending_tool_calls.add("mine")
        made.go()
        assert len(before.messages) == 3
        assert labels(made.messages) == "hi,A,hi,A"
        assert made.agent.state.pending_tool_calls == set()


def test_an_error_ends_in_the_state_until_the_next_prompt() -> None:
    with Made(error("400 bad request"), "fine") as made:
        made.go()
        assert made.agent.state.error == "400 bad request"
        made.go()
        assert made.agent.state.error == ""


def test_a_recovered_failure_leaves_no_error() -> None:
    with Made(error(RESET), "fine") as made:
        assert made.go().agent.state.error == ""


REPAIRED: dict[str, list[Any]] = {
    "resumed with text": [[text("half"), error(RESET)], "rest"],
    "resumed empty": [error(RESET), "fine"],
    "broke inside a call": [[StreamStart(), ToolCallStart(0, "c", "echo"), StreamError("cut")], "fine"],
    "stayed broken": [[StreamStart(), ToolCallStart(0, "c", "echo"), StreamError("cut")]] * 4,
    "just ended": [[StreamStart(), TextDelta(0, "par")], "fine"],
    "always just ends": [[StreamStart(), TextDelta(0, "par")]] * 4,
    "empty": ["", "fine"],
    "always empty": ["", "", ""],
    "failed": [[text("half"), error("400 no")]],
    "cut": [[call(), StreamDone("length")], "fine"],
}


@pytest.mark.parametrize("turns", REPAIRED.values(), ids=REPAIRED.keys())
def test_the_state_equals_what_was_plus_what_the_end_event_tells(turns: list[Any]) -> None:
    history: list[Message] = [UserMessage("old"), AssistantMessage("answer")]
    with Made(*turns, tools=[echo], initial_state=AgentState(messages=history)) as made:
        made.go()
        end = made.events[-1]
        assert isinstance(end, AgentEnd)
        assert made.messages == [*history, *end.messages]
        assert_well_formed(made.messages)
        made.model.assert_finished()


def test_the_text_of_a_stream_that_always_just_ends_is_kept() -> None:
    with Made(*REPAIRED["always just ends"]) as made:
        assert text_of(made.go().messages[-1]) == "par"


def test_a_context_that_can_not_be_made_ends_in_the_state_too() -> None:
    def fail(messages: list[Message]) -> list[Message]:
        raise ValueError("no context")

    with Made(transform_context=fail) as made:
        made.go()
        assert label(made.messages[-1]) == "A!"
        assert made.agent.state.error == "no context"


def test_hooks_and_limits_of_the_agent_reach_its_runs() -> None:
    calls: list[str] = []
    hooks = Hooks(before_tool=lambda info: calls.append(f"{info.name} of {current_run() == info.run}"))
    with Made([call()], "never", tools=[echo], hooks=hooks, limits=Limits(max_turns=1)) as made:
        assert made.agent.run("hi").stop == "max_turns"
        assert calls == ["echo of True"]


# --- no model, no stream function ------------------------------------------------------------------


def test_without_a_model_there_is_no_run() -> None:
    agent = Agent(stream_fn=ScriptedModel("x").stream)
    with pytest.raises(ConfigurationError, match="no model configured"):
        agent.prompt("hi")
    agent.append_message(UserMessage("hi"))
    with pytest.raises(ConfigurationError, match="no model configured"):
        agent.resume()
    assert agent.wait_for_idle(0)


def test_without_a_stream_function_a_prompt_raises_and_the_state_has_the_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(package, "default_stream_fn", None)
    agent = Agent(ScriptedModel().model)
    events: list[Event] = []
    agent.subscribe(events.append)
    with pytest.raises(ConfigurationError, match="no stream function configured"):
        agent.prompt("hi")
    state = agent.state
    assert state.error.startswith("no stream function configured")
    assert (state.messages, state.is_streaming, events) == ([], False, [])
    with pytest.raises(ConfigurationError, match="no stream function configured"):
        agent.simple_prompt("hi")


def test_the_default_stream_function_is_read_at_each_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = ScriptedModel("one"), ScriptedModel("two")
    with Agent(first.model, name="d") as agent:
        monkeypatch.setattr(package, "default_stream_fn", first.stream)
        assert agent.run("hi").text == "one"
        monkeypatch.setattr(package, "default_stream_fn", second.stream)
        assert agent.run("hi").text == "two"


def test_the_agents_own_stream_function_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "default_stream_fn", ScriptedModel("theirs").stream)
    with Made("mine") as made:
        assert made.agent.run("hi").text == "mine"


# --- resuming --------------------------------------------------------------------------------------


def resumed(history: str, *turns: Any, **options: Any) -> Made:
    kinds: dict[str, Message] = {"U": UserMessage("u"), "A": AssistantMessage("a")}
    start = AgentState(messages=[kinds[letter] for letter in history])
    return Made(*turns, initial_state=start, **options)


def test_after_an_answer_with_nothing_queued_the_word_continue_is_sent() -> None:
    with resumed("UA", "more") as made:
        made.agent.resume().wait(10)
        assert made.story == (
            "agent_start turn_start ms:continue me:continue ms:A upd me:A turn_end[A] agent_end[continue,A]"
        )
        assert made.messages[2].timestamp == 0
        assert sent(made.model) == ["u,A,continue"]


def test_after_an_answer_steering_is_sent_first_and_the_next_one_after_the_answer() -> None:
    with resumed("UA", "1", "2") as made:
        made.agent.steer("s1")
        made.agent.steer("s2")
        made.agent.follow_up("f")
        made.agent.resume().wait(10)
        assert sent(made.model)[:2] == ["u,A,s1", "u,A,s1,A,s2"]


def test_after_an_answer_follow_ups_are_sent_when_there_is_no_steering() -> None:
    with resumed("UA", "1", "2") as made:
        made.agent.follow_up("f1")
        made.agent.follow_up("f2")
        made.agent.resume().wait(10)
        assert sent(made.model) == ["u,A,f1", "u,A,f1,A,f2"]


def test_resuming_in_mode_all_sends_everything_at_once() -> None:
    with resumed("UA", "1", steering_mode="all") as made:
        made.agent.steer("s1")
        made.agent.steer("s2")
        made.agent.resume().wait(10)
        assert sent(made.model) == ["u,A,s1,s2"]


def test_after_anything_else_the_context_is_answered_with_steering_that_waits() -> None:
    with resumed("U", "1") as made:
        made.agent.steer("s")
        made.agent.resume().wait(10)
        assert sent(made.model) == ["u,s"]
        end = made.events[-1]
        assert isinstance(end, AgentEnd)
        assert labels(end.messages) == "s,A"


def test_resuming_from_nothing_raises() -> None:
    with Made() as made, pytest.raises(NothingToContinueError, match="no messages"):
        made.agent.resume()


def test_a_resume_that_fails_leaves_what_is_queued() -> None:
    with resumed("UA", model=None) as made:
        made.agent.steer("s")
        made.agent.model = None
        with pytest.raises(ConfigurationError):
            made.agent.resume()
        assert made.agent.has_queued_messages
        made.agent.clear_steering_queue()
        with pytest.raises(ConfigurationError):
            made.agent.resume()
        assert not made.agent.has_queued_messages


# --- queues ----------------------------------------------------------------------------------------


def test_clearing_one_queue_leaves_the_other() -> None:
    agent = Agent()
    agent.steer("s")
    agent.follow_up("f")
    agent.clear_steering_queue()
    assert agent.has_queued_messages
    agent.clear_all_queues()
    assert not agent.has_queued_messages
    agent.follow_up("f")
    agent.clear_follow_up_queue()
    assert not agent.has_queued_messages


def test_follow_ups_can_be_inspected_and_taken_back() -> None:
    agent = Agent()
    for word in ("first", "second", "third"):
        agent.follow_up(word)
    agent.follow_up_queue().clear()
    assert [text_of(m) for m in agent.follow_up_queue()] == ["first", "second", "third"]
    taken = agent.remove_follow_up(1)
    assert taken is not None
    assert text_of(taken) == "second"
    assert [agent.remove_follow_up(i) for i in (-1, 2, 99)] == [None, None, None]
    assert [text_of(m) for m in agent.take_follow_ups()] == ["first", "third"]
    assert agent.take_follow_ups() == []


def test_queueing_starts_no_run() -> None:
    with Made("x") as made:
        made.agent.steer("s")
        made.agent.follow_up("f")
        assert made.agent.wait_for_idle(0)
        assert made.events == []


def test_what_was_queued_before_enters_the_next_run() -> None:
    with Made("one", "two") as made:
        made.agent.follow_up("f")
        made.agent.steer("s")
        made.go()
        assert labels(made.messages) == "hi,s,A,f,A"


def test_steering_from_the_last_message_end_is_delivered_in_this_run() -> None:
    """L09"""
    with Made("one", "two") as made:
        steers = iter(("s",))

        def steer(event: Event) -> None:
            if isinstance(event, MessageEnd) and event.message.role == "assistant":
                for word in steers:
                    made.agent.steer(word)

        made.agent.subscribe(steer)
        made.go()
        assert labels(made.messages) == "hi,A,s,A"


def test_steering_from_the_end_of_the_run_waits_for_the_next() -> None:
    """L09"""
    with Made("one", "two") as made:

        def steer(event: Event) -> None:
            if isinstance(event, AgentEnd) and not made.agent.has_queued_messages:
                made.agent.steer("s")

        unsubscribe = made.agent.subscribe(steer)
        made.go()
        assert made.agent.has_queued_messages
        unsubscribe()
        made.agent.resume().wait(10)
        assert labels(made.messages) == "hi,A,s,A"


def test_queue_modes_are_read_while_the_run_goes_on() -> None:
    with Made("one", "two") as made:
        made.agent.follow_up("a")
        made.agent.follow_up("b")

        def switch(event: Event) -> None:
            if isinstance(event, TurnEnd):
                made.agent.follow_up_mode = "all"

        made.agent.subscribe(switch)
        made.go()
        assert labels(made.messages) == "hi,A,a,b,A"


# --- settings and messages during a run ------------------------------------------------------------


def test_a_setting_changed_during_a_run_is_for_the_next() -> None:
    other = ScriptedModel("three")
    with Made([call()], "two", tools=[echo], system_prompt="old", session_id="s1") as made:
        agent = made.agent

        def change(event: Event) -> None:
            if isinstance(event, ToolExecutionStart):
                agent.system_prompt = "new"
                agent.session_id = "s2"
                agent.thinking_level = "high"
                agent.thinking_budgets = {"high": 1}
                agent.transport = "sse"
                agent.max_retry_delay = 1.0
                agent.server_tools = [{"type": "search"}]
                agent.server_compaction = {"on": True}
                agent.stream_fn = other.stream

        agent.subscribe(change)
        made.go()
        assert [c.system_prompt for c in made.model.contexts] == ["old", "old"]
        assert {o.session_id for o in made.model.options} == {"s1"}
        made.go()
        assert other.contexts[0].system_prompt == "new"
        options = other.options[0]
        assert (options.session_id, options.reasoning, options.transport) == ("s2", "high", "sse")
        assert (options.thinking_budgets, options.max_retry_delay) == ({"high": 1}, 1.0)
        assert (options.server_tools, options.server_compaction) == (({"type": "search"},), {"on": True})


@pytest.mark.parametrize("transport", ["websocket", "abc", "AUTO", None, 1])
def test_a_transport_that_does_not_exist_is_refused(transport: Any) -> None:
    """FS-W3"""
    with pytest.raises(ConfigurationError, match='transport must be "auto" or "sse"'):
        Agent(transport=transport)
    agent = Agent(transport="sse")
    with pytest.raises(ConfigurationError, match='transport must be "auto" or "sse"'):
        agent.transport = transport
    assert agent.transport == "sse"


def test_an_empty_transport_stands_for_the_default() -> None:
    assert Agent(transport="").transport == "auto"


def test_every_option_is_documented_where_a_user_passes_it() -> None:
    documented = inspect.getdoc(Agent) or ""
    missing = [name for name in inspect.signature(Agent).parameters if f"- `{name}" not in documented]
    assert missing == []


def test_help_shows_a_text_for_every_setting() -> None:
    shown = pydoc.plain(pydoc.render_doc(Agent))
    for name in ("model", "thinking_level", "transport", "steering_mode", "max_retry_delay"):
        assert f"{name}\n" in shown
        assert inspect.getdoc(getattr(Agent, name)), name


def test_two_tools_of_one_name_are_refused_and_both_are_shown() -> None:
    """FS-M5"""

    def named(description: str) -> AgentTool:
        return AgentTool("read", description, {"type": "object"}, lambda arguments, context: "ok")

    for given in ([named("Read a file."), named("Read " + "x" * 90)], (n for n in map(named, "ab"))):
        with pytest.raises(ConfigurationError, match=r"same name, 'read': \".+\" and \".+\""):
            Agent(tools=given)
    config = LoopConfig(ScriptedModel().model)
    with pytest.raises(ConfigurationError, match="two tools have the same name"):
        agent_loop([], AgentContext("", (), [named("a"), named("b")]), config, ScriptedModel().stream, print)


def test_a_tool_may_be_replaced_on_purpose() -> None:
    agent = Agent(tools=[echo])
    other = replace(echo, description="Another.")
    agent.update_tools(lambda tools: tools.add(other))
    assert agent.state.tools is not None
    assert agent.state.tools.get("echo") is other


def test_tools_changed_during_a_run_are_seen_at_the_next_request() -> None:
    with Made([call()], "two", tools=[echo]) as made:

        def change(event: Event) -> None:
            if isinstance(event, ToolExecutionStart):
                made.agent.update_tools(lambda tools: tools.remove("echo"))

        made.agent.subscribe(change)
        made.go()
        assert [len(c.tools) for c in made.model.contexts] == [1, 0]


def test_updates_of_the_tools_may_nest() -> None:
    agent = Agent(tools=[echo])
    agent.update_tools(lambda tools: agent.update_tools(lambda inner: inner.remove("echo")))
    assert len(agent.state.tools or ()) == 0


def test_every_tool_may_be_wrapped_and_keeps_its_place() -> None:
    calls: list[str] = []
    names = ["b", "a", "c"]

    def wrapped(inner: AgentTool) -> AgentTool:
        def execute(arguments: dict[str, Any], context: Any) -> Any:
            calls.append(inner.name)
            return inner.execute(arguments, context)

        return replace(inner, execute=execute)

    def wrap_all(those: ToolSet) -> None:
        for one in those:
            those.add(wrapped(one))

    tools = [AgentTool(name, "", {"type": "object"}, lambda arguments, context: "ok") for name in names]
    with Made([tool_call("a")], "done", tools=tools) as made:
        made.agent.update_tools(wrap_all)
        kept = made.agent.state.tools
        assert kept is not None
        assert kept.names() == names
        made.go()
    assert calls == ["a"]


def test_a_history_replaced_during_a_run_is_for_the_next() -> None:
    with Made([call()], "two", "three", tools=[echo]) as made:

        def change(event: Event) -> None:
            if isinstance(event, ToolExecutionStart):
                made.agent.replace_messages([UserMessage("swapped")])

        unsubscribe = made.agent.subscribe(change)
        made.go()
        assert sent(made.model) == ["hi", "hi,A,T"]
        assert labels(made.messages) == "swapped,T,A"
        unsubscribe()
        made.go("next")
        assert sent(made.model)[2] == "swapped,T,A,next"


def test_a_message_appended_during_a_run_goes_out_with_its_next_request() -> None:
    """FS-M6"""
    with Made([call()], "two", tools=[echo]) as made:

        def change(event: Event) -> None:
            if isinstance(event, ToolExecutionStart):
                made.agent.append_message(UserMessage("added"))
                assert labels(made.agent.state.messages) == "hi,A,added"

        made.agent.subscribe(change)
        made.go()
        assert sent(made.model) == ["hi", "hi,A,T,added"]
        assert labels(made.messages) == "hi,A,T,added,A"


def test_clearing_the_messages_starts_over() -> None:
    with Made("one", "two") as made:
        made.go()
        made.agent.clear_messages()
        made.go()
        assert sent(made.model) == ["hi", "hi"]


def test_replacing_messages_takes_a_copy() -> None:
    agent = Agent()
    mine: list[Message] = [UserMessage("a")]
    agent.replace_messages(mine)
    mine.append(UserMessage("b"))
    assert len(agent.state.messages) == 1


def test_a_reset_forgets_the_conversation_and_keeps_the_rest() -> None:
    with Made(error("400 no"), tools=[echo], system_prompt="p", thinking_level="low") as made:
        made.go()
        made.agent.steer("s")
        made.agent.follow_up("f")
        made.agent.reset()
        state = made.agent.state
        assert (state.messages, state.error, made.agent.has_queued_messages) == ([], "", False)
        assert (state.system_prompt, state.thinking_level) == ("p", "low")
        assert state.model is made.model.model
        assert len(state.tools or ()) == 1


def test_a_reset_during_a_run_is_refused() -> None:
    refused: list[str] = []
    with Made([call()], "two", tools=[echo]) as made:

        def reset(event: Event) -> None:
            if isinstance(event, TurnEnd):
                try:
                    made.agent.reset()
                except AgentBusyError as error:
                    refused.append(str(error))

        made.agent.subscribe(reset)
        made.go()
        assert len(refused) == 2
        assert labels(made.messages) == "hi,A,T,A"


def test_a_reset_from_the_end_of_a_run_leaves_nothing() -> None:
    with Made("one") as made:
        made.agent.subscribe(lambda event: made.agent.reset() if isinstance(event, AgentEnd) else None)
        made.go()
        assert made.messages == []


# --- run(), Run, RunResult -------------------------------------------------------------------------


def test_run_gives_what_came_of_it() -> None:
    with Made([text("let me see"), call()], "done", tools=[echo]) as made:
        result = made.agent.run("hi")
        assert (result.stop, result.turns, result.text, result.error) == ("end_turn", 2, "done", "")
        assert result.messages == tuple(made.messages)
        assert result.run_id == made.events[0].run_id
        assert result.pending_calls == ()


def test_the_stop_signal_of_a_run_is_set_when_it_has_ended() -> None:
    with Made("ok", "ok") as made:
        made.go().go()
        first, second = (options.cancel for options in made.model.options)
        assert first is not second
        assert first.reason == second.reason == "the run has ended"


def test_a_stream_function_that_raises_ends_the_run_and_leaves_the_agent_idle() -> None:
    """L20"""

    def broken(model: Any, context: Any, options: Any) -> Any:
        raise ZeroDivisionError("division by zero")

    with Made("fine") as made:
        made.agent.stream_fn = broken
        run = made.agent.prompt("hi")
        assert made.agent.wait_for_idle(10)
        assert (run.result(0).stop, run.result(0).error) == ("error", "division by zero")
        assert isinstance(made.events[-1], AgentEnd)
        assert not made.agent.state.is_streaming
        made.agent.stream_fn = made.model.stream
        assert made.agent.run("again").text == "fine"


def test_run_raises_when_the_run_failed_and_only_then() -> None:
    with Made([text("half"), error("400 bad request")]) as made:
        with pytest.raises(RunError, match="400 bad request") as caught:
            made.agent.run("hi")
        partial = caught.value.partial_result
        assert (partial.stop, partial.error, partial.text) == ("error", "400 bad request", "half")
        assert labels(partial.messages) == "hi,A!"
    with Made(error("x", "aborted")) as made:
        assert made.agent.run("hi").stop == "aborted"


def test_a_run_handle_waits_and_tells_the_result() -> None:
    with Made(error("400 no")) as made:
        run = made.agent.prompt("hi")
        assert run.wait(10)
        assert run.done
        assert run.result().stop == "error"  # does not raise
        assert run.result(0) is run.result()
        assert "done" in repr(run)


def test_a_run_is_done_exactly_when_the_agent_is_idle() -> None:
    with Made(*["x"] * 200) as made:
        for number in range(200):
            run = made.agent.prompt("hi")
            if number % 2:
                assert run.wait(10)
                assert made.agent.wait_for_idle(0)
            else:
                assert made.agent.wait_for_idle(10)
                assert run.done
            assert not made.agent.state.is_streaming


def test_a_closed_agent_takes_no_prompts() -> None:
    made = Made("one")
    made.agent.close()
    made.agent.close()
    for refused in (lambda: made.agent.prompt("hi"), lambda: made.agent.run("hi"), made.agent.resume):
        with pytest.raises(AgentError, match="closed"):
            refused()
    assert made.agent.wait_for_idle(0)


def test_aborting_an_idle_agent_does_nothing() -> None:
    with Made("one") as made:
        made.agent.abort()
        assert made.agent.run("hi").text == "one"


def test_a_fault_of_the_runtime_ends_the_run_with_an_error(caplog: pytest.LogCaptureFixture) -> None:
    """FR-3: the calls of that run have results, so that the agent can be used again."""
    faults = iter((SystemExit("a fault"),))

    class Faulty(ToolSet):
        def get(self, name: str) -> None:
            for fault in faults:
                raise fault

    calls = [tool_call("any", id="c1"), tool_call("any", id="c2")]
    with Made(calls, "one", tools=Faulty()) as made:
        with caplog.at_level(logging.CRITICAL, "agent"), pytest.raises(RunError, match="internal error"):
            made.agent.run("hi")
        assert made.story.endswith("me:A ms:T me:T ms:T me:T agent_end[hi,A,T,T]")
        assert made.agent.state.error.startswith("internal error: SystemExit")
        assert_well_formed(made.agent.state.messages)
        assert made.agent.run("again").text == "one"


# --- nested agents ---------------------------------------------------------------------------------


def test_an_agent_run_by_a_tool_is_a_child_of_the_run() -> None:
    with Made("inner answer", name="inner") as inner:

        @tool
        def ask(question: str) -> str:
            """Ask another agent."""
            return inner.agent.run(question).text

        with Made([tool_call("ask", {"question": "q"})], "outer answer", tools=[ask], name="outer") as outer:
            outer.go()
            assert text_of(outer.messages[2]) == "inner answer"
            assert {e.parent_run_id for e in inner.events} == {outer.events[0].run_id}
            assert current_run() is None


def test_a_prompt_from_the_end_of_its_own_run_is_no_child_of_that_run() -> None:
    with Made("one", "two") as made:
        more = iter(("again",))

        def again(event: Event) -> None:
            if isinstance(event, AgentEnd):
                for word in more:
                    made.agent.prompt(word)

        made.agent.subscribe(again)
        made.go()
        assert made.agent.wait_for_idle(10)
        assert {e.parent_run_id for e in made.events} == {""}
        assert len({e.run_id for e in made.events}) == 2


def test_the_repr_names_the_agent_and_its_model() -> None:
    assert repr(Agent(ScriptedModel().model, name="smith")) == "<Agent smith scripted>"
    assert repr(Agent()) == "<Agent unnamed without a model>"
