"""Blocks of Markdown on a terminal."""

from __future__ import annotations

import pytest
from support.terminal import recorded_console, written

from agent.cli.display.markdown import Block


def _drawn(markup: str, width: int = 40) -> list[str]:
    console = recorded_console(width, terminal=False)
    console.print(Block(markup), end="")
    return written(console).splitlines()


@pytest.mark.parametrize(
    ("markup", "lines"),
    [
        ("plain words", ["plain words"]),
        ("a **b** `c` ~~d~~", ["a b c d"]),
        ("# Head", ["Head"]),
        ("- a\n- b", [" • a", " • b"]),
        ("1. a\n2. b", [" 1 a", " 2 b"]),
        ("```\n  x\n\ty\n```", ["    x", "      y"]),
        ("word " * 12, ["word word word word word word word word", "word word word word"]),
        ("", []),
    ],
)
def test_a_block_is_drawn_without_padding_and_empty_lines(markup: str, lines: list[str]) -> None:
    assert _drawn(markup) == lines


def test_a_long_line_of_code_is_folded_and_loses_nothing() -> None:
    lines = _drawn("```python\nx = '" + "界" * 30 + "'\n```", width=20)
    assert all(len(line) <= 20 for line in lines)
    assert "".join(line.strip() for line in lines) == "x = '" + "界" * 30 + "'"


@pytest.mark.parametrize(
    ("markup", "lines"),
    [
        ("Use <button>, List<String> and **<T>**", ["Use <button>, List<String> and <T>"]),
        ("std::vector<int> x; a < b > c &lt;", ["std::vector<int> x; a < b > c <"]),
        ('<div class="x">\n hello\n</div>', ['  <div class="x">', "   hello", "  </div>"]),
        ("- see <details>\n- <!-- no -->", [" • see <details>", " •   <!-- no -->"]),
        ("| a |\n|---|\n| <br> |", [" a", " ────", " <br>"]),
        ("# The <title> tag", ["The <title> tag"]),
    ],
)
def test_html_is_shown_as_typed(markup: str, lines: list[str]) -> None:
    """N34"""
    assert [line.rstrip() for line in _drawn(markup)] == lines
