"""What a failure is, and whether and when to try again."""

from __future__ import annotations

from email.utils import formatdate
from typing import Any

import pytest

from agent.errors import ConfigurationError
from agent.messages import AssistantMessage
from agent.retry import (
    RetryPolicy,
    classify_error,
    is_context_overflow,
    is_final,
    is_overflow_text,
    is_rate_limit,
    is_resumable,
    is_retryable,
    is_transient_network,
    is_transient_server,
    retry_after_from_headers,
    retry_after_from_text,
)
from agent.usage import Usage

OVERFLOW_TEXTS = [
    "prompt is too long: 213462 tokens > 200000 maximum",
    "Input is too long for requested model.",
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "Your input exceeds the model's context window",
    "This request exceeds this model's context window",
    "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000",
    "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens",
    "Please reduce the length of the messages or completion.",
    "This endpoint's maximum context length is 8192 tokens. However, you requested about 9000.",
    "prompt token count of 150000 exceeds the limit of 128000",
    "the request exceeds the available context size, try increasing it",
    "tokens to keep from the initial prompt is greater than the context length",
    "invalid params, context window exceeds limit",
    "Your request exceeded model token limit: 262144",
    "The prompt is too large for model with 8192 maximum context length",
    "prompt too long; exceeded max context length by 4 tokens",
    "finish reason: model_context_window_exceeded",
    "context_length_exceeded",
    "too many tokens in the request",
    "token limit exceeded",
    "413 status code (no body)",
    "413 (no body)",
    "400 (no body)",
    "401 this model supports only 256K context",
    "prompt is too long: 503 tokens > 429 maximum",
]


def answer(stop_reason: str, error: str = "", **usage: int) -> AssistantMessage:
    return AssistantMessage((), stop_reason=stop_reason, error_message=error, usage=Usage(**usage))


class TestPolicy:
    def test_the_default_waits_are_those_of_the_documentation(self) -> None:
        policy = RetryPolicy()
        assert policy.auto_resume == (0.5, 1.5, 4.0)
        assert policy.mid_tool_call == (0.25, 0.75, 2.0)
        assert policy.side_query == (0.3, 1.0)
        assert policy.request == (0.5, 1.0, 2.0, 4.0)

    def test_a_list_of_waits_is_stored_as_a_tuple(self) -> None:
        assert RetryPolicy(request=[0, 1.5]).request == (0, 1.5)

    def test_no_waits_mean_no_retries(self) -> None:
        assert RetryPolicy(request=()).request == ()

    @pytest.mark.parametrize(
        "wrong", [(-1,), (float("nan"),), (float("inf"),), ("1",), 3, None, (True,), "12"]
    )
    def test_anything_but_waits_is_refused_by_name(self, wrong: Any) -> None:
        with pytest.raises(ConfigurationError, match="side_query"):
            RetryPolicy(side_query=wrong)


