"""rich's drawing as prompt_toolkit and a raw terminal take it."""

from __future__ import annotations

import functools
import io
import os
from collections.abc import Sequence

from rich.color import Color
from rich.console import Console, RenderableType
from rich.style import Style

from agent.cli.render import Bottom

Fragments = list[tuple[str, str]]

_NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "gray")
_STANDARD = (
    *(f"ansi{name}" for name in _NAMES),
    "ansibrightblack",
    *(f"ansibright{name}" for name in _NAMES[1:-1]),
    "ansiwhite",
)


def to_ansi(parts: Sequence[RenderableType], width: int) -> str:
    """The renderables one below the other, as text with escape codes."""
    console = _console(width)
    console.print(*parts, sep="\n")
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def to_fragments(parts: Sequence[RenderableType], width: int, rows: int) -> Fragments:
    """The last `rows` lines of the renderables, as styled text."""
    console = _console(width)
    fragments: Fragments = []
    for segment in console.render(Bottom(list(parts), rows), console.options):
        if not segment.control:
            fragments.append((_style_name(segment.style), segment.text))
    return fragments


def _console(width: int) -> Console:
    # One per drawing: a console is not made for two threads that draw at different widths.
    return Console(
        file=io.StringIO(),
        force_terminal=True,
        color_system=_color_system(),  # type: ignore[arg-type]
        no_color=bool(os.environ.get("NO_COLOR")),
        width=max(1, width),
        highlight=False,
        legacy_windows=False,
    )


@functools.cache
def _color_system() -> str | None:
    return Console(force_terminal=True).color_system


@functools.lru_cache(maxsize=1024)
def _style_name(style: Style | None) -> str:
    """The same look in prompt_toolkit's words."""
    if style is None:
        return ""
    words = [name for name in ("bold", "italic", "underline", "reverse", "strike") if getattr(style, name)]
    if style.color is not None and not style.color.is_default:
        words.append(f"fg:{_color_name(style.color)}")
    elif style.dim:  # older versions know no dim
        words.append("fg:ansibrightblack")
    if style.bgcolor is not None and not style.bgcolor.is_default:
        words.append(f"bg:{_color_name(style.bgcolor)}")
    return " ".join(words)


def _color_name(color: Color) -> str:
    if color.number is not None and color.number < len(_STANDARD):
        return _STANDARD[color.number]
    return color.get_truecolor().hex
