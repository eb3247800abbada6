"""The bounds of a run: what may be set, and what is refused."""

from __future__ import annotations

import inspect
import threading
from typing import Any

import pytest

from agent.cancel import CancelToken
from agent.errors import ConfigurationError
from agent.limits import TIME_IS_UP, Limits, Stopwatch
from agent.models import Model
from agent.usage import Cost, ModelCost, Usage


def test_without_arguments_there_is_no_limit() -> None:
    limits = Limits()
    assert limits.max_turns is None
    assert limits == Limits(None, None, None, None, None, 4, False)


def test_the_positions_of_the_arguments_are_the_pinned_ones() -> None:
    names = "max_turns max_total_tokens max_cost max_seconds tool_timeout parallel_tools final_answer".split()
    assert list(inspect.signature(Limits).parameters)[: len(names)] == names


def test_turns_are_limited_by_a_whole_number_from_one() -> None:
    assert Limits(1).max_turns == Limits(max_turns=1).max_turns == 1


@pytest.mark.parametrize("turns", [0, -1, 1.5, "3", True])
def test_other_numbers_of_turns_are_refused(turns: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_turns must be a whole number of at least 1"):
        Limits(max_turns=turns)


@pytest.mark.parametrize("name", ["max_cost", "max_seconds", "tool_timeout"])
@pytest.mark.parametrize("value", [0, -1, "3", True, float("nan"), float("inf")])
def test_money_and_time_are_limited_by_a_number_above_zero(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} must be a number above 0"):
        Limits(**{name: value})


@pytest.mark.parametrize("tokens", [0, 1.5, True])
def test_tokens_are_limited_by_a_whole_number_from_one(tokens: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_total_tokens must be a whole number"):
        Limits(max_total_tokens=tokens)


@pytest.mark.parametrize("slots", [2.0, "2", True])
def test_parallel_tools_is_a_whole_number_or_none(slots: Any) -> None:
    with pytest.raises(ConfigurationError, match="parallel_tools must be a whole number"):
        Limits(parallel_tools=slots)
    assert Limits(parallel_tools=None).parallel_tools is None
    assert Limits(parallel_tools=0) == Limits(parallel_tools=0)


def test_the_shorter_of_two_time_limits_holds() -> None:
    assert Limits().timeout_of(None) is None
    assert Limits().timeout_of(5) == 5
    assert Limits(tool_timeout=3).timeout_of(None) == 3
    assert Limits(tool_timeout=3).timeout_of(5) == Limits(tool_timeout=5).timeout_of(3) == 3


def test_limits_are_reached_in_the_order_turns_tokens_money() -> None:
    spent = Usage(60, 40, cost=Cost(total=1.0))
    assert Limits().reached(10**9, spent) is None
    assert Limits(max_turns=3).reached(2, spent) is None
    assert Limits(max_turns=3, max_total_tokens=1).reached(3, spent) == "max_turns"
    assert Limits(max_total_tokens=101).reached(1, spent) is None
    assert Limits(max_total_tokens=100).reached(1, spent) == "budget"
    assert Limits(max_cost=1.01).reached(1, spent) is None
    assert Limits(max_cost=1.0).reached(1, spent) == "budget"


def test_a_limit_of_money_needs_a_price() -> None:
    free = Model("m", "a", "p", cost=ModelCost(0, 0))
    unknown = Model("m", "a", "p")
    Limits(max_cost=1).check_model(free)
    Limits(max_turns=1).check_model(unknown)
    with pytest.raises(ConfigurationError, match="max_cost needs the price of m"):
        Limits(max_cost=1).check_model(unknown)


def test_a_stopwatch_sets_the_signal_when_its_time_is_up() -> None:
    token = CancelToken()
    Stopwatch(0.01, token).start()
    assert token.wait(5)
    assert token.reason == TIME_IS_UP


def test_a_stopped_stopwatch_goes_on_with_what_was_left() -> None:
    token = CancelToken()
    watch = Stopwatch(3600, token)
    watch.start()
    watch.stop()
    watch.start()
    watch.stop()
    watch.stop()
    assert not token.is_set()
    assert watch._left is not None
    assert 3590 < watch._left <= 3600


def test_a_stopwatch_without_a_limit_starts_no_thread() -> None:
    before = threading.active_count()
    watch = Stopwatch(None, CancelToken())
    watch.start()
    assert threading.active_count() == before
    watch.stop()
