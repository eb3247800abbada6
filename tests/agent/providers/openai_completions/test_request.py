"""Requests of the Chat Completions format, as a server on loopback receives them, and their answers."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import Any

import pytest
from support.completions import (
    API,
    DONE,
    HELLO,
    HI,
    LOCAL,
    THINKER,
    C,
    Tool,
    answer,
    assistant_calls,
    complete,
    options,
    request,
)
from support.sse_server import SseServer, hang, no_head

from agent.agent import Agent
from agent.cancel import CancelToken
from agent.errors import ConfigurationError
from agent.messages import ToolCall, ToolResultMessage, UserMessage
from agent.models import Model, get_model
from agent.providers.openai_completions import build_request, stream
from agent.retry import RetryPolicy, classify_error
from agent.stream import AgentContext, StreamError, StreamEvent, ToolCallStart, build_message
from agent.tools import AgentTool
from agent.usage import ModelCost

# --- one exchange ---


def test_a_request_is_a_post_of_json_and_its_answer_a_message(sse_server: SseServer) -> None:
    sse_server.play(*HELLO)
    message = complete(sse_server, system="be brief")
    assert (message.text, message.stop_reason, message.response_id) == ("hello", "stop", "c1")
    (got,) = sse_server.requests
    assert (got.method, got.path) == ("POST", "/v1/chat/completions")
    assert got.headers["content-type"] == "application/json"
    assert got.headers["accept"] == "text/event-stream"
    assert "authorization" not in got.headers
    assert got.json == {
        "model": "m",
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_what_is_sent_is_what_build_request_shows(sse_server: SseServer) -> None:
    sse_server.play(*HELLO)
    messages = [
        UserMessage("é😀"),
        assistant_calls(ToolCall("1", "ls", {"a": [1, None]})),
        ToolResultMessage("1", "ls", "x"),
    ]
    context, opts = AgentContext("sys", messages, [Tool("ls")]), options(temperature=0.5, max_tokens=9)
    model = replace(LOCAL, base_url=sse_server.url)
    answer(model, context, opts)
    assert sse_server.requests[0].json == build_request(model, context, opts)


def test_comments_and_missing_blanks_do_no_harm(sse_server: SseServer) -> None:
    """P04, P05"""
    comment = b": OPENROUTER PROCESSING\n\n"
    tight = [event.replace("data: ", "data:") for event in HELLO]
    sse_server.play(comment, tight[0], comment, *tight[1:3], comment, tight[3])
    assert complete(sse_server).text == "hello"


def test_unicode_line_ends_are_text(sse_server: SseServer) -> None:
    """P06"""
    text = "a\u2028b\u0085c\x0bd\x0ce"
    chunk = {"choices": [{"delta": {"content": text}, "finish_reason": "stop"}]}
    sse_server.play(f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n".encode(), DONE)
    assert complete(sse_server).text == text


def test_a_server_that_does_not_stream_is_understood(sse_server: SseServer) -> None:
    body = {"id": "c9", "choices": [{"message": {"content": "whole"}, "finish_reason": "stop"}]}
    sse_server.play(json.dumps(body), headers={"content-type": "application/json"})
    message = complete(sse_server)
    assert (message.text, message.stop_reason, message.response_id) == ("whole", "stop", "c9")


def test_an_end_without_done_is_a_success_and_one_without_reason_an_error(sse_server: SseServer) -> None:
    """P08, P09"""
    sse_server.play(C({"content": "x"}, "stop"))
    assert complete(sse_server).stop_reason == "stop"
    sse_server.play(C({"content": "par"}))
    message = complete(sse_server)
    assert (message.stop_reason, message.text) == ("error", "par")
    assert "stream ended unexpectedly" in message.error_message


def test_a_server_that_forgets_to_end_does_not_hold_the_answer(
    sse_server: SseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.providers.decoder.LAST_EVENT_SECONDS", 0.05)
    sse_server.play(C({"content": "x"}, "stop"), hang())
    message = complete(sse_server)
    assert (message.text, message.stop_reason) == ("x", "stop")
    assert sse_server.disconnected.wait(5)


def test_usage_is_priced_by_the_model(sse_server: SseServer) -> None:
    usage = {"prompt_tokens": 1_000_000, "completion_tokens": 0}
    sse_server.play(
        C({"content": "x"}, "stop"), f"data: {json.dumps({'choices': [], 'usage': usage})}\n\n", DONE
    )
    assert complete(sse_server, model=replace(LOCAL, cost=ModelCost(3.0, 4.0))).usage.cost.total == 3.0


# --- failures ---


def test_a_missing_key_is_an_error_and_no_request_is_made(
    sse_server: SseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    message = complete(sse_server, model=replace(get_model("openai/gpt-4o"), base_url=sse_server.url))
    assert message.stop_reason == "error"
    assert message.error_message.startswith('no API key for provider "openai": set OPENAI_API_KEY')
    assert sse_server.requests == []


def test_a_key_is_a_bearer_token_and_never_in_a_text(sse_server: SseServer) -> None:
    sse_server.play('{"error":{"message":"bad key sk-secret-123"}}', status=401)
    message = complete(sse_server, api_key="sk-secret-123")
    assert sse_server.requests[0].headers["authorization"] == "Bearer sk-secret-123"
    assert message.stop_reason == "error"
    assert "sk-secret" not in message.error_message


def test_a_key_from_the_environment_is_used(sse_server: SseServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_LAB_API_KEY", "k")
    sse_server.play(*HELLO)
    complete(sse_server, model=Model("m", API, "my-lab"))
    assert sse_server.requests[0].headers["authorization"] == "Bearer k"


def test_a_rejected_key_is_refreshed_once(sse_server: SseServer) -> None:
    sse_server.play('{"error":{"message":"expired"}}', status=401)
    sse_server.play(*HELLO)
    assert (
        complete(sse_server, api_key="old", refresh_api_key=lambda provider: f"new-{provider}").text
        == "hello"
    )
    keys = [got.headers["authorization"] for got in sse_server.requests]
    assert keys == ["Bearer old", "Bearer new-local"]


def test_an_error_as_the_first_chunk_is_tried_again(sse_server: SseServer) -> None:
    overloaded = 'data: {"error":{"message":"Overloaded","type":"overloaded_error"}}\n\n'
    sse_server.play(C({"role": "assistant", "content": ""}), overloaded)
    sse_server.play(*HELLO)
    events = list(stream(replace(LOCAL, base_url=sse_server.url), HI, options()))
    assert [event.type for event in events].count("start") == 1
    assert [event.type for event in events].count("error") == 0
    assert len(sse_server.requests) == 2


def test_an_error_in_mid_stream_keeps_the_text_and_is_not_tried_again(sse_server: SseServer) -> None:
    """P14"""
    sse_server.play(C({"content": "par"}), 'data: {"error":{"message":"Overloaded","code":529}}\n\n')
    message = complete(sse_server)
    assert (message.stop_reason, message.text) == ("error", "par")
    assert classify_error(text=message.error_message).kind in ("overloaded", "rate_limit")
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
    sse_server.play(C({"content": "par"}), hang())
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
    model = replace(LOCAL, compat={"supportStore": True})
    assert "supports_store" in complete(sse_server, model=model).error_message
    with pytest.raises(ConfigurationError, match="supports_store"):
        request(model=model)


def test_a_server_that_is_not_there_is_an_error_in_the_stream(free_port: int) -> None:
    model = replace(LOCAL, base_url=f"http://127.0.0.1:{free_port}")
    message = answer(model, HI, options(retry=RetryPolicy(request=())))
    assert message.stop_reason == "error"
    assert f"nothing answers at {model.base_url}" in message.error_message


# --- on_payload and headers ---


def test_on_payload_may_replace_the_body_or_change_it(sse_server: SseServer) -> None:
    sse_server.play(*HELLO, headers={"connection": "close"})
    sse_server.play(*HELLO)
    seen = []

    def replaced(payload: dict[str, Any], model: Model) -> dict[str, Any]:
        seen.append((payload, model.id))
        return {"own": "body"}

    complete(sse_server, on_payload=replaced)
    complete(sse_server, on_payload=lambda payload, model: payload.update(seed=1))
    assert sse_server.requests[0].json == {"own": "body"}
    assert sse_server.requests[1].json["seed"] == 1
    assert seen == [(request([UserMessage("hi")]), "m")]


def test_a_broken_on_payload_is_an_errored_turn(sse_server: SseServer) -> None:
    def broken(payload: dict[str, Any], model: Model) -> None:
        raise RuntimeError("no such template")

    message = complete(sse_server, on_payload=broken)
    assert (message.stop_reason, message.error_message) == ("error", "no such template")
    assert sse_server.requests == []


def test_headers_of_the_options_beat_those_of_the_model(sse_server: SseServer) -> None:
    sse_server.play(*HELLO)
    model = replace(LOCAL, headers={"X-One": "model", "x-two": "model", "Authorization": "Basic model"})
    complete(sse_server, model=model, headers={"x-one": "options"}, api_key="k")
    headers = sse_server.requests[0].headers
    assert (headers["x-one"], headers["x-two"], headers["authorization"]) == (
        "options",
        "model",
        "Basic model",
    )


def test_session_affinity_headers_are_sent_where_wanted(sse_server: SseServer) -> None:
    model = replace(LOCAL, compat={"sendSessionAffinityHeaders": True})
    for more in ({"cache_retention": "none"}, {}):
        sse_server.play(*HELLO)
        complete(sse_server, model=model, session_id="s1", **more)
    without, given = (got.headers for got in sse_server.requests)
    assert "session_id" not in without
    assert [given[name] for name in ("session_id", "x-client-request-id", "x-session-affinity")] == ["s1"] * 3


# --- settings ---


def test_openai_gets_store_and_the_developer_role() -> None:
    model = Model("gpt-5", API, "openai", reasoning=True)
    body = request(model=model, system="s")
    assert body["store"] is False
    assert body["messages"] == [{"role": "developer", "content": "s"}]
    assert request(model=replace(model, reasoning=False), system="s")["messages"][0]["role"] == "system"


def test_the_limit_has_the_name_the_server_knows() -> None:
    assert request(max_tokens=7)["max_completion_tokens"] == 7
    old = replace(LOCAL, compat={"maxTokensField": "max_tokens"})
    assert request(model=old, max_tokens=7)["max_tokens"] == 7


def test_a_stated_limit_of_the_model_is_sent_and_the_default_guess_is_not() -> None:
    assert request(model=replace(LOCAL, max_tokens=500))["max_completion_tokens"] == 500
    assert "max_completion_tokens" not in request()


def test_usage_is_not_asked_for_where_that_is_not_understood() -> None:
    assert "stream_options" not in request(model=replace(LOCAL, compat={"supportsUsageInStreaming": False}))


@pytest.mark.parametrize(
    ("compat", "level", "expected"),
    [
        ({}, "medium", {"reasoning_effort": "medium"}),
        ({}, "", {}),
        ({}, "off", {}),
        (
            {"reasoningEffortMap": {"medium": "default", "off": "none"}},
            "medium",
            {"reasoning_effort": "default"},
        ),
        ({"reasoningEffortMap": {"off": "none"}}, "", {"reasoning_effort": "none"}),
        ({"supportsReasoningEffort": False}, "medium", {}),
        ({"thinkingFormat": "openrouter"}, "high", {"reasoning": {"effort": "high"}}),
        ({"thinkingFormat": "openrouter"}, "off", {"reasoning": {"effort": "none"}}),
        ({"thinkingFormat": "zai"}, "low", {"enable_thinking": True}),
        ({"thinkingFormat": "qwen"}, "", {"enable_thinking": False}),
        (
            {"thinkingFormat": "qwen-chat-template"},
            "low",
            {"chat_template_kwargs": {"enable_thinking": True}},
        ),
        (
            {"thinkingFormat": "qwen-chat-template", "preserveThinking": True},
            "off",
            {"chat_template_kwargs": {"enable_thinking": False, "preserve_thinking": True}},
        ),
    ],
)
def test_thinking_is_asked_for_in_the_servers_way(
    compat: dict[str, Any], level: str, expected: dict[str, Any]
) -> None:
    fields = ("reasoning_effort", "reasoning", "enable_thinking", "chat_template_kwargs")
    body = request(model=replace(THINKER, compat=compat), reasoning=level)
    assert {name: body[name] for name in fields if name in body} == expected
    plain = request(model=replace(LOCAL, compat=compat), reasoning=level)
    assert not plain.keys() & set(fields)


def test_groqs_qwen_knows_one_effort() -> None:
    model = Model("qwen/qwen3-32b", API, "groq", reasoning=True)
    assert request(model=model, reasoning="medium")["reasoning_effort"] == "default"


@pytest.mark.parametrize(("level", "effort"), [("low", "high"), ("high", "high"), ("xhigh", "max")])
def test_deepseek_knows_two_efforts(level: str, effort: str) -> None:
    assert (
        request(model=Model("r", API, "deepseek", reasoning=True), reasoning=level)["reasoning_effort"]
        == effort
    )


def test_routing_is_passed_on() -> None:
    compat = {"openRouterRouting": {"only": ["x"]}, "vercelGatewayRouting": {"order": ["y"]}}
    body = request(model=replace(LOCAL, compat=compat | {"zaiToolStream": True}))
    assert body["provider"] == {"only": ["x"]}
    assert body["providerOptions"] == {"gateway": {"order": ["y"]}}
    assert body["tool_stream"] is True


def test_openais_cache_key_is_the_session() -> None:
    model = Model("gpt-5", API, "openai")
    assert request(model=model, session_id="s" * 80)["prompt_cache_key"] == "s" * 64
    assert "prompt_cache_key" not in request(model=model, session_id="s", cache_retention="none")
    assert "prompt_cache_key" not in request(session_id="s")
    long = request(model=model, session_id="s", cache_retention="long")
    assert (long["prompt_cache_key"], long["prompt_cache_retention"]) == ("s", "24h")


# --- tools ---


def test_tools_are_functions() -> None:
    body = request(tools=[Tool("ls")], tool_choice="required")
    function = {
        "name": "ls",
        "description": "does it",
        "parameters": {"type": "object", "properties": {}},
        "strict": False,
    }
    assert body["tools"] == [{"type": "function", "function": function}]
    assert body["tool_choice"] == "required"


def test_strict_is_left_out_where_it_is_not_understood() -> None:
    body = request(model=replace(LOCAL, compat={"supportsStrictMode": False}), tools=[Tool("ls")])
    assert "strict" not in body["tools"][0]["function"]


def test_a_tool_may_be_forced_by_name() -> None:
    choice = request(tools=[Tool("ls")], tool_choice="ls")["tool_choice"]
    assert choice == {"type": "function", "function": {"name": "ls"}}
    assert "tool_choice" not in request(tool_choice="required")


def test_additional_properties_are_stripped_for_poe() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "object", "additionalProperties": {"type": "string"}}},
        "additionalProperties": False,
    }
    body = request(model=Model("m", API, "poe", "https://api.poe.com/v1"), tools=[Tool("t", "d", schema)])
    expected = {"type": "object", "properties": {"a": {"type": "object"}}}
    assert body["tools"][0]["function"]["parameters"] == expected


def test_a_tool_with_an_illegal_name_is_called_by_its_own(sse_server: SseServer) -> None:
    """Y16"""
    delta = {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "foo_bar_2", "arguments": "{}"}}]}
    sse_server.play(C(delta), C({}, "tool_calls"), DONE)
    context = AgentContext("", [UserMessage("hi")], [Tool("foo.bar"), Tool("foo bar")])
    events = list(stream(replace(LOCAL, base_url=sse_server.url), context, options(tool_choice="foo bar")))
    body = sse_server.requests[0].json
    assert [tool["function"]["name"] for tool in body["tools"]] == ["foo_bar", "foo_bar_2"]
    assert body["tool_choice"]["function"]["name"] == "foo_bar_2"
    assert [event.name for event in events if isinstance(event, ToolCallStart)] == ["foo bar"]


def test_empty_tools_go_only_to_servers_that_insist() -> None:
    history = [assistant_calls(ToolCall("1", "ls", {})), ToolResultMessage("1", "ls", "x")]
    assert "tools" not in request(history)
    assert request(history, replace(LOCAL, id="claude-proxied"))["tools"] == []
    assert "tools" not in request([UserMessage("x")], replace(LOCAL, id="claude-proxied"))


@pytest.mark.parametrize("flag", [True, False])
def test_reasoning_before_a_call_goes_back_with_it_where_the_flag_asks_for_it(
    sse_server: SseServer, flag: bool
) -> None:
    """Y11"""
    call = {"index": 0, "id": "c1", "function": {"name": "ls", "arguments": "{}"}}
    sse_server.play(C({"reasoning_content": "r"}), C({"tool_calls": [call]}), C({}, "tool_calls"), DONE)
    sse_server.play(*HELLO)
    compat = {"requiresReasoningContentOnAssistantMessages": flag}
    model = replace(THINKER, base_url=sse_server.url, compat=compat)
    with Agent(model, tools=[AgentTool("ls", "lists", {}, lambda a, c: "a file")]) as agent:
        assert agent.run("look").text == "hello"
    turn = sse_server.requests[1].json["messages"][1]
    assert turn["tool_calls"][0]["id"] == "c1"
    assert turn.get("reasoning_content") == ("r" if flag else None)
