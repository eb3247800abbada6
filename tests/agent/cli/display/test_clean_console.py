"""What rich draws, without control characters."""

from __future__ import annotations

import pytest
from rich.console import RenderableType
from rich.text import Text
from support.terminal import recorded_console, written

from agent.cli.display.clean_console import Cleaned
from agent.cli.display.markdown import Block


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        (Text("a\x1b]52;c;QQ==\x07b"), "a]52;c;QQ==b"),
        (Text("a\u202eb"), "ab"),
        (Block("a &#8238;b &#x202E;c &#27;[2J &#x9b;d &rlm;"), "a b c \ufffd[2J \ufffdd \u200f"),
        (Block("`a\x1b[2Jb`"), "a[2Jb"),
    ],
    ids=["escape", "override", "entities", "code"],
)
def test_no_control_character_is_drawn(part: RenderableType, shown: str) -> None:
    console = recorded_console(terminal=False)
    console.print(Cleaned([part]), end="")
    assert written(console).strip() == shown


def test_parts_stand_on_lines_of_their_own_and_keep_their_style() -> None:
    console = recorded_console()
    console.print(Cleaned([Text("one", "red"), Text(), Text("two")]), end="")
    assert written(console) == "\x1b[31mone\x1b[0m\n\ntwo\n"
