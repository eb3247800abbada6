"""Whatever a history holds, the input made of it is well formed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.histories import ARGUMENTS, NAMES, TEXTS, histories
from support.responses import API, LOCAL, reasoning_item

from agent.messages import (
    Message,
    ServerContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    UserMessage,
    message_to_json,
)
from agent.models import Model
from agent.providers._transform import tool_names
from agent.providers.openai_responses import _body
from agent.stream import AgentContext, StreamOptions

# What this format adds to any history: ids in two halves, and signatures of its own and of others.
PAIRS = st.sampled_from(["|", "x|fc_1", "x|fc_2", "é_|é_", "y" * 64 + "|" + "z" * 65])
IDS = st.sampled_from(["", "plain", "{broken", '{"v":1,"id":"msg_1"}', '{"id":"' + "m" * 80 + '"}'])
THOUGHTS = st.sampled_from(
    [json.dumps(reasoning_item("s")), json.dumps(reasoning_item()), '{"type":"reasoning"}']
)
SIGNED = (
    st.builds(TextContent, TEXTS, IDS)
    | st.builds(ThinkingContent, TEXTS, THOUGHTS)
    | st.builds(ToolCall, PAIRS, NAMES, ARGUMENTS)
    | st.builds(ServerContent, st.just("x"), st.just('{"type":"x"}'), st.none() | TEXTS)
)
HISTORIES = histories(API, "local", "m", SIGNED)  # type: ignore[arg-type]
MODELS = st.sampled_from([LOCAL, replace(LOCAL, reasoning=True, input=("text",))])
SETTINGS = settings(max_examples=100, deadline=None, derandomize=True, database=None)
LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def body_of(history: list[Message], model: Model, system: str = "") -> bytes:
    return _body(model, AgentContext(system, history), StreamOptions(), tool_names(()))


def check(items: list[dict[str, Any]]) -> None:
    """The rules of OpenAI for `input`; AssertionError names the first that is broken."""
    waiting: list[str] = []
    used: set[str] = set()
    answering = False
    for number, item in enumerate(items):
        kind = item.get("type", item.get("role"))
        if kind == "function_call_output":
            answering = True
            assert waiting, "a result stands after the calls of its turn"
            assert waiting.pop(0) == item["call_id"], "results are in the order of the calls"
            assert item["output"], "no empty result"
            continue
        assert not (waiting and answering), "every call has its result before the next item"
        answering = False
        if kind == "function_call":
            check_call(item, used)
            waiting.append(item["call_id"])
        elif kind == "reasoning":
            assert items[number + 1].get("type") in ("reasoning", "message", "function_call", "x")
            assert "summary" in item
        else:
            assert not waiting, "nothing stands between calls and results"
            check_said(kind, item, number)
    assert not waiting, "every call has its result at the end"


def check_call(item: dict[str, Any], used: set[str]) -> None:
    assert item["call_id"] not in used, "an id is used once"
    used.add(item["call_id"])
    for id in (item["call_id"], item.get("id", "fc"), item["name"]):
        assert 0 < len(id) <= 64
        assert set(id) <= LEGAL
    assert item.get("id", "fc").startswith("fc")
    assert isinstance(json.loads(item["arguments"]), dict)


def check_said(kind: str, item: dict[str, Any], number: int) -> None:
    if kind == "message":
        assert 0 < len(item["id"]) <= 64
        (part,) = item["content"]
        assert part["text"].strip(), "no blank text"
    elif kind == "user":
        assert item["content"], "no empty message"
        assert all(part.get("text", "x").strip() for part in item["content"]), "no blank part"
    else:
        assert kind in ("x", "system", "developer")
        assert kind == "x" or number == 0, "the system prompt comes first"


@SETTINGS
@given(HISTORIES, MODELS, TEXTS)
def test_any_history_makes_a_well_formed_request(history: list[Message], model: Model, system: str) -> None:
    body = json.loads(body_of(history, model, system).decode("utf-8"), parse_constant=refuse)
    check(body["input"])


@SETTINGS
@given(HISTORIES, HISTORIES)
def test_what_was_encoded_for_one_model_or_place_does_not_leak_to_another(
    history: list[Message], more: list[Message]
) -> None:
    before = [repr(message_to_json(message)) for message in history]
    fresh = body_of(history, LOCAL)
    body_of(more + history, LOCAL)
    body_of(history, replace(LOCAL, id="older", input=("text",)))
    assert body_of(history, LOCAL) == fresh
    assert [repr(message_to_json(message)) for message in history] == before


@SETTINGS
@given(HISTORIES, st.builds(UserMessage, st.just("more")))
def test_a_longer_history_keeps_the_bytes_of_the_shorter_one(history: list[Message], more: Message) -> None:
    """A server's cache of prompts knows prefixes only. (A call still without its result may get one.)"""
    shorter, longer = (json.loads(body_of(h, LOCAL))["input"] for h in (history, [*history, more]))
    assert longer[: len(shorter)] == shorter


def refuse(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")
