"""Requests of Anthropic's format, as a server on loopback receives them, and their answers."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import Any

import pytest
from support.completions import HI, Tool, options
from support.messages import (
    API,
    CLAUDE,
    CS,
    ER,
    HELLO,
    JD,
    MD,
    ME,
    MS,
    PING,
    PLAIN,
    SD,
    TB,
    TD,
    TH,
    TU,
    answer,
    assistant_calls,
    complete,
    event,
    marks,
    opened,
    request,
)
from support.sse_server import SseServer, cut, hang, no_head, pause

from agent.agent import Agent
from agent.cancel import CancelToken
from agent.errors import ConfigurationError
from agent.messages import Message, ToolCall, ToolResultMessage, UserMessage
from agent.models import Model, get_model
from agent.providers.anthropic_messages import build_request, stream
from agent.retry import RetryPolicy, classify_error, is_resumable
from agent.stream import AgentContext, StreamError, StreamEvent, ToolCallStart, build_message
from agent.tools import AgentTool

# --- one exchange ---


def test_a_request_is_a_post_of_json_and_its_answer_a_message(sse_server: SseServer) -> None:
    sse_server.play(*HELLO)
    message = complete(sse_server, system="be brief", cache_retention="none")
    assert (message.text, message.stop_reason, message.response_id) == ("hello", "stop", "m1")
    (got,) = sse_server.requests
    assert (got.method, got.path) == ("POST", "/v1/messages")
    assert got.headers["content-type"] == "application/json"
    assert got.headers["accept"] == "text/event-stream"
    assert got.headers["anthropic-version"] == "2023-06-01"
    assert got.headers["x-api-key"] == "key-123"
    assert not {"authorization", "anthropic-beta"} & got.headers.keys()
    assert got.json == {
        "model": "claude-x",
        "max_tokens": 32_000,
        "stream": True,
        "system": [{"type": "text", "text": "be brief"}],
        "messages": [{"role": "user", "content": "hi"}],
    }


def test_what_is_sent_is_what_build_request_shows(sse_server: SseServer) -> None:
    sse_server.play(*HELLO)
    messages: list[Message] = [
        UserMessage("é😀"),
        assistant_calls(ToolCall("1", "ls", {"a": [1, None]})),
        ToolResultMessage("1", "ls", "x"),
    ]
    context, opts = AgentContext("sys", messages, [Tool("ls")]), options(reasoning="low", api_key="k")
    model = replace(CLAUDE, base_url=sse_server.url)
    answer(model, context, opts)
    assert sse_server.requests[0].json == build_request(model, context, opts)


@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/", "/v1/messages"])
def test_the_version_is_never_doubled(sse_server: SseServer, end: str) -> None:
    sse_server.play(*HELLO)
    answer(
        replace(PLAIN, base_url=sse_server.url + end),
        HI,
        options(api_key="k"),
    )
    assert sse_server.requests[0].path == "/v1/messages"


def test_events_may_end_their_lines_in_any_way(sse_server: SseServer) -> None:
    """P01"""
    for line_end in ("\r\n", "\r"):
        sse_server.play("".join(HELLO).replace("\n", line_end))
        assert complete(sse_server).content == asked_with(sse_server, *HELLO).content


def asked_with(server: SseServer, *events: str | bytes) -> Any:
    server.play(*events)
    return complete(server)


def test_a_character_may_be_cut_between_packets(sse_server: SseServer) -> None:
    """P03"""
    text = "你好😀"
    raw = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    body = f"data: {json.dumps(raw, ensure_ascii=False)}\n\n".encode()
    sse_server.play(MS, TB(0), *(body[i : i + 1] for i in range(len(body))), CS(0), MD("end_turn"), ME)
    assert complete(sse_server).text == text


def test_comments_and_missing_blanks_do_no_harm(sse_server: SseServer) -> None:
    """P04, P05"""
    comment = b": keep-alive\n\n"
    tight = [e.replace("data: ", "data:").replace("event: ", "event:") for e in HELLO]
    sse_server.play(comment, *(step for e in tight for step in (e, comment)))
    assert complete(sse_server).text == "hello"


def test_unicode_line_ends_are_text(sse_server: SseServer) -> None:
    """P06"""
    text = "a\u2028b\u0085c\x0bd\x0ce\u2029"
    raw = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    raw_event = f"event: content_block_delta\ndata: {json.dumps(raw, ensure_ascii=False)}\n\n"
    sse_server.play(MS, TB(0), raw_event.encode(), MD("end_turn"), ME)
    assert complete(sse_server).text == text


def test_a_cut_stream_is_an_error_with_what_came(sse_server: SseServer) -> None:
    """P10"""
    for end in ((), (cut(),), (cut(reset=True),)):
        sse_server.play(MS, TB(0), TD(0, "par"), *end)
        message = complete(sse_server)
        assert (message.stop_reason, message.text) == ("error", "par")
    assert len(sse_server.requests) == 3


def test_a_server_that_forgets_to_end_does_not_hold_the_answer(
    sse_server: SseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P11"""
    monkeypatch.setattr("agent.providers.decoder.LAST_EVENT_SECONDS", 0.05)
    sse_server.play(MS, TB(0), TD(0, "x"), CS(0), MD("end_turn"), hang())
    message = complete(sse_server)
    assert (message.text, message.stop_reason) == ("x", "stop")
    assert sse_server.disconnected.wait(5)


