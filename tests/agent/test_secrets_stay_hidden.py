"""The key of an agent is in no event, state, log record or representation, whatever the server sends."""

from __future__ import annotations

import json
import logging

import pytest
from support.sse_server import SseServer

from agent import Agent, LoopConfig, Model, RetryPolicy, event_to_json
from agent.providers.http.transport import default_transport
from agent.stream import StreamOptions

KEY = "sk-very-secret-123456"
ECHO = f"Incorrect API key provided: {KEY}"


def sse(*payloads: object) -> bytes:
    return b"".join(b"data: " + json.dumps(payload).encode() + b"\n\n" for payload in payloads)


# An error after the answer has begun, as each format words it.
MID_STREAM = {
    "openai-completions": sse(
        {"choices": [{"index": 0, "delta": {"content": "hi"}}]}, {"error": {"message": ECHO}}
    ),
    "openai-responses": sse(
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "id": "m"}},
        {"type": "response.output_text.delta", "output_index": 0, "delta": "hi"},
        {"type": "response.failed", "response": {"error": {"code": "x", "message": ECHO}}},
    ),
    "anthropic-messages": sse(
        {"type": "message_start", "message": {"id": "m", "usage": {}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "hi"}},
        {"type": "error", "error": {"type": "api_error", "message": ECHO}},
    ),
    "google-generative-ai": sse(
        {"candidates": [{"content": {"parts": [{"text": "hi"}]}}]},
        {"candidates": [{"finishReason": "SAFETY", "finishMessage": ECHO}]},
    ),
}


@pytest.mark.parametrize("api", MID_STREAM)
@pytest.mark.parametrize("middle", [True, False], ids=["in the middle", "refused"])
def test_a_server_that_quotes_the_key_gets_it_nowhere(
    sse_server: SseServer, caplog: pytest.LogCaptureFixture, api: str, middle: bool
) -> None:
    if middle:
        sse_server.play(MID_STREAM[api], repeat=True)
    else:
        sse_server.play(json.dumps({"error": {"message": ECHO}}).encode(), status=401, repeat=True)
    events = []
    agent = Agent(
        Model("m", api, "local", sse_server.url), get_api_key=lambda provider: KEY, retry=RetryPolicy(())
    )
    agent.subscribe(events.append)
    with caplog.at_level(logging.DEBUG):
        agent.prompt("hi")
        agent.wait_for_idle()
    agent.close()
    default_transport().close()
    encoded = "".join(json.dumps(event_to_json(event)) for event in events)
    assert "Incorrect API key provided: ***" in encoded
    for text in (encoded, repr(events), repr(agent), repr(agent.state), caplog.text):
        assert KEY not in text
    assert any(KEY in value for value in sse_server.requests[0].headers.values())


def test_what_holds_a_key_does_not_show_it() -> None:
    headers = {"authorization": KEY}
    for holder in (
        StreamOptions(api_key=KEY, headers=headers),
        LoopConfig(Model("m", "a", "p"), api_key=KEY, headers=headers),
        Model("m", "a", "p", headers=headers),
    ):
        assert KEY not in repr(holder)
