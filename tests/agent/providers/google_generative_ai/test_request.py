"""Requests of Google's format, as a server on loopback receives them, and their answers."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import Any

import pytest
from support.completions import HI, Tool, options
from support.gemini import (
    GEMINI_3,
    HELLO,
    G,
    answer,
    assistant,
    complete,
    fc,
    request,
    signature,
)
from support.sse_server import SseServer, hang, no_head, pause

from agent import Agent, RetryPolicy, tool
from agent.cancel import CancelToken
from agent.errors import ConfigurationError
from agent.messages import Message, ToolCall, ToolResultMessage, UserMessage
from agent.models import get_model
from agent.providers.google_generative_ai import build_request, stream
from agent.stream import AgentContext, StreamError, StreamEvent, build_message
from agent.usage import ModelCost

PATH = "/v1beta/models/gemini-3.8-flash:streamGenerateContent?alt=sse"
PLAIN = replace(GEMINI_3, reasoning=False)


# --- one exchange ---


def test_a_request_is_a_post_of_json_and_its_answer_a_message(sse_server: SseServer) -> None:
    sse_server.play(*HELLO)
    message = complete(sse_server, model=PLAIN, system="be brief")
    assert (message.text, message.stop_reason, message.response_id) == ("hello", "stop", "r1")
    (got,) = sse_server.requests
    assert (got.method, got.path) == ("POST", PATH)
    assert got.headers["x-goog-api-key"] == "key"
    assert got.headers["content-type"] == "application/json"
    assert got.headers["accept"] == "text/event-stream"
    assert "authorization" not in got.headers
    assert got.json == {
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        "systemInstruction": {"parts": [{"text": "be brief"}]},
    }


def test_what_is_sent_is_what_build_request_shows(sse_server: SseServer) -> None:
    sse_server.play(*HELLO)
    messages: list[Message] = [
        UserMessage("é😀"),
        assistant(ToolCall("1", "ls", {"a": [1, None]}, signature("s"))),
        ToolResultMessage("1", "ls", "x"),
    ]
    context = AgentContext("sys", messages, [Tool("ls")])
    opts = options(temperature=0.5, max_tokens=9, reasoning="low", api_key="k")
    model = replace(GEMINI_3, base_url=sse_server.url)
    answer(model, context, opts)
    assert sse_server.requests[0].json == build_request(model, context, opts)


def test_lines_may_end_in_crlf(sse_server: SseServer) -> None:
    """P01"""
    sse_server.play(*(chunk.replace("\n", "\r\n") for chunk in HELLO))
    assert complete(sse_server).text == "hello"


def test_a_character_may_be_cut_between_packets(sse_server: SseServer) -> None:
    """P03"""
    chunk = {"candidates": [{"content": {"parts": [{"text": "你好😀"}]}, "finishReason": "STOP"}]}
    raw = f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n".encode()
    sse_server.play(*(raw[i : i + 1] for i in range(len(raw))))
    assert complete(sse_server).text == "你好😀"


def test_comments_and_missing_blanks_do_no_harm(sse_server: SseServer) -> None:
    """P04, P05"""
    comment = b": keep-alive\n\n"
    tight = [chunk.replace("data: ", "data:") for chunk in HELLO]
    sse_server.play(comment, tight[0], comment, tight[1], comment)
    assert complete(sse_server).text == "hello"


def test_unicode_line_ends_are_text(sse_server: SseServer) -> None:
    """P06"""
    text = "a\u2028b\u0085c\x0bd\x0ce"
    chunk = {"candidates": [{"content": {"parts": [{"text": text}]}, "finishReason": "STOP"}]}
    sse_server.play(f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n".encode())
    assert complete(sse_server).text == text


def test_a_server_that_does_not_stream_is_understood(sse_server: SseServer) -> None:
    chunks = [json.loads(chunk.removeprefix("data: ")) for chunk in HELLO]
    sse_server.play(json.dumps(chunks, indent=2), headers={"content-type": "application/json"})
    assert complete(sse_server).text == "hello"


def test_a_server_that_forgets_to_end_does_not_hold_the_answer(
    sse_server: SseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.providers.decoder.LAST_EVENT_SECONDS", 0.05)
    sse_server.play(G([{"text": "x"}], "STOP"), hang())
    message = complete(sse_server)
    assert (message.text, message.stop_reason) == ("x", "stop")
    assert sse_server.disconnected.wait(5)


def test_what_comes_after_the_reason_counts(sse_server: SseServer) -> None:
    """Older models give the reason with every chunk."""
    sse_server.play(G([{"text": "a"}], "STOP"), pause(0.02), G([fc("ls")], "STOP"))
    message = complete(sse_server)
    assert (message.text, message.stop_reason) == ("a", "toolUse")


def test_a_pause_after_content_that_followed_the_reason_cuts_nothing(
    sse_server: SseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Z01"""
    monkeypatch.setattr("agent.providers.decoder.LAST_EVENT_SECONDS", 0.1)
    one, two, three = (G([{"text": text}], "STOP") for text in ("one ", "two ", "three"))
    sse_server.play(one, two, pause(0.3), three)
    message = complete(sse_server)
    assert (message.text, message.stop_reason) == ("one two three", "stop")