def test_nothing_is_awaited_after_message_stop(sse_server: SseServer) -> None:
    sse_server.play(*HELLO, hang())
    assert complete(sse_server).text == "hello"
    assert sse_server.disconnected.wait(5)


def test_a_response_that_is_not_streamed_is_understood(sse_server: SseServer) -> None:
    body = {
        "type": "message",
        "id": "m9",
        "content": [{"type": "text", "text": "whole"}],
        "stop_reason": "end_turn",
    }
    sse_server.play(json.dumps(body), headers={"content-type": "application/json"})
    message = complete(sse_server)
    assert (message.text, message.stop_reason, message.response_id) == ("whole", "stop", "m9")


# --- failures ---


def test_overload_as_the_first_event_is_tried_again(sse_server: SseServer) -> None:
    """P15"""
    overloaded = ER("overloaded_error", "Overloaded")
    sse_server.play(overloaded)
    sse_server.play(MS, PING, overloaded)
    sse_server.play(*HELLO)
    model = replace(CLAUDE, base_url=sse_server.url)
    events = list(stream(model, HI, options(api_key="k")))
    assert [e.type for e in events].count("start") == 1
    assert events[-1].type == "done"
    assert len(sse_server.requests) == 3


def test_an_error_in_mid_stream_is_not_tried_again(sse_server: SseServer) -> None:
    """P14"""
    sse_server.play(MS, TB(0), TD(0, "par"), ER("overloaded_error", "Overloaded"))
    message = complete(sse_server)
    assert (message.stop_reason, message.text) == ("error", "par")
    assert classify_error(text=message.error_message).retryable
    assert len(sse_server.requests) == 1


def test_what_came_before_a_server_fell_silent_is_kept(sse_server: SseServer) -> None:
    """P25"""
    sse_server.play(MS, TB(0), TD(0, "par"), hang())
    message = complete(sse_server, timeout=0.3)
    assert (message.stop_reason, message.text) == ("error", "par")
    assert is_resumable(message.error_message)


@pytest.mark.parametrize("ping", [PING, ": ping\n\n"], ids=["event", "comment"])
def test_pings_keep_a_slow_answer_alive(sse_server: SseServer, ping: str) -> None:
    """P25"""
    alive = [step for _ in range(5) for step in (pause(0.2), ping)]
    sse_server.play(*HELLO[:3], *alive, *HELLO[3:])
    assert complete(sse_server, timeout=0.6).text == "hello"


def test_an_error_response_says_what_the_server_said(sse_server: SseServer) -> None:
    body = {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "max_tokens: 9 > 8 is too many"},
    }
    sse_server.play(json.dumps(body), status=400, headers={"request-id": "req_1"})
    message = complete(sse_server)
    assert message.error_message == "400 max_tokens: 9 > 8 is too many (request-id: req_1)"
    assert len(sse_server.requests) == 1


def test_a_busy_server_is_asked_again(sse_server: SseServer) -> None:
    sse_server.play('{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', status=529)
    sse_server.play(*HELLO)
    assert complete(sse_server).text == "hello"


