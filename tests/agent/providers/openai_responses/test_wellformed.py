"""Any history makes well-formed input in the Responses format."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from support.histories import ARGUMENTS, NAMES, TEXTS, histories
from support.responses import API, LOCAL, reasoning_item
from support.rounds import rounds
from support.rules import check_responses, refuse

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
from agent.providers.history_transform import tool_names
from agent.providers.openai_responses.request import encode_request
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
SETTINGS = settings(max_examples=rounds(100), deadline=None, derandomize=True, database=None)


def body_of(history: list[Message], model: Model, system: str = "") -> bytes:
    return encode_request(model, AgentContext(system, history), StreamOptions(), tool_names(()))[0]


@SETTINGS
@given(HISTORIES, MODELS, TEXTS)
def test_any_history_makes_a_well_formed_request(history: list[Message], model: Model, system: str) -> None:
    body = json.loads(body_of(history, model, system).decode("utf-8"), parse_constant=refuse)
    check_responses(body["input"])


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
