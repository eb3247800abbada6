"""Numbers for people."""

from __future__ import annotations

import pytest

from agent.cli.display.amounts import UNKNOWN_COST, cost, duration, money, short_count, tokens
from agent.usage import Cost, Usage


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (999, "999"), (1000, "1k"), (1234, "1.2k"), (128_000, "128k"), (1_048_576, "1M")],
)
def test_tokens_are_short(number: int, text: str) -> None:
    assert short_count(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.44, "0.4s"), (12.3, "12s"), (59.7, "1m 00s"), (185, "3m 05s"), (7800, "2h 10m")]
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("dollars", "text"), [(0, "$0.00"), (0.00042, "$0.0004"), (0.0123, "$0.012"), (1.5, "$1.50")]
)
def test_money_has_its_significant_decimals(dollars: float, text: str) -> None:
    assert money(dollars) == text


def test_tokens_name_the_cached_part_of_the_input() -> None:
    assert tokens(Usage(1000, 50, 4000)) == "5k in (4k cached), 50 out"
    assert tokens(Usage(10, 5)) == "10 in, 5 out"


def test_an_unknown_cost_is_not_zero() -> None:
    assert cost(Usage(10, 5, cost=Cost(0.01, 0.002))) == "$0.012"
    assert cost(Usage(10, 5)) == UNKNOWN_COST
    assert cost(Usage()) == "$0.00"


def test_an_estimated_cost_is_marked() -> None:
    assert cost(Usage(10, 5, cost=Cost(0.01, 0.002, is_estimate=True))) == "~$0.012"
