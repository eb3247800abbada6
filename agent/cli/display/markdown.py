"""Renders Markdown for a terminal: plain headings, code in the terminal's own colours."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.segment import Segment
from rich.syntax import Syntax
from rich.text import Text
from rich.theme import Theme

# The sixteen colours of the terminal: readable on a dark background and on a light one.
_CODE_THEME = "ansi_dark"
_CODE_INDENT = 2
# rich's default puts code on black, which looks like a hole on a light screen.
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

# A paragraph without any Markdown syntax. Most of what models write, and twenty times faster to draw.
_PLAIN = re.compile(r"[A-Za-z](?:[A-Za-z0-9 ,.;:?!'\"()-]|(?<!  )\n(?! *-))*")


class _Heading(Heading):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        self.text.stylize("bold underline" if self.tag == "h1" else "bold")
        yield self.text


class _CodeBlock(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = str(self.text).rstrip("\n").expandtabs(4)
        width = max(1, options.max_width - _CODE_INDENT)
        for line in _highlighted(text, self.lexer_name):
            for row in _folded(line, width):
                yield Segment(" " * _CODE_INDENT)
                yield from row
                yield Segment.line()


def _highlighted(text: str, language: str) -> Iterator[list[Segment]]:
    """The lines of a program, coloured when the language is known.

    Builds segments directly from the tokens: three times as fast as rich's way through `Text`.
    """
    lexer = _lexer(language)
    tokens = lexer.get_tokens(text) if lexer is not None else [(None, text)]
    theme = Syntax.get_theme(_CODE_THEME)
    line: list[Segment] = []
    for kind, piece in tokens:
        style = theme.get_style_for_token(kind) if kind is not None else None
        first, *more = piece.split("\n")
        if first:
            line.append(Segment(first, style))
        for start in more:
            yield line
            line = [Segment(start, style)] if start else []
    if line:
        yield line


def _folded(line: list[Segment], width: int) -> Iterable[list[Segment]]:
    """The line folded into rows of at most `width` cells."""
    if sum(segment.cell_length for segment in line) <= width:
        return (line,)
    rows: list[list[Segment]] = [[]]
    left = width
    for segment in line:
        for character in segment.text:
            size = cell_len(character)
            if size > left:
                rows.append([])
                left = width
            rows[-1].append(Segment(character, segment.style))
            left -= size
    return [list(Segment.simplify(row)) for row in rows]


@functools.lru_cache(maxsize=32)
def _lexer(language: str) -> Any:
    return Syntax("", language).lexer if language else None


class Block:
    """One block of Markdown, without the empty lines around it and the spaces that rich pads lines with.

    Padding would be copied along with the text, and would wrap when the window is made narrower.
    """

    def __init__(self, markup: str) -> None:
        is_plain = _PLAIN.fullmatch(markup) is not None
        self._content = Text(" ".join(markup.split())) if is_plain else _Markdown(markup)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        with console.use_theme(_THEME):
            drawn = console.render_lines(self._content, options, pad=False)
        lines = [_without_padding(line) for line in drawn]
        while lines and not lines[-1]:
            lines.pop()
        start = next((index for index, line in enumerate(lines) if line), 0)
        for line in lines[start:]:
            yield from line
            yield Segment.line()


class _Markdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _CodeBlock,
        "code_block": _CodeBlock,
    }

    def __init__(self, markup: str) -> None:
        # Does what rich's constructor does, with a shared parser: making one takes as long as the rest.
        self.markup = markup
        self.parsed = _with_typed_html(_parser().parse(markup))
        self.code_theme = self.inline_code_theme = _CODE_THEME
        self.justify = None
        self.style = "none"
        self.hyperlinks = False
        self.inline_code_lexer = None


def _with_typed_html(tokens: list[Token]) -> list[Token]:
    """The tokens with HTML as text: rich draws none, and `List<String>` is often no HTML at all."""
    for token in tokens:
        if token.type == "html_block":
            token.type, token.tag = "code_block", "code"
        for child in token.children or ():
            if child.type == "html_inline":
                child.type = "text"
    return tokens


@functools.cache
def _parser() -> MarkdownIt:
    return MarkdownIt().enable("strikethrough").enable("table")


def _without_padding(line: list[Segment]) -> list[Segment]:
    """The segments without invisible spaces at the end."""
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
