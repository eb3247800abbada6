"""Any history makes a well-formed request in Anthropic's format."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.completions import Tool, options
from support.histories import TEXTS, histories
from support.messages import API, CLAUDE
from support.rounds import rounds
from support.rules import check_messages, refuse

from agent.messages import Message, ServerContent, message_to_json
from agent.models import Model
from agent.providers.anthropic_messages.request import encode_request
from agent.providers.history_transform import tool_names
from agent.stream import AgentContext


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
SETTINGS = settings(max_examples=rounds(150), deadline=None, derandomize=True, database=None)


def body_of(history: list[Message], model: Model = CLAUDE, system: str = "", **more: Any) -> bytes:
    context = AgentContext(system, history, [Tool("ls")])
    return encode_request(model, context, options(**more), tool_names(context.tools))[0]


@SETTINGS
@given(HISTORIES, MODELS, TEXTS, st.sampled_from(["", "off", "high"]))
def test_any_history_makes_a_well_formed_request(
    history: list[Message], model: Model, system: str, level: str
) -> None:
    body = body_of(history, model, system, reasoning=level, server_tools=["web_search_20250305"])
    check_messages(json.loads(body.decode("utf-8"), parse_constant=refuse))


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
