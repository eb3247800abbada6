"""The Responses format down to a real model: streamed text, a forced call's round trip, cut arguments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from support.real import require_or_skip

import agent as runtime
from agent import Agent, ConfigurationError, MessageUpdate, RetryPolicy, tool
from agent.local_model import LocalServer, find

NO_RETRY = RetryPolicy(auto_resume=(), mid_tool_call=(), side_query=(), request=())
# A model this small misses now and then.
QUESTIONS = (
    "What is 3+4?",
    "Add 12 and 30.",
    "What is 3+4? Use add.",
    "Use the function add for 2 and 2.",
    "Call add with 5 and 6.",
)


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    try:
        parts = find()
    except ConfigurationError as error:
        require_or_skip(str(error))
    with LocalServer(parts) as running:
        yield running


def _agent(server: LocalServer, tools: Any = (), **options: Any) -> Agent:
    """An agent of the local model; with tools its answer to a user begins as a call."""

    def stream(model: Any, context: Any, asked: Any) -> Any:
        assert runtime.default_stream_fn is not None
        asked = replace(asked, temperature=0.0, **options)
        if tools and context.messages[-1].role == "user":
            asked = replace(asked, tool_choice="required", on_payload=_begin_with_a_call)
        elif tools:
            asked = replace(asked, tool_choice="none")  # once it has a result, let it talk
        return runtime.default_stream_fn(model, context, asked)

    model = replace(server.model, api="openai-responses")
    return Agent(model, tools=tools, stream_fn=stream, retry=NO_RETRY)


def _begin_with_a_call(payload: dict[str, Any], model: Any) -> dict[str, Any]:
    return payload | {"chat_template_kwargs": {"force_call": True}, "parallel_tool_calls": False}


def test_text_of_responses_arrives_in_pieces_and_adds_up(server: LocalServer) -> None:
    deltas: list[str] = []

    def collect(event: Any) -> None:
        if isinstance(event, MessageUpdate) and event.stream_event.type == "text_delta":
            deltas.append(event.stream_event.delta)

    with _agent(server, max_tokens=64) as agent:
        agent.subscribe(collect)
        result = agent.run("What is the capital of France?")
        again = agent.run("And of Italy?")
    assert result.stop == "end_turn"
    assert "Paris" in result.text
    assert len(deltas) > 2
    assert "".join(deltas) == result.text + again.text
    assert result.usage.input > 0
    assert result.usage.output > 0


def test_a_call_of_responses_makes_the_round_trip(server: LocalServer) -> None:
    @tool
    def add(a: int, b: int) -> str:
        """Add two integers."""
        return str(a + b)

    for question in QUESTIONS:
        with _agent(server, [add], max_tokens=128) as agent:
            messages = agent.run(question).messages
        answered = [m for m in messages if m.role == "toolResult" and not m.is_error]
        if answered and messages[-1].role == "assistant" and messages[-1].stop_reason == "stop":
            break
    call = messages[1].tool_calls[0]
    assert call.name == "add"
    assert "|fc_" in call.id
    assert answered[0].tool_call_id == call.id
    assert answered[0].text == str(int(call.arguments["a"]) + int(call.arguments["b"]))
    assert messages[-1].text


def test_arguments_of_responses_cut_by_the_token_limit_are_not_executed(server: LocalServer) -> None:
    ran: list[int] = []

    @tool
    def add(a: int, b: int) -> str:
        """Add two integers."""
        ran.append(a)
        return "7"

    for question in QUESTIONS:
        with _agent(server, [add], max_tokens=24) as agent:
            agent.subscribe(lambda event: agent.abort() if event.type == "turn_end" else None)
            messages = agent.run(question).messages
        if messages[1].tool_calls:
            break
    assert messages[1].tool_calls
    assert ran == []
    results = [m for m in messages if m.role == "toolResult"]
    assert results
    assert all(m.is_error for m in results)
