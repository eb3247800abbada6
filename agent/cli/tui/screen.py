"""Converts what rich draws into text with escape codes and into prompt_toolkit's styled text."""

from __future__ import annotations

import functools
import io
import os
from collections.abc import Sequence

from prompt_toolkit.formatted_text import ANSI, to_formatted_text
from rich.console import Console, RenderableType

from agent.cli.display.clean_console import Cleaned
from agent.cli.render import Bottom
from agent.cli.tui.frame import Fragments


def to_ansi(parts: Sequence[RenderableType], width: int) -> str:
    """The renderables one below the other, as text with escape codes."""
    return _drawn(Cleaned(parts), width)


def to_fragments(parts: Sequence[RenderableType], width: int, rows: int) -> Fragments:
    """The last `rows` lines of the renderables, as styled text."""
    text = _drawn(Bottom(parts, rows), width)
    return [(fragment[0], fragment[1]) for fragment in to_formatted_text(ANSI(text))]


def _drawn(renderable: RenderableType, width: int) -> str:
    # One console per drawing: a console does not support two threads that draw at different widths.
    console = Console(
        file=io.StringIO(),
        force_terminal=True,
        color_system=_color_system(),  # type: ignore[arg-type]
        no_color=bool(os.environ.get("NO_COLOR")),
        width=max(1, width),
        highlight=False,
        legacy_windows=False,
    )
    console.print(renderable, end="")
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@functools.cache
def _color_system() -> str | None:
    return Console(force_terminal=True).color_system
