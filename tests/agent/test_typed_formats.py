"""A typed result comes through on every wire format, and a last answer goes out on each."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel
from support import completions, gemini, messages, responses
from support.sse_server import SseServer

from agent import Agent, Limits, Model, tool


class City(BaseModel):
    name: str
    people: int


PARIS = {"name": "Paris", "people": 2_100_000}


@dataclass(frozen=True)
class Format:
    """How a format sends a call and a text, and where in a request it holds the tools and the choice."""

    api: str
    provider: str
    call: Callable[[str, dict[str, Any]], tuple[str, ...]]
    text: Callable[[str], tuple[str, ...]]
    tools: Callable[[dict[str, Any]], list[str]]
    forced: Callable[[dict[str, Any]], str]


def _completions_call(name: str, arguments: dict[str, Any]) -> tuple[str, ...]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"index": 0, "id": "call_1", "type": "function", "function": function}
    return (
        completions.C({"role": "assistant", "tool_calls": [call]}),
        completions.C({}, "tool_calls"),
        completions.DONE,
    )


def _messages_call(name: str, arguments: dict[str, Any]) -> tuple[str, ...]:
    m = messages
    block = (m.TU(0, "toolu_1", name), m.JD(0, json.dumps(arguments)), m.CS(0))
    return (m.MS, *block, m.MD("tool_use"), m.ME)


def _responses_call(name: str, arguments: dict[str, Any]) -> tuple[str, ...]:
    r = responses
    call = r.call_item(name, json.dumps(arguments))
    return r.created(), r.added(0, **call | {"arguments": ""}), r.done(0, **call), r.ended()


FORMATS = [
    Format(
        "openai-completions",
        "local",
        _completions_call,
        lambda text: (completions.C({"content": text}), completions.C({}, "stop"), completions.DONE),
        lambda body: [t["function"]["name"] for t in body.get("tools", ())],
        lambda body: body["tool_choice"]["function"]["name"],
    ),
    Format(
        "anthropic-messages",
        "mine",
        _messages_call,
        lambda text: (
            messages.MS,
            messages.TB(0),
            messages.TD(0, text),
            messages.CS(0),
            messages.MD("end_turn"),
            messages.ME,
        ),
        lambda body: [t["name"] for t in body.get("tools", ())],
        lambda body: body["tool_choice"]["name"],
    ),
    Format(
        "openai-responses",
        "local",
        _responses_call,
        lambda text: (
            responses.created(),
            responses.added(0, type="message", id="msg_1", role="assistant", content=[]),
            responses.delta(0, text),
            responses.done(0, **responses.message_item(text)),
            responses.ended(),
        ),
        lambda body: [t["name"] for t in body.get("tools", ())],
        lambda body: body["tool_choice"]["name"],
    ),
    Format(
        "google-generative-ai",
        "google",
        lambda name, arguments: (gemini.G([gemini.fc(name, arguments)], "STOP"),),
        lambda text: (gemini.G([{"text": text}], "STOP"),),
        lambda body: [d["name"] for t in body.get("tools", ()) for d in t["functionDeclarations"]],
        lambda body: body["toolConfig"]["functionCallingConfig"]["allowedFunctionNames"][0],
    ),
]


@pytest.fixture(params=FORMATS, ids=lambda form: form.api)
def form(request: pytest.FixtureRequest) -> Format:
    assert isinstance(request.param, Format)
    return request.param


def agent_on(server: SseServer, form: Format, **options: Any) -> Agent:
    model = Model("m", form.api, form.provider, server.url)
    return Agent(model, get_api_key=lambda provider: "key", **options)


def test_a_typed_result_is_asked_for_by_name_and_comes_back_as_a_value(
    sse_server: SseServer, form: Format
) -> None:
    sse_server.play(*form.text("It has many people."))
    sse_server.play(*form.call("final_answer", PARIS))
    with agent_on(sse_server, form) as agent:
        result = agent.run("How big is Paris?", output_type=City)
        assert result.output == City(name="Paris", people=2_100_000)
        assert result.stop == "end_turn"
        assert len(agent.state.messages) == 3
    for request in sse_server.requests:
        assert form.tools(request.json) == ["final_answer"]
        assert form.forced(request.json) == "final_answer"


def test_the_last_answer_of_a_limited_run_goes_out_without_tools(sse_server: SseServer, form: Format) -> None:
    @tool
    def look(name: str) -> str:
        """Look."""
        return "big"

    sse_server.play(*form.call("look", {"name": "Paris"}))
    sse_server.play(*form.text("Big, so far."))
    limits = Limits(max_turns=1, final_answer=True)
    with agent_on(sse_server, form, tools=[look], limits=limits) as agent:
        result = agent.run("How big is Paris?")
    assert (result.stop, result.text) == ("max_turns", "Big, so far.")
    assert [form.tools(request.json) for request in sse_server.requests] == [["look"], []]
    assert "no further work is possible" in json.dumps(sse_server.requests[1].json)
