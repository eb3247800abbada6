"""Tokens and money: added, priced, never drifting."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.usage import ZERO_USAGE, Cost, ModelCost, Usage, priced


def test_zero_usage_is_all_zero_and_what_nothing_adds_up_to() -> None:
    assert Usage() == ZERO_USAGE == Usage(0, 0, 0, 0, 0, Cost(0, 0, 0, 0, 0))
    assert sum([], Usage()) == Usage()


def test_the_positions_of_the_arguments_are_the_pinned_ones() -> None:
    fields = "input output cache_read cache_write total_tokens cost"
    assert list(inspect.signature(Usage).parameters) == fields.split()
    assert list(inspect.signature(ModelCost).parameters) == "input output cache_read cache_write".split()


def test_usage_is_added_kind_by_kind() -> None:
    one = Usage(1, 2, 3, 4, 10, Cost(0.5, 0.25, 0.125, 0.0625, 1.0))
    two = Usage(10, 20, 30, 40, 100, Cost(1.0, 2.0, 3.0, 4.0, 10.0))
    assert one + two == Usage(11, 22, 33, 44, 110, Cost(1.5, 2.25, 3.125, 4.0625, 11.0))


def test_a_total_that_is_left_out_is_the_sum_and_one_that_is_given_stays() -> None:
    assert Usage(1, 2, 3, 4).total_tokens == 10
    assert Usage(1, 2, total_tokens=50).total_tokens == 50
    assert Cost(0.1, 0.2).total == 0.3
    assert Cost(total=0.7) == Cost(0, 0, 0, 0, 0.7)
    assert replace(Usage(1, 2), output=5).total_tokens == 3


def test_ten_times_ten_cents_is_a_dollar() -> None:
    spent = sum([Usage(cost=Cost(0.1))] * 10, Usage())
    assert spent.cost.total == spent.cost.input == 1.0


def test_the_order_of_adding_does_not_matter() -> None:
    parts = [Usage(n, cost=Cost(n * 3e-07)) for n in (7, 1_000_003, 13, 999)]
    sums = {sum(order, Usage()) for order in permutations(parts)}
    assert len(sums) == 1


@settings(deadline=None)
@given(st.lists(st.integers(0, 10**6), max_size=200))
def test_a_long_sum_of_prices_is_the_price_of_the_sum(tokens: list[int]) -> None:
    price = ModelCost(2.5, 10.0)
    spent = sum((priced(Usage(n, n), price) for n in tokens), Usage())
    together = priced(Usage(sum(tokens), sum(tokens)), price)
    assert spent == together


def test_usage_without_a_cost_is_priced_by_the_million_tokens() -> None:
    usage = priced(Usage(1000, 500, 2000, 100), ModelCost(3.0, 15.0, 0.3, 3.75))
    assert usage.cost == Cost(0.003, 0.0075, 0.0006, 0.000375, 0.011475)
    assert usage.total_tokens == 3600


def test_a_cost_that_came_with_the_usage_is_kept() -> None:
    usage = Usage(1000, cost=Cost(total=0.5))
    assert priced(usage, ModelCost(3.0, 15.0)) is usage


def test_usage_of_unknown_price_costs_nothing_known() -> None:
    usage = Usage(1000)
    assert priced(usage, None) is usage


def test_usage_is_a_value() -> None:
    usage = Usage(1, 2, cost=Cost(0.1))
    assert usage == copy.deepcopy(usage) == pickle.loads(pickle.dumps(usage))
    assert len({usage, Usage(1, 2, cost=Cost(0.1))}) == 1
    with pytest.raises(AttributeError):
        usage.input = 3  # type: ignore[misc]