class TestTexts:
    @pytest.mark.parametrize(
        "text",
        [
            "HTTP 529",
            "429",
            "error (429): slow down",
            "Rate_Limit hit",
            "rate limit",
            "rate-limit",
            "rate_limit_error",
            "RESOURCE_EXHAUSTED: daily quota exceeded",
            "resource exhausted",
            "usage limit reached",
            "Too Many Requests",
            "model is overloaded",
            "overloaded_error",
            "Limit 30000 tokens per minute",
        ],
    )
    def test_a_rate_limit_is_recognised(self, text: str) -> None:
        assert is_rate_limit(text)

    @pytest.mark.parametrize(
        "text",
        [
            "500 Internal Server Error",
            "504 Gateway Timeout",
            "context deadline exceeded",
            "RESOURCE_EXHAUSTED",
            "529x",
            "error 1429",
            "_429",
            "4290",
            "",
        ],
    )
    def test_what_is_no_rate_limit_is_not_taken_for_one(self, text: str) -> None:
        assert not is_rate_limit(text)

    @pytest.mark.parametrize("text", ["500 internal server error", "502", "HTTP 503.", "504 Gateway Timeout"])
    def test_a_server_that_failed_for_the_moment_is_recognised(self, text: str) -> None:
        assert is_transient_server(text)

    @pytest.mark.parametrize(
        "text", ["500", "internal_server_error", "5020", "a503", "400", "401", "403", "404"]
    )
    def test_a_bare_500_and_client_errors_are_no_failing_server(self, text: str) -> None:
        assert not is_transient_server(text)

    @pytest.mark.parametrize(
        "text",
        [
            "read: connection reset by peer",
            "write: broken pipe",
            "dial tcp: connection refused",
            "connection timed out",
            "lookup x: no such host",
            "network is unreachable",
            "TLS handshake timeout",
            "read tcp: i/o timeout",
            "unexpected EOF",
            "stream error: stream ID 5; INTERNAL_ERROR",
            "http2: server sent GOAWAY and closed the connection",
            "use of closed network connection",
            'Post "https://api.example.com/v1": EOF',
            "EOF",
            "EOF \n",
        ],
    )
    def test_a_failed_connection_is_recognised_and_may_be_resumed(self, text: str) -> None:
        assert is_transient_network(text)
        assert is_resumable(text)
        assert is_retryable(text)

    @pytest.mark.parametrize(
        "text",
        [
            "context canceled",
            "context deadline exceeded",
            "stream error: x\nINTERNAL_ERROR",
            "a typeof",
            "EOF in the middle",
            "timed out",
            "Remote end closed connection without response",
        ],
    )
    def test_other_texts_are_no_failed_connection(self, text: str) -> None:
        assert not is_transient_network(text)

    @pytest.mark.parametrize(
        "text",
        ["Stream ended before message_stop", "stream ended without result", "the stream ended unexpectedly"],
    )
    def test_a_stream_that_ended_early_may_be_resumed(self, text: str) -> None:
        assert is_resumable(text)

    @pytest.mark.parametrize(
        "text", ["", "  ", "429 rate limit", "529 overloaded", "503 Service Unavailable", "400"]
    )
    def test_refusals_and_blank_texts_are_not_resumed(self, text: str) -> None:
        assert not is_resumable(text)

    @pytest.mark.parametrize(
        "text",
        [
            "429 Monthly usage limit reached. Resets in 16 days",
            "RESOURCE_EXHAUSTED: daily quota exceeded",
            '429 {"error": {"code": "insufficient_quota"}}',
            "You exceeded your current quota, please check your plan and billing details.",
            "Quota exceeded for metric: requests_per_day, retry in 30s",
        ],
    )
    def test_a_used_up_quota_is_final_although_it_speaks_of_a_limit(self, text: str) -> None:
        """T04"""
        assert is_final(text)
        assert not is_retryable(text)

    @pytest.mark.parametrize(
        "text",
        [
            "429 rate limit",
            "You exceeded your current quota.\nQuota exceeded for metric: requests, limit: 15. Retry in 34s.",
        ],
    )
    def test_a_limit_per_minute_is_not_final(self, text: str) -> None:
        assert not is_final(text)
        assert is_retryable(text)

    def test_patterns_look_at_ascii_letters_only(self) -> None:
        assert not is_rate_limit("too many reque\u017fts")


class TestDelays:
    @pytest.mark.parametrize(
        ("text", "seconds"),
        [
            ("reset after 18h31m10s", 66670),
            ("reset after 1h2m3.5s", 3723.5),
            ("RESET AFTER 2h0m0s", 7200),
            ("reset after 20s. Please retry in 5s", 20),
            ("reset after 0s. Please retry in 5s", 5),
            ("retry after 2000ms", 2),
            ("Retry in 1.5s", 1.5),
            ("Please retry in 34.07s.", 34.07),
            ('"RETRYDELAY": "10s"', 10),
            ('"retryDelay":"250ms"', 0.25),
            ("Please try again in 20s.", 20),
            ("Please try again in 86ms.", 0.086),
            ("Please try again in 6m0s.", 360),
            ("retry after 10 seconds", 0),
            ("reset after 5m", 0),
            ("Resets in 16 days", 0),
            ("", 0),
        ],
    )
    def test_a_delay_in_a_text_is_read_in_seconds(self, text: str, seconds: float) -> None:
        assert retry_after_from_text(text) == pytest.approx(seconds)

    @pytest.mark.parametrize(
        ("headers", "seconds"),
        [
            ({"Retry-After": "3"}, 3),
            ({"retry-after": " 1.5 "}, 1.5),
            ({"Retry-After-Ms": "250", "Retry-After": "9"}, 0.25),
            ({"Retry-After": formatdate(1_000_030, usegmt=True)}, 30),
            ({"Retry-After": formatdate(999_000, usegmt=True)}, 0),
            ({"X-RateLimit-Reset": "1000012"}, 12),
            ({"X-RateLimit-Reset-After": "7"}, 7),
            ({"Retry-After": "0", "x-ratelimit-reset-after": "7"}, 7),
            ({"Retry-After": "-4"}, 0),
            ({"Retry-After": "soon"}, 0),
            ({"Retry-After": "nan"}, 0),
            ({"Retry-After": "inf"}, 0),
            ({}, 0),
        ],
    )
    def test_a_delay_in_the_headers_is_read_in_seconds(self, headers: dict[str, str], seconds: float) -> None:
        assert retry_after_from_headers(headers, now=1_000_000) == pytest.approx(seconds)

    def test_a_reset_time_in_milliseconds_is_understood(self) -> None:
        reset = {"X-RateLimit-Reset": "1741305600000"}
        assert retry_after_from_headers(reset, now=1_741_305_590) == pytest.approx(10)

    def test_without_a_clock_a_date_is_measured_from_the_responses_own_date(self) -> None:
        headers = {
            "Date": formatdate(1_000_000, usegmt=True),
            "Retry-After": formatdate(1_000_045, usegmt=True),
        }
        assert retry_after_from_headers(headers) == 45


