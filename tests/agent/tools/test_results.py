"""The results of tools, and what may become one."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from support.tools import ForeignResult

from agent.messages import ImageContent, TextContent
from agent.tools import (
    ToolResult,
    to_result,
    tool,
)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


class Answer(BaseModel):
    n: int
    where: Path


class Opaque:
    def __repr__(self) -> str:
        return "opaque"


@dataclass
class ForeignBlock:
    type: str
    text: str = ""
    data: str = ""
    mime_type: str = ""


def two_words() -> Iterator[str]:
    yield "a"
    yield "b"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("text", "text"),
        ("", ""),
        (5, "5"),
        (1.5, "1.5"),
        (True, "true"),
        (b"raw \xff", "raw \ufffd"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        (["a", "b"], '["a","b"]'),
        (("a", 1), '["a",1]'),
        ([], "[]"),
        ({}, "{}"),
        ({1}, "[1]"),
        (two_words(), '["a","b"]'),
        (Answer(n=1, where=Path("/a")), '{"n":1,"where":"/a"}'),
        ([Answer(n=1, where=Path("/a"))], '[{"n":1,"where":"/a"}]'),
        (Point(1), '{"x":1,"y":0}'),
        (Colour.RED, '"red"'),
        (Opaque(), "opaque"),
        ([Opaque()], "[opaque]"),
        ([{"type": "image", "url": "x"}], '[{"type":"image","url":"x"}]'),
        ("é\n", "é\n"),
    ],
)
def test_a_function_may_return_anything(value: Any, text: str) -> None:
    made = tool(name="returning")(lambda: value).execute({}, None)
    assert made == ToolResult(text)


def test_none_is_a_result_without_content() -> None:
    assert tool(name="nothing")(lambda: None).execute({}, None) == ToolResult(())


@pytest.mark.parametrize(
    "value",
    [
        TextContent("x"),
        [TextContent("x")],
        (TextContent("x"),),
        [{"type": "text", "text": "x"}],
        [ForeignBlock("text", "x")],
        ToolResult("x"),
        ForeignResult([ForeignBlock("text", "x")]),
        ForeignResult("x"),
    ],
)
def test_blocks_and_results_of_any_origin_are_taken_as_such(value: Any) -> None:
    assert tool(name="returning")(lambda: value).execute({}, None) == ToolResult("x")
    assert to_result(value) == ToolResult("x")


def test_text_between_blocks_is_text() -> None:
    image = ImageContent("aGk=", "image/png")
    made = tool(name="picture")(lambda: ["a picture:", image]).execute({}, None)
    assert made.content == (TextContent("a picture:"), image)
    wire = [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]
    assert to_result(wire).content == (image,)
    assert to_result([ForeignBlock("image", data="aGk=", mime_type="image/png")]).content == (image,)


def test_a_foreign_result_keeps_all_its_parts() -> None:
    foreign = ForeignResult("x", True, {"d": 1}, {"h": "1"}, True)
    assert to_result(foreign) == ToolResult("x", {"d": 1}, {"h": "1"}, True, True)


@pytest.mark.parametrize(
    "value", [5, {"a": 1}, b"x", object(), [object()], [{"type": "video"}], [{"type": "text"}]]
)
def test_a_raw_tool_must_return_text_blocks_or_a_result(value: Any) -> None:
    with pytest.raises(TypeError, match="must"):
        to_result(value)
