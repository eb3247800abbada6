"""The flags of servers with Anthropic's format, and how a model overrides them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from support.messages import API

from agent.errors import ConfigurationError
from agent.models import Model, get_model, known_models
from agent.providers.anthropic_messages.compat import Compat, compat_for


def at(provider: str = "mine", base_url: str = "http://host/v1", **more: Any) -> Compat:
    return compat_for(Model("m", API, provider, base_url, **more))


def test_anthropics_own_host_streams_each_tool_and_keeps_caches_long() -> None:
    for compat in (at("anthropic", ""), at("mine", "https://API.anthropic.com/v1")):
        assert compat.tool_streaming == "eager"
        assert compat.supports_long_cache_retention


def test_another_host_gets_the_beta_and_short_caches_under_any_name() -> None:
    for compat in (at(), at("anthropic", "http://127.0.0.1:1")):
        assert compat.tool_streaming == "beta"
        assert not compat.supports_long_cache_retention
        assert not compat.bearer_auth


def test_poe_takes_a_bearer_and_no_betas() -> None:
    for compat in (at("poe"), at("mine", "https://api.poe.com")):
        assert compat.bearer_auth
        assert not compat.supports_betas


def test_copilot_takes_a_bearer_and_streams_no_arguments() -> None:
    for compat in (at("github-copilot"), at("mine", "https://api.individual.githubcopilot.com")):
        assert compat.bearer_auth
        assert compat.supports_betas
        assert compat.tool_streaming == ""


def test_the_model_list_says_how_claude_thinks() -> None:
    adaptive = {id: compat_for(get_model(f"anthropic/{id}")).adaptive_thinking for id in (
        "claude-haiku-4-5", "claude-opus-4-6", "claude-opus-5-5",
    )}  # fmt: skip
    assert adaptive == {"claude-haiku-4-5": "", "claude-opus-4-6": "optional", "claude-opus-5-5": "always"}


def test_every_claude_of_the_model_list_has_valid_flags() -> None:
    for name, model in known_models().items():
        if model.api == API:
            compat = compat_for(model)
            always = compat.adaptive_thinking == "always"
            assert always == ("off" not in model.available_thinking_levels), name


@pytest.mark.parametrize(("id", "takes_it"), [("claude-opus-4-6", True), ("claude-opus-4-7", False)])
def test_newer_models_take_no_temperature(id: str, takes_it: bool) -> None:
    assert compat_for(get_model(f"anthropic/{id}")).supports_temperature == takes_it


def test_every_flag_can_be_written_in_camel_case() -> None:
    for flag in fields(Compat):
        head, *tail = flag.name.split("_")
        camel = head + "".join(word.capitalize() for word in tail)
        default = getattr(at(), flag.name)
        assert getattr(at(compat={camel: default}), flag.name) == default


def test_an_unknown_flag_names_near_ones() -> None:
    with pytest.raises(
        ConfigurationError, match=r"'adaptiveThinkin' for anthropic-messages.*adaptive_thinking"
    ):
        at(compat={"adaptiveThinkin": "always"})


def test_a_value_a_flag_cannot_have_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'adaptive_thinking' must be one of .*True"):
        at(compat={"adaptive_thinking": True})