class TestClassify:
    @pytest.mark.parametrize(
        ("status", "text", "kind", "retryable"),
        [
            (429, "slow down", "rate_limit", True),
            (429, "maximum context length is 8192 tokens", "rate_limit", True),
            (429, "Monthly usage limit reached", "quota", False),
            (529, "x", "overloaded", True),
            (503, "the model is overloaded", "overloaded", True),
            (500, "oops", "server", True),
            (502, "maximum context length is 8192 tokens", "server", True),
            (408, "", "server", True),
            (409, "", "server", True),
            (401, "bad key", "auth", False),
            (403, "no", "auth", False),
            (401, "this model supports only 256K context", "context_overflow", False),
            (400, "prompt is too long: 5 > 4", "context_overflow", False),
            (413, "request_too_large: Request exceeds the maximum size", "request_too_large", False),
            (413, "413 Payload Too Large", "request_too_large", False),
            (413, "413 (no body)", "context_overflow", False),
            (400, "image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes", "request_too_large", False),
            (400, "messages.429.content: invalid", "invalid", False),
            (404, "no such model", "invalid", False),
            (422, "", "invalid", False),
            (None, "connection reset by peer: x", "network", True),
            (None, "overloaded_error: Overloaded", "overloaded", True),
            (None, "429 Too Many Requests", "rate_limit", True),
            (None, "429 maximum context length is 8192 tokens", "rate_limit", True),
            (None, "Internal server error", "server", True),
            (None, "prompt is too long", "context_overflow", False),
            (None, "Request was aborted", "aborted", False),
            (None, "authentication_error: invalid x-api-key", "auth", False),
            (None, "400 bad request", "invalid", False),
            (None, "insufficient_quota", "quota", False),
            (None, "tls certificate rejected: certificate verify failed", "unknown", False),
            (None, "", "unknown", False),
            (200, "Overloaded", "overloaded", True),
        ],
    )
    def test_each_failure_has_its_kind(
        self, status: int | None, text: str, kind: str, retryable: bool
    ) -> None:
        """U09, U10, U11"""
        found = classify_error(status, None, text)
        assert (found.kind, found.retryable) == (kind, retryable)

    def test_the_delay_of_the_headers_beats_that_of_the_text(self) -> None:
        assert classify_error(429, {"Retry-After": "5"}, "try again in 1s").retry_after == 5
        assert classify_error(429, {}, "try again in 1s").retry_after == 1

    @pytest.mark.parametrize(("status", "wish", "retryable"), [(400, "true", True), (503, "false", False)])
    def test_the_server_may_decide_about_a_retry(self, status: int, wish: str, retryable: bool) -> None:
        assert classify_error(status, {"X-Should-Retry": wish}, "").retryable is retryable

    def test_no_header_makes_a_used_up_quota_worth_a_retry(self) -> None:
        assert not classify_error(429, {"x-should-retry": "true"}, "insufficient_quota").retryable

    def test_it_is_offered_by_the_package_of_the_providers(self) -> None:
        from agent import providers

        assert providers.classify_error is classify_error
        assert providers.ErrorClass.__name__ == "ErrorClass"


class TestOverflow:
    @pytest.mark.parametrize("text", OVERFLOW_TEXTS)
    def test_every_known_wording_is_recognised(self, text: str) -> None:
        """U06, U08, U09"""
        assert is_overflow_text(text)
        assert is_context_overflow(answer("error", text))

    @pytest.mark.parametrize(
        "text",
        [
            "429 status code (no body)",
            "429 maximum context length is 8192 tokens",
            "503 maximum context length is 8192 tokens",
            "Throttling error: too many tokens, please wait",
            "Service unavailable: too many tokens",
            "rate limit: too many tokens",
            "image exceeds 5 MB maximum: 6291456 bytes",
            "413 request_too_large: Request exceeds the maximum size",
            "image exceeds the limit of 5242880 bytes",
            "400 bad request",
            "",
        ],
    )
    def test_limits_of_another_kind_are_no_overflow(self, text: str) -> None:
        """U10, U11"""
        assert not is_context_overflow(answer("error", text))

    def test_more_input_than_the_window_is_a_silent_overflow(self) -> None:
        assert is_context_overflow(answer("stop", input=150_000, cache_read=10_000), 128_000)
        assert not is_context_overflow(answer("stop", input=128_000), 128_000)
        assert not is_context_overflow(answer("stop", input=160_000))

    def test_a_full_window_without_output_is_an_overflow(self) -> None:
        assert is_context_overflow(answer("length", input=128_000), 128_000)
        assert is_context_overflow(answer("length", input=126_720), 128_000)
        assert not is_context_overflow(answer("length", input=126_719), 128_000)
        assert not is_context_overflow(answer("length", input=128_000, output=50), 128_000)

    def test_no_message_is_no_overflow(self) -> None:
        assert not is_context_overflow(None, 128_000)
