"""What we send and how we read, held against the official `google-genai` package, its types and client."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from support.completions import Tool, options
from support.gemini import (
    API,
    GEMINI_2,
    GEMINI_3,
    IMAGE,
    G,
    answer,
    assistant,
    fc,
    request,
    sent,
    signature,
)
from support.official import check_body
from support.sse_server import SseServer

from agent.messages import (
    AssistantMessage,
    Message,
    ServerContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from agent.models import Model
from agent.providers.google_generative_ai import build_request
from agent.stream import AgentContext, StreamOptions
from agent.usage import Usage

genai = pytest.importorskip(
    "google.genai", reason="the official client is not here: pip install google-genai"
)

S1, S2 = signature("one"), signature("two")
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


# --- the bodies against the package's types ---


def history(model: Model) -> list[Message]:
    """One of everything that a history may hold."""
    code = '{"executableCode":{"language":"PYTHON","code":"1+1"},"thoughtSignature":"' + S1 + '"}'
    return [
        UserMessage("hi"),
        UserMessage([TextContent("see"), IMAGE]),
        assistant(
            ThinkingContent("hm", S1),
            ServerContent("executableCode", code, "1+1"),
            TextContent("look", S2),
            ToolCall("c1", "ls", {"path": [1, None, {"a": 1.5}]}, S1),
            ToolCall("c2", "foo.bar", {}),
            model=model,
        ),
        ToolResultMessage("c1", "ls", [TextContent("ok"), IMAGE], meta={"hash": "1"}),
        ToolResultMessage("c2", "foo.bar", "no", is_error=True),
        AssistantMessage([ThinkingContent("so"), ToolCall("c3", "ls", {})], "other-api", "other", "older"),
        UserMessage("thanks"),
    ]


SETTINGS: list[dict[str, Any]] = [
    {},
    {"reasoning": "minimal", "max_tokens": 100},
    {"reasoning": "xhigh", "temperature": 0.5},
    {"reasoning": "off", "tool_choice": "required"},
    {"tool_choice": "foo.bar"},
    {"tool_choice": "none", "thinking_budgets": {"high": 999}, "reasoning": "high"},
    {"output_schema": SCHEMA},
]
MODELS = [
    GEMINI_3,
    GEMINI_2,
    replace(GEMINI_2, id="gemini-2.5-pro", max_tokens=65_536),
    replace(GEMINI_3, id="gemini-4-hydrogen", thinking_levels=("off", "low", "xhigh")),
    replace(GEMINI_3, id="claude-sonnet-5", provider="vertex", reasoning=False),
    Model("m", API, "mine"),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.id)
def test_every_body_is_one_the_package_could_send(model: Model) -> None:
    for tools in ([], [Tool("ls", parameters=SCHEMA), Tool("foo.bar", parameters={})]):
        for settings in SETTINGS:
            context = AgentContext("be brief", history(model), tools)
            check_body(API, build_request(model, context, StreamOptions(**settings)))


def test_the_check_finds_what_is_wrong() -> None:
    from pydantic import ValidationError

    good = request([UserMessage("x")])
    check_body(API, good)
    wrong: list[dict[str, Any]] = [
        {"contents": [{"role": "user", "parts": [{"txt": "x"}]}]},
        {"generationConfig": {"thinkingConfig": {"thinkingEffort": 1}}},
        {"contents": [{"role": "model", "parts": [{"text": "x", "thoughtSignature": "a"}]}]},
        {"tools": [{"functions": []}]},
    ]
    for bad in wrong:
        with pytest.raises(ValidationError):
            check_body(API, good | bad)


# --- the same bytes, read by both ---

USAGE = {
    "promptTokenCount": 100,
    "cachedContentTokenCount": 40,
    "candidatesTokenCount": 6,
    "thoughtsTokenCount": 3,
    "totalTokenCount": 109,
}
ANSWER = (
    G([{"text": "Thin", "thought": True}], responseId="r9", modelVersion="gemini-3.8-flash-001"),
    G([{"text": "king", "thought": True}]),
    G([{"text": "Hé"}]),
    G([{"text": "llo 😀\u2028"}]),
    G([fc("ls", {"path": "é"}, S1, id="c1"), fc("ls", {"path": "b"}, id="c2")]),
    G([{"text": "", "thoughtSignature": S2}], "STOP", usageMetadata=USAGE),
)


def config_of(body: dict[str, Any]) -> Any:
    """The package's configuration that makes this body."""
    types = genai.types
    generation = types.GenerationConfig.model_validate(body.get("generationConfig", {}))
    return types.GenerateContentConfig(
        system_instruction=body.get("systemInstruction"),
        tools=[types.Tool.model_validate(tool) for tool in body.get("tools", ())] or None,
        tool_config=body.get("toolConfig"),
        max_output_tokens=generation.max_output_tokens,
        temperature=generation.temperature,
        thinking_config=generation.thinking_config,
    )


def read_by_the_package(client: Any, model: str, body: dict[str, Any]) -> list[Any]:
    contents = [genai.types.Content.model_validate(content) for content in body["contents"]]
    return list(client.models.generate_content_stream(model=model, contents=contents, config=config_of(body)))


