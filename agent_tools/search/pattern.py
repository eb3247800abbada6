"""Compiles the patterns of grep.

The syntax is that of the package `regex` in its version 0: nearly that of Python's `re`, with `\\p{..}` and
`[[:alpha:]]`. It applies to one line at a time, without the line ending. Two things are more lenient: braces
that are not a repetition are plain characters (`interface{}`), and `\\x{41}` is a character. In what Python,
Rust and PCRE share (literals, classes, groups, alternatives, repetitions, anchors, `\\b`) it agrees with
ripgrep. The matches are the same with and without ripgrep, except for a pattern that backtracks without end:
it is refused, unless ripgrep finds that no file can match.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import regex

from agent_tools.search.pattern_size import check_size
from agent_tools.search.prefilter import Prefilter, prefilter_for
from agent_tools.tool import ToolFailure

_FUZZY_BRACE = regex.compile(
    r"""(?xs)
      \\[pPNxugk]\{[^{}]*\}      # \p{Lu}: the braces belong to the escape
    | \\.
    | \[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]
    | \{(?:\d+(?:,\d*)?|,\d+)\}  # a repetition
    | (?P<brace>[{}])
    """
)
_ANY_CASE = "(?i)"
# Compiling a longer one can take seconds to minutes and cannot be interrupted.
_MAX_PATTERN_LENGTH = 4000
_HEX_ESCAPE = regex.compile(r"\\x\{([0-9a-fA-F]{1,6})\}")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled pattern; may be shared between threads.

    `expression` matches one line. `prefilter` is the prefilter, None when the pattern has none; `across` is
    the prefilter's expression for many lines at once.
    """

    source: str
    literal: bool
    ignore_case: bool
    expression: Any
    prefilter: Prefilter | None
    across: Any

    @property
    def needles(self) -> tuple[str, ...]:
        """Each matching line contains one of these texts; in lower case with `ignore_case`."""
        return self.prefilter.needles if self.prefilter else ()

    @property
    def for_ripgrep(self) -> str | None:
        """The prefilter's expression in the syntax of ripgrep."""
        return self.prefilter.rust if self.prefilter else None

    @property
    def finds_itself(self) -> bool:
        """True when each line that contains the pattern's own text matches it."""
        if self.literal or regex.escape(self.source, special_only=True) == self.source:
            return True
        return not set("^$\\(") & set(self.source) and self.expression.fullmatch(self.source) is not None


@functools.lru_cache(maxsize=64)
def compile_pattern(source: str, literal: bool, ignore_case: bool) -> Pattern:
    """Compile a pattern; raises `ToolFailure` with the position of the error and advice."""
    if len(source) > _MAX_PATTERN_LENGTH:
        raise ToolFailure(
            f"the pattern has {len(source)} characters; at most {_MAX_PATTERN_LENGTH} are searched for"
        )
    text = regex.escape(source, special_only=True) if literal else _without_fuzzy_braces(source)
    if text.startswith(_ANY_CASE) and not literal:
        text, ignore_case = text.removeprefix(_ANY_CASE), True
    check_size(text)
    flags = regex.VERSION0 | (regex.IGNORECASE if ignore_case else 0)
    try:
        expression = regex.compile(text, flags)
    except (regex.error, OverflowError, RecursionError, ValueError) as error:
        raise ToolFailure(
            f"invalid regex {source!r}: {error}. To search for exactly this text call grep again with "
            "literal=true, or put a backslash before each of ( ) [ ] { } . * + ? ^ $ | \\ meant as itself."
        ) from None
    prefilter = prefilter_for(text, ignore_case)
    across = regex.compile(prefilter.python, flags | regex.MULTILINE) if prefilter else None
    return Pattern(source, literal, ignore_case, expression, prefilter, across)


def _without_fuzzy_braces(source: str) -> str:
    """Escape braces that are not a repetition: `regex` reads `a{e}` as an approximate match of `a`."""
    source = _HEX_ESCAPE.sub(lambda found: _character(int(found[1], 16), found[0]), source)
    return str(
        _FUZZY_BRACE.sub(lambda found: "\\" + found[0] if found["brace"] is not None else found[0], source)
    )


def _character(code: int, otherwise: str) -> str:
    return f"\\U{code:08x}" if code <= 0x10FFFF else otherwise
