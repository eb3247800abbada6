"""Long pastes and their labels."""

from __future__ import annotations

import pytest

from agent.cli.tui.pastes import Pastes


@pytest.mark.parametrize("text", ["short", "one\ntwo", "", "x" * 2000])
def test_a_short_text_is_inserted_as_it_is(text: str) -> None:
    pastes = Pastes()
    assert pastes.insertable(text) == text
    assert pastes.expand(text) == text


@pytest.mark.parametrize("end", ["\r\n", "\r", "\n"])
def test_line_ends_become_line_feeds(end: str) -> None:
    assert Pastes().insertable(f"a{end}b") == "a\nb"


@pytest.mark.parametrize(
    ("text", "label"),
    [("x\n" * 20, "[pasted #1: 21 lines]"), ("x" * 3000, "[pasted #1: 3000 characters]")],
)
def test_a_long_text_is_a_label_that_is_expanded(text: str, label: str) -> None:
    pastes = Pastes()
    assert pastes.insertable(text) == label
    assert pastes.expand(f"see {label}!") == f"see {text}!"


def test_each_paste_has_its_own_label_and_an_unknown_one_stays() -> None:
    pastes = Pastes()
    labels = [pastes.insertable(letter * 3000) for letter in "ab"]
    assert pastes.expand("".join(labels)) == "a" * 3000 + "b" * 3000
    assert pastes.expand("[pasted #9: 20 lines]") == "[pasted #9: 20 lines]"
