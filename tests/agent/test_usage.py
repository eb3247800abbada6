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
    fields = "input output cache_read cache_write total_tokens cost reasoning"
    assert list(inspect.signature(Usage).parameters)[:7] == fields.split()
    assert list(inspect.signature(ModelCost).parameters)[:4] == "input output cache_read cache_write".split()
    assert list(inspect.signature(Cost).parameters)[:5] == "input output cache_read cache_write total".split()


def test_usage_is_added_kind_by_kind() -> None:
    one = Usage(1, 2, 3, 4, 10, Cost(0.5, 0.25, 0.125, 0.0625, 1.0))
    two = Usage(10, 20, 30, 40, 100, Cost(1.0, 2.0, 3.0, 4.0, 10.0))
    assert one + two == Usage(11, 22, 33, 44, 110, Cost(1.5, 2.25, 3.125, 4.0625, 11.0))
    parts = Usage(reasoning=1, cache_write_1h=2, web_searches=3, cost=Cost(server_tools=0.5))
    more = Usage(reasoning=10, cache_write_1h=20, web_searches=30, cost=Cost(1.0, is_estimate=True))
    added = parts + more
    assert (added.reasoning, added.cache_write_1h, added.web_searches) == (11, 22, 33)
    assert (added.cost.server_tools, added.cost.total, added.cost.is_estimate) == (0.5, 1.5, True)


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


MILLION = 1_000_000


@pytest.mark.parametrize(
    ("usage", "dollars"),
    [
        (Usage(cache_write=MILLION, cache_write_1h=MILLION), 6.0),
        (Usage(cache_write=MILLION), 3.75),
        (Usage(cache_write=2 * MILLION, cache_write_1h=MILLION), 9.75),
        (Usage(cache_write=MILLION, cache_write_1h=5 * MILLION), 6.0),
    ],
)
def test_cache_writes_for_an_hour_cost_twice_the_input(usage: Usage, dollars: float) -> None:
    """Z02"""
    cost = priced(usage, ModelCost(3.0, 15.0, 0.3, 3.75)).cost
    assert (cost.total, cost.is_estimate) == (dollars, False)


def test_a_stated_price_of_writes_for_an_hour_counts() -> None:
    """Z02"""
    usage = Usage(cache_write=MILLION, cache_write_1h=MILLION)
    assert priced(usage, ModelCost(3.0, 15.0, 0.3, 3.75, cache_write_1h=5.0)).cost.total == 5.0
    assert priced(usage, ModelCost(3.0, 15.0, 0.3, 3.75, cache_write_1h=0.0)).cost.total == 0.0


@pytest.mark.parametrize("kind", ["cache_read", "cache_write"])
def test_an_unknown_price_of_the_cache_is_that_of_input_and_marked(kind: str) -> None:
    usage = Usage(**{kind: MILLION})
    unknown = priced(usage, ModelCost(3.0, 15.0)).cost
    assert (unknown.total, unknown.is_estimate) == (3.0, True)
    free = priced(usage, ModelCost(3.0, 15.0, 0, 0)).cost
    assert (free.total, free.is_estimate) == (0.0, False)


def test_a_cost_without_cached_tokens_is_no_estimate() -> None:
    assert not priced(Usage(1, 1), ModelCost(3.0, 15.0)).cost.is_estimate
    assert not priced(Usage(1, 1, 1, 1), ModelCost(0.0, 0.0)).cost.is_estimate


def test_searches_of_the_provider_cost_ten_dollars_a_thousand() -> None:
    usage = Usage(web_searches=100)
    cost = priced(usage, ModelCost(3.0, 15.0)).cost
    assert (cost.server_tools, cost.total) == (1.0, 1.0)
    assert priced(usage, ModelCost(3.0, 15.0, web_search=35.0)).cost.total == 3.5
    assert priced(usage, ModelCost(0.0, 0.0)).cost.total == 0.0
    assert priced(usage, None).cost.total == 0.0


TIERED = ModelCost(
    1.0, 10.0, 0.1, tiers=((500_000, ModelCost(4.0, 40.0)), (200_000, ModelCost(2.0, 20.0, 0.2)))
)


@pytest.mark.parametrize(
    ("usage", "dollars"),
    [
        (Usage(200_000, 1_000), 0.21),
        (Usage(200_001, 0), 0.400002),
        (Usage(100_001, 1_000, 100_000), 0.2 + 0.000002 + 0.02 + 0.02),
        (Usage(600_000, 1_000), 2.44),
    ],
)
def test_a_long_prompt_has_its_own_price(usage: Usage, dollars: float) -> None:
    assert priced(usage, TIERED).cost.total == pytest.approx(dollars, abs=1e-9)


def test_a_factor_holds_for_each_token_of_each_tier() -> None:
    half = TIERED.times(0.5)
    assert priced(Usage(200_000, 1_000), half).cost.total == pytest.approx(0.105)
    assert priced(Usage(600_000, 1_000), half).cost.total == pytest.approx(1.22)
    assert half.cache_write is None


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
