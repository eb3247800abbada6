"""Anthropic's format down to a real model: another server's idea of it, with streams and tool calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from support.real import require_or_skip

import agent as runtime
from agent import Agent, ConfigurationError, MessageUpdate, RetryPolicy, tool
from agent.local_model import LocalServer, find
from agent.messages import AssistantMessage
from agent.providers import classify_error
from agent.stream import TextDelta

NO_RETRY = RetryPolicy(auto_resume=(), mid_tool_call=(), side_query=(), request=())


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    try:
        parts = find()
    except ConfigurationError as error:
        require_or_skip(str(error))
    with LocalServer(parts) as running:
        yield running


@tool
def add(a: int, b: int) -> str:
    """Add two integers."""
    return str(a + b)


# The server knows no word for "one call only" in this format, and the model would call without end; after
# its first call it leaves a line empty.
ONE_CALL = {"chat_template_kwargs": {"force_call": True}, "stop_sequences": ["}\n\n"]}


def _agent(
    server: LocalServer, *, call: dict[str, Any] | None = None, tools: Any = (add,), **more: Any
) -> Agent:
    """An agent of the local model; with `call` in the body, its answer to a user begins as a tool call."""

    def stream(model: Any, context: Any, asked: Any) -> Any:
        assert runtime.default_stream_fn is not None
        asked = replace(asked, temperature=0.0, **more)
        if call is not None and context.messages[-1].role == "user":
            asked = replace(asked, tool_choice="any", on_payload=lambda payload, model: payload | call)
        elif call is not None:
            context = replace(context, tools=())  # once it has a result, let it talk
        return runtime.default_stream_fn(model, context, asked)

    model = replace(server.model, api="anthropic-messages")
    return Agent(model, tools=tools if call is not None else (), stream_fn=stream, retry=NO_RETRY)


def test_text_arrives_in_pieces_and_adds_up(server: LocalServer) -> None:
    deltas: list[str] = []

    def collect(event: Any) -> None:
        if isinstance(event, MessageUpdate) and isinstance(event.stream_event, TextDelta):
            deltas.append(event.stream_event.delta)

    with _agent(server, max_tokens=64) as agent:
        agent.subscribe(collect)
        result = agent.run("What is the capital of France?")
    assert result.stop == "end_turn"
    assert "Paris" in result.text
    assert len(deltas) > 2
    assert "".join(deltas) == result.text
    assert result.usage.input + result.usage.cache_read > 0
    assert result.usage.output > 0


QUESTIONS = ("What is 3+4?", "Use the function add for 2 and 2.", "Call add with 5 and 6.", "Add 12 and 30.")


def test_a_tool_call_makes_the_round_trip(server: LocalServer) -> None:
    """A model this small misses now and then: up to four questions for a call that is run and answered."""
    for question in QUESTIONS:
        with _agent(server, call=ONE_CALL, max_tokens=96) as agent:
            messages: list[Any] = list(agent.run(question).messages)
        answered = [m for m in messages if m.role == "toolResult" and not m.is_error]
        if answered and messages[-1].role == "assistant" and messages[-1].stop_reason == "stop":
            break
    (call,) = messages[1].tool_calls
    assert call.name == "add"
    assert messages[1].stop_reason == "toolUse"
    assert answered[0].tool_call_id == call.id
    assert answered[0].content[0].text == str(int(call.arguments["a"]) + int(call.arguments["b"]))
    assert messages[-1].text


def test_arguments_cut_by_the_token_limit_are_not_executed(server: LocalServer) -> None:
    """L12"""
    ran: list[int] = []

    @tool(name="add")
    def noticed(a: int, b: int) -> str:
        """Add two integers."""
        ran.append(a)
        return "7"

    with _agent(server, call=ONE_CALL, tools=[noticed], max_tokens=24) as agent:
        agent.subscribe(lambda event: agent.abort() if event.type == "turn_end" else None)
        messages: list[Any] = list(agent.run("What is 3+4? Use add.").messages)
    assert messages[1].stop_reason == "length"
    assert messages[1].tool_calls
    assert ran == []
    assert all(m.is_error for m in messages if m.role == "toolResult")


def test_an_error_inside_the_stream_ends_the_run_with_the_servers_words(server: LocalServer) -> None:
    """The server begins a good stream and then finds that the model left the form of a call."""
    wrong = {"chat_template_kwargs": {"force_call": True}, "tool_choice": "auto"}
    with _agent(server, call=wrong, max_tokens=64) as agent:
        agent.prompt(QUESTIONS[0])
        assert agent.wait_for_idle(60)
        assert "does not match the expected" in agent.state.error


def test_a_request_the_server_refuses_ends_with_its_words(server: LocalServer) -> None:
    with _agent(server, max_tokens=8) as agent:
        agent.prompt("word " * 6000)
        assert agent.wait_for_idle(60)
        assert agent.state.error.startswith("400 ")
        assert classify_error(text=agent.state.error).kind == "context_overflow"


def test_an_abort_frees_the_server(server: LocalServer) -> None:
    with _agent(server, max_tokens=1000) as agent:
        agent.subscribe(lambda event: agent.abort() if event.type == "message_update" else None)
        agent.prompt("Write a very long story about the sea.")
        assert agent.wait_for_idle(30)
        (*_, last) = agent.state.messages
        assert isinstance(last, AssistantMessage)
        assert last.stop_reason == "aborted"
    with _agent(server, max_tokens=8) as agent:
        assert agent.run("Hello").text
