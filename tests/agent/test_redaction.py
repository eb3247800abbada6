"""Keys and tokens taken out of texts."""

from __future__ import annotations

import pytest

from agent.redaction import redacted, without_keys


def test_known_secrets_are_replaced_the_longest_first() -> None:
    assert redacted("a secret-long and secret", ["secret", "secret-long"]) == "a *** and ***"


def test_short_secrets_are_left_alone() -> None:
    assert redacted("x and max", ["x", ""]) == "x and max"


@pytest.mark.parametrize(
    "text",
    [
        "the vault is locked",
        "[Errno 2] No such file or directory: '/run/secrets/openai_api_key'",
        "2026-12-01T03:04:05 timeout after 30.5 seconds",
        "internationalization-of-everything is not installed",
        "HTTPConnectionPool(host='vault.internal.example.com', port=8200): Max retries exceeded",
        "AccessDeniedException: not authorized to perform GetSecretValue",
    ],
)
def test_ordinary_texts_stay_as_they_are(text: str) -> None:
    assert without_keys(text) == text


@pytest.mark.parametrize(
    "around", ["{}", "key={}", "'{}'", "Bearer {}", "({}, expired)", "https://h/?key={}&a=1"]
)
@pytest.mark.parametrize(
    "key", ["sk-proj-AbCdEf123456", "gsk_abcdefgh1234", "hf_AbCdEfGhIjKl", "ghp_0123456789abcdef"]
)
def test_what_looks_like_a_key_is_replaced(around: str, key: str) -> None:
    assert without_keys(around.format(key)) == around.format("***")


def test_a_known_secret_of_any_look_is_replaced() -> None:
    assert without_keys("the word is swordfish", ["swordfish"]) == "the word is ***"
