"""The errors of every format: overflow, waits, rejected keys."""

from __future__ import annotations

import email.utils
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.formats import FORMATS, Format
from support.sse_server import SseServer

from agent.cancel import CancelToken
from agent.messages import AssistantMessage
from agent.retry import RetryPolicy, classify_error, is_context_overflow


@pytest.fixture(params=sorted(FORMATS))
def found(request: pytest.FixtureRequest) -> Format:
    return FORMATS[request.param]


@pytest.fixture
def server() -> Iterator[SseServer]:
    with SseServer() as started:
        yield started


# --- the conversation does not fit ------------------------------------------------------------------------


def _openai(message: str, code: str | None = None) -> dict[str, Any]:
    error = {"message": message, "type": "invalid_request_error", "param": "messages", "code": code}
    return {"error": error}


def _anthropic(message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}


# By server: the format it speaks, the status, and the body as it sends it.
OVERFLOWS: dict[str, tuple[str, int, Any]] = {
    "OpenAI": (
        "openai-completions",
        400,
        _openai(
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 "
            "tokens. Please reduce the length of the messages.",
            "context_length_exceeded",
        ),
    ),
    "OpenAI Responses": (
        "openai-responses",
        400,
        _openai(
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
            "context_length_exceeded",
        ),
    ),
    "Azure": (
        "openai-completions",
        400,
        _openai("Input tokens exceed the configured limit of 272000 tokens.", "context_length_exceeded"),
    ),
    "Anthropic": (
        "anthropic-messages",
        400,
        _anthropic("prompt is too long: 213462 tokens > 200000 maximum"),
    ),
    "Anthropic with max_tokens": (
        "anthropic-messages",
        400,
        _anthropic(
            "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease one"
        ),
    ),
    "Bedrock": ("anthropic-messages", 400, {"message": "Input is too long for requested model."}),
    "Google": (
        "google-generative-ai",
        400,
        {
            "error": {
                "code": 400,
                "message": "The input token count (1196265) exceeds the maximum number of tokens allowed "
                "(1048575).",
                "status": "INVALID_ARGUMENT",
            }
        },
    ),
    "xAI": (
        "openai-completions",
        400,
        {
            "code": "Client specified an invalid argument",
            "error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        },
    ),
    "Groq": ("openai-completions", 400, _openai("Please reduce the length of the messages or completion.")),
    "Groq by size": (
        "openai-completions",
        413,
        _openai("Request too large for model: context_length_exceeded", "context_length_exceeded"),
    ),
    "OpenRouter": (
        "openai-completions",
        400,
        {
            "error": {
                "message": "This endpoint's maximum context length is 65536 tokens. However, you requested "
                "about 70000 tokens (68000 of text input, 2000 in the output).",
                "code": 400,
            }
        },
    ),
    "OpenRouter's upstream": (
        "openai-completions",
        400,
        {
            "error": {
                "message": "Provider returned error",
                "code": 400,
                "metadata": {"raw": '{"error":{"message":"prompt is too long: 9 tokens > 8 maximum"}}'},
            }
        },
    ),
    "DeepSeek": (
        "openai-completions",
        400,
        _openai("This model's maximum context length is 131072 tokens. However, you requested 140000 tokens"),
    ),
    "Mistral": (
        "openai-completions",
        400,
        {
            "object": "error",
            "message": "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
            "code": "3051",
        },
    ),
    "Moonshot": (
        "openai-completions",
        401,
        _openai("Invalid request: this model supports only 256K context, your request exceeded it"),
    ),
    "MiniMax": ("anthropic-messages", 400, _anthropic("invalid params, context window exceeds limit (2013)")),
    "llama.cpp": (
        "openai-completions",
        400,
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size, try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 9000,
                "n_ctx": 4096,
            }
        },
    ),
    "LM Studio": (
        "openai-completions",
        400,
        {
            "error": "Trying to keep the first 9000 tokens when context the overflows. However, the model is "
            "loaded with context length of only 4096 tokens, which is not enough. The number of tokens to "
            "keep from the initial prompt is greater than the context length."
        },
    ),
    "Ollama": (
        "openai-completions",
        400,
        _openai("prompt too long; exceeded max context length by 4 tokens"),
    ),
    "Cerebras": ("openai-completions", 413, ""),
}


@pytest.mark.parametrize("name", OVERFLOWS)
def test_an_overflow_is_known_by_the_words_of_its_server(name: str, server: SseServer) -> None:
    api, status, body = OVERFLOWS[name]
    server.play(json.dumps(body) if body else "", status=status, headers={"content-type": "application/json"})
    answer = FORMATS[api].ask(server, refresh_api_key=_never)
    assert is_context_overflow(answer), answer.error_message
    assert len(server.requests) == 1


def test_an_overflow_is_recognised_on_every_format(found: Format, server: SseServer) -> None:
    found.refuse(server, 400, "prompt is too long: 213462 tokens > 200000 maximum")
    answer = found.ask(server)
    assert is_context_overflow(answer)
    assert classify_error(400, text=answer.error_message).kind == "context_overflow"


def test_a_crowded_server_that_names_its_window_is_no_overflow(found: Format, server: SseServer) -> None:
    """U11"""
    for _ in range(3):
        found.refuse(server, 429, "Rate limit reached; this model's maximum context length is 8192 tokens")
    assert not is_context_overflow(found.ask(server))
    assert len(server.requests) == 3


