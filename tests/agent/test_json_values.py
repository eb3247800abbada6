"""The JSON form of any value."""

from __future__ import annotations

import enum
import json
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from agent.json_values import json_value


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


@dataclass
class Point:
    x: int
    note: Any = None


class Record(BaseModel):
    n: int
    where: Path


class Rude:
    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (None, None),
        (True, True),
        (12345678901234567890, 12345678901234567890),
        (1.5, 1.5),
        (float("nan"), None),
        (float("inf"), None),
        ("é\ud83d", "é\ud83d"),
        ((1, [2, (3,)]), [1, [2, [3]]]),
        ({1: "a", None: "b", ("x", 2): "c"}, {"1": "a", "None": "b", "x,2": "c"}),
        (frozenset((1,)), [1]),
        (Colour.RED, "red"),
        (Level.LOW, 1),
        ({Colour.RED: Level.LOW}, {"red": 1}),
        (Point(1, Point(2)), {"x": 1, "note": {"x": 2, "note": None}}),
        (Record(n=1, where=Path("/a")), {"n": 1, "where": "/a"}),
        (Path("/a/b"), "/a/b"),
        (b"ab", "YWI="),
        (b"\xff", "_w=="),
        ({"\ud83d": [Point(1)]}, {"\ud83d": [{"x": 1, "note": None}]}),
        (deque((1, 2)), [1, 2]),
        (ValueError("boom"), "boom"),
        (Rude(), "<Unserializable Rude object>"),
        ([Rude()], ["<Unserializable Rude object>"]),
    ],
)
def test_any_value_has_a_form_that_json_can_hold(value: Any, data: Any) -> None:
    shown = json_value(value)
    assert shown == data
    assert json.loads(json.dumps(shown, allow_nan=False)) == data


def test_a_value_that_contains_itself_ends_as_text() -> None:
    loop: dict[str, Any] = {"n": 1}
    loop["loop"] = loop
    text = json.dumps(json_value(loop))
    assert text.startswith('{"n": 1, "loop": {"n": 1')
    assert len(text) < 10_000


@pytest.mark.parametrize("depth", [300, 100_000])
def test_a_value_nested_too_deeply_ends_as_text_and_its_neighbours_stay(depth: int) -> None:
    deep: list[Any] = []
    for _ in range(depth):
        deep = [deep]
    shown = json_value({"deep": deep, "path": Path("a")})
    assert shown["path"] == "a"
    assert len(json.dumps(shown)) < 10_000
