"""Fields of a server's JSON that may be missing, null or of another type."""

from __future__ import annotations

from typing import Any

import pytest

from agent.providers.json_fields import as_count, as_dollars, as_list, as_object, as_text, first_object

ODD: tuple[Any, ...] = (None, 7, "x", True, [1], {"a": 1})


def test_a_value_of_the_type_is_kept_and_any_other_is_empty() -> None:
    assert [as_text(value) for value in ODD] == ["", "", "x", "", "", ""]
    assert [as_object(value) for value in ODD] == [{}, {}, {}, {}, {}, {"a": 1}]
    assert [as_list(value) for value in ODD] == [[], [], [], [], [1], []]


@pytest.mark.parametrize(
    ("value", "found"), [([{"a": 1}, 2], {"a": 1}), ([], {}), ([7], {}), ({"a": 1}, {}), (None, {})]
)
def test_the_first_object_of_a_list(value: Any, found: dict[str, Any]) -> None:
    assert first_object(value) == found


@pytest.mark.parametrize(
    ("value", "count"),
    [(5, 5), (5.9, 5), (0, 0), (-1, 0), (True, 0), ("5", 0), (None, 0), (10**12, 0), (1e308, 0), (10**400, 0),
     (float("nan"), 0), (float("inf"), 0)],
)  # fmt: skip
def test_a_count_is_a_plausible_number(value: Any, count: int) -> None:
    assert as_count(value) == count
    assert type(as_count(value)) is int


@pytest.mark.parametrize(
    ("value", "dollars"),
    [(5, 5.0), (0.5, 0.5), (True, 0.0), (-1, 0.0), ("1", 0.0), (1e308, 0.0), (10**400, 0.0)],
)
def test_dollars_are_a_plausible_number(value: Any, dollars: float) -> None:
    assert as_dollars(value) == dollars
