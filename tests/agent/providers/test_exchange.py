"""All wire formats refuse an empty request, and stop encoding when it is aborted."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from support.formats import FORMATS
from support.requests import PROMPT
from support.sse_server import SseServer

from agent.cancel import CancelToken
from agent.messages import (
    AssistantMessage,
    CustomMessage,
    Message,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from agent.models import Model
from agent.providers.history_transform import OPENING
from agent.stream import AgentContext, StreamError, StreamOptions


@pytest.mark.parametrize("api", FORMATS)
@pytest.mark.parametrize("system", ["", "You help."])
@pytest.mark.parametrize(
    "history",
    [
        [],
        [UserMessage("")],
        [UserMessage(" \n")],
        [UserMessage([TextContent(" ")]), UserMessage([])],
        [AssistantMessage([TextContent("half")], stop_reason="error")],
        [CustomMessage("note", {})],
    ],
    ids=["none", "empty", "blank", "blank blocks", "failed answer", "custom"],
)
def test_a_request_without_a_message_is_never_sent(
    api: str, system: str, history: list[Message], sse_server: SseServer
) -> None:
    found = FORMATS[api]
    found.greet(sse_server)
    model = replace(found.model, base_url=sse_server.url)
    context = AgentContext(system, history)
    (event,) = found.module.stream(model, context, StreamOptions(api_key="k"))
    assert isinstance(event, StreamError)
    assert "nothing to send" in event.error_message
    assert sse_server.requests == []


class _Meta(Mapping[str, str]):
    """The meta of a result, which cancels the token when it is encoded."""

    def __init__(self, token: CancelToken) -> None:
        self._token = token

    def __getitem__(self, key: str) -> str:
        self._token.cancel()
        return "value"

    def __iter__(self) -> Iterator[str]:
        return iter(("key",))

    def __len__(self) -> int:
        return 1


@pytest.mark.parametrize("api", FORMATS)
def test_an_abort_ends_the_encoding_at_the_next_message(api: str, sse_server: SseServer) -> None:
    found = FORMATS[api]
    token = CancelToken()
    late = UserMessage("late")
    history: list[Message] = [
        UserMessage("go"),
        AssistantMessage([ToolCall("c1", "look", {})], stop_reason="toolUse"),
        ToolResultMessage("c1", "look", "seen", meta=_Meta(token)),
        late,
    ]
    model = replace(found.model, base_url=sse_server.url)
    (event,) = found.module.stream(model, AgentContext("", history), StreamOptions(api_key="k", cancel=token))
    assert isinstance(event, StreamError)
    assert event.stop_reason == "aborted"
    assert getattr(late, "_encoded", None) is None
    assert sse_server.requests == []


@pytest.mark.parametrize("api", FORMATS)
def test_an_abort_while_a_long_history_is_encoded_takes_effect_soon(api: str) -> None:
    found = FORMATS[api]
    token = CancelToken()
    text = "x" * 200_000
    history = [UserMessage(text) for _ in range(400)]
    token.cancel()
    started = time.monotonic()
    (event,) = found.module.stream(
        replace(found.model, base_url="http://127.0.0.1:9"),
        AgentContext("", history),
        StreamOptions(api_key="k", cancel=token),
    )
    assert event.stop_reason == "aborted"
    assert time.monotonic() - started < PROMPT


def first_message(api: str, model: Model) -> Any:
    """The first message of a conversation that begins with an answer."""
    history = [AssistantMessage([TextContent("hello")]), UserMessage("go on")]
    body = FORMATS[api].module.build_request(model, AgentContext("", history), StreamOptions())
    return (body.get("messages") or body.get("contents") or body["input"])[0]


@pytest.mark.parametrize(
    ("api", "id"),
    [
        ("anthropic-messages", "claude-x"),
        ("openai-completions", "anthropic/claude-x"),
        ("google-generative-ai", "gemini-3.8-flash"),
    ],
)
def test_a_conversation_that_begins_with_an_answer_gets_an_opening(api: str, id: str) -> None:
    first = first_message(api, replace(FORMATS[api].model, id=id))
    assert first["role"] == "user"
    assert OPENING in json.dumps(first)


@pytest.mark.parametrize("api", ["openai-completions", "openai-responses"])
def test_servers_that_take_an_answer_first_get_it(api: str) -> None:
    assert first_message(api, FORMATS[api].model)["role"] == "assistant"
