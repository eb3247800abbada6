"""What we send and how we read, held against the official `openai` package: its types and its client."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from support import completions, responses
from support.completions import IMAGE, Tool, options
from support.official import check_body
from support.responses import E, added, call_item, created, delta, done, ended, message_item, reasoning_item
from support.sse_server import SseServer

from agent.messages import (
    AssistantMessage,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from agent.models import Model
from agent.providers import openai_completions, openai_responses
from agent.stream import AgentContext, StreamOptions
from agent.usage import Usage

CHAT, RESPONSES = "openai-completions", "openai-responses"
FORMATS = {CHAT: openai_completions, RESPONSES: openai_responses}

pytest.importorskip("openai", reason="the official client is not here: pip install openai")


# --- the bodies against the package's types ---


def history(api: str, provider: str = "openai", model: str = "gpt-5") -> list[Message]:
    """One of everything that a history may hold."""
    id = "call_1|fc_1" if api == RESPONSES else "call_1"
    thought = json.dumps(reasoning_item("hm", status="completed"))
    text = '{"v":1,"id":"msg_1","phase":"commentary"}'
    blocks = (ThinkingContent("hm", thought), TextContent("look", text), ToolCall(id, "ls", {"a": [1]}))
    return [
        UserMessage("hi"),
        UserMessage([TextContent("see"), IMAGE]),
        AssistantMessage(blocks, api, provider, model, stop_reason="toolUse"),
        ToolResultMessage(id, "ls", [TextContent("ok"), IMAGE], meta={"hash": "1"}),
        AssistantMessage("done", "other-api", "other", "older"),
        UserMessage("thanks"),
    ]


SETTINGS: list[dict[str, Any]] = [
    {},
    {"reasoning": "high", "max_tokens": 100},
    {"reasoning": "off", "temperature": 0.5},
    {"session_id": "s" * 90, "cache_retention": "long"},
    {"tool_choice": "ls"},
    {"tool_choice": "required"},
    {"output_schema": {"type": "object", "properties": {"a": {"type": "string"}}}},
]
MODELS = [
    Model("gpt-5", "", "openai", reasoning=True, input=("text", "image"), thinking_levels=("off", "high")),
    Model("gpt-5", "", "openai", reasoning=True, max_tokens=500, thinking_levels=("minimal", "high")),
    Model("gpt-4o", "", "openai", input=("text", "image")),
    Model("deployment", "", "azure", "https://x.openai.azure.com", reasoning=True),
    Model("m", "", "local", "http://127.0.0.1:1"),
]


@pytest.mark.parametrize("api", FORMATS)
@pytest.mark.parametrize("model", MODELS, ids=lambda model: f"{model.provider}-{model.id}")
def test_every_body_is_one_the_package_could_send(api: str, model: Model) -> None:
    model = replace(model, api=api)
    for tools in ([], [Tool("ls"), Tool("foo.bar", parameters={})]):
        for settings in SETTINGS:
            for system in ("", "be brief"):
                context = AgentContext(system, history(api), tools)
                check_body(api, FORMATS[api].build_request(model, context, StreamOptions(**settings)))


def test_the_check_finds_what_is_wrong() -> None:
    from pydantic import ValidationError

    user = {"role": "user", "content": [{"type": "input_text", "text": "x"}]}
    good = {"model": "m", "stream": True, "input": [user]}
    check_body(RESPONSES, good)
    item = {"type": "message", "role": "assistant", "id": "m", "status": "odd", "content": []}
    for bad in ({"colour": 1}, {"input": [item]}, {"tools": [{"type": "function", "nome": "x"}]}):
        with pytest.raises(ValidationError):
            check_body(RESPONSES, good | bad)


# --- the same bytes, read by both ---


def official(server: SseServer) -> Any:
    from openai import OpenAI

    return OpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0)


USAGE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 0},
    "output_tokens": 9,
    "output_tokens_details": {"reasoning_tokens": 3},
    "total_tokens": 109,
}
ANSWER = (
    created("resp_9", "gpt-5"),
    added(0, type="reasoning", id="rs_1", summary=[]),
    delta(0, "Thin", "reasoning_summary_text", item_id="rs_1", summary_index=0),
    delta(0, "king", "reasoning_summary_text", item_id="rs_1", summary_index=0),
    done(0, **reasoning_item("Thinking")),
    added(1, type="message", id="msg_1", role="assistant", status="in_progress", content=[]),
    E(
        "content_part.added",
        output_index=1,
        content_index=0,
        item_id="msg_1",
        part={"type": "output_text", "text": "", "annotations": []},
    ),
    delta(1, "Hé", content_index=0, item_id="msg_1", logprobs=[]),
    delta(1, "llo 😀\u2028", content_index=0, item_id="msg_1", logprobs=[]),
    done(1, **message_item("Héllo 😀\u2028")),
    added(2, **call_item("ls", "")),
    delta(2, '{"path": ', "function_call_arguments", item_id="fc_1"),
    delta(2, '"x"}', "function_call_arguments", item_id="fc_1"),
    E("function_call_arguments.done", output_index=2, item_id="fc_1", name="ls", arguments='{"path": "x"}'),
    done(2, **call_item("ls", '{"path": "x"}')),
    ended(
        model="gpt-5",
        usage=USAGE,
        output=[
            reasoning_item("Thinking"),
            message_item("Héllo 😀\u2028"),
            call_item("ls", '{"path": "x"}'),
        ],
    ),
)


def test_a_stream_of_responses_is_read_as_the_package_reads_it(sse_server: SseServer) -> None:
    sse_server.play(*ANSWER)
    sse_server.play(*ANSWER)
    model = Model("gpt-5", RESPONSES, "openai", sse_server.url, reasoning=True)
    context, opts = AgentContext("sys", [UserMessage("hi")], [Tool("ls")]), options(api_key="k")
    ours = responses.answer(model, context, opts)
    with official(sse_server) as client:
        text, thinking, final = [], [], None
        for event in client.responses.create(**openai_responses.build_request(model, context, opts)):
            if event.type == "response.output_text.delta":
                text.append(event.delta)
            elif event.type == "response.reasoning_summary_text.delta":
                thinking.append(event.delta)
            elif event.type == "response.completed":
                final = event.response
    assert final is not None
    assert (ours.text, ours.thinking) == ("".join(text), "".join(thinking))
    assert ours.text == final.output_text
    (call,) = ours.tool_calls
    theirs = final.output[2]
    assert call.id == f"{theirs.call_id}|{theirs.id}"
    assert (call.name, call.arguments) == (theirs.name, json.loads(theirs.arguments))
    assert json.loads(ours.content[0].signature or "") == final.output[0].model_dump(exclude_unset=True)  # type: ignore[union-attr]
    usage = final.usage
    cached = usage.input_tokens_details.cached_tokens
    assert ours.usage == Usage(
        usage.input_tokens - cached,
        usage.output_tokens,
        cached,
        0,
        usage.total_tokens,
        reasoning=usage.output_tokens_details.reasoning_tokens,
    )
    assert_same_request(sse_server)


def assert_same_request(server: SseServer) -> None:
    ours, theirs = server.requests
    assert (ours.method, ours.path, ours.json) == (theirs.method, theirs.path, theirs.json)
    for name in ("authorization", "api-key", "content-type"):
        assert ours.headers.get(name) == theirs.headers.get(name)


@pytest.mark.parametrize(("status", "stop"), [("incomplete", "length"), ("failed", "error")])
def test_a_response_that_did_not_succeed_is_read_as_the_package_reads_it(
    sse_server: SseServer, status: str, stop: str
) -> None:
    details = {"reason": "max_output_tokens"} if stop == "length" else None
    error = {"code": "server_error", "message": "oops"} if stop == "error" else None
    end = ended(status, incomplete_details=details, error=error, output=[])
    script = (created(), delta(0, "par", content_index=0, item_id="m", logprobs=[]), end)
    sse_server.play(*script)
    sse_server.play(*script)
    model = Model("m", RESPONSES, "local", sse_server.url)
    ours = responses.answer(model, completions.HI, options(api_key="k"))
    with official(sse_server) as client:
        *_, last = client.responses.create(model="m", input=[], stream=True)
    assert (last.type, ours.stop_reason, ours.text) == (f"response.{status}", stop, "par")
    if stop == "error":
        assert ours.error_message == f"{last.response.error.code}: {last.response.error.message}"


def test_a_stream_of_chunks_is_read_as_the_package_reads_it(sse_server: SseServer) -> None:
    C = completions.C
    pieces = [{"index": 0, "id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"a":'}}]
    rest = [{"index": 0, "function": {"arguments": " 1}"}}]
    usage = {"prompt_tokens": 100, "completion_tokens": 9, "total_tokens": 109}
    script = (
        C({"role": "assistant", "content": "Hé"}),
        C({"content": "llo 😀\u2028"}),
        C({"tool_calls": pieces}),
        C({"tool_calls": rest}),
        C({}, "tool_calls"),
        f"data: {json.dumps({'id': 'c1', 'choices': [], 'usage': usage})}\n\n",
        completions.DONE,
    )
    sse_server.play(*script)
    sse_server.play(*script)
    model = Model("gpt-4o", CHAT, "openai", sse_server.url)
    context, opts = AgentContext("sys", [UserMessage("hi")], [Tool("ls")]), options(api_key="k")
    ours = completions.answer(model, context, opts)
    text, arguments, last = "", "", None
    with official(sse_server) as client:
        for chunk in client.chat.completions.create(**openai_completions.build_request(model, context, opts)):
            for choice in chunk.choices:
                text += choice.delta.content or ""
                arguments += "".join(c.function.arguments for c in choice.delta.tool_calls or ())
            last = chunk
    assert last is not None
    assert ours.text == text
    assert ours.tool_calls[0].arguments == json.loads(arguments)
    assert ours.usage.total_tokens == last.usage.total_tokens
    assert_same_request(sse_server)


@pytest.mark.parametrize(
    ("api", "version"), [(CHAT, "2024-10-21"), (RESPONSES, "2025-04-01-preview"), (RESPONSES, "v1")]
)
def test_azure_gets_the_request_line_and_headers_of_the_packages_client(
    sse_server: SseServer, api: str, version: str
) -> None:
    from openai import AzureOpenAI

    script = completions.HELLO if api == CHAT else responses.HELLO
    sse_server.play(*script)
    sse_server.play(*script)
    model = Model("my-gpt", api, "azure", f"{sse_server.url}?api-version={version}")
    context, opts = AgentContext("", [UserMessage("hi")]), options(api_key="k3y")
    (completions if api == CHAT else responses).answer(model, context, opts)
    # The package's client knows the v1 address only as a base URL of one's own.
    own = (
        {"base_url": f"{sse_server.url}/openai/v1"} if version == "v1" else {"azure_endpoint": sse_server.url}
    )
    with AzureOpenAI(api_key="k3y", api_version=version, max_retries=0, **own) as client:
        create = client.chat.completions.create if api == CHAT else client.responses.create
        list(create(**FORMATS[api].build_request(model, context, opts)))
    assert_same_request(sse_server)
