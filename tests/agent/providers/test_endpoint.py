"""Where a request goes and with which key."""

from __future__ import annotations

import pytest

from agent.errors import ConfigurationError
from agent.models import Model
from agent.providers.credentials import api_key
from agent.providers.endpoint import endpoint
from agent.stream import StreamOptions

PATH = "/chat/completions"


def model(provider: str = "openai", base_url: str = "") -> Model:
    return Model("m", "openai-completions", provider, base_url)


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("http://host:1", "http://host:1/v1/chat/completions"),
        ("http://host:1/", "http://host:1/v1/chat/completions"),
        ("http://host:1/v1", "http://host:1/v1/chat/completions"),
        ("http://host:1/v1/", "http://host:1/v1/chat/completions"),
        ("https://host/api/v1", "https://host/api/v1/chat/completions"),
        ("https://host/openai/v1", "https://host/openai/v1/chat/completions"),
        ("https://host/v1beta", "https://host/v1beta/chat/completions"),
        ("https://host/api/paas/v4", "https://host/api/paas/v4/chat/completions"),
        ("https://host/v1/chat/completions", "https://host/v1/chat/completions"),
        ("https://host/x/chat/completions?api-version=1", "https://host/x/chat/completions?api-version=1"),
        ("https://host/v1?key=2", "https://host/v1/chat/completions?key=2"),
        ("https://host/v1beta/openai/", "https://host/v1beta/openai/chat/completions"),
        ("https://host/v1/account/gate/compat", "https://host/v1/account/gate/compat/chat/completions"),
        ("https://host/v1/account/other", "https://host/v1/account/other/v1/chat/completions"),
        ("https://host/openai", "https://host/openai/v1/chat/completions"),
        ("localhost:8080", "http://localhost:8080/v1/chat/completions"),
        ("", "https://api.openai.com/v1/chat/completions"),
    ],
)
def test_the_version_is_added_once(base: str, url: str) -> None:
    assert endpoint(model(base_url=base), PATH) == url


def test_a_model_of_an_unknown_provider_needs_a_base_url() -> None:
    with pytest.raises(ConfigurationError, match="no base_url"):
        endpoint(model("mine"), PATH)


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
