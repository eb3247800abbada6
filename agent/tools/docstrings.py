"""Splits a docstring into the description of a function and those of its parameters.

The library does the parsing. What is added here: a text without sections stays as it is (the ReST parser
drops lines that look like fields, and the indentation of examples), and a section that one style cannot parse
is no error. Imports docstring_parser, so it is loaded when the first tool is made of a function.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import suppress

from docstring_parser import Docstring, DocstringMeta, DocstringStyle, ParseError, parse
from docstring_parser.google import DEFAULT_SECTIONS, GoogleParser, Section, SectionType

_MORE_TITLES = ("Keyword Args", "Keyword Arguments", "Other Parameters")
_GOOGLE = GoogleParser(
    [*DEFAULT_SECTIONS, *(Section(title, "param", SectionType.MULTIPLE) for title in _MORE_TITLES)]
)


_SUMMARY = "Summary."  # a docstring that begins with a section is not parsed, so each one gets a first line


def split_docstring(docstring: str | None) -> tuple[str, dict[str, str]]:
    """The description before any section, and the parameters' own (Google, Sphinx or NumPy style)."""
    text = inspect.cleandoc(docstring or "").strip()
    parsed = max(_parsed(f"{_SUMMARY}\n\n{text}"), key=_sections, default=None)
    if parsed is None or not any(_sections(parsed)):
        return text, {}
    parameters = {
        parameter.arg_name.lstrip("*"): " ".join((parameter.description or "").split())
        for parameter in parsed.params
    }
    return (parsed.long_description or "").strip(), parameters


def _parsed(text: str) -> Iterator[Docstring]:
    """The docstring as each style reads it; a style that cannot is left out."""
    with suppress(ParseError):
        yield _GOOGLE.parse(text)
    for style in (DocstringStyle.NUMPYDOC, DocstringStyle.REST):
        with suppress(ParseError):
            yield parse(text, style)


def _sections(parsed: Docstring) -> tuple[int, int]:
    """How many parameters and how many other known entries a style found."""
    others = [meta for meta in parsed.meta if type(meta) is not DocstringMeta]
    return len(parsed.params), len(others)