def test_usage_is_priced_by_the_model(sse_server: SseServer) -> None:
    sse_server.play(G([{"text": "x"}], "STOP", usageMetadata={"promptTokenCount": 1_000_000}))
    assert complete(sse_server, model=replace(GEMINI_3, cost=ModelCost(3.0, 4.0))).usage.cost.total == 3.0


# --- failures ---


def test_a_missing_key_is_an_error_and_no_request_is_made(
    sse_server: SseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    message = complete(sse_server, api_key="")
    assert message.error_message.startswith('no API key for provider "google": set GEMINI_API_KEY or ')
    assert sse_server.requests == []


def test_a_key_is_never_in_a_text(sse_server: SseServer) -> None:
    sse_server.play('[{"error":{"code":400,"message":"API key AIza-secret-1 not valid"}}]', status=400)
    message = complete(sse_server, api_key="AIza-secret-1")
    assert message.stop_reason == "error"
    assert "not valid" in message.error_message
    assert "secret" not in message.error_message


def test_an_error_as_the_first_chunk_is_tried_again(sse_server: SseServer) -> None:
    overloaded = (
        'data: {"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}\n\n'
    )
    sse_server.play('data: {"responseId":"r0"}\n\n', overloaded)
    sse_server.play(*HELLO)
    model = replace(GEMINI_3, base_url=sse_server.url)
    events = list(stream(model, HI, options(api_key="k")))
    assert [event.type for event in events].count("start") == 1
    assert [event.type for event in events].count("error") == 0
    assert len(sse_server.requests) == 2


def test_the_delay_that_the_server_asks_for_is_kept(sse_server: SseServer) -> None:
    retry = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.02s"}
    error = {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED", "details": [retry]}
    sse_server.play(json.dumps({"error": error}), status=429)
    sse_server.play(*HELLO)
    waits: list[float] = []
    assert complete(sse_server, on_retry=lambda n, delay, text: waits.append(delay)).text == "hello"
    assert waits == [0.02]


def test_a_blocked_prompt_is_not_asked_again(sse_server: SseServer) -> None:
    sse_server.play('data: {"promptFeedback":{"blockReason":"SAFETY"}}\n\n')
    message = complete(sse_server)
    assert (message.stop_reason, message.content) == ("error", ())
    assert "SAFETY" in message.error_message
    assert len(sse_server.requests) == 1


def test_a_cancelled_request_is_aborted_before_the_first_byte(sse_server: SseServer) -> None:
    sse_server.play(no_head(), hang())
    sse_server.play(*HELLO)
    token = CancelToken()
    stopper = threading.Thread(target=lambda: (sse_server.wait_for_requests(1), token.cancel()))
    stopper.start()
    message = complete(sse_server, cancel=token)
    stopper.join()
    assert (message.stop_reason, message.content) == ("aborted", ())
    assert complete(sse_server).text == "hello"


def test_a_cancelled_stream_keeps_what_came(sse_server: SseServer) -> None:
    sse_server.play(G([{"text": "par"}], usageMetadata={"promptTokenCount": 4}), hang())
    token = CancelToken()
    log: list[StreamEvent] = []
    model = replace(GEMINI_3, base_url=sse_server.url)
    for event in stream(model, HI, options(cancel=token, api_key="k")):
        log.append(event)
        if event.type == "text_delta":
            token.cancel()
    end = log.pop()
    assert isinstance(end, StreamError)
    message = build_message(log, end, model, 0).message
    assert (message.stop_reason, message.text, message.usage.input) == ("aborted", "par", 4)


def test_an_unknown_flag_is_an_error_in_the_stream_and_raised_by_build_request(sse_server: SseServer) -> None:
    model = replace(GEMINI_3, compat={"thinkingFromat": "level"})
    assert "thinking_format" in complete(sse_server, model=model).error_message
    with pytest.raises(ConfigurationError, match="thinking_format"):
        request(model=model)


# --- on_payload, headers, settings ---


def test_on_payload_may_replace_the_body(sse_server: SseServer) -> None:
    sse_server.play(*HELLO)
    complete(sse_server, on_payload=lambda payload, model: payload | {"safetySettings": []})
    assert sse_server.requests[0].json["safetySettings"] == []


def test_headers_of_the_options_beat_those_of_the_model(sse_server: SseServer) -> None:
    sse_server.play(*HELLO)
    model = replace(GEMINI_3, headers={"X-One": "model", "x-two": "model"})
    complete(sse_server, model=model, headers={"x-one": "options"})
    headers = sse_server.requests[0].headers
    assert (headers["x-one"], headers["x-two"]) == ("options", "model")


def test_tools_are_declared_with_their_schema_under_fit_names() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}
    body = request(tools=[Tool("a.b", "does", schema), Tool("a b", "too", {})])
    assert body["tools"] == [
        {
            "functionDeclarations": [
                {"name": "a_b", "description": "does", "parametersJsonSchema": schema},
                {
                    "name": "a_b_2",
                    "description": "too",
                    "parametersJsonSchema": {"type": "object", "properties": {}},
                },
            ]
        }
    ]
    assert "toolConfig" not in body


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ("a.b", {"mode": "ANY", "allowedFunctionNames": ["a_b"]}),
    ],
)
def test_a_tool_choice_goes_with_tools_only(choice: str, config: dict[str, Any]) -> None:
    body = request(tools=[Tool("a.b")], tool_choice=choice)
    assert body["toolConfig"] == {"functionCallingConfig": config}
    assert "toolConfig" not in request(tool_choice=choice)


