"""The URL of a request."""

from __future__ import annotations

import pytest

from agent.errors import ConfigurationError
from agent.models import Model
from agent.providers.endpoint import endpoint

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
