"""The official `anthropic` package as a judge of our requests, and as a second reader of the same bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from support.completions import Tool
from support.histories import histories
from support.messages import (
    API,
    CLAUDE,
    CS,
    HD,
    HELLO,
    IMAGE,
    JD,
    MD,
    ME,
    MS,
    PING,
    SD,
    TB,
    TD,
    TH,
    TU,
    assistant,
    assistant_calls,
    complete,
    delta,
    opened,
    request,
    start,
)
from support.official import check_body
from support.rounds import rounds
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
from agent.models import known_models

anthropic = pytest.importorskip("anthropic", reason="the official client is not here: pip install anthropic")

# --- our requests, judged by the types of the official client ---


SEARCH = ServerContent(
    "server_tool_use",
    '{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"x"}}',
)
FOUND = ServerContent(
    "web_search_tool_result",
    '{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result",'
    '"url":"u","title":"t","encrypted_content":"e==","page_age":null}]}',
)
SUMMARY = ServerContent("compaction", '{"type":"compaction","content":"so far"}', "so far")
HISTORY: list[Message] = [
    UserMessage("a"),
    UserMessage([TextContent("b"), IMAGE]),
    assistant(ThinkingContent("h", "S"), ThinkingContent("", "R", redacted=True), SEARCH, FOUND, SUMMARY,
         TextContent("x"), ToolCall("t1", "ls", {"a": [1]}), ToolCall("t2", "ls", {})),
    ToolResultMessage("t1", "ls", [TextContent("x"), IMAGE]),
    ToolResultMessage("t2", "ls", [IMAGE], is_error=True),
    UserMessage("c"),
]  # fmt: skip


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"reasoning": "high", "cache_retention": "long"},
        {"reasoning": "off", "cache_retention": "none"},
        {"tool_choice": "any"},
        {"tool_choice": "none"},
        {"tool_choice": "ls", "max_tokens": 9},
        {
            "server_tools": [
                {"type": "web_search_20250305", "max_uses": 2, "user_location": {"city": "Paris"}},
                {"type": "web_fetch_20250910", "blocked_domains": ["a.org"]},
                "code_execution_20250825",
            ]
        },
        {"server_compaction": {"enabled": True, "trigger_tokens": 60_000, "instructions": "brief"}},
        {"api_key": "sk-ant-oat-x"},
    ],
)
def test_a_request_is_one_the_official_types_allow(more: dict[str, Any]) -> None:
    parameters = {"type": "object", "properties": {"a": {"type": "array"}}, "additionalProperties": False}
    body = request(HISTORY, system="s", tools=[Tool("ls"), Tool("x y", "d", parameters)], **more)
    check_body(API, body)


@pytest.mark.parametrize("level", ["", "high"])
def test_a_schema_of_the_answer_is_one_the_official_types_allow(level: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "x"}}, "required": ["a"]}
    model = replace(CLAUDE, compat={"supportsJsonSchema": True, "adaptiveThinking": "optional"})
    body = request([UserMessage("a")], model=model, tools=[Tool("ls")], reasoning=level, output_schema=schema)
    check_body(API, body)
    assert body["output_config"]["format"]["schema"]["additionalProperties"] is False
    assert body["output_config"].get("effort", "") == level


@pytest.mark.parametrize("name", [n for n, m in known_models().items() if m.api == API])
def test_every_level_of_every_claude_is_asked_for_in_allowed_words(name: str) -> None:
    model = known_models()[name]
    for level in ("", *model.available_thinking_levels):
        check_body(API, request(model=model, reasoning=level))


@settings(max_examples=rounds(100), deadline=None, derandomize=True, database=None)
@given(histories(API, "anthropic", "claude-x"))
def test_no_history_makes_a_request_that_the_types_refuse(history: list[Message]) -> None:
    """Without blocks of the server: those are the server's own words, which we do not judge."""
    spoken = [m for m in history if not has_server_block(m)]
    check_body(API, request(spoken))


def has_server_block(message: Message) -> bool:
    return isinstance(message, AssistantMessage) and any(b.type == "server" for b in message.content)


def test_the_official_client_rejects_an_invalid_request() -> None:
    body = request([UserMessage("a")], tools=[Tool("ls")])
    mutations: tuple[Callable[[Any], Any], ...] = (
        lambda b: b["messages"][0]["content"].append({"type": "txt", "text": "x"}),
        lambda b: b["tools"][0].update(name=7),
        lambda b: b.update(thinking={"type": "enabled"}),
        lambda b: b.update(unheard_of=1),
    )
    for mutate in mutations:
        invalid = json.loads(json.dumps(body))
        mutate(invalid)
        with pytest.raises(ValueError, match="validation error"):
            check_body(API, invalid)


# --- the same bytes, read by both ---

