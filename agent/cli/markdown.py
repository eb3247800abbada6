"""Markdown as it looks in a terminal: calm headings, code in the terminal's own colours."""

from __future__ import annotations

from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.padding import Padding
from rich.segment import Segment
from rich.syntax import Syntax

# The sixteen colours of the terminal: readable on a dark ground and on a light one.
_CODE_THEME = "ansi_dark"


class _Heading(Heading):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        self.text.stylize("bold underline" if self.tag == "h1" else "bold")
        yield self.text


class _CodeBlock(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Padding(code(str(self.text).rstrip("\n"), self.lexer_name), (0, 0, 0, 2))


class Block:
    """One block of Markdown, without the empty lines around it and the blanks that rich fills lines with.

    Such blanks would be copied along, and would wrap when the window is made narrower.
    """

    def __init__(self, markup: str) -> None:
        self._markdown = _Markdown(markup)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = [_stripped(line) for line in console.render_lines(self._markdown, options, pad=False)]
        while lines and not lines[-1]:
            lines.pop()
        start = next((place for place, line in enumerate(lines) if line), 0)
        for line in lines[start:]:
            yield from line
            yield Segment.line()


def code(text: str, language: str) -> Syntax:
    """Program text, coloured when the language is known."""
    return Syntax(text, language or "text", theme=_CODE_THEME, background_color="default", word_wrap=True)


class _Markdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _CodeBlock,
        "code_block": _CodeBlock,
    }

    def __init__(self, markup: str) -> None:
        super().__init__(markup, code_theme=_CODE_THEME, hyperlinks=False)


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
