"""A run goes on with another model when its model can't be reached."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from support import completions
from support.formats import FORMATS
from support.sse_server import SseServer, cut

from agent import (
    Agent,
    AgentContext,
    ConfigurationError,
    Limits,
    LoopConfig,
    Model,
    ModelCost,
    ModelFallback,
    RetryPolicy,
    UserMessage,
    agent_loop,
    event_to_json,
    tool,
)
from agent.loop.fallback import Fallbacks, is_worth_another_model
from agent.messages import AssistantMessage
from agent.stream import StreamError, StreamEvent, StreamOptions
from agent.testing import ScriptedModel, error, text, tool_call

A = Model("a", "scripted", "first", cost=ModelCost(1, 2))
B = Model("b", "scripted", "second")
C = Model("c", "scripted", "third")
AT_ONCE = RetryPolicy(auto_resume=(), mid_tool_call=(), request=())


class Script:
    """A scripted model that records which model is called with which key."""

    def __init__(self, *turns: Any) -> None:
        self.script = ScriptedModel(*turns)
        self.called: list[str] = []

    def stream(self, model: Model, context: AgentContext, options: StreamOptions) -> Iterator[StreamEvent]:
        self.called.append(model.id)
        return self.script.stream(model, context, options)


def run(script: Script, *models: Model, **more: Any) -> tuple[Any, list[ModelFallback]]:
    first, *others = models
    fallbacks: list[ModelFallback] = []
    with Agent(first, fallbacks=others, stream_fn=script.stream, retry=AT_ONCE, **more) as agent:
        agent.subscribe(lambda event: fallbacks.append(event) if isinstance(event, ModelFallback) else None)
        result = agent.prompt("hi").result()
        assert list(result.messages) == agent.state.messages
        assert agent.model == first
    return result, fallbacks


OUTAGES = [
    "503 service unavailable (gave up after 5 attempts)",
    "500 something broke",
    "529 Overloaded (gave up after 5 attempts)",
    "Overloaded",
    "429 Too many requests (gave up after 5 attempts)",
    "429 You exceeded your current quota, please check your plan: insufficient_quota",
    "400 Your credit balance is too low to access the Anthropic API",
    "429 slow down (the server asks to wait 1382400 s, more than max_retry_delay of 60 s)",
    "connection refused (gave up after 5 attempts)",
    "401 invalid x-api-key",
    "403 permission_error: your organisation has been disabled",
    'no API key for provider "first": set FIRST_API_KEY',
    "stream ended unexpectedly",
]
OWN_FAULTS = [
    "400 messages: roles must alternate",
    "404 model not found",
    "422 invalid_request_error",
    "400 prompt is too long: 210000 tokens > 200000 maximum",
    "413 request_too_large",
    "the provider's content filter stopped the answer (finish_reason content_filter)",
    "Request was aborted",
    "the hook failed",
]


@pytest.mark.parametrize("failure", OUTAGES)
def test_the_run_goes_on_with_the_next_model(failure: str) -> None:
    script = Script(error(failure), "here I am")
    result, fallbacks = run(script, A, B)
    assert (result.stop, result.text) == ("end_turn", "here I am")
    assert script.called == ["a", "b"]
    assert [(e.from_model, e.to_model, e.error_message) for e in fallbacks] == [(A, B, failure)]


@pytest.mark.parametrize("failure", OWN_FAULTS)
def test_a_failure_that_any_model_would_have_ends_the_run(failure: str) -> None:
    script = Script(error(failure))
    result, fallbacks = run(script, A, B)
    assert (result.stop, result.error, fallbacks) == ("error", failure, [])
    assert not is_worth_another_model(failure)


def test_each_model_is_tried_once_and_the_last_failure_is_reported() -> None:
    script = Script(error("503 a"), error("503 b"), error("503 c"))
    result, fallbacks = run(script, A, B, C)
    assert script.called == ["a", "b", "c"]
    assert [(e.from_model, e.to_model) for e in fallbacks] == [(A, B), (B, C)]
    assert (result.stop, result.error) == ("error", "503 c")


def test_the_context_is_kept() -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    script = Script([tool_call("add", {"a": 2, "b": 3})], error("503 down"), "five")
    result, _ = run(script, A, B, tools=[add])
    assert result.text == "five"
    assert script.called == ["a", "a", "b"]
    roles = [[m.role for m in context.messages] for context in script.script.contexts]
    assert roles[1] == roles[2] == ["user", "assistant", "toolResult"]
    assert [m.role for m in result.messages] == ["user", "assistant", "toolResult", "assistant"]


def test_text_that_came_before_the_failure_is_kept_for_the_next_model() -> None:
    script = Script([text("The first half"), error("connection reset by peer")], "and the second")
    result, _ = run(script, A, B)
    assert [getattr(m, "text", m.content) for m in result.messages] == [
        "hi",
        "The first half",
        "▶",
        "and the second",
    ]


def test_the_next_model_serves_the_rest_of_the_run_and_the_next_run_begins_with_the_first() -> None:
    script = Script(error("503 down"), [tool_call("nothing")], "done", "again")
    with Agent(A, fallbacks=[B], stream_fn=script.stream, retry=AT_ONCE) as agent:
        agent.run("one")
        agent.run("two")
    assert script.called == ["a", "b", "b", "a"]


def test_a_call_that_kept_breaking_is_made_by_the_next_model() -> None:
    broken = [tool_call("look"), error("connection reset by peer")]
    script = Script(broken, "done")
    result, fallbacks = run(script, A, B)
    assert (result.text, len(fallbacks)) == ("done", 1)
    assert [m.role for m in result.messages] == ["user", "assistant"]


def test_a_model_with_empty_answers_is_replaced() -> None:
    script = Script("", "", "", "something")
    result, _ = run(script, A, B)
    assert (result.text, script.called) == ("something", ["a", "a", "a", "b"])


def test_a_broken_line_is_taken_up_by_the_same_model_first() -> None:
    script = Script(error("connection reset by peer"), "back")
    policy = RetryPolicy(auto_resume=(0.0,))
    with Agent(A, fallbacks=[B], stream_fn=script.stream, retry=policy) as agent:
        assert agent.run("hi").text == "back"
    assert script.called == ["a", "a"]


def test_nothing_falls_back_after_an_abort() -> None:
    def aborting(context: AgentContext) -> StreamError:
        agent.abort()
        return error("503 down")

    script = Script(aborting)
    with Agent(A, fallbacks=[B], stream_fn=script.stream, retry=AT_ONCE) as agent:
        assert agent.prompt("hi").result().stop == "aborted"
    assert script.called == ["a"]


def test_models_are_given_by_name_too_and_may_be_changed() -> None:
    with Agent(A, fallbacks=["openrouter/some/model"]) as agent:
        assert [m.provider for m in agent.fallbacks] == ["openrouter"]
        agent.fallbacks = [B, "ollama/x"]
        assert [m.id for m in agent.fallbacks] == ["b", "x"]


def test_a_limit_of_money_needs_the_price_of_every_model() -> None:
    with (
        Agent(A, fallbacks=[B], stream_fn=Script().stream, limits=Limits(max_cost=1.0)) as agent,
        pytest.raises(ConfigurationError, match="price of b"),
    ):
        agent.prompt("hi")


def test_a_key_given_for_one_provider_is_not_shown_to_another() -> None:
    script = Script(error("503 down"), "done")
    config = LoopConfig(A, fallbacks=[B], api_key="secret of the first", retry=AT_ONCE)
    agent_loop([UserMessage("hi")], AgentContext(), config, script.stream, lambda event: None)
    assert [options.api_key for options in script.script.options] == ["secret of the first", ""]


def test_each_provider_is_called_with_its_own_key() -> None:
    script = Script(error("503 down"), "done")
    run(script, A, B, get_api_key=lambda provider: f"key of {provider}")
    assert [options.api_key for options in script.script.options] == ["key of first", "key of second"]


def test_the_event_has_a_json_form() -> None:
    data = event_to_json(ModelFallback(A, B, "503 down", time=1.0))
    assert json.loads(json.dumps(data)) == {
        "type": "model_fallback",
        "time": 1.0,
        "run_id": "",
        "from_model": "first/a",
        "to_model": "second/b",
        "error_message": "503 down",
    }


def test_the_chain_skips_the_model_that_failed() -> None:
    chain = Fallbacks([A, B])
    failed = AssistantMessage((), stop_reason="error", error_message="503 down")
    assert chain.after(failed, A) == B
    assert chain.after(failed, B) is None


@pytest.mark.parametrize("api", FORMATS)
def test_any_format_takes_over_from_a_server_that_is_down(api: str) -> None:
    found = FORMATS[api]
    with SseServer() as down, SseServer() as up:
        down.play("no", status=503, repeat=True)
        found.greet(up)
        first = replace(completions.LOCAL, base_url=down.url)
        second = replace(found.model, base_url=up.url)
        retry = RetryPolicy(request=(0.0, 0.0))
        with Agent(first, fallbacks=[second], retry=retry, get_api_key=lambda provider: "key") as agent:
            assert agent.run("hi").text == "hello"
        assert (len(down.requests), len(up.requests)) == (3, 1)


@pytest.mark.parametrize("api", FORMATS)
def test_any_format_is_taken_over_from_when_it_breaks_off(api: str) -> None:
    found = FORMATS[api]
    with SseServer() as breaking, SseServer() as up:
        breaking.play(*found.hello[:-1], cut(reset=True), repeat=True)
        up.play(*completions.HELLO)
        first = replace(found.model, base_url=breaking.url)
        second = replace(completions.LOCAL, base_url=up.url)
        with Agent(first, fallbacks=[second], retry=AT_ONCE, get_api_key=lambda provider: "key") as agent:
            assert agent.run("hi").text == "hello"
