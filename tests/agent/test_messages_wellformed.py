"""Whatever a history holds, the request that Anthropic's format makes of it is well formed."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.completions import Tool, options
from support.histories import TEXTS, histories
from support.messages import API, CLAUDE, marks

from agent.messages import Message, ServerContent, message_to_json
from agent.models import Model
from agent.providers import anthropic_messages
from agent.providers._messages_compat import compat_for
from agent.providers._transform import tool_names
from agent.stream import AgentContext

LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def _block(kind: str, id: str) -> ServerContent:
    return ServerContent(kind, json.dumps({"type": kind, "tool_use_id" if "result" in kind else "id": id}))


SERVER = st.builds(
    _block, st.sampled_from(["server_tool_use", "web_search_tool_result"]), st.sampled_from(["s1", "s2"])
) | st.sampled_from(
    [ServerContent("compaction", '{"type":"compaction","content":"s"}', "s"), ServerContent("x", "{cut")]
)
HISTORIES = histories(API, "anthropic", "claude-x", SERVER)
MODELS = st.builds(
    lambda images, adaptive: replace(
        CLAUDE, input=("text", "image") if images else ("text",), compat={"adaptive_thinking": adaptive}
    ),
    st.booleans(),
    st.sampled_from(["", "optional", "always"]),
)
SETTINGS = settings(max_examples=300, deadline=None, derandomize=True, database=None)


def body_of(history: list[Message], model: Model = CLAUDE, system: str = "", **more: Any) -> bytes:
    context = AgentContext(system, history, [Tool("ls")])
    compat = compat_for(model)
    return anthropic_messages._body(model, context, options(**more), compat, tool_names(context.tools))[0]


def check(body: dict[str, Any]) -> None:
    """Anthropic's rules; AssertionError names the first that is broken."""
    assert marks(body) <= 4
    waiting: list[str] = []
    used: set[str] = set()
    messages = body["messages"]
    for message in messages:
        content = message["content"]
        if isinstance(content, str):
            assert not waiting, "results come directly after their calls"
            assert content.strip(), "no blank message"
            continue
        assert content, "no empty message"
        kinds = [block["type"] for block in content]
        for block in content:
            check_block(block)
        results = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        assert results == waiting, "each call has its result in the next message, in order"
        assert kinds[: len(results)] == ["tool_result"] * len(results), "results open their message"
        calls = [block["id"] for block in content if block["type"] == "tool_use"]
        assert len(set(calls) | used) == len(calls) + len(used), "an id is used once"
        used |= set(calls)
        waiting = calls
        pairs = list(itertools.pairwise(kinds))
        assert ("thinking", "thinking") not in pairs, "no two thinking blocks in a row"
        if calls and set(kinds) <= {"text", "tool_use"}:
            assert kinds == sorted(kinds), "nothing stands between a call and its result"
    assert not waiting
    check_server_calls(messages)
    if messages and messages[-1]["role"] == "assistant":
        last = messages[-1]["content"][-1]
        assert last["type"] not in ("thinking", "redacted_thinking")
        assert last["type"] != "text" or last["text"] == last["text"].rstrip()


def check_block(block: dict[str, Any]) -> None:
    match block["type"]:
        case "text":
            assert block["text"].strip(), "no blank text"
        case "thinking":
            assert block["signature"]
        case "redacted_thinking":
            assert block["data"]
        case "tool_use":
            assert 0 < len(block["id"]) <= 64
            assert 0 < len(block["name"]) <= 64
            assert set(block["id"] + block["name"]) <= LEGAL
            assert isinstance(block["input"], dict)
        case "tool_result":
            assert block["content"]
            assert isinstance(block["content"], str) or not block["is_error"], "an error is text"


def check_server_calls(messages: list[dict[str, Any]]) -> None:
    blocks = [b for m in messages if m["role"] == "assistant" for b in m["content"]]
    called = {block["id"] for block in blocks if block["type"] == "server_tool_use"}
    answered = {block["tool_use_id"] for block in blocks if block["type"] == "web_search_tool_result"}
    assert answered <= called
    after = messages[max((n for n, m in enumerate(messages) if m["role"] == "assistant"), default=0) + 1 :]
    prompted = any(isinstance(m["content"], str) or m["content"][0]["type"] != "tool_result" for m in after)
    assert called <= answered or not prompted, "nobody speaks while a search is open"


@SETTINGS
@given(HISTORIES, MODELS, TEXTS, st.sampled_from(["", "off", "high"]))
def test_any_history_makes_a_well_formed_request(
    history: list[Message], model: Model, system: str, level: str
) -> None:
    body = body_of(history, model, system, reasoning=level, server_tools=["web_search_20250305"])
    check(json.loads(body.decode("utf-8"), parse_constant=refuse))


@SETTINGS
@given(HISTORIES, MODELS)
def test_a_second_request_is_the_same_and_the_history_unchanged(history: list[Message], model: Model) -> None:
    before = [repr(message_to_json(message)) for message in history]
    assert body_of(history, model) == body_of(history, model)
    assert [repr(message_to_json(message)) for message in history] == before


@SETTINGS
@given(HISTORIES, HISTORIES)
def test_what_was_encoded_for_one_model_does_not_leak_to_another(
    history: list[Message], more: list[Message]
) -> None:
    """Encoding for other models and longer histories in between changes nothing."""
    fresh = body_of(history)
    body_of(more + history)
    body_of(history, replace(CLAUDE, id="older", input=("text",)))
    body_of(history, replace(CLAUDE, compat={"allow_unsigned_thinking": True}))
    assert body_of(history) == fresh


def refuse(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")