ANSWERS = {
    "text": HELLO,
    "pings and comments": (": hi\n\n", MS, PING, TB(0), TD(0, "é😀\u2028"), PING, CS(0), MD("end_turn"), ME),
    "thinking and calls": (
        start(cache_read_input_tokens=7, cache_creation_input_tokens=3),
        TH(0), HD(0, "hm"), HD(0, "m"), SD(0, "sig=="), CS(0),
        opened(1, type="redacted_thinking", data="R=="), CS(1),
        TB(2), TD(2, "now"), CS(2),
        TU(3, "t1", "ls"), JD(3, ""), JD(3, '{"path": "a\\"b"'), JD(3, ', "n": 12345678901234567890}'), CS(3),
        TU(4, "t2", "ls"), CS(4),
        MD("tool_use", 42, cache_read_input_tokens=7, cache_creation_input_tokens=3), ME,
    ),
    "hidden thinking": (MS, TH(0), SD(0, "S"), CS(0), TB(1), TD(1, "x"), CS(1), MD("end_turn"), ME),
    "server tools": (
        MS, opened(0, **json.loads(SEARCH.raw) | {"input": {}}), JD(0, '{"query":'), JD(0, '"x"}'), CS(0),
        opened(1, **json.loads(FOUND.raw)), CS(1), TB(2), TD(2, "x"), CS(2), MD("pause_turn"), ME,
    ),
    "compaction": (
        MS, opened(0, type="compaction", content=None), delta(0, "compaction_delta", content="so far"), CS(0),
        TB(1), TD(1, "x"), CS(1), MD("end_turn"), ME,
    ),
    "length": (MS, TB(0), TD(0, "cu"), CS(0), MD("max_tokens"), ME),
}  # fmt: skip


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("name", list(ANSWERS))
def test_both_clients_read_the_same(
    sse_server: SseServer, monkeypatch: pytest.MonkeyPatch, name: str, line_end: str
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    body = "".join(ANSWERS[name]).replace("\n", line_end)
    for _ in range(2):
        sse_server.play(body[:100], body[100:])
    ours = complete(sse_server)
    theirs = official_answer(sse_server.url)
    assert list(spoken(ours)) == list(official_spoken(theirs))
    assert ours.response_id == theirs.id
    assert ours.usage.output == theirs.usage.output_tokens
    assert ours.usage.input == theirs.usage.input_tokens
    assert ours.usage.cache_read == (theirs.usage.cache_read_input_tokens or 0)
    assert ours.usage.cache_write == (theirs.usage.cache_creation_input_tokens or 0)
    reasons = {"tool_use": "toolUse", "max_tokens": "length"}
    assert ours.stop_reason == reasons.get(theirs.stop_reason, "stop")


def official_answer(url: str) -> Any:
    client = anthropic.Anthropic(api_key="k", base_url=url, max_retries=0)
    messages = [{"role": "user", "content": "hi"}]
    with client, client.beta.messages.stream(model="m", max_tokens=9, messages=messages) as stream:
        return stream.get_final_message()


def spoken(message: AssistantMessage) -> Iterator[tuple[Any, ...]]:
    for block in message.content:
        match block:
            case TextContent():
                yield ("text", block.text)
            case ThinkingContent(redacted=True):
                yield ("redacted_thinking", block.signature)
            case ThinkingContent():
                yield ("thinking", block.thinking, block.signature)
            case ToolCall():
                yield ("tool_use", block.id, block.name, block.arguments)
            case ServerContent():
                yield (block.provider_type, without_nulls(json.loads(block.raw)))


def official_spoken(message: Any) -> Iterator[tuple[Any, ...]]:
    for block in message.content:
        match block.type:
            case "text":
                yield ("text", block.text)
            case "redacted_thinking":
                yield ("redacted_thinking", block.data)
            case "thinking":
                yield ("thinking", block.thinking, block.signature)
            case "tool_use":
                yield ("tool_use", block.id, block.name, block.input)
            case kind:
                yield (kind, without_nulls(block.to_dict()))


def without_nulls(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: without_nulls(value) for key, value in data.items() if value is not None}
    return [without_nulls(item) for item in data] if isinstance(data, list) else data


def test_a_conversation_the_official_client_sends_reads_like_ours(
    sse_server: SseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bodies only: the official client is of a later version of the API, whose types know no temperature."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    sse_server.play(*HELLO)
    sse_server.play(*HELLO)
    history: list[Message] = [
        UserMessage("hi"),
        assistant_calls(ToolCall("t1", "ls", {"a": 1})),
        ToolResultMessage("t1", "ls", "x"),
    ]
    complete(sse_server, history, model=replace(CLAUDE, max_tokens=9), cache_retention="none")
    wire = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "ls", "input": {"a": 1}}]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "x", "is_error": False}],
        },
    ]
    client = anthropic.Anthropic(api_key="key-123", base_url=sse_server.url, max_retries=0)
    with client, client.messages.stream(model="claude-x", max_tokens=9, messages=wire) as stream:
        stream.until_done()
    ours, theirs = sse_server.requests
    assert ours.json == theirs.json
    assert ours.path == theirs.path
