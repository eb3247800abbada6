"""What rich draws, as escape codes and as styled text."""

from __future__ import annotations

import pytest
from rich.text import Text

from agent.cli.tui import screen
from agent.cli.tui.screen import to_ansi, to_fragments


@pytest.fixture(autouse=True)
def _standard_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(screen, "_color_system", lambda: "standard")


@pytest.mark.parametrize(
    ("style", "name"),
    [
        ("", ""),
        ("bold", "bold"),
        ("dim italic", "italic dim"),
        ("underline strike reverse", "underline strike reverse"),
        ("cyan", "ansicyan"),
        ("bright_black", "ansibrightblack"),
        ("white on red", "ansigray bg:ansired"),
    ],
)
def test_a_style_is_that_of_prompt_toolkit(style: str, name: str) -> None:
    fragments = to_fragments([Text("x", style)], 10, 5)
    assert [(set(style.split()), text) for style, text in fragments if text != "\n"] == [
        (set(name.split()), "x")
    ]


def test_the_last_rows_are_drawn() -> None:
    fragments = to_fragments([Text("\n".join("abcdef"))], 10, 3)
    assert "".join(text for _, text in fragments) == "d\ne\nf"


def test_no_colour_is_drawn_without_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert to_ansi([Text("x", "bold red")], 10) == "\x1b[1mx\x1b[0m\n"


def test_text_is_clean_and_fits_the_width() -> None:
    assert to_ansi([Text("a\x1b]0;t\x07b"), Text("word " * 4)], 10) == "a]0;tb\nword word \nword word \n"
