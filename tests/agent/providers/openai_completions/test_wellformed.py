"""Any history makes a well-formed Chat Completions request."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from support.completions import API, LOCAL
from support.histories import TEXTS, histories
from support.rounds import rounds
from support.rules import check_completions, refuse

from agent.messages import Message, message_to_json
from agent.models import Model
from agent.providers.history_transform import tool_names
from agent.providers.openai_completions.request import encode_request
from agent.stream import AgentContext, StreamOptions

HISTORIES = histories(API, "local", "m")
MODELS = st.builds(
    lambda reasoning, images, compat: replace(
        LOCAL, reasoning=reasoning, input=("text", "image") if images else ("text",), compat=compat
    ),
    st.booleans(),
    st.booleans(),
    st.fixed_dictionaries(
        {},
        optional={
            "requires_tool_result_name": st.booleans(),
            "requires_assistant_after_tool_result": st.booleans(),
            "requires_thinking_as_text": st.booleans(),
            "requires_reasoning_content_on_assistant_messages": st.booleans(),
            "requires_mistral_tool_ids": st.booleans(),
            "cache_control_format": st.just("anthropic"),
        },
    ),
)
SETTINGS = settings(max_examples=rounds(250), deadline=None, derandomize=True, database=None)


def body_of(history: list[Message], model: Model, system: str = "") -> bytes:
    return encode_request(model, AgentContext(system, history), StreamOptions(), tool_names(()))[0]


@SETTINGS
@given(HISTORIES, MODELS, TEXTS)
def test_any_history_makes_a_well_formed_request(history: list[Message], model: Model, system: str) -> None:
    body = json.loads(body_of(history, model, system).decode("utf-8"), parse_constant=refuse)
    check_completions(body["messages"])


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
    fresh = body_of(history, LOCAL)
    body_of(more + history, LOCAL)
    body_of(history, replace(LOCAL, id="older", input=("text",)))
    body_of(history, replace(LOCAL, compat={"requires_mistral_tool_ids": True}))
    assert body_of(history, LOCAL) == fresh