def test_a_missing_key_is_an_error_and_no_request_is_made(
    sse_server: SseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_OAUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    message = complete(sse_server, api_key="")
    wanted = 'no API key for provider "anthropic": set ANTHROPIC_API_KEY or ANTHROPIC_OAUTH_TOKEN'
    assert message.error_message.startswith(wanted)
    assert sse_server.requests == []


def test_a_rejected_key_is_refreshed_once_and_never_in_a_text(sse_server: SseServer) -> None:
    sse_server.play('{"error":{"message":"bad key old-key-1"}}', status=401)
    sse_server.play('{"error":{"message":"bad key new-key-2, sorry"}}', status=401)
    message = complete(sse_server, api_key="old-key-1", refresh_api_key=lambda provider: "new-key-2")
    assert [got.headers["x-api-key"] for got in sse_server.requests] == ["old-key-1", "new-key-2"]
    assert message.error_message.startswith("401 bad key ***, sorry (")


def test_a_cancelled_request_is_aborted_before_the_first_byte(sse_server: SseServer) -> None:
    sse_server.play(no_head(), hang())
    sse_server.play(*HELLO)
    token = CancelToken()
    stopper = threading.Thread(target=lambda: (sse_server.wait_for_requests(1), token.cancel()))
    stopper.start()
    message = complete(sse_server, cancel=token)
    stopper.join()
    assert (message.stop_reason, message.error_message) == ("aborted", "Request was aborted")
    assert message.content == ()
    assert complete(sse_server).text == "hello"


def test_a_cancelled_stream_keeps_what_came(sse_server: SseServer) -> None:
    sse_server.play(MS, TB(0), TD(0, "par"), hang())
    token = CancelToken()
    log: list[StreamEvent] = []
    model = replace(CLAUDE, base_url=sse_server.url)
    for e in stream(model, HI, options(cancel=token, api_key="k")):
        log.append(e)
        if e.type == "text_delta":
            token.cancel()
    end = log.pop()
    assert isinstance(end, StreamError)
    message = build_message(log, end, CLAUDE, 0).message
    assert (message.stop_reason, message.text, message.usage.input) == ("aborted", "par", 10)


def test_an_unknown_flag_is_an_error_in_the_stream_and_raised_by_build_request(sse_server: SseServer) -> None:
    model = replace(CLAUDE, compat={"supportsStore": True})
    assert "unknown compat flag" in complete(sse_server, model=model).error_message
    with pytest.raises(ConfigurationError, match="unknown compat flag"):
        request(model=model)


# --- on_payload and headers ---


def test_on_payload_may_replace_the_body_or_change_it(sse_server: SseServer) -> None:
    sse_server.play(*HELLO)
    sse_server.play(*HELLO)
    complete(sse_server, on_payload=lambda payload, model: {"own": model.id})
    complete(sse_server, on_payload=lambda payload, model: payload.update(metadata={"user_id": "u"}))
    assert sse_server.requests[0].json == {"own": "claude-x"}
    assert sse_server.requests[1].json["metadata"] == {"user_id": "u"}


def test_headers_of_the_options_beat_those_of_the_model(sse_server: SseServer) -> None:
    sse_server.play(*HELLO)
    model = replace(CLAUDE, headers={"X-One": "model", "X-Api-Key": "model", "Anthropic-Version": "1"})
    complete(sse_server, model=model, headers={"x-one": "options"})
    headers = sse_server.requests[0].headers
    found = [headers[name] for name in ("x-one", "x-api-key", "anthropic-version")]
    assert found == ["options", "model", "1"]


def test_betas_that_are_asked_for_are_added_to_ours(sse_server: SseServer) -> None:
    for more in ({"tools": [Tool("ls")]}, {"headers": {"Anthropic-Beta": ""}}):
        sse_server.play(*HELLO)
        model = replace(CLAUDE, headers={"anthropic-beta": "a-1, b-2"}) if "tools" in more else CLAUDE
        complete(sse_server, model=model, **more)
    first, second = (got.headers.get("anthropic-beta") for got in sse_server.requests)
    assert first == "fine-grained-tool-streaming-2025-05-14,a-1,b-2"
    assert second is None


def test_a_server_without_keys_gets_none(sse_server: SseServer) -> None:
    sse_server.play(*HELLO)
    complete(sse_server, model=PLAIN, api_key="")
    assert not {"authorization", "x-api-key"} & sse_server.requests[0].headers.keys()


def test_the_token_of_a_subscription_is_a_bearer_and_needs_its_prompt(sse_server: SseServer) -> None:
    sse_server.play(*HELLO)
    sse_server.play(*HELLO)
    complete(sse_server, api_key="sk-ant-oat01-abc", system="be brief", tools=[Tool("ls")])
    complete(sse_server, api_key="sk-ant-oat01-abc")
    first, second = sse_server.requests
    assert first.headers["authorization"] == "Bearer sk-ant-oat01-abc"
    assert "x-api-key" not in first.headers
    assert "oauth-2025-04-20" in first.headers["anthropic-beta"].split(",")
    identity, prompt = first.json["system"]
    assert identity == {"type": "text", "text": "You are Claude Code, Anthropic's official CLI for Claude."}
    assert (prompt["text"], "cache_control" in prompt) == ("be brief", True)
    assert second.json["system"] == [identity]


def test_the_token_may_be_in_the_environment(sse_server: SseServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.setenv("ANTHROPIC_OAUTH_TOKEN", "sk-ant-oat01-env")
    sse_server.play(*HELLO)
    complete(sse_server, api_key="")
    assert sse_server.requests[0].headers["authorization"] == "Bearer sk-ant-oat01-env"
    assert sse_server.requests[0].json["system"][0]["text"].startswith("You are Claude Code")


def test_poe_gets_a_bearer_and_no_betas(sse_server: SseServer) -> None:
    sse_server.play(*HELLO)
    complete(sse_server, model=replace(CLAUDE, provider="poe"), tools=[Tool("ls")], reasoning="high")
    headers = sse_server.requests[0].headers
    assert headers["authorization"] == "Bearer key-123"
    assert "anthropic-beta" not in headers


# --- limits, temperature, thinking ---


def test_the_limit_is_the_options_or_the_models_up_to_32000() -> None:
    assert request(max_tokens=7)["max_tokens"] == 7
    assert request()["max_tokens"] == 32_000
    assert request(model=replace(CLAUDE, max_tokens=500))["max_tokens"] == 500
    assert request(model=PLAIN)["max_tokens"] == 8192


@pytest.mark.parametrize(
    ("level", "more", "limit", "budget"),
    [
        ("medium", {}, 40_192, 8192),
        ("minimal", {}, 33_024, 1024),
        ("xhigh", {}, 48_384, 16_384),
        ("max", {"max_tokens": 60_000}, 64_000, 16_384),
        ("high", {"thinking_budgets": {"high": 2000}}, 34_000, 2000),
        ("low", {"max_tokens": 1000}, 3048, 2048),
    ],
)
def test_a_budget_is_added_to_the_answers_share(
    level: str, more: dict[str, Any], limit: int, budget: int
) -> None:
    body = request(reasoning=level, **more)
    assert body["thinking"] == {"type": "enabled", "budget_tokens": budget}
    assert body["max_tokens"] == limit
    assert body["max_tokens"] > body["thinking"]["budget_tokens"]


def test_a_budget_the_server_would_refuse_is_no_thinking() -> None:
    body = request(model=replace(CLAUDE, max_tokens=2000), reasoning="high", max_tokens=1000)
    assert body["thinking"] == {"type": "disabled"}
    assert body["max_tokens"] == 1000
    assert request(reasoning="low", thinking_budgets={"low": 500})["thinking"] == {"type": "disabled"}


def test_an_empty_level_sends_nothing_and_off_disables_thinking() -> None:
    assert "thinking" not in request(reasoning="")
    assert request(reasoning="off")["thinking"] == {"type": "disabled"}
    for level in ("", "off", "high"):
        assert "thinking" not in request(model=PLAIN, reasoning=level)


ALWAYS = replace(CLAUDE, compat={"adaptive_thinking": "always"})
OPTIONAL = replace(CLAUDE, compat={"adaptive_thinking": "optional"})
ADAPTIVE = {"type": "adaptive"}


@pytest.mark.parametrize(
    ("level", "effort"),
    [
        ("off", "low"), ("minimal", "low"), ("low", "low"), ("medium", "medium"), ("high", "high"),
        ("xhigh", "high"), ("max", "max"),
    ],
)  # fmt: skip
def test_an_adaptive_model_gets_an_effort_and_no_budget(level: str, effort: str) -> None:
    body = request(model=ALWAYS, reasoning=level)
    assert (body["thinking"], body["output_config"]) == (ADAPTIVE, {"effort": effort})
    assert body["max_tokens"] == 32_000


def test_xhigh_is_for_models_that_list_it() -> None:
    model = replace(ALWAYS, thinking_levels=("low", "high", "xhigh"))
    assert request(model=model, reasoning="xhigh")["output_config"] == {"effort": "xhigh"}


def test_thinking_can_be_disabled_for_a_model_with_optional_effort() -> None:
    assert request(model=OPTIONAL, reasoning="off")["thinking"] == {"type": "disabled"}
    assert request(model=OPTIONAL, reasoning="low")["thinking"] == ADAPTIVE
    for model in (OPTIONAL, ALWAYS):
        assert not {"thinking", "output_config"} & request(model=model).keys()


def test_the_listed_models_think_in_their_way() -> None:
    ways = {}
    for id in ("claude-haiku-4-5", "claude-opus-4-6", "claude-sonnet-5-5"):
        ways[id] = request(model=get_model(f"anthropic/{id}"), reasoning="high")["thinking"]["type"]
    assert ways == {
        "claude-haiku-4-5": "enabled",
        "claude-opus-4-6": "adaptive",
        "claude-sonnet-5-5": "adaptive",
    }


def test_how_thinking_is_shown_can_be_set() -> None:
    for model in (CLAUDE, OPTIONAL):
        shown = replace(model, compat={**(model.compat or {}), "thinkingDisplay": "summarized"})
        assert request(model=shown, reasoning="high")["thinking"]["display"] == "summarized"


def test_only_budgets_need_the_beta_of_interleaved_thinking(sse_server: SseServer) -> None:
    for model, level in ((CLAUDE, "high"), (CLAUDE, "off"), (CLAUDE, ""), (OPTIONAL, "high")):
        sse_server.play(*HELLO)
        complete(sse_server, model=model, reasoning=level)
    betas = [got.headers.get("anthropic-beta") for got in sse_server.requests]
    assert betas == ["interleaved-thinking-2025-05-14", None, None, None]


def test_temperature_goes_with_no_thinking_only() -> None:
    assert request(temperature=0.0)["temperature"] == 0.0
    assert request(temperature=0.5, reasoning="off")["temperature"] == 0.5
    for model, level in (
        (CLAUDE, "low"),
        (OPTIONAL, "low"),
        (ALWAYS, ""),
        (get_model("anthropic/claude-opus-5"), ""),
    ):
        assert "temperature" not in request(model=model, temperature=0.5, reasoning=level)


# --- tools ---


def test_a_tool_has_a_whole_schema() -> None:
    tools = [Tool("b", "does b", {"$defs": {"x": {}}, "properties": {"a": {}}}), Tool("a", "does a", {})]
    assert request(model=PLAIN, tools=tools, cache_retention="none")["tools"] == [
        {
            "name": "a",
            "description": "does a",
            "input_schema": {"type": "object", "properties": {}, "required": []},
        },
        {
            "name": "b",
            "description": "does b",
            "input_schema": {"type": "object", "properties": {"a": {}}, "required": [], "$defs": {"x": {}}},
        },
    ]


def test_the_order_of_tools_does_not_depend_on_who_lists_them() -> None:
    tools = [Tool("c"), Tool("a"), Tool("b")]
    assert request(tools=tools) == request(tools=tools[::-1])


def test_arguments_are_asked_for_piece_by_piece(sse_server: SseServer) -> None:
    assert request(tools=[Tool("a")])["tools"][0]["eager_input_streaming"] is True
    sse_server.play(*HELLO)
    complete(sse_server, tools=[Tool("a")])
    assert sse_server.requests[0].headers["anthropic-beta"] == "fine-grained-tool-streaming-2025-05-14"
    assert "eager_input_streaming" not in sse_server.requests[0].json["tools"][0]


@pytest.mark.parametrize(
    ("choice", "wire"),
    [
        ("auto", {"type": "auto"}), ("none", {"type": "none"}), ("any", {"type": "any"}),
        ("required", {"type": "any"}), ("ls", {"type": "tool", "name": "ls"}),
    ],
)  # fmt: skip
def test_a_choice_of_tool(choice: str, wire: dict[str, str]) -> None:
    assert request(tools=[Tool("ls")], tool_choice=choice)["tool_choice"] == wire
    assert "tool_choice" not in request(tool_choice=choice)


def test_a_model_made_to_call_a_tool_does_not_think() -> None:
    """The server refuses both at once."""
    for model in (CLAUDE, OPTIONAL):
        body = request(model=model, tools=[Tool("ls")], tool_choice="any", reasoning="high")
        assert body["thinking"] == {"type": "disabled"}
        assert "output_config" not in body
        assert request(model=model, tool_choice="any", reasoning="high")["thinking"]["type"] != "disabled"


def test_a_tool_with_an_illegal_name_is_called_by_its_own(sse_server: SseServer) -> None:
    """Y16"""
    sse_server.play(MS, TU(0, "t", "foo_bar_2"), CS(0), MD("tool_use"), ME)
    context = AgentContext("", [UserMessage("hi")], [Tool("foo.bar"), Tool("foo bar")])
    opts = options(tool_choice="foo bar", api_key="k")
    events = list(stream(replace(CLAUDE, base_url=sse_server.url), context, opts))
    body = sse_server.requests[0].json
    assert [tool["name"] for tool in body["tools"]] == ["foo_bar", "foo_bar_2"]
    assert body["tool_choice"]["name"] == "foo_bar_2"
    assert [e.name for e in events if isinstance(e, ToolCallStart)] == ["foo bar"]


# --- cache marks ---


def test_a_request_has_four_marks_at_most() -> None:
    history = [UserMessage(str(number)) for number in range(5)]
    body = request(history, system="sys", tools=[Tool("a"), Tool("b")], server_tools=["web_search_20250305"])
    assert marks(body) == 4
    assert [marks(body[part]) for part in ("system", "tools", "messages")] == [1, 1, 2]
    assert body["messages"][-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}
    assert marks(body["tools"][-1]) == 1


def test_no_retention_means_no_marks() -> None:
    assert marks(request(system="sys", tools=[Tool("a")], cache_retention="none")) == 0


def test_marks_are_long_on_anthropics_host_only() -> None:
    long = {"type": "ephemeral", "ttl": "1h"}
    here = request(system="s", cache_retention="long")
    assert here["system"][0]["cache_control"] == long
    assert here["messages"][0]["content"][0]["cache_control"] == long
    elsewhere = replace(CLAUDE, base_url="http://proxy")
    assert "ttl" not in json.dumps(request(model=elsewhere, system="s", cache_retention="long"))
    trusted = replace(elsewhere, compat={"supportsLongCacheRetention": True})
    assert request(model=trusted, system="s", cache_retention="long")["system"][0]["cache_control"] == long


@pytest.mark.parametrize("prompt", ["", "  ", "\ud800"])
def test_a_blank_prompt_is_none(prompt: str) -> None:
    assert "system" not in request(system=prompt)


# --- with the agent ---


def agent_of(server: SseServer, tool: AgentTool) -> Agent:
    model = replace(CLAUDE, base_url=server.url, thinking_levels=("off", "high"))
    return Agent(
        model, tools=[tool], thinking_level="high", get_api_key=lambda provider: "k",
        retry=RetryPolicy((), (), (), ()),
    )  # fmt: skip


def test_a_turn_with_thinking_and_a_call_comes_back_as_it_was(sse_server: SseServer) -> None:
    """Y07"""
    sse_server.play(
        MS, TH(0), SD(0, "S=="), CS(0), opened(1, type="redacted_thinking", data="R=="), CS(1),
        TU(2, "t1", "ls"), JD(2, '{"path":"f"}'), CS(2), MD("tool_use"), ME,
    )  # fmt: skip
    sse_server.play(*HELLO)
    seen: list[dict[str, Any]] = []

    def run(arguments: dict[str, Any], context: Any) -> str:
        seen.append(arguments)
        return "a file"

    with agent_of(sse_server, AgentTool("ls", "lists", {}, run)) as agent:
        assert agent.run("look").text == "hello"
    assert seen == [{"path": "f"}]
    _, turn, results = sse_server.requests[1].json["messages"]
    assert turn["content"] == [
        {"type": "thinking", "thinking": "", "signature": "S=="},
        {"type": "redacted_thinking", "data": "R=="},
        {"type": "tool_use", "id": "t1", "name": "ls", "input": {"path": "f"}},
    ]
    assert results["content"][0]["content"] == "a file"


def test_a_call_cut_by_the_limit_is_not_run(sse_server: SseServer) -> None:
    """L12"""
    sse_server.play(MS, TU(0, "t", "write"), JD(0, '{"path":"f","content":"abc'), MD("max_tokens"), ME)
    sse_server.play(*HELLO)
    ran: list[int] = []

    def run(arguments: dict[str, Any], context: Any) -> str:
        ran.append(1)
        return "x"

    with agent_of(sse_server, AgentTool("write", "w", {}, run)) as agent:
        assert agent.run("go").stop == "end_turn"
    assert ran == []
    (result,) = sse_server.requests[1].json["messages"][2]["content"]
    assert result["is_error"]
    assert result["tool_use_id"] == "t"


def test_a_call_whose_stream_just_ends_is_not_run(sse_server: SseServer) -> None:
    """P10"""
    sse_server.play(MS, TU(0, "t1", "write"), JD(0, '{"path":"f"'), repeat=True)
    ran: list[Any] = []

    def run(arguments: dict[str, Any], context: Any) -> str:
        ran.append(arguments)
        return "x"

    with agent_of(sse_server, AgentTool("write", "w", {}, run)) as agent:
        assert agent.prompt("go").result(10).stop == "error"
    assert ran == []


def test_half_a_character_in_arguments_can_be_sent_back(sse_server: SseServer) -> None:
    """J04"""
    sse_server.play(MS, TU(0, "t", "ls"), JD(0, '{"a":"x\\ud99c y"}'), CS(0), MD("tool_use"), ME)
    sse_server.play(*HELLO)
    with agent_of(sse_server, AgentTool("ls", "lists", {}, lambda a, c: a["a"])) as agent:
        assert agent.run("go").text == "hello"
    assert json.loads(sse_server.requests[1].body.decode("utf-8"))["messages"][1]["content"][0]["input"]


def test_a_paused_answer_is_sent_back_and_continued(sse_server: SseServer) -> None:
    search = opened(0, type="server_tool_use", id="s1", name="web_search", input={})
    found = opened(1, type="web_search_tool_result", tool_use_id="s1", content=[])
    sse_server.play(MS, search, JD(0, '{"query":"x"}'), CS(0), found, CS(1), MD("pause_turn"), ME)
    sse_server.play(*HELLO)
    with agent_of(sse_server, AgentTool("ls", "lists", {}, lambda a, c: "x")) as agent:
        assert agent.run("search").text == "hello"
    turn = sse_server.requests[1].json["messages"][1]["content"]
    assert [block["type"] for block in turn] == ["server_tool_use", "web_search_tool_result"]
    assert turn[0]["input"] == {"query": "x"}


def test_a_refusal_ends_the_run_with_its_reason(sse_server: SseServer) -> None:
    """P13"""
    details = {"type": "refusal", "category": "bio", "explanation": None}
    ended = event("message_delta", delta={"stop_reason": "refusal", "stop_details": details}, usage={})
    sse_server.play(MS, ended, ME)
    with agent_of(sse_server, AgentTool("ls", "lists", {}, lambda a, c: "x")) as agent:
        agent.prompt("x")
        assert agent.wait_for_idle(10)
        assert agent.state.error == "the model refused to answer (stop_reason refusal): bio"
    assert len(sse_server.requests) == 1


def test_usage_is_priced_by_the_model(sse_server: SseServer) -> None:
    sse_server.play(MS, TB(0), TD(0, "x"), CS(0), MD("end_turn", 1_000_000, input_tokens=1_000_000), ME)
    model: Model = replace(get_model("anthropic/claude-sonnet-4-5"), base_url=sse_server.url)
    assert complete(sse_server, model=model).usage.cost.total == 18.0
    assert model.api == API
