"""What a model is, and finding one by name."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest

from agent.errors import ConfigurationError, UnknownModelError
from agent.model_list import model_list
from agent.models import PROVIDERS, Model, get_model, known_models, resolve_model
from agent.thinking import THINKING_LADDER
from agent.usage import ModelCost

FIELDS = (
    "id api provider base_url name reasoning input context_window max_tokens cost "
    "thinking_levels headers compat"
)
FORMATS = {"openai-completions", "openai-responses", "anthropic-messages", "google-generative-ai"}


def test_the_positions_of_the_arguments_are_the_pinned_ones() -> None:
    assert list(inspect.signature(Model).parameters) == FIELDS.split()
    model = Model("m", "openai-completions", "openai")
    shown = [getattr(model, name) for name in FIELDS.split()[3:]]
    assert shown == ["", "", False, ("text",), 128_000, 8_192, None, None, {}, None]


def test_lists_are_kept_as_tuples() -> None:
    model = Model("m", "a", "p", input=["text", "image"], thinking_levels=["off"])  # type: ignore[arg-type]
    assert model.input == ("text", "image")
    assert model.thinking_levels == ("off",)
    assert Model("m", "a", "p", input="text").input == ("text",)  # type: ignore[arg-type]


def test_a_model_is_a_value_that_can_be_copied_pickled_and_hashed() -> None:
    model = Model("m", "a", "p", headers={"x": "y"}, compat={"flag": True}, cost=ModelCost(1, 2))
    assert model == copy.deepcopy(model) == pickle.loads(pickle.dumps(model))
    assert len({model, copy.deepcopy(model)}) == 1
    with pytest.raises(AttributeError):
        model.id = "other"  # type: ignore[misc]


def test_two_models_do_not_share_their_headers() -> None:
    assert Model("m", "a", "p").headers is not Model("m", "a", "p").headers


@pytest.mark.parametrize(
    ("model", "levels"),
    [
        (Model("m", "a", "p"), ["off"]),
        (Model("m", "a", "p", reasoning=True), ["off", "minimal", "low", "medium", "high"]),
        (Model("m", "a", "p", reasoning=True, thinking_levels=("low", "max")), ["low", "max"]),
        (Model("m", "a", "p", thinking_levels=()), []),
    ],
)
def test_the_levels_follow_from_reasoning_unless_they_are_listed(model: Model, levels: list[str]) -> None:
    assert list(model.available_thinking_levels) == levels


def test_a_model_supports_images_when_its_input_lists_them() -> None:
    assert Model("m", "a", "p", input=("text", "image")).supports_images
    assert not Model("m", "a", "p").supports_images


def test_a_listed_model_is_found_with_all_that_is_known_of_it() -> None:
    model = get_model("anthropic/claude-sonnet-4-5")
    assert (model.id, model.api, model.provider) == ("claude-sonnet-4-5", "anthropic-messages", "anthropic")
    assert model.reasoning
    assert model.supports_images
    assert model.cost == ModelCost(3.0, 15.0, 0.3, 3.75, 6.0)
    assert model.base_url == ""


def test_the_price_of_long_prompts_is_known() -> None:
    cost = get_model("google/gemini-2.5-pro").cost
    assert cost is not None
    assert cost.tiers == ((200_000, ModelCost(2.5, 15.0, 0.25)),)
    assert cost.cache_write is None


@pytest.mark.parametrize("provider", [name for name, entry in PROVIDERS.items() if entry.any_id])
def test_providers_with_an_open_set_of_ids_take_any(provider: str) -> None:
    model = get_model(f"{provider}/some/model:7b")
    assert (model.id, model.provider, model.cost) == ("some/model:7b", provider, None)
    assert model.api == PROVIDERS[provider].api


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("anthropic/claude-sonnet-4.5", "anthropic/claude-sonnet-4-5"),
        ("claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"),
        ("openai/gpt5", "openai/gpt-5"),
        ("gpt-4o-mini", "openai/gpt-4o-mini"),
        ("google/gemini-flash", "google/gemini-"),
        ("openai/", "openai/"),
    ],
)
def test_an_unknown_id_is_refused_with_near_ones(name: str, near: str) -> None:
    with pytest.raises(UnknownModelError, match=f"Did you mean.*{near}") as caught:
        get_model(name)
    assert repr(name) in str(caught.value)
    assert isinstance(caught.value, ConfigurationError)


@pytest.mark.parametrize("name", ["", "/", "zzz", "openrouter", "openrouter/"])
def test_a_malformed_name_is_refused(name: str) -> None:
    with pytest.raises(UnknownModelError, match="provider/id"):
        get_model(name)


def test_an_unknown_provider_is_named_with_the_known_ones() -> None:
    with pytest.raises(UnknownModelError, match=r"unknown provider 'nope' of model 'nope/x'.*openai.*ollama"):
        get_model("nope/x")


def test_every_listed_model_is_whole() -> None:
    assert len(known_models()) > 50
    for name, model in known_models().items():
        assert get_model(name) is model
        assert name == f"{model.provider}/{model.id}"
        assert model.api in FORMATS
        assert 0 < model.max_tokens <= model.context_window
        assert model.available_thinking_levels
        assert set(model.available_thinking_levels) <= set(THINKING_LADDER)


def test_the_model_list_says_where_it_comes_from() -> None:
    _, source, date = model_list()
    assert source
    assert date[:2] == "20"


def test_every_default_model_can_be_had() -> None:
    for provider, entry in PROVIDERS.items():
        if entry.default_model:
            assert get_model(f"{provider}/{entry.default_model}").id == entry.default_model


def test_a_model_is_taken_as_such_or_by_name_and_nothing_else_is() -> None:
    model = Model("m", "a", "p")
    assert resolve_model(model) is model
    assert resolve_model("openai/gpt-4o").id == "gpt-4o"  # type: ignore[union-attr]
    assert resolve_model(None) is None
    with pytest.raises(ConfigurationError, match="model must be a Model"):
        resolve_model(5)  # type: ignore[arg-type]
