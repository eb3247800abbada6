"""The flags of servers with the Chat Completions format, and how a model overrides them."""

from __future__ import annotations

from dataclasses import fields

import pytest

from agent.errors import ConfigurationError
from agent.models import Model, get_model
from agent.providers.openai_completions.compat import Compat, compat_for


def at(provider: str = "mine", base_url: str = "http://host/v1", **more: object) -> Compat:
    return compat_for(Model(more.pop("id", "m"), "openai-completions", provider, base_url, **more))  # type: ignore[arg-type]


def test_openai_gets_its_own_fields_also_behind_a_proxy() -> None:
    for model in (
        get_model("openai/gpt-5"),
        Model("gpt-5", "openai-completions", "openai", "http://127.0.0.1:1"),
    ):
        compat = compat_for(model)
        assert compat.supports_store
        assert compat.supports_developer_role
        assert compat.supports_prompt_cache_key
        assert compat.max_tokens_field == "max_completion_tokens"


@pytest.mark.parametrize("base_url", ["https://api.openai.com/v1", "https://x.openai.azure.com/openai/v1"])
def test_openais_hosts_are_known_under_any_name(base_url: str) -> None:
    assert at("mine", base_url).supports_developer_role


@pytest.mark.parametrize(
    ("provider", "base_url"),
    [
        ("cerebras", "https://api.cerebras.ai/v1"), ("xai", ""), ("mine", "https://api.x.ai/v1"),
        ("mine", "https://llm.chutes.ai/v1"), ("deepseek", ""), ("mine", "https://api.z.ai/api/paas/v4"),
        ("opencode", "https://opencode.ai/zen/v1"), ("poe", "https://api.poe.com/v1"),
        ("moonshotai", "https://api.moonshot.ai/v1"), ("local", ""), ("mine", "http://127.0.0.1:9"),
        ("mine", "https://gateway.ai.cloudflare.com/v1/a/b/compat"),
    ],
)  # fmt: skip
def test_other_servers_get_no_fields_only_openai_knows(provider: str, base_url: str) -> None:
    compat = at(provider, base_url or "http://host")
    assert not compat.supports_store
    assert not compat.supports_developer_role
    assert not compat.supports_prompt_cache_key


@pytest.mark.parametrize(
    "base_url",
    [
        "https://llm.chutes.ai/v1",
        "https://api.moonshot.ai/v1",
        "https://gateway.ai.cloudflare.com/v1/a/b/compat",
    ],
)
def test_servers_that_know_the_old_limit_only(base_url: str) -> None:
    assert at("mine", base_url).max_tokens_field == "max_tokens"


@pytest.mark.parametrize("name", ["xai", "zai", "moonshot", "cloudflare-ai-gateway"])
def test_servers_without_effort(name: str) -> None:
    assert not at(name).supports_reasoning_effort
    assert at("mine").supports_reasoning_effort


@pytest.mark.parametrize("name", ["moonshot", "cloudflare-ai-gateway"])
def test_servers_without_strict(name: str) -> None:
    assert not at(name).supports_strict_mode
    assert at("mine").supports_strict_mode


def test_cloudflare_keeps_no_long_cache() -> None:
    assert not at("cloudflare-workers-ai").supports_long_cache_retention
    assert at("mine").supports_long_cache_retention


def test_thinking_formats_by_server() -> None:
    assert at("openrouter").thinking_format == "openrouter"
    assert at("zai").thinking_format == "zai"
    assert at("deepseek").thinking_format == "deepseek"
    assert at("mine").thinking_format == "openai"


def test_claude_through_openrouter_gets_cache_marks() -> None:
    assert at("openrouter", id="anthropic/claude-sonnet-4.5").cache_control_format == "anthropic"
    assert at("openrouter", id="openai/gpt-5").cache_control_format == ""


def test_a_part_of_a_host_name_is_looked_for_in_the_host_only() -> None:
    assert at("mine", "http://host/proxy/api.x.ai/v1").supports_reasoning_effort
    assert at("mine", "http://xai.internal/v1").supports_reasoning_effort


def test_deepseeks_reasoning_models_want_their_reasoning_back() -> None:
    name = "requires_reasoning_content_on_assistant_messages"
    assert getattr(at("deepseek", reasoning=True), name) is True
    assert getattr(at("deepseek"), name) is None


def test_one_flag_is_overridden_in_snake_case_or_camel_case() -> None:
    compat = at("openai", compat={"supportsStore": False, "max_tokens_field": "max_tokens"})
    assert not compat.supports_store
    assert compat.max_tokens_field == "max_tokens"
    assert compat.supports_developer_role


def test_every_flag_can_be_written_in_camel_case() -> None:
    for flag in fields(Compat):
        head, *tail = flag.name.split("_")
        camel = head + "".join(word.capitalize() for word in tail)
        default = getattr(at("mine"), flag.name)
        assert getattr(at("mine", compat={camel: default}), flag.name) == default


def test_an_unknown_flag_names_near_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"'supportStore'.*supports_store"):
        at(compat={"supportStore": True})
    with pytest.raises(ConfigurationError, match="known flags: supports_store"):
        at(compat={"zzz": True})


def test_a_value_a_flag_cannot_have_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'thinkingFormat' must be one of 'openai', .*'zia'"):
        at(compat={"thinkingFormat": "zia"})
