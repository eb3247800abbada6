"""The ladder of thinking levels, the clamp and the budgets."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.thinking import (
    DEFAULT_BUDGETS,
    THINKING_LADDER,
    budget_for_level,
    clamp_thinking_level,
    fit_thinking_budget,
    is_canonical_thinking_level,
)


def test_the_ladder_goes_from_max_to_off() -> None:
    assert THINKING_LADDER == ("max", "xhigh", "high", "medium", "low", "minimal", "off")


@pytest.mark.parametrize(
    ("requested", "available", "level"),
    [
        ("max", ["off", "minimal", "low", "medium", "high"], "high"),
        ("max", ["off", "high", "xhigh"], "xhigh"),
        ("xhigh", ["off", "low", "medium", "high"], "high"),
        ("high", ["off"], "off"),
        ("medium", ["off", "low"], "low"),
        ("minimal", ["off"], "off"),
        ("high", ["max"], "off"),
        ("high", None, "off"),
        ("high", [], "off"),
        ("", [], ""),
        ("", None, ""),
        ("", ["high"], ""),
        ("bogus", ["off", "high"], "off"),
        ("bogus", ["off", "bogus"], "bogus"),
        ("off", ["high"], "off"),
        ("medium", ["minimal", "high", "medium"], "medium"),
    ],
)
def test_the_clamp(requested: str, available: list[str] | None, level: str) -> None:
    assert clamp_thinking_level(requested, available) == level


@settings(deadline=None)
@given(
    st.sampled_from(THINKING_LADDER), st.lists(st.sampled_from(THINKING_LADDER), max_size=12), st.randoms()
)
def test_the_clamp_never_goes_up_and_ignores_order_and_doubles(
    requested: str, available: list[str], shuffle: random.Random
) -> None:
    level = clamp_thinking_level(requested, available)
    assert THINKING_LADDER.index(level) >= THINKING_LADDER.index(requested)
    assert level in available or level == "off"
    mixed = available * 2
    shuffle.shuffle(mixed)
    assert clamp_thinking_level(requested, iter(mixed)) == level


def test_only_the_exact_names_are_canonical() -> None:
    assert all(is_canonical_thinking_level(level) for level in THINKING_LADDER)
    assert not any(is_canonical_thinking_level(level) for level in ("", "OFF", "Max", "bogus", "off "))


@pytest.mark.parametrize(
    ("budgets", "level", "budget"),
    [
        (None, "high", 0),
        ({}, "high", 0),
        ({"low": 5}, "low", 5),
        ({"low": 5}, "high", 0),
        ({"xhigh": 5, "max": 6, "off": 7}, "xhigh", 0),
        ({"xhigh": 5, "max": 6, "off": 7}, "max", 0),
        ({"xhigh": 5, "max": 6, "off": 7}, "off", 0),
    ],
)
def test_the_budget_a_caller_set_for_a_level(budgets: dict[str, int] | None, level: str, budget: int) -> None:
    assert budget_for_level(budgets, level) == budget


@pytest.mark.parametrize(
    ("base", "limit", "level", "fit"),
    [
        (32_000, 64_000, "medium", (40_192, 8_192)),
        (1_000, 2_000, "high", (2_000, 976)),
        (1_000, 500, "high", (500, 0)),
        (32_000, 200_000, "max", (48_384, 16_384)),
        (32_000, 200_000, "xhigh", (48_384, 16_384)),
        (32_000, 64_000, "off", (32_000, 0)),
    ],
)
def test_the_budget_is_added_to_the_answer_up_to_the_limit(
    base: int, limit: int, level: str, fit: tuple[int, int]
) -> None:
    assert fit_thinking_budget(base, limit, level) == fit


def test_a_budget_of_the_caller_replaces_the_default_of_its_level() -> None:
    assert fit_thinking_budget(1000, 64_000, "low", {"low": 3000}) == (4000, 3000)
    default = DEFAULT_BUDGETS["high"]
    assert fit_thinking_budget(1000, 64_000, "high", {"low": 3000}) == (1000 + default, default)