def assert_same_request(server: SseServer) -> None:
    ours, theirs = server.requests
    assert (ours.method, ours.path) == (theirs.method, theirs.path)
    assert plain(ours.json) == plain(theirs.json)
    for name in ("authorization", "x-goog-api-key", "content-type"):
        assert ours.headers.get(name) == theirs.headers.get(name)


def plain(value: Any) -> Any:
    """JSON with one spelling of names and one of base64: the package mixes them, the server reads both."""
    if isinstance(value, dict):
        return {re.sub("_([a-z])", lambda m: m[1].upper(), key): plain(v) for key, v in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.replace("+", "-").replace("/", "_") if isinstance(value, str) else value


def test_a_stream_is_read_as_the_package_reads_it(sse_server: SseServer) -> None:
    sse_server.play(*ANSWER)
    sse_server.play(*ANSWER)
    model = replace(GEMINI_3, base_url=sse_server.url)
    context = AgentContext("sys", history(model), [Tool("ls", parameters=SCHEMA), Tool("foo_bar")])
    opts = options(api_key="k", reasoning="high", max_tokens=99, temperature=0.5, tool_choice="required")
    ours = answer(model, context, opts)
    http = genai.types.HttpOptions(base_url=sse_server.url, api_version="v1beta")
    with genai.Client(api_key="k", http_options=http) as client:
        chunks = read_by_the_package(client, model.id, build_request(model, context, opts))
    parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts]
    assert ours.thinking == "".join(part.text for part in parts if part.thought)
    assert ours.text == "".join(part.text for part in parts if part.text and not part.thought)
    calls = [part.function_call for part in parts if part.function_call]
    assert [(c.id, c.name, c.arguments) for c in ours.tool_calls] == [(c.id, c.name, c.args) for c in calls]
    usage = chunks[-1].usage_metadata
    assert ours.usage == Usage(
        usage.prompt_token_count - usage.cached_content_token_count,
        usage.candidates_token_count + usage.thoughts_token_count,
        usage.cached_content_token_count,
        0,
        usage.total_token_count,
        reasoning=usage.thoughts_token_count,
    )
    assert (ours.response_id, ours.response_model) == (chunks[0].response_id, chunks[0].model_version)
    assert_same_request(sse_server)


def test_what_was_answered_goes_back_as_the_package_sends_it_back(sse_server: SseServer) -> None:
    """The signatures are on the same parts as in the package's own history of a chat."""
    sse_server.play(*ANSWER)
    sse_server.play(*ANSWER)
    model = replace(GEMINI_3, base_url=sse_server.url)
    ours = answer(model, AgentContext("", [UserMessage("hi")]), options(api_key="k"))
    http = genai.types.HttpOptions(base_url=sse_server.url)
    with genai.Client(api_key="k", http_options=http) as client:
        chat = client.chats.create(model=model.id)
        list(chat.send_message_stream("hi"))
        turns = [
            turn.model_dump(mode="json", by_alias=True, exclude_none=True) for turn in chat.get_history()
        ]
    kept = [part for turn in turns if turn["role"] == "model" for part in turn["parts"]]
    signed = [
        (next(iter(part.keys() - {"thoughtSignature", "thought"})), plain(part["thoughtSignature"]))
        for part in kept
        if "thoughtSignature" in part
    ]
    replayed = sent([UserMessage("hi"), ours], model)[1]["parts"]
    assert signed == [
        (next(iter(part.keys() - {"thoughtSignature", "thought"})), plain(part["thoughtSignature"]))
        for part in replayed
        if "thoughtSignature" in part
    ]


@pytest.mark.parametrize("location", ["europe-west4", "global"])
def test_vertex_gets_the_request_of_the_packages_client(sse_server: SseServer, location: str) -> None:
    from google.oauth2.credentials import Credentials

    sse_server.play(*ANSWER)
    sse_server.play(*ANSWER)
    compat = {"project": "p1", "location": location}
    model = replace(GEMINI_2, provider="vertex", base_url=sse_server.url, compat=compat)
    context, opts = (
        AgentContext("sys", [UserMessage("hi")], [Tool("ls", parameters=SCHEMA)]),
        options(api_key="ya29"),
    )
    answer(model, context, opts)
    http = genai.types.HttpOptions(base_url=sse_server.url, api_version="v1")
    with genai.Client(
        vertexai=True, project="p1", location=location, credentials=Credentials("ya29"), http_options=http
    ) as client:
        read_by_the_package(client, model.id, build_request(model, context, opts))
    assert_same_request(sse_server)


@pytest.mark.parametrize("location", ["europe-west4", "global", "us", "eu"])
def test_vertex_is_looked_for_where_the_package_looks(location: str) -> None:
    from google.oauth2.credentials import Credentials

    from agent.providers.google_generative_ai.endpoint import _vertex_host

    with genai.Client(
        vertexai=True, project="p1", location=location, credentials=Credentials("ya29")
    ) as client:
        assert client._api_client._http_options.base_url.rstrip("/") == f"https://{_vertex_host(location)}"
