"""Markdown as it looks in a terminal: calm headings, code in the terminal's own colours."""

from __future__ import annotations

import functools
import re
from typing import ClassVar

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.segment import Segment
from rich.syntax import Syntax
from rich.text import Text
from rich.theme import Theme

# The sixteen colours of the terminal: readable on a dark ground and on a light one.
_CODE_THEME = "ansi_dark"
_CODE_INDENT = 2
# rich's own puts code on black, which is a hole in a light screen.
_THEME = Theme(
    {
        "markdown.code": "cyan",
        "markdown.item.bullet": "dim",
        "markdown.item.number": "dim",
        "markdown.hr": "dim",
        "markdown.table.border": "dim",
        "markdown.table.header": "bold",
    }
)

# One paragraph that no rule of Markdown changes: most of what models write, and twenty times faster to draw.
_PLAIN = re.compile(r"[A-Za-z](?:[A-Za-z0-9 ,.;:?!'\"()-]|(?<!  )\n(?! *-))*")


class _Heading(Heading):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        self.text.stylize("bold underline" if self.tag == "h1" else "bold")
        yield self.text


class _CodeBlock(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = str(self.text).rstrip("\n").expandtabs(4)
        highlighted = _highlighter(self.lexer_name).highlight(text)
        highlighted.rstrip()
        narrower = options.update(width=max(1, options.max_width - _CODE_INDENT))
        for line in highlighted.split("\n", allow_blank=True):
            line.overflow = "fold"
            for row in console.render_lines(line, narrower, pad=False):
                yield Segment(" " * _CODE_INDENT)
                yield from row
                yield Segment.line()


class Block:
    """One block of Markdown, without the empty lines around it and the blanks that rich fills lines with.

    Such blanks would be copied along, and would wrap when the window is made narrower.
    """

    def __init__(self, markup: str) -> None:
        is_plain = _PLAIN.fullmatch(markup) is not None
        self._content = Text(" ".join(markup.split())) if is_plain else _Markdown(markup)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        with console.use_theme(_THEME):
            drawn = console.render_lines(self._content, options, pad=False)
        lines = [_stripped(line) for line in drawn]
        while lines and not lines[-1]:
            lines.pop()
        start = next((place for place, line in enumerate(lines) if line), 0)
        for line in lines[start:]:
            yield from line
            yield Segment.line()


@functools.lru_cache(maxsize=32)
def _highlighter(language: str) -> Syntax:
    """Colours programs of one language; what is not known stays as it is."""
    return Syntax("", language or "text", theme=_CODE_THEME, background_color="default")


class _Markdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _CodeBlock,
        "code_block": _CodeBlock,
    }

    def __init__(self, markup: str) -> None:
        # What rich's own constructor does, but for the parser: it makes one for each text, which takes as
        # long as all the rest.
        self.markup = markup
        self.parsed = _parser().parse(markup)
        self.code_theme = self.inline_code_theme = _CODE_THEME
        self.justify = None
        self.style = "none"
        self.hyperlinks = False
        self.inline_code_lexer = None


@functools.cache
def _parser() -> MarkdownIt:
    return MarkdownIt().enable("strikethrough").enable("table")


def _stripped(line: list[Segment]) -> list[Segment]:
    """The segments without blanks at their end that nobody can see."""
    kept = list(line)
    while kept:
        last = kept[-1]
        if last.style is not None and (last.style.bgcolor or last.style.underline or last.style.reverse):
            break
        text = last.text.rstrip(" ")
        if text:
            kept[-1] = Segment(text, last.style, last.control)
            break
        kept.pop()
    return kept
