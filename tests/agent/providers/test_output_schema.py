"""Which models get the schema of the answer, and how it is restricted."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from agent.models import Model
from agent.providers import takes_schema
from agent.providers.output_schema import restrict_schema
from agent.stream import AgentContext, StreamOptions
from agent.tools.signature import plain_schema

ASKED = StreamOptions(output_schema={"type": "object", "properties": {"a": {"type": "string"}}})
COMPLETIONS, RESPONSES = "openai-completions", "openai-responses"
CLAUDE, GEMINI = "anthropic-messages", "google-generative-ai"
CLAUDES = "https://api.anthropic.com"


def takes(model: Model, tools: Any = (), options: StreamOptions = ASKED) -> bool:
    return takes_schema(model, AgentContext(tools=tools), options)


@pytest.mark.parametrize(
    ("model", "alone", "beside_tools"),
    [
        (Model("gpt-5-mini", COMPLETIONS, "openai"), True, True),
        (Model("gpt-5-mini", RESPONSES, "openai"), True, True),
        (Model("gpt-4o", COMPLETIONS, "openai"), True, True),
        (Model("gpt-4.1", COMPLETIONS, "openai"), True, True),
        (Model("deployment", COMPLETIONS, "azure", "https://x.openai.azure.com"), True, True),
        (Model("deployment", RESPONSES, "azure", "https://x.openai.azure.com"), True, True),
        (Model("gpt-4", COMPLETIONS, "openai"), False, False),
        (Model("gpt-4-turbo-2024-04-09", COMPLETIONS, "openai"), False, False),
        (Model("gpt-4o-2024-05-13", RESPONSES, "openai"), False, False),
        (Model("gpt-5.4-pro-2026-03-05", RESPONSES, "openai"), False, False),
        (Model("gpt-3.5-turbo", COMPLETIONS, "openai"), False, False),
        (Model("m", COMPLETIONS, "local", "http://127.0.0.1:1"), False, False),
        (Model("m", RESPONSES, "local", "http://127.0.0.1:1"), False, False),
        (Model("openai/gpt-oss-20b", COMPLETIONS, "groq"), False, False),
        (Model("m", COMPLETIONS, "openrouter"), False, False),
        (Model("claude-sonnet-4-5-20250929", CLAUDE, "anthropic", CLAUDES), True, True),
        (Model("claude-opus-4-7", CLAUDE, "anthropic", CLAUDES), True, True),
        (Model("claude-opus-4-1-20250805", CLAUDE, "anthropic", CLAUDES), False, False),
        (Model("claude-sonnet-4-20250514", CLAUDE, "anthropic", CLAUDES), False, False),
        (Model("claude-opus-4-7", CLAUDE, "gateway", "http://127.0.0.1:1"), False, False),
        (Model("gemini-2.5-flash", GEMINI, "google"), True, False),
        (Model("gemini-3-flash-preview", GEMINI, "google"), True, True),
        (Model("gemma-3-27b-it", GEMINI, "google"), False, False),
        (Model("m", "unheard-of", "x"), False, False),
    ],
    ids=lambda value: f"{value.api}-{value.provider}-{value.id}" if isinstance(value, Model) else None,
)
def test_who_takes_a_schema(model: Model, alone: bool, beside_tools: bool) -> None:
    assert (takes(model), takes(model, ("a tool",))) == (alone, beside_tools)
    assert not takes(model, options=StreamOptions())


def test_claude_takes_none_beside_tools_of_its_server() -> None:
    model = Model("claude-opus-4-7", CLAUDE, "anthropic", CLAUDES)
    asked = StreamOptions(output_schema=ASKED.output_schema, server_tools=("web_search_20250305",))
    assert not takes(model, options=asked)


def test_a_wrong_flag_is_left_to_the_request_to_tell() -> None:
    assert not takes(Model("m", COMPLETIONS, "local", "http://127.0.0.1:1", compat={"nonsense": True}))


class Mood(Enum):
    GOOD = "good"
    BAD = "bad"


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]


class Home(BaseModel):
    mood: Mood = Field(description="How it is.")
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    rooms: Annotated[list[str], Field(min_length=2)]
    street: str | None = None


class Node(BaseModel):
    next: Edge | None = None


class Edge(BaseModel):
    to: Node


class Open(BaseModel):
    names: dict[str, int]


class Pair(BaseModel):
    both: tuple[int, str]


class Anything(BaseModel):
    it: Any


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    return plain_schema(model.model_json_schema())


def test_a_schema_keeps_its_form_and_says_its_bounds_in_words() -> None:
    assert restrict_schema(schema_of(Home)) == {
        "type": "object",
        "required": ["mood", "pet", "rooms"],
        "additionalProperties": False,
        "properties": {
            "mood": {"$ref": "#/$defs/Mood"},
            "pet": {"anyOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]},
            "rooms": {"type": "array", "items": {"type": "string"}, "description": "(minItems: 2)"},
            "street": {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "(default: null)"},
        },
        "$defs": {
            "Mood": {"type": "string", "enum": ["good", "bad"]},
            "Cat": {
                "type": "object",
                "required": ["kind"],
                "additionalProperties": False,
                "properties": {
                    "kind": {"type": "string", "enum": ["cat"]},
                    "lives": {"type": "integer", "description": "(default: 9)"},
                },
            },
            "Dog": {
                "type": "object",
                "required": ["kind"],
                "additionalProperties": False,
                "properties": {"kind": {"type": "string", "enum": ["dog"]}},
            },
        },
    }


@pytest.mark.parametrize("model", [Node, Open, Pair, Anything])
def test_a_schema_that_cannot_be_restricted_is_not_sent(model: type[BaseModel]) -> None:
    assert restrict_schema(schema_of(model)) is None


def test_a_property_may_have_the_name_of_a_word() -> None:
    schema = {"type": "object", "properties": {"patternProperties": {"type": "string"}}, "required": []}
    restricted = restrict_schema(schema)
    assert restricted is not None
    assert restricted["properties"] == schema["properties"]


@pytest.mark.parametrize(("optional", "sent"), [(24, True), (25, False)])
def test_more_optional_properties_than_the_server_compiles_are_not_sent(optional: int, sent: bool) -> None:
    properties = {f"p{n}": {"type": "string"} for n in range(optional)}
    assert (restrict_schema({"type": "object", "properties": properties}) is not None) is sent


def test_a_schema_is_not_changed_by_being_restrict_schema() -> None:
    schema = schema_of(Home)
    restrict_schema(schema)
    assert schema == schema_of(Home)
