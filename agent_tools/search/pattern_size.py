"""Bounds the size of a regular expression before it is compiled.

`regex` writes repetitions such as `(?:ab|cd){300000}` out while it compiles: that takes gigabytes, holds the
interpreter for seconds, and from some size on ends the process with a stack overflow. It also prepares the
search for a run of literal characters in time that grows with the cube of its length (1,000 characters take
0.3 s, 3,900 take 19 s). Neither can be interrupted, so such expressions are refused.
"""

from __future__ import annotations

import regex

from agent_tools.tool import ToolFailure

MAX_REPEATS = 1000  # of one repetition
MAX_SIZE = 10_000  # characters and classes with all repetitions written out; compiling them takes about 20 ms
MAX_LITERAL = 1000  # plain characters in a row

_TOKEN = regex.compile(
    r"""(?xs)
      (?P<skip>\(\?\#[^)]*\))
    | (?P<open>\()
    | (?P<close>\))
    | (?P<count>\{\s*(?P<least>\d*)\s*(?:,\s*(?P<most>\d*)\s*)?\})
    | (?P<other>\\[pPN]\{[^{}]*\} | \\[^\W\d_] | \[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\] | [|^$.*+?])
    | (?P<literal>\\?.)
    """
)
# Inline flags for verbose mode and for nested sets change what a token is, so groups cannot be followed.
_CHANGES_TOKENS = regex.compile(r"\(\?[a-zA-Z0-9-]*?(?:x|V1)")


def check_size(expression: str) -> None:
    """Raise `ToolFailure` for an expression that is too large to compile. Invalid expressions pass."""
    counts_multiply = _CHANGES_TOKENS.search(expression) is not None
    groups = [0]  # the sizes of the open groups, the whole expression first
    last = 0  # the size of the piece before the position, which a repetition multiplies
    literals = 0
    factor = 1
    for token in _TOKEN.finditer(expression):
        kind = token.lastgroup if token["count"] is None else "count"
        literals = literals + 1 if kind == "literal" else 0
        if literals > MAX_LITERAL:
            raise ToolFailure(
                f"the pattern has more than {MAX_LITERAL} plain characters in a row: shorten it"
            )
        if kind == "open":
            groups.append(0)
        elif kind == "close":
            last = groups[-1]
            if len(groups) > 1:
                groups.pop()
                groups[-1] += last
        elif kind == "count":
            count = _count(token)
            factor = min(factor * count, MAX_SIZE + 1)
            groups[-1] += last * (count - 1)
            last *= count
        elif kind != "skip":
            last = 1
            groups[-1] += 1
        if groups[-1] > MAX_SIZE or (counts_multiply and factor * len(expression) > MAX_SIZE):
            raise _too_large()


def _count(token: regex.Match[str]) -> int:
    """The larger number of a repetition, at least 1."""
    digits = [token["least"], token["most"] or ""]
    if any(len(number) > 6 for number in digits):
        raise _too_large()
    count = max(int(number or "0") for number in digits)
    if count > MAX_REPEATS:
        raise _too_large()
    return max(1, count)


def _too_large() -> ToolFailure:
    return ToolFailure(
        f"the repetitions of the pattern are too large: a count is at most {MAX_REPEATS}, and the "
        f"whole pattern, nested counts multiplied, at most {MAX_SIZE} characters. Use * or + instead"
    )
