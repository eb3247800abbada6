"""Markdown cut into finished blocks while it arrives."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.cli.display.markdown_blocks import TAIL_CHARACTERS, MarkdownBlocks

DOCUMENT = """\
# Title
First line
second line

- one
- two

  goes on

- three

After the list.
```python
def f():

    return 1
```
1. first
   ```
   code

   in the list
   ```
2. second

| a | b |
|---|---|
| 1 | 2 |

> quoted
> text

~~~
``` is text here
~~~
End."""

BLOCKS = [
    "# Title",
    "First line\nsecond line",
    "- one\n- two\n\n  goes on\n\n- three",
    "After the list.",
    "```python\ndef f():\n\n    return 1\n```",
    "1. first\n   ```\n   code\n\n   in the list\n   ```\n2. second",
    "| a | b |\n|---|---|\n| 1 | 2 |",
    "> quoted\n> text",
    "~~~\n``` is text here\n~~~",
    "End.",
]


def _cut(pieces: list[str]) -> list[str]:
    blocks = MarkdownBlocks()
    return [block for piece in pieces for block in blocks.add(piece)] + blocks.end()


def test_a_document_is_cut_where_its_blocks_end() -> None:
    assert _cut([DOCUMENT]) == BLOCKS


@given(st.lists(st.integers(0, len(DOCUMENT)), max_size=30))
def test_the_pieces_it_comes_in_make_no_difference(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(DOCUMENT)]
    assert _cut([DOCUMENT[a:b] for a, b in pairwise(places)]) == BLOCKS


@given(st.text(alphabet="ab#`~-*1.> |\n\t ", max_size=200))
def test_nothing_but_empty_lines_is_lost(text: str) -> None:
    shown = "\n".join(_cut(list(text)))
    assert shown.split() == text.split()


def test_a_block_is_given_as_soon_as_the_next_one_begins() -> None:
    blocks = MarkdownBlocks()
    assert blocks.add("one\n\nt") == ["one"]
    assert blocks.tail == "t"
    assert blocks.add("wo") == []
    assert blocks.end() == ["two"]
    assert blocks.tail == ""


@pytest.mark.parametrize("unit", ["word ", "a line\n", "- item\n"])
def test_the_tail_is_bounded_however_long_the_block_gets(unit: str) -> None:
    blocks = MarkdownBlocks()
    for _ in range(5000):
        blocks.add(unit)
    assert unit.strip() in blocks.tail
    assert len(blocks.tail) <= TAIL_CHARACTERS + len(unit)


def test_the_tail_of_a_long_fence_is_still_a_fence() -> None:
    blocks = MarkdownBlocks()
    blocks.add("```python\n" + "x = 1\n" * 5000)
    assert blocks.tail.startswith("```python\n")
    assert len(blocks.tail) <= TAIL_CHARACTERS + 20


def test_each_character_is_read_once() -> None:
    blocks = MarkdownBlocks()
    for _ in range(3):
        for character in DOCUMENT:
            blocks.add(character)
    assert blocks.scanned == 3 * len(DOCUMENT)
