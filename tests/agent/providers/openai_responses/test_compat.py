"""What is detected of a server that supports the Responses format."""

from __future__ import annotations

import pytest

from agent.errors import ConfigurationError
from agent.models import Model
from agent.providers.openai_responses.compat import Compat, compat_for


def at(provider: str, base_url: str = "http://host", id: str = "gpt-5", **compat: object) -> Compat:
    return compat_for(Model(id, "openai-responses", provider, base_url, compat=compat or None))


@pytest.mark.parametrize(
    ("provider", "base_url", "long_cache", "schema"),
    [
        ("openai", "", True, True),
        ("mine", "https://api.openai.com/v1", True, True),
        ("azure", "https://x.openai.azure.com", False, True),
        ("mine", "http://host", False, False),
        ("mine", "https://api.openai.com.evil.org", False, False),
    ],
)
def test_openai_is_detected_by_its_name_or_host(
    provider: str, base_url: str, long_cache: bool, schema: bool
) -> None:
    compat = at(provider, base_url)
    assert compat.supports_long_cache_retention == long_cache
    assert compat.supports_json_schema == schema


def test_a_model_that_refuses_schemas_is_known() -> None:
    assert not at("openai", id="gpt-4").supports_json_schema


def test_a_flag_of_the_model_is_stronger() -> None:
    assert at("mine", serviceTier="flex").service_tier == "flex"
    with pytest.raises(ConfigurationError, match="service_tier"):
        at("mine", service_tier="cheap")