def _never(provider: str) -> str:
    raise AssertionError("no key was rejected")


# --- how long to wait -------------------------------------------------------------------------------------


def _soon() -> str:
    return email.utils.formatdate(time.time() + 30, usegmt=True)


# Headers and text of a 429, and the seconds asked for; the first that says something counts.
WAITS: dict[str, tuple[Callable[[], dict[str, str]], str, float]] = {
    "seconds": (lambda: {"retry-after": "3"}, "slow down", 3.0),
    "fractions": (lambda: {"retry-after": "0.5"}, "slow down", 0.5),
    "a date": (lambda: {"retry-after": _soon()}, "slow down", 30.0),
    "milliseconds": (lambda: {"retry-after-ms": "1500"}, "slow down", 1.5),
    "milliseconds first": (lambda: {"retry-after-ms": "1500", "retry-after": "9"}, "slow down", 1.5),
    "a moment": (lambda: {"x-ratelimit-reset": str(int(time.time() + 30))}, "slow down", 30.0),
    "after": (lambda: {"x-ratelimit-reset-after": "7"}, "slow down", 7.0),
    "words": (dict, "Rate limit reached. Please try again in 20s.", 20.0),
    "words in milliseconds": (dict, "Please retry after 2000ms", 2.0),
    "a clock": (dict, "quota will reset after 0h0m40s", 40.0),
    "header before words": (lambda: {"retry-after": "5"}, "Please try again in 20s.", 5.0),
    "nothing": (dict, "slow down", 0.25),
    "nonsense": (lambda: {"retry-after": "soon"}, "slow down", 0.25),
    "the past": (lambda: {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, "slow down", 0.25),
}


@pytest.mark.parametrize("wait", WAITS)
def test_the_server_says_when_to_come_back(found: Format, server: SseServer, wait: str) -> None:
    """T01"""
    headers, text, seconds = WAITS[wait]
    found.refuse(server, 429, text, **headers())
    assert _wait_asked_for(found, server) == pytest.approx(seconds, abs=2.0 if seconds == 30.0 else 0.001)


def test_google_words_it_in_the_body(server: SseServer) -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "13s"}]
    error = {"code": 429, "message": "Resource exhausted", "status": "RESOURCE_EXHAUSTED", "details": details}
    server.play(json.dumps({"error": error}), status=429, headers={"content-type": "application/json"})
    assert _wait_asked_for(FORMATS["google-generative-ai"], server) == 13.0


def test_a_wait_of_days_is_not_waited_for(found: Format, server: SseServer) -> None:
    """T03"""
    found.refuse(server, 429, "come back later", retry_after="1382400")
    answer = found.ask(server)
    assert "1382400" in answer.error_message
    assert "60" in answer.error_message
    assert len(server.requests) == 1


def test_a_server_may_forbid_another_attempt(found: Format, server: SseServer) -> None:
    found.refuse(server, 503, "do not come back", x_should_retry="false")
    assert found.ask(server).stop_reason == "error"
    assert len(server.requests) == 1


def _wait_asked_for(found: Format, server: SseServer) -> float:
    """The first wait, which is not waited for."""
    cancel = CancelToken()
    delays: list[float] = []

    def on_retry(attempt: int, delay: float, text: str) -> None:
        delays.append(delay)
        cancel.cancel()

    answer = found.ask(server, cancel=cancel, on_retry=on_retry, retry=RetryPolicy(request=(0.25,)))
    assert answer.stop_reason == "aborted"
    return delays[0]


# --- rejected keys ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [401, 403])
def test_a_rejected_key_is_refreshed_once(found: Format, server: SseServer, status: int) -> None:
    asked: list[str] = []

    def refresh(provider: str) -> str:
        asked.append(provider)
        return "fresh-key-1"

    found.refuse(server, status, "the key has expired")
    found.greet(server)
    assert found.ask(server, refresh_api_key=refresh).text == "hello"
    assert asked == [found.model.provider]
    assert [r.headers[found.key_header] for r in server.requests] == [
        found.prefix + "key-123456",
        found.prefix + "fresh-key-1",
    ]


def test_a_second_rejection_is_final(found: Format, server: SseServer) -> None:
    asked: list[str] = []
    for _ in range(2):
        found.refuse(server, 401, "no such key")

    def refresh(provider: str) -> str:
        asked.append(provider)
        return f"key-number-{len(asked)}"

    answer = found.ask(server, refresh_api_key=refresh)
    assert "no such key" in answer.error_message
    assert (len(asked), len(server.requests)) == (1, 2)


@pytest.mark.parametrize("again", ["key-123456", "", None])
def test_without_another_key_the_request_is_not_made_again(
    found: Format, server: SseServer, again: str | None
) -> None:
    found.refuse(server, 401, "no such key")
    assert found.ask(server, refresh_api_key=lambda provider: again).stop_reason == "error"
    assert len(server.requests) == 1


def test_no_key_is_shown_in_an_error(found: Format, server: SseServer) -> None:
    found.refuse(server, 401, "Incorrect API key provided: key-123456")
    answer: AssistantMessage = found.ask(server)
    assert "key-123456" not in answer.error_message
    assert "***" in answer.error_message
