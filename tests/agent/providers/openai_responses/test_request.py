"""Requests of the Responses format, as a server on loopback receives them, and their answers."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import Any

import pytest
from support.completions import HI, Tool, options
from support.responses import (
    API,
    HELLO,
    LOCAL,
    THINKER,
    E,
    added,
    answer,
    assistant,
    call_item,
    complete,
    created,
    delta,
    done,
    ended,
    message_item,
    reasoning_item,
    request,
)
from support.sse_server import SseServer, cut, hang, no_head

from agent import Agent
from agent.cancel import CancelToken
from agent.errors import ConfigurationError
from agent.messages import ToolCall, ToolResultMessage, UserMessage
from agent.models import Model, get_model
from agent.providers.openai_responses import build_request, stream
from agent.stream import AgentContext, StreamError, StreamEvent, ToolCallStart, build_message
from agent.tools import tool
from agent.usage import ModelCost

# --- one exchange ---


def test_a_request_is_a_post_of_json_and_its_answer_a_message(sse_server: SseServer) -> None:
    sse_server.play(*HELLO)
    message = complete(sse_server, system="be brief")
    assert (message.text, message.stop_reason, message.response_id) == ("hello", "stop", "resp_1")
    (got,) = sse_server.requests
    assert (got.method, got.path) == ("POST", "/v1/responses")
    assert got.headers["content-type"] == "application/json"
    assert got.headers["accept"] == "text/event-stream"
    assert "authorization" not in got.headers
    assert got.json == {
        "model": "m",
        "input": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        ],
        "stream": True,
        "store": False,
    }


@pytest.mark.parametrize("base", ["", "/v1", "/v1/", "/v1/responses"])
def test_the_version_is_added_once(sse_server: SseServer, base: str) -> None:
    sse_server.play(*HELLO)
    answer(replace(LOCAL, base_url=sse_server.url + base), AgentContext("", [UserMessage("hi")]), options())
    assert sse_server.requests[0].path == "/v1/responses"


def test_what_is_sent_is_what_build_request_shows(sse_server: SseServer) -> None:
    sse_server.play(*HELLO)
    turn = assistant(ToolCall("c|fc_1", "ls", {"a": [1, None]}), stop_reason="toolUse")
    messages = [UserMessage("é😀"), turn, ToolResultMessage("c|fc_1", "ls", "x")]
    context, opts = AgentContext("sys", messages, [Tool("ls")]), options(temperature=0.5, max_tokens=99)
    model = replace(LOCAL, base_url=sse_server.url)
    answer(model, context, opts)
    assert sse_server.requests[0].json == build_request(model, context, opts)


def test_an_agent_runs_its_tools_and_replays_the_reasoning(sse_server: SseServer) -> None:
    reasoning, call = reasoning_item("hm"), call_item("add", '{"a": 3, "b": 4}')
    sse_server.play(created(), done(0, **reasoning), done(1, **call), ended())
    sse_server.play(created(), done(0, **message_item("7")), ended())

    @tool
    def add(a: int, b: int) -> str:
        """Add two integers."""
        return str(a + b)

    with Agent(replace(THINKER, base_url=sse_server.url), tools=[add]) as agent:
        assert agent.run("What is 3+4?").text == "7"
    first, second = (got.json for got in sse_server.requests)
    assert second["input"][:1] == first["input"]
    assert second["input"][1:] == [
        reasoning,
        call | {"arguments": '{"a":3,"b":4}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "7"},
    ]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_line_ends_do_not_matter(sse_server: SseServer, line_end: str) -> None:
    """P01"""
    sse_server.play(*(event.replace("\n", line_end) for event in HELLO))
    assert complete(sse_server).text == "hello"


def test_characters_cut_between_packets_are_whole(sse_server: SseServer) -> None:
    """P03"""
    text = "\u4f60\u597d\U0001f600"
    data = {"type": "response.output_text.delta", "output_index": 0, "delta": text}
    event = f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
    sse_server.play(*(bytes([byte]) for byte in event), ended())
    assert complete(sse_server).text == text


def test_comments_and_missing_blanks_do_no_harm(sse_server: SseServer) -> None:
    """P04, P05"""
    comment = ": keep-alive\n\n"
    sse_server.play(*(part for event in HELLO for part in (comment, event.replace("data: ", "data:"))))
    assert complete(sse_server).text == "hello"


def test_unicode_line_ends_are_text(sse_server: SseServer) -> None:
    """P06"""
    text = "a\u2028b\u0085c\x0bd\x0ce"
    data = {"type": "response.output_text.delta", "output_index": 0, "delta": text}
    sse_server.play(f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode(), ended())
    assert complete(sse_server).text == text


def test_a_server_that_does_not_stream_is_understood(sse_server: SseServer) -> None:
    body = {"id": "r9", "object": "response", "status": "completed", "output": [message_item("whole")]}
    sse_server.play(json.dumps(body), headers={"content-type": "application/json"})
    message = complete(sse_server)
    assert (message.text, message.stop_reason, message.response_id) == ("whole", "stop", "r9")


@pytest.mark.parametrize(("status", "reason"), [("completed", "stop"), ("incomplete", "length")])
def test_a_body_that_never_ends_does_not_hold_the_answer(
    sse_server: SseServer, status: str, reason: str
) -> None:
    sse_server.play(created(), delta(0, "x"), ended(status), hang())
    message = complete(sse_server)
    assert (message.text, message.stop_reason) == ("x", reason)
    assert sse_server.disconnected.wait(5)


def test_a_body_that_ends_early_is_an_error(sse_server: SseServer) -> None:
    """P09"""
    sse_server.play(created(), delta(0, "par"))
    message = complete(sse_server)
    assert (message.stop_reason, message.text) == ("error", "par")
    assert "stream ended unexpectedly" in message.error_message


def test_a_connection_that_breaks_keeps_the_text(sse_server: SseServer) -> None:
    sse_server.play(created(), delta(0, "par"), cut(reset=True))
    message = complete(sse_server)
    assert (message.stop_reason, message.text) == ("error", "par")


def test_usage_is_priced_by_the_model(sse_server: SseServer) -> None:
    sse_server.play(created(), delta(0, "x"), ended(usage={"input_tokens": 1_000_000}))
    assert complete(sse_server, model=replace(LOCAL, cost=ModelCost(3.0, 4.0))).usage.cost.total == 3.0


# --- failures ---


def test_a_missing_key_is_an_error_and_no_request_is_made(
    sse_server: SseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    message = complete(sse_server, model=replace(get_model("openai/gpt-5-pro"), base_url=sse_server.url))
    assert message.stop_reason == "error"
    assert message.error_message.startswith('no API key for provider "openai": set OPENAI_API_KEY')
    assert sse_server.requests == []


def test_a_key_is_a_bearer_token_and_never_in_a_text(sse_server: SseServer) -> None:
    sse_server.play('{"error":{"message":"bad key sk-secret-123"}}', status=401)
    message = complete(sse_server, api_key="sk-secret-123")
    assert sse_server.requests[0].headers["authorization"] == "Bearer sk-secret-123"
    assert message.stop_reason == "error"
    assert "sk-secret" not in message.error_message


@pytest.mark.parametrize(
    "failure",
    [
        E("failed", response={"status": "failed", "error": {"code": "server_is_overloaded", "message": "x"}}),
        E("failed", response={"status": "failed", "error": {"code": "server_error", "message": "x"}}),
        E("error", code="rate_limit_exceeded", message="Rate limit reached"),
    ],
)
def test_a_failure_before_the_first_word_is_tried_again(sse_server: SseServer, failure: str) -> None:
    """P17"""
    sse_server.play(created(), E("in_progress", response={}), failure)
    sse_server.play(*HELLO)
    types = [event.type for event in stream(replace(LOCAL, base_url=sse_server.url), HI, options())]
    assert (types.count("start"), types.count("error"), types[-1]) == (1, 0, "done")
    assert len(sse_server.requests) == 2


def test_a_failure_that_is_final_is_not_tried_again(sse_server: SseServer) -> None:
    error = {"code": "invalid_prompt", "message": "against the rules"}
    sse_server.play(created(), ended("failed", error=error))
    message = complete(sse_server)
    assert (message.error_message, message.content) == ("invalid_prompt: against the rules", ())
    assert len(sse_server.requests) == 1


def test_a_failure_in_mid_stream_keeps_the_text_and_is_not_tried_again(sse_server: SseServer) -> None:
    error = {"code": "server_error", "message": "x"}
    sse_server.play(created(), delta(0, "par"), ended("failed", error=error))
    message = complete(sse_server)
    assert (message.stop_reason, message.text, message.error_message) == ("error", "par", "server_error: x")
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
    sse_server.play(created(), delta(0, "par"), hang())
    token = CancelToken()
    log: list[StreamEvent] = []
    for event in stream(
        replace(LOCAL, base_url=sse_server.url),
        HI,
        options(cancel=token),
    ):
        log.append(event)
        if event.type == "text_delta":
            token.cancel()
    end = log.pop()
    assert isinstance(end, StreamError)
    message = build_message(log, end, LOCAL, 0).message
    assert (message.stop_reason, message.text) == ("aborted", "par")


def test_an_unknown_flag_is_an_error_in_the_stream_and_raised_by_build_request(sse_server: SseServer) -> None:
    model = replace(LOCAL, compat={"serviceTear": "flex"})
    assert "service_tier" in complete(sse_server, model=model).error_message
    with pytest.raises(ConfigurationError, match=r"for openai-responses: .*service_tier"):
        request(model=model)
    with pytest.raises(ConfigurationError, match="must be one of"):
        request(model=replace(LOCAL, compat={"service_tier": "cheap"}))


# --- settings ---


def test_on_payload_may_replace_the_body(sse_server: SseServer) -> None:
    sse_server.play(*HELLO)
    complete(sse_server, on_payload=lambda payload, model: payload | {"seed": 1})
    assert sse_server.requests[0].json == request([UserMessage("hi")]) | {"seed": 1}


def test_headers_of_the_options_beat_those_of_the_model(sse_server: SseServer) -> None:
    sse_server.play(*HELLO)
    model = replace(LOCAL, headers={"X-One": "model", "x-two": "model"})
    complete(sse_server, model=model, headers={"x-one": "options"}, api_key="k")
    headers = sse_server.requests[0].headers
    assert (headers["x-one"], headers["x-two"], headers["authorization"]) == ("options", "model", "Bearer k")


def test_the_system_prompt_of_a_reasoning_model_is_the_developers() -> None:
    assert request(model=THINKER, system="s")["input"] == [{"role": "developer", "content": "s"}]
    plain = replace(THINKER, compat={"supportsDeveloperRole": False})
    assert request(model=plain, system="s")["input"][0]["role"] == "system"
    assert request(system=" \n")["input"] == []


def test_a_stated_limit_is_sent_and_the_default_guess_is_not() -> None:
    assert request(max_tokens=7)["max_output_tokens"] == 7
    assert request(model=replace(LOCAL, max_tokens=500))["max_output_tokens"] == 500
    assert "max_output_tokens" not in request()
    assert request(temperature=0.0)["temperature"] == 0.0


def test_reasoning_comes_with_its_summary_and_encrypted() -> None:
    body = request(model=THINKER, reasoning="medium")
    assert body["reasoning"] == {"effort": "medium", "summary": "auto"}
    assert body["include"] == ["reasoning.encrypted_content"]
    assert not request(reasoning="medium").keys() & {"reasoning", "include"}
    flags = {
        "reasoningSummary": "",
        "supportsEncryptedReasoning": False,
        "reasoningEffortMap": {"max": "xhigh"},
    }
    body = request(model=replace(THINKER, compat=flags), reasoning="max")
    assert body["reasoning"] == {"effort": "xhigh"}
    assert "include" not in body


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        (("off", "low", "high"), {"effort": "none"}),
        (("minimal", "low"), {"effort": "minimal"}),
        (("low", "medium"), None),
        (None, None),
    ],
)
@pytest.mark.parametrize("level", ["", "off"])
def test_a_model_that_shall_not_think_thinks_as_little_as_it_can(
    levels: tuple[str, ...] | None, expected: Any, level: str
) -> None:
    body = request(model=replace(THINKER, thinking_levels=levels), reasoning=level)
    assert body.get("reasoning") == expected
    assert body["include"] == ["reasoning.encrypted_content"]


def test_the_cache_key_is_the_session() -> None:
    assert request(session_id="s" * 80)["prompt_cache_key"] == "s" * 64
    assert "prompt_cache_key" not in request(session_id="s", cache_retention="none")
    assert "prompt_cache_retention" not in request(session_id="s", cache_retention="long")
    openai = Model("gpt-5", API, "openai")
    assert request(model=openai, cache_retention="long")["prompt_cache_retention"] == "24h"


def test_a_tier_may_be_asked_for() -> None:
    assert request(model=replace(LOCAL, compat={"serviceTier": "flex"}))["service_tier"] == "flex"


# --- tools ---


def test_tools_are_functions() -> None:
    body = request(tools=[Tool("ls")], tool_choice="required")
    parameters = {"type": "object", "properties": {}}
    function = {"type": "function", "name": "ls", "description": "does it", "parameters": parameters}
    assert body["tools"] == [function | {"strict": False}]
    assert body["tool_choice"] == "required"
    without = request(model=replace(LOCAL, compat={"supportsStrictMode": False}), tools=[Tool("ls")])
    assert without["tools"] == [function]


def test_a_tool_may_be_forced_by_name() -> None:
    assert request(tools=[Tool("ls")], tool_choice="ls")["tool_choice"] == {"type": "function", "name": "ls"}
    assert "tool_choice" not in request(tool_choice="required")


def test_tools_of_the_server_are_sent_as_they_are_written() -> None:
    search = {"type": "web_search", "search_context_size": "low"}
    foreign = {"type": "web_search_20250305", "name": "web_search"}
    assert request(tools=[Tool("ls")], server_tools=[search, foreign])["tools"][1:] == [search]


def test_a_tool_with_an_illegal_name_is_called_by_its_own(sse_server: SseServer) -> None:
    """Y16"""
    sse_server.play(added(0, **call_item("foo_bar_2", "")), done(0, **call_item("foo_bar_2", "{}")), ended())
    context = AgentContext("", [UserMessage("hi")], [Tool("foo.bar"), Tool("foo bar")])
    model = replace(LOCAL, base_url=sse_server.url)
    events = list(stream(model, context, options(tool_choice="foo bar")))
    body = sse_server.requests[0].json
    assert [tool["name"] for tool in body["tools"]] == ["foo_bar", "foo_bar_2"]
    assert body["tool_choice"]["name"] == "foo_bar_2"
    assert [event.name for event in events if isinstance(event, ToolCallStart)] == ["foo bar"]
