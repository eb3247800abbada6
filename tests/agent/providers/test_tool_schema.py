"""Tool schemas are sent in the form that servers accept, and arguments come back under the tool's names."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import completions, messages, responses
from support.formats import FORMATS
from support.rounds import rounds
from support.sse_server import SseServer

from agent import Agent, AgentTool
from agent.providers.tool_schema import own_property_names, wire_schema, with_own_properties
from agent.stream import AgentContext, StreamOptions, ToolCallDelta, ToolCallEnd, ToolCallStart

STRING = {"type": "string"}
RESTRICTED = ("anthropic-messages", "openai-completions", "openai-responses")
COMBINATIONS = ("anyOf", "oneOf", "allOf")


ARGUMENTS = '{"file_name": "a.txt", "n": 1}'


def tool(parameters: dict[str, Any]) -> AgentTool:
    return AgentTool("look", "Looks.", parameters, lambda arguments, context: "seen")


def sent(api: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """The tool's schema in the request of a format."""
    found = FORMATS[api]
    context = AgentContext("", [], [tool(parameters)])
    body = found.module.build_request(found.model, context, StreamOptions())
    (described,) = body["tools"]
    described = described.get("function", described)
    schema: dict[str, Any] = described.get("input_schema") or described["parameters"]
    return schema


@pytest.mark.parametrize("api", RESTRICTED)
@pytest.mark.parametrize("keyword", COMBINATIONS)
def test_no_combination_is_sent_at_the_top_of_a_schema(api: str, keyword: str) -> None:
    parameters = {
        "type": "object",
        "properties": {"a": STRING, "b": STRING},
        keyword: [{"required": ["a"]}, {"required": ["b"]}],
    }
    schema = sent(api, parameters)
    assert schema.keys().isdisjoint(COMBINATIONS)
    assert schema["type"] == "object"
    assert schema["properties"] == {"a": STRING, "b": STRING}
    assert set(schema.get("required", ())) == ({"a", "b"} if keyword == "allOf" else set())


def test_combinations_below_the_top_are_kept() -> None:
    parameters = {"type": "object", "properties": {"a": {"anyOf": [STRING, {"type": "null"}]}}}
    assert wire_schema(parameters) is parameters


def test_the_properties_of_all_parts_are_offered() -> None:
    number = {"type": "number"}
    parameters = {
        "oneOf": [
            {"type": "object", "properties": {"kind": STRING, "a": STRING}, "required": ["kind", "a"]},
            {"$ref": "#/$defs/Other"},
        ],
        "$defs": {
            "Other": {
                "allOf": [{"properties": {"kind": number}}, {"properties": {"b": number}}],
                "required": ["b", "kind"],
            }
        },
    }
    schema = wire_schema(parameters)
    assert schema["properties"] == {"kind": {"anyOf": [STRING, number]}, "a": STRING, "b": number}
    assert schema["required"] == ["kind"]
    assert schema["type"] == "object"


def test_a_reference_at_the_top_is_resolved() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}, "required": ["next"]}
    schema = wire_schema({"$ref": "#/$defs/Node", "$defs": {"Node": node}})
    assert schema["properties"] == node["properties"]
    assert schema["required"] == ["next"]
    assert "$ref" not in schema
    assert schema["$defs"] == {"Node": node}


@pytest.mark.parametrize(
    "parameters",
    [
        {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}},
        {"$ref": "#/$defs/missing"},
        {"$ref": "https://example.com/schema"},
        {"$ref": 7},
        {"anyOf": []},
        {"anyOf": "x"},
        {"anyOf": [True, None, 3]},
        {"type": ["object", "null"], "properties": None},
        {"allOf": [{"required": ["not there"]}]},
    ],
)
def test_an_odd_schema_is_an_object_all_the_same(parameters: dict[str, Any]) -> None:
    schema = wire_schema(parameters)
    assert schema["type"] == "object"
    assert schema["properties"] == {}
    assert "required" not in schema


ODD_NAMES = ["a", "a b", "a_b", "a b ", "é", "", "x" * 65, "x" * 70]
NAMES = st.one_of(st.sampled_from(ODD_NAMES), st.text(max_size=80))


@settings(max_examples=rounds(100), deadline=None, derandomize=True, database=None)
@given(st.lists(NAMES, unique=True, max_size=8))
def test_property_names_are_legal_unique_and_lead_back(names: list[str]) -> None:
    parameters = {"type": "object", "properties": dict.fromkeys(names, STRING), "required": names}
    schema = wire_schema(parameters)
    wire = list(schema["properties"])
    assert len(wire) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name) for name in wire)
    own = own_property_names(parameters)
    assert [own.get(name, name) for name in wire] == names
    assert list(schema.get("required", ())) == wire


PARAMETERS = {"type": "object", "properties": {"file name": STRING, "n": {"type": "number"}}}
FUNCTION = {"name": "look", "arguments": ARGUMENTS}
CALLS = {
    "anthropic-messages": (
        messages.MS,
        messages.TU(0, "c1", "look"),
        messages.JD(0, ARGUMENTS),
        messages.CS(0),
        messages.MD("tool_use"),
        messages.ME,
    ),
    "openai-completions": (
        completions.C({"tool_calls": [{"index": 0, "id": "c1", "function": FUNCTION}]}),
        completions.C({}, "tool_calls"),
        completions.DONE,
    ),
    "openai-responses": (
        responses.created(),
        responses.added(0, **responses.call_item("look", "")),
        responses.done(0, **responses.call_item("look", ARGUMENTS)),
        responses.ended(),
    ),
}


@pytest.mark.parametrize("api", RESTRICTED)
def test_a_tool_gets_its_arguments_under_its_own_names(api: str, sse_server: SseServer) -> None:
    received: list[dict[str, Any]] = []

    def look(arguments: dict[str, Any], context: Any) -> str:
        received.append(arguments)
        return "seen"

    sse_server.play(*CALLS[api])
    FORMATS[api].greet(sse_server)
    model = replace(FORMATS[api].model, base_url=sse_server.url)
    tools = [AgentTool("look", "Looks.", PARAMETERS, look)]
    with Agent(model, tools=tools, get_api_key=lambda provider: "k") as agent:
        assert agent.run("go").text == "hello"
    assert received == [{"file name": "a.txt", "n": 1}]
    assert "file_name" in json.dumps(sse_server.requests[0].json["tools"])


def test_arguments_that_are_no_object_stay_as_they_are() -> None:
    events = [ToolCallStart(0, "c", "look"), ToolCallDelta(0, '{"file_na'), ToolCallEnd(0)]
    *_, end = with_own_properties(events, {"look": {"file_name": "file name"}})
    assert end == ToolCallEnd(0)
