"""The thinking fields for Gemini models, by version, kind and level."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.gemini import GEMINI_2, GEMINI_3, request

from agent.errors import ConfigurationError
from agent.models import Model, known_models
from agent.providers.google_generative_ai.compat import compat_for, version_of


def asked_for(id: str, level: str, **more: Any) -> dict[str, Any]:
    """What the request says about thinking."""
    model = replace(GEMINI_3, id=id, thinking_levels=more.pop("thinking_levels", None))
    found: dict[str, Any] = request(model=model, reasoning=level, **more)["generationConfig"][
        "thinkingConfig"
    ]
    return found


@pytest.mark.parametrize(
    ("id", "version"),
    [
        ("gemini-2.5-pro", (2, 5)),
        ("gemini-3-flash-preview", (3, 0)),
        ("gemini-3.1-pro-preview-customtools", (3, 1)),
        ("models/gemini-3.8-flash", (3, 8)),
        ("gemini-4-argon", (4, 0)),
        ("gemini-12.10-pro", (12, 10)),
        ("gemini-2.0-flash-001", (2, 0)),
        ("gemini-2.5.1-pro", (2, 5)),
        ("gemini-exp-1206", (0, 0)),
        ("gemini-1206", (0, 0)),
        ("learnlm-1.5-pro-experimental", (0, 0)),
        ("m", (0, 0)),
    ],
)
def test_the_version_is_in_the_id(id: str, version: tuple[int, int]) -> None:
    assert version_of(id) == version


@pytest.mark.parametrize("id", ["gemini-pro-latest", "gemini-flash-latest", "gemini-flash-lite-latest"])
def test_an_alias_of_the_newest_is_newer_than_all(id: str) -> None:
    assert version_of(id) > (4, 0)
    assert compat_for(replace(GEMINI_3, id=id)).thinking_format == "level"


@pytest.mark.parametrize(
    ("id", "levels"),
    [
        ("gemini-3-pro-preview", ("LOW", "LOW", "HIGH", "HIGH", "HIGH")),
        ("gemini-3.1-pro-preview", ("LOW", "LOW", "MEDIUM", "HIGH", "HIGH")),
        ("gemini-3-flash-preview", ("MINIMAL", "LOW", "MEDIUM", "HIGH", "HIGH")),
        ("gemini-3.6-flash", ("MINIMAL", "LOW", "MEDIUM", "HIGH", "HIGH")),
        ("gemini-3.8-flash", ("LOW", "LOW", "MEDIUM", "HIGH", "HIGH")),
        ("gemini-3.7-flash", ("LOW", "LOW", "MEDIUM", "HIGH", "HIGH")),
        ("gemini-flash-lite-latest", ("MINIMAL", "LOW", "MEDIUM", "HIGH", "HIGH")),
        ("gemini-3.5-flash-lite", ("MINIMAL", "LOW", "MEDIUM", "HIGH", "HIGH")),
        ("gemini-4-argon", ("LOW", "LOW", "MEDIUM", "HIGH", "HIGH")),
        ("gemini-pro-latest", ("LOW", "LOW", "MEDIUM", "HIGH", "HIGH")),
    ],
)
def test_the_third_generation_and_later_think_at_a_level(id: str, levels: tuple[str, ...]) -> None:
    for level, expected in zip(("minimal", "low", "medium", "high", "max"), levels, strict=True):
        assert asked_for(id, level) == {"includeThoughts": True, "thinkingLevel": expected}


@pytest.mark.parametrize("level", ["xhigh", "max"])
def test_the_highest_level_is_asked_of_models_that_list_it(level: str) -> None:
    listed = ("off", "low", "medium", "high", "xhigh")
    assert asked_for("gemini-4-hydrogen", level, thinking_levels=listed)["thinkingLevel"] == "XHIGH"
    assert asked_for("gemini-4-hydrogen", level)["thinkingLevel"] == "HIGH"


@pytest.mark.parametrize(
    ("id", "budgets"),
    [
        ("gemini-2.5-pro", (128, 2048, 8192, 32768, 32768)),
        ("gemini-2.5-flash", (128, 2048, 8192, 24576, 24576)),
        ("gemini-2.5-flash-lite", (512, 2048, 8192, 24576, 24576)),
        ("gemini-2.0-flash-thinking-exp", (-1, -1, -1, -1, -1)),
        ("my-own", (-1, -1, -1, -1, -1)),
    ],
)
def test_earlier_models_think_within_a_budget(id: str, budgets: tuple[int, ...]) -> None:
    for level, expected in zip(("minimal", "low", "medium", "high", "xhigh"), budgets, strict=True):
        assert asked_for(id, level) == {"includeThoughts": True, "thinkingBudget": expected}


@pytest.mark.parametrize("level", ["", "off"])
@pytest.mark.parametrize(
    ("id", "least"),
    [
        ("gemini-2.5-flash", {"thinkingBudget": 0}),
        ("gemini-2.5-flash-lite", {"thinkingBudget": 0}),
        ("gemini-2.5-pro", {"thinkingBudget": 128}),
        ("my-own", {"thinkingBudget": 0}),
        ("gemini-3-flash-preview", {"thinkingLevel": "MINIMAL"}),
        ("gemini-3-pro-preview", {"thinkingLevel": "LOW"}),
        ("gemini-3.8-flash", {"thinkingLevel": "LOW"}),
    ],
)
def test_off_is_as_little_as_the_model_can_and_no_thoughts(
    level: str, id: str, least: dict[str, Any]
) -> None:
    assert asked_for(id, level) == least


def test_a_model_that_does_not_reason_is_not_asked_to() -> None:
    assert "generationConfig" not in request(model=replace(GEMINI_3, reasoning=False), reasoning="high")
    never = replace(GEMINI_3, compat={"thinkingFormat": "none"})
    assert "generationConfig" not in request(model=never, reasoning="high")


@pytest.mark.parametrize("level", ["high", "xhigh", "max"])
def test_the_callers_own_budget_wins(level: str) -> None:
    assert asked_for("gemini-2.5-flash", level, thinking_budgets={"high": 777})["thinkingBudget"] == 777


def test_a_format_can_be_set() -> None:
    compat = {"thinkingFormat": "level"}
    body = request(model=replace(GEMINI_2, id="my-proxy", compat=compat), reasoning="medium")
    assert body["generationConfig"]["thinkingConfig"]["thinkingLevel"] == "MEDIUM"
    with pytest.raises(ConfigurationError, match="one of 'level', 'budget', 'none'"):
        request(model=replace(GEMINI_2, compat={"thinking_format": "effort"}))


# --- together with the limit ---


def limits(model: Model, **more: Any) -> tuple[Any, Any]:
    found = request(model=model, **more)["generationConfig"]
    return found.get("maxOutputTokens"), found["thinkingConfig"].get("thinkingBudget")


def test_a_budget_is_added_to_what_the_caller_leaves_for_the_answer() -> None:
    model = replace(GEMINI_2, max_tokens=65_536)
    assert limits(model, reasoning="medium", max_tokens=1000) == (9192, 8192)
    assert limits(model, reasoning="high", max_tokens=60_000) == (65_536, 24_576)
    assert limits(model, reasoning="medium") == (65_536, 8192)
    assert limits(model, reasoning="off", max_tokens=1000) == (1000, 0)
    assert limits(GEMINI_2, reasoning="medium") == (None, 8192)


def test_a_budget_leaves_the_answer_its_share_of_a_small_model() -> None:
    assert limits(replace(GEMINI_2, max_tokens=4096), reasoning="high", max_tokens=1000) == (4096, 3072)


def test_a_level_leaves_the_limit_as_it_is() -> None:
    assert limits(GEMINI_3, reasoning="high", max_tokens=1000) == (1000, None)


# --- every model of the list ---

GOOGLES = [model for model in known_models().values() if model.provider == "google"]


@pytest.mark.parametrize("model", GOOGLES, ids=lambda model: model.id)
def test_every_level_a_listed_model_offers_is_one_its_family_takes(model: Model) -> None:
    compat = compat_for(model)
    assert compat.thinking_format == ("level" if version_of(model.id) >= (3, 0) else "budget")
    for level in model.available_thinking_levels:
        config = request(model=model, reasoning=level).get("generationConfig", {}).get("thinkingConfig", {})
        assert len(config.keys() - {"includeThoughts"}) == model.reasoning
        if config.get("thinkingLevel") == "MINIMAL":
            assert "flash" in model.id
