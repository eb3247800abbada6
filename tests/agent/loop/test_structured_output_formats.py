"""A typed result comes through on every wire format, in both ways, and a last answer goes out on each."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, Field
from support import completions, gemini, messages, responses
from support.sse_server import SseServer

from agent import Agent, Limits, Model, tool
from agent.errors import RunError
from agent.hooks import Hooks, TurnUpdate
from agent.providers import default_stream_fn


class City(BaseModel):
    name: str
    people: int


PARIS = {"name": "Paris", "people": 2_100_000}


@dataclass(frozen=True)
class Format:
    """How a format sends a call and a text, and where a request holds the tools, the choice, the schema."""

    api: str
    provider: str
    call: Callable[[str, dict[str, Any]], tuple[str, ...]]
    text: Callable[[str], tuple[str, ...]]
    tools: Callable[[dict[str, Any]], list[str]]
    forced: Callable[[dict[str, Any]], str]
    schema: Callable[[dict[str, Any]], dict[str, Any] | None]


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
        lambda body: body.get("response_format"),
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
        lambda body: body.get("output_config"),
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
        lambda body: body.get("text"),
    ),
    Format(
        "google-generative-ai",
        "google",
        lambda name, arguments: (gemini.G([gemini.fc(name, arguments)], "STOP"),),
        lambda text: (gemini.G([{"text": text}], "STOP"),),
        lambda body: [d["name"] for t in body.get("tools", ()) for d in t["functionDeclarations"]],
        lambda body: body["toolConfig"]["functionCallingConfig"]["allowedFunctionNames"][0],
        lambda body: (
            {name: value for name, value in body.get("generationConfig", {}).items() if "response" in name}
            or None
        ),
    ),
]


@pytest.fixture(params=FORMATS, ids=lambda form: form.api)
def form(request: pytest.FixtureRequest) -> Format:
    assert isinstance(request.param, Format)
    return request.param


def agent_on(server: SseServer, form: Format, native: bool = False, **options: Any) -> Agent:
    compat = {"supportsJsonSchema": True} if native else {}
    model = Model("m", form.api, form.provider, server.url, compat=compat)
    return Agent(model, get_api_key=lambda provider: "key", **options)


def test_a_typed_result_is_requested_by_tool_name_and_returned_as_a_value(
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


# --- by its schema ---

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["name", "people"],
}
CLOSED = SCHEMA | {"additionalProperties": False}
# How each format brings the schema.
BROUGHT: dict[str, dict[str, Any]] = {
    "openai-completions": {
        "type": "json_schema",
        "json_schema": {"name": "final_answer", "schema": SCHEMA, "strict": False},
    },
    "openai-responses": {
        "format": {"type": "json_schema", "name": "final_answer", "schema": SCHEMA, "strict": False}
    },
    "anthropic-messages": {"format": {"type": "json_schema", "schema": CLOSED}},
    "google-generative-ai": {"responseMimeType": "application/json", "responseJsonSchema": CLOSED},
}


def test_a_server_that_takes_a_schema_gets_it_and_answers_in_text(
    sse_server: SseServer, form: Format
) -> None:
    sse_server.play(*form.text(json.dumps(PARIS)))
    with agent_on(sse_server, form, native=True) as agent:
        result = agent.run("How big is Paris?", output_type=City)
    assert (result.output, result.stop) == (City(name="Paris", people=2_100_000), "end_turn")
    body = sse_server.requests[0].json
    assert form.schema(body) == BROUGHT[form.api]
    assert form.tools(body) == []
    assert "tool_choice" not in body
    assert "toolConfig" not in body


def test_without_a_type_no_schema_is_sent(sse_server: SseServer, form: Format) -> None:
    sse_server.play(*form.text("hi"))
    with agent_on(sse_server, form, native=True) as agent:
        agent.run("hello")
    assert form.schema(sse_server.requests[0].json) is None


def test_json_that_does_not_fit_is_returned_with_its_errors_and_requested_again(
    sse_server: SseServer, form: Format
) -> None:
    for text in ('{"name": "Paris"}', '{"name": "Par', json.dumps(PARIS)):
        sse_server.play(*form.text(text))
    with agent_on(sse_server, form, native=True) as agent:
        result = agent.run("How big is Paris?", output_type=City)
        assert result.output == City(name="Paris", people=2_100_000)
        assert [m.role for m in agent.state.messages] == ["user", "assistant"]
    first, second, third = (json.dumps(request.json) for request in sse_server.requests)
    assert "was not read" not in first
    assert "was not read: people is required" in second
    assert "was not read: a JSON object was expected" in third
    assert all(form.schema(request.json) for request in sse_server.requests)


def test_a_model_that_never_fits_the_schema_is_given_up(sse_server: SseServer, form: Format) -> None:
    for _ in range(4):
        sse_server.play(*form.text("many people"))
    with (
        agent_on(sse_server, form, native=True) as agent,
        pytest.raises(RunError, match="no valid typed answer in 4 attempts"),
    ):
        agent.run("How big is Paris?", output_type=City)
    assert len(sse_server.requests) == 4


def test_a_type_that_is_no_object_comes_out_of_one(sse_server: SseServer, form: Format) -> None:
    sse_server.play(*form.text('{"value": [1, 2]}'))
    with agent_on(sse_server, form, native=True) as agent:
        assert agent.run("Count", output_type=list[int]).output == [1, 2]
    assert form.schema(sse_server.requests[0].json) is not None


def test_every_answer_to_the_schema_counts_and_the_last_one_stays(
    sse_server: SseServer, form: Format
) -> None:
    sse_server.play(*form.text(json.dumps(PARIS)))
    sse_server.play(*form.text('{"name": "Rome", "people": 1}'))
    with agent_on(sse_server, form, native=True) as agent:
        agent.follow_up("and Rome?")
        assert agent.run("How big is Paris?", output_type=City).output == City(name="Rome", people=1)


def test_a_stream_function_of_ones_own_keeps_the_tool(sse_server: SseServer, form: Format) -> None:
    def own(*arguments: Any) -> Any:
        return default_stream_fn(*arguments)

    sse_server.play(*form.call("final_answer", PARIS))
    with agent_on(sse_server, form, native=True, stream_fn=own) as agent:
        assert agent.run("How big is Paris?", output_type=City).output == City.model_validate(PARIS)
    body = sse_server.requests[0].json
    assert (form.tools(body), form.schema(body)) == (["final_answer"], None)


@tool
def look(name: str) -> str:
    """Look."""
    return "big"


# Whether a format that takes a schema sends it also when there are tools.
BESIDE_TOOLS = {
    "openai-completions": False,
    "openai-responses": True,
    "anthropic-messages": True,
    "google-generative-ai": False,
}


def test_beside_tools_the_schema_goes_out_only_where_both_work(sse_server: SseServer, form: Format) -> None:
    native = BESIDE_TOOLS[form.api]
    sse_server.play(*form.call("look", {"name": "Paris"}))
    sse_server.play(*(form.text(json.dumps(PARIS)) if native else form.call("final_answer", PARIS)))
    with agent_on(sse_server, form, native=True, tools=[look]) as agent:
        assert agent.run("How big is Paris?", output_type=City).output == City.model_validate(PARIS)
    for request in sse_server.requests:
        assert form.tools(request.json) == (["look"] if native else ["look", "final_answer"])
        assert (form.schema(request.json) is not None) is native


def test_the_last_answer_at_a_limit_goes_by_the_schema_too(sse_server: SseServer, form: Format) -> None:
    sse_server.play(*form.call("look", {"name": "Paris"}))
    sse_server.play(*form.text(json.dumps(PARIS)))
    limits = Limits(max_turns=1, final_answer=True)
    with agent_on(sse_server, form, native=True, tools=[look], limits=limits) as agent:
        result = agent.run("How big is Paris?", output_type=City)
    assert (result.output, result.stop) == (City.model_validate(PARIS), "max_turns")
    body = sse_server.requests[1].json
    assert (form.tools(body), form.schema(body)) == ([], BROUGHT[form.api])


def test_a_run_that_changes_its_model_changes_the_way(sse_server: SseServer, form: Format) -> None:
    other = Model("m", form.api, form.provider, sse_server.url, compat={"supportsJsonSchema": False})
    hooks = Hooks(prepare_turn=lambda info: TurnUpdate(model=other))
    sse_server.play(*form.text("many people"))
    sse_server.play(*form.call("final_answer", PARIS))
    with agent_on(sse_server, form, native=True, hooks=hooks) as agent:
        assert agent.run("How big is Paris?", output_type=City).output == City.model_validate(PARIS)
    first, second = (request.json for request in sse_server.requests)
    assert (form.tools(first), form.schema(first)) == ([], BROUGHT[form.api])
    assert (form.tools(second), form.schema(second)) == (["final_answer"], None)


class Tree(BaseModel):
    children: list[Tree] = []


class Bounded(BaseModel):
    people: int = Field(gt=0, description="How many.")


COMPILED = ("anthropic-messages", "google-generative-ai")


def test_a_schema_that_the_server_could_not_compile_goes_through_the_tool(
    sse_server: SseServer, form: Format
) -> None:
    arguments: dict[str, Any] = {"value": {"children": [{"children": []}]}}
    compiled = form.api in COMPILED
    sse_server.play(*(form.call("final_answer", arguments) if compiled else form.text(json.dumps(arguments))))
    with agent_on(sse_server, form, native=True) as agent:
        assert agent.run("Grow", output_type=Tree).output == Tree(children=[Tree()])
    assert (form.schema(sse_server.requests[0].json) is None) is compiled


def test_a_bound_that_the_server_would_refuse_becomes_part_of_the_description(
    sse_server: SseServer, form: Format
) -> None:
    sse_server.play(*form.text('{"people": 3}'))
    with agent_on(sse_server, form, native=True) as agent:
        assert agent.run("How big?", output_type=Bounded).output == Bounded(people=3)
    sent = json.dumps(form.schema(sse_server.requests[0].json))
    if form.api in COMPILED:
        assert '{"type": "integer", "description": "How many. (exclusiveMinimum: 0)"}' in sent
    else:
        assert '"exclusiveMinimum": 0' in sent
