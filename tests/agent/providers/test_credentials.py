"""The API key of a request."""

from __future__ import annotations

import pytest

from agent.errors import ConfigurationError
from agent.models import Model
from agent.providers.credentials import api_key, rejected_key_text
from agent.stream import StreamOptions


def model(provider: str = "openai", base_url: str = "") -> Model:
    return Model("m", "openai-completions", provider, base_url)


def test_the_key_of_the_options_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "from-environment")
    assert api_key(model(), StreamOptions(api_key="given")) == "given"
    assert api_key(model(), StreamOptions()) == "from-environment"


def test_the_first_variable_that_is_set_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", " ")
    monkeypatch.setenv("GOOGLE_API_KEY", "second")
    assert api_key(model("google"), StreamOptions()) == "second"


def test_a_missing_key_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigurationError, match=r'no API key for provider "openai": set OPENAI_API_KEY'):
        api_key(model(base_url="http://host"), StreamOptions())


def test_the_reason_for_a_missing_key_is_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "unused")
    with pytest.raises(ConfigurationError, match=r'no API key for provider "openai": the vault is locked'):
        api_key(model(), StreamOptions(api_key_error="the vault is locked"))


@pytest.mark.parametrize("provider", ["ollama", "local", "vllm", "llamacpp"])
def test_local_servers_need_no_key(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(f"{provider.upper()}_API_KEY", raising=False)
    assert api_key(model(provider), StreamOptions()) == ""


def test_a_server_of_ones_own_may_have_a_key_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = model("my-lab", "http://host")
    monkeypatch.delenv("MY_LAB_API_KEY", raising=False)
    assert api_key(mine, StreamOptions()) == ""
    monkeypatch.setenv("MY_LAB_API_KEY", "k")
    assert api_key(mine, StreamOptions()) == "k"


@pytest.mark.parametrize(
    ("key", "is_given", "text"),
    [
        ("sk-1", False, "api.openai.com rejected the key in OPENAI_API_KEY"),
        ("sk-1", True, "api.openai.com rejected the API key that the program gave"),
        ("", False, "api.openai.com wants a key, and none was sent: set OPENAI_API_KEY"),
    ],
)
def test_a_rejected_key_is_named_with_its_host(
    key: str, is_given: bool, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N17"""
    monkeypatch.setenv("OPENAI_API_KEY", key)
    assert rejected_key_text(model(), is_given=is_given, url="https://u:p@api.openai.com/v1") == text
