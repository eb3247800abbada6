"""What a grep pattern means.

The dialect is that of the package `regex` in its version 0 (so nearly that of Python's `re`, with `\\p{..}`
and `[[:alpha:]]`), applied to one line at a time, without the line's ending. Two things are milder: braces
that are no repetition stand for themselves (`interface{}`), and `\\x{41}` is a character. In what Python,
Rust and PCRE share (literals, classes, groups, alternatives, repetitions, anchors, `\\b`) it agrees with
ripgrep. Whether ripgrep is there makes no difference to what matches; only a pattern whose backtracking
explodes, which is refused, may have been answered by it before.
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
# Reading a longer one can take seconds to minutes, and nothing can stop that.
_MAX_PATTERN_LENGTH = 4000
_HEX_ESCAPE = regex.compile(r"\\x\{([0-9a-fA-F]{1,6})\}")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern ready for use, shared freely between threads.

    `expression` finds hits in one line. `wider` has cheaper questions with a "yes" for every file with a hit,
    None when there are none; `across` is that one of them that is asked of many lines at once.
    """

    source: str
    literal: bool
    ignore_case: bool
    expression: Any
    wider: Prefilter | None
    across: Any

    @property
    def needles(self) -> tuple[str, ...]:
        """Texts of which each matching line holds one; in lower case with `ignore_case`."""
        return self.wider.needles if self.wider else ()

    @property
    def for_ripgrep(self) -> str | None:
        """The wider pattern as Rust's engine reads it."""
        return self.wider.rust if self.wider else None

    @property
    def finds_itself(self) -> bool:
        """Whether each line that holds the pattern's own text matches it."""
        if self.literal or regex.escape(self.source, special_only=True) == self.source:
            return True
        return not set("^$\\(") & set(self.source) and self.expression.fullmatch(self.source) is not None


@functools.lru_cache(maxsize=64)
def compile_pattern(source: str, literal: bool, ignore_case: bool) -> Pattern:
    """Read a pattern; raises ToolFailure with the place of the mistake and a way out."""
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
    wider = prefilter_for(text, ignore_case)
    across = regex.compile(wider.python, flags | regex.MULTILINE) if wider else None
    return Pattern(source, literal, ignore_case, expression, wider, across)


def _without_fuzzy_braces(source: str) -> str:
    """The pattern with braces that are no repetition escaped: `regex` would read `a{e}` as "a, or nearly"."""
    source = _HEX_ESCAPE.sub(lambda found: _character(int(found[1], 16), found[0]), source)
    return str(
        _FUZZY_BRACE.sub(lambda found: "\\" + found[0] if found["brace"] is not None else found[0], source)
    )


def _character(code: int, otherwise: str) -> str:
    return f"\\U{code:08x}" if code <= 0x10FFFF else otherwise
