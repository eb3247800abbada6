"""Cleans what rich draws: the last step before text reaches a terminal.

Most text is cleaned when it arrives. This step also covers text that is decoded later, such as the entity
`&#8238;` in Markdown, and any text that was not cleaned before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment

from agent.cli.display.clean_text import clean


class Cleaned:
    """Renderables one below the other, each on lines of its own, without control characters in their text."""

    def __init__(self, parts: Sequence[RenderableType]) -> None:
        self._parts = parts

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for part in self._parts:
            lines = console.render_lines(part, options.update(height=None), pad=False)
            for line in lines:
                yield from clean_segments(line)
                yield Segment.line()


def clean_segments(segments: Iterable[Segment]) -> Iterable[Segment]:
    """The segments with their text cleaned; those that are control codes of rich stay."""
    for segment in segments:
        if segment.control:
            yield segment
            continue
        text = clean(segment.text)
        yield segment if text == segment.text else Segment(text, segment.style)
