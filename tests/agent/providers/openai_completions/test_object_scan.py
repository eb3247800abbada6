"""When the pieces of a JSON text are a whole object, and what noticing it costs."""

from __future__ import annotations

import pytest

from agent.providers.openai_completions.object_scan import ObjectScan


def whole_after(*pieces: str) -> list[bool]:
    scan = ObjectScan()
    found = []
    for piece in pieces:
        scan.add(piece)
        found.append(scan.is_whole)
    return found


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        ' {"a":1} ',
        '{"a":"}"}',
        '{"a":"\\"}","b":[{},{"c":"]"}]}',
        '{"a":"\\\\"}',
        '"{\\"a\\":1}"',
        '{"é":"😀"}',
    ],
)
def test_an_object_is_whole_with_its_last_bracket_however_it_is_cut(text: str) -> None:
    for size in (1, 2, 3, len(text)):
        pieces = [text[start : start + size] for start in range(0, len(text), size)]
        found = whole_after(*pieces)
        assert found[-1]
        end = len(text.rstrip())
        assert not any(found[: (end - 1) // size])


@pytest.mark.parametrize(
    "text", ["", " ", "{", '{"a":1', '{"a":"}', "[1]", "{'a':1}", "{]", '"text"', "}", "{}{}", "{} x"]
)
def test_all_else_is_not_whole(text: str) -> None:
    assert not whole_after(text)[-1]
    assert not whole_after(*text or [""])[-1]


def test_text_after_the_end_spoils_the_object_and_white_space_does_not() -> None:
    assert whole_after("{}", "\n ", "") == [True, True, True]
    assert whole_after("{}", "\n", "x", "") == [True, True, False, False]


def test_each_character_is_scanned_once() -> None:
    """FR-10"""
    scan = ObjectScan()
    pieces = ['{"a":[', *(["{},"] * 5000), "{}]}"]
    for piece in pieces:
        scan.add(piece)
        assert scan.is_whole == (piece == pieces[-1])
    assert scan.characters == sum(map(len, pieces))