def test_limits_and_temperature_are_the_generations() -> None:
    body = request(model=PLAIN, max_tokens=7, temperature=0.0)
    assert body["generationConfig"] == {"maxOutputTokens": 7, "temperature": 0.0}
    assert request(model=replace(PLAIN, max_tokens=500))["generationConfig"] == {"maxOutputTokens": 500}
    assert request(model=PLAIN) == {"contents": []}


# --- Vertex ---


def test_vertex_answers_at_its_own_address(sse_server: SseServer) -> None:
    sse_server.play(*HELLO)
    model = replace(get_model("google/gemini-3.8-flash"), provider="vertex", compat={"project": "p1"})
    assert complete(sse_server, model=model, api_key="ya29.t").text == "hello"
    (got,) = sse_server.requests
    assert got.path.startswith("/v1/projects/p1/locations/")
    assert got.headers["authorization"] == "Bearer ya29.t"
    assert "x-goog-api-key" not in got.headers


# --- whole runs ---


@tool
def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word}: a fish"


def agent_at(server: SseServer) -> Agent:
    retry = RetryPolicy((0.0, 0.0), (0.0, 0.0), (0.0,), (0.0,))
    model = replace(get_model("google/gemini-3.8-flash"), base_url=server.url)
    return Agent(model, tools=[look_up], retry=retry, get_api_key=lambda provider: "k")


def test_an_agent_runs_parallel_tools_and_sends_the_signature_back(sse_server: SseServer) -> None:
    """Y12"""
    calls = [fc("look_up", {"word": "cod"}, signature("s"), id="1"), fc("look_up", {"word": "ray"}, id="2")]
    sse_server.play(G([{"text": "hm", "thought": True}]), G(calls), G([{"text": ""}], "STOP"))
    sse_server.play(G([{"text": "Both are fish."}], "STOP"))
    with agent_at(sse_server) as agent:
        result = agent.run("What are cod and ray?")
    assert (result.stop, result.text) == ("end_turn", "Both are fish.")
    _, turn, results = sse_server.requests[1].json["contents"]
    assert [part.get("thoughtSignature") for part in turn["parts"]] == [None, signature("s"), None]
    assert [part["functionResponse"]["response"] for part in results["parts"]] == [
        {"output": "cod: a fish"},
        {"output": "ray: a fish"},
    ]


def test_a_malformed_call_runs_nothing_and_is_asked_again_a_few_times(sse_server: SseServer) -> None:
    """P22"""
    sse_server.play(G([], "MALFORMED_FUNCTION_CALL"))
    sse_server.play(*HELLO)
    with agent_at(sse_server) as agent:
        assert agent.run("hi").text == "hello"
    sse_server.play(G([], "MALFORMED_FUNCTION_CALL"), repeat=True)
    with agent_at(sse_server) as agent:
        run = agent.prompt("hi")
        result = run.result(10)
    assert result.stop == "error"
    assert "MALFORMED_FUNCTION_CALL" in (result.error or "")
    assert len(sse_server.requests) == 2 + 3


def test_an_empty_answer_is_asked_again(sse_server: SseServer) -> None:
    """P23, P24"""
    sse_server.play(G(None, "STOP"))
    sse_server.play(G([{"thoughtSignature": signature("s")}], "STOP"))
    sse_server.play(*HELLO)
    with agent_at(sse_server) as agent:
        assert agent.run("hi").text == "hello"
    assert len(sse_server.requests) == 3
