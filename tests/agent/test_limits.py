"""The bounds of a run: what may be set, and what is refused."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from agent.errors import ConfigurationError
from agent.limits import Limits


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


@pytest.mark.parametrize(
    "setting",
    [
        {"max_total_tokens": 1000},
        {"max_cost": 1.0},
        {"max_cost": 0},
        {"max_seconds": 5},
        {"tool_timeout": 5},
        {"parallel_tools": 1},
        {"final_answer": True},
        {"turns_since_input": True},
    ],
)
def test_a_limit_that_is_not_built_is_refused_and_not_forgotten(setting: dict[str, Any]) -> None:
    (name,) = setting
    with pytest.raises(ConfigurationError, match=rf"Limits\({name}=\.\.\.\) is not supported yet"):
        Limits(**setting)
