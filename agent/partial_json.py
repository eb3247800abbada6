"""Parses JSON objects that may be unfinished: the arguments of a tool call while they stream.

Our own parser, since a general one for partial JSON gives other guarantees: here a member that was shown is
never taken back, a text costs its length, and what counts as whole is exactly what `json` accepts.
"""

from __future__ import annotations

import json
import re
from typing import Any

from agent.json_values import JsonObject

# The grammar of JSON, exactly: a token that is whole here is valid for `json` too. Nothing backtracks, so a
# long text costs its length. A repeated group is atomic, `(?>(...)*)`, not possessive, `(...)*+`: before
# Python 3.11.5 a possessive one with a choice in it matches too little.
_SPACE = r"[ \t\n\r]*+"
_HEX = "[0-9a-fA-F]"
_STRING = rf"""[^"\\]*+(?>(?:\\(?:["\\/bfnrt]|u{_HEX}{{4}})[^"\\]*+)*)"""
_NUMBER = r"-?+(?:0|[1-9][0-9]*+)(?>(?:\.[0-9]++)?)(?>(?:[eE][+-]?+[0-9]++)?)"
# One token: a bracket or separator, a whole string, or a number or literal. Those are whole only before a
# separator: `12` could become `123`.
_TOKEN = re.compile(
    rf"""{_SPACE}(?:([{{}}\[\],:])|("{_STRING}")|((?:{_NUMBER}|true|false|null)(?=[ \t\n\r,\]}}])))"""
)
# A string that has no end yet, up to its last whole character. Characters beyond the first 65,536 are written
# as two escapes; the first half is not whole until it is known what follows.
_HIGH_HALF = rf"u[dD][89abAB]{_HEX}{{2}}"
_OPEN_STRING = re.compile(
    rf"""{_SPACE}"[^"\\]*+(?>(?:\\(?:["\\/bfnrt]|(?!{_HIGH_HALF})u{_HEX}{{4}}"""
    rf"""|{_HIGH_HALF}(?=[^\\]|\\[^u]|\\u{_HEX}{{4}}))[^"\\]*+)*)"""
)
_CLOSERS = {"{": "}", "[": "]"}


def parse_arguments(text: str) -> tuple[JsonObject, str]:
    """A tool call's arguments and what is wrong with them, empty when nothing is.

    Blank text and `null` mean no arguments. Line feeds and tabs inside strings are accepted, and an object
    that was encoded as a string once more is unwrapped. Text that is no JSON yields what could be read of it
    and an explanation; a JSON value that is no object yields `{}` and one.
    """
    if not text.strip():
        return {}, ""
    try:
        value = _loads(text)
        if isinstance(value, str):
            value = _unwrapped(value)
    except (ValueError, RecursionError) as error:
        problem = f"the arguments are not valid JSON, they may be cut off ({_reason(error)})"
        return parse_partial_object(text), problem
    if value is None:
        return {}, ""
    if not isinstance(value, dict):
        return {}, f"the arguments must be a JSON object, got {_kind(value)}"
    return checked_depth(value)


# Far above what any tool takes. Deeper values exhaust the recursion limit of what handles them later: copies
# for hooks, the JSON of events and of the next requests.
_MAX_DEPTH = 200


def checked_depth(arguments: JsonObject) -> tuple[JsonObject, str]:
    """The arguments, or `{}` and an explanation when they are nested more than 200 levels deep."""
    level: list[Any] = [arguments]
    for _ in range(_MAX_DEPTH):
        level = [
            item
            for container in level
            for item in (container.values() if isinstance(container, dict) else container)
            if isinstance(item, dict | list)
        ]
        if not level:
            return arguments, ""
    return {}, f"the arguments are nested more than {_MAX_DEPTH} levels deep"


def _unwrapped(text: str) -> Any:
    """The value that was encoded as a string once more, or the string itself when it is just that."""
    if not text.strip():
        return None
    try:
        return _loads(text)
    except ValueError:
        return text


def parse_partial_object(text: str) -> JsonObject:
    """The members of an unfinished JSON object that are certain so far; never raises, never grows smaller.

    An unfinished string value is kept up to its last whole character; an unfinished number, literal or key is
    left out, since what follows could change it. One pass over the text.
    """
    repaired = _repair(text)
    if repaired is None:
        return {}
    try:
        value = _loads(repaired)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _repair(text: str) -> str | None:
    """The text up to its last safe place, with what is open there closed; None when it is no object."""
    scan = _Scan()
    position = 0
    while not scan.finished and (match := _TOKEN.match(text, position)):
        punctuation, string, _ = match.groups()
        if not scan.take(punctuation, string is not None, match.end()):
            break
        position = match.end()
    if not scan.opened:
        return None
    # Since the last safe place only a key, a colon or a comma can have come: the open brackets are the same.
    if scan.expects_value and (open_string := _OPEN_STRING.match(text, position)):
        return text[: open_string.end()] + '"' + scan.closers()
    return text[: scan.safe] + scan.closers()


class _Scan:
    """The grammar of JSON as far as needed to know where a text may be cut and closed."""

    def __init__(self) -> None:
        self.stack: list[str] = []
        self.opened = False
        self.finished = False
        self.expects = "value"
        self.safe = 0

    @property
    def expects_value(self) -> bool:
        return self.opened and self.expects in ("value", "value or end")

    def closers(self) -> str:
        return "".join(_CLOSERS[opener] for opener in reversed(self.stack))

    def take(self, punctuation: str | None, is_string: bool, end: int) -> bool:
        """Take one token; False when it can't stand here."""
        if punctuation is None:
            return self._scalar(is_string, end)
        if punctuation in "{[":
            return self._open(punctuation, end)
        if punctuation in "}]":
            return self._close(punctuation, end)
        return self._separator(punctuation)

    def _scalar(self, is_string: bool, end: int) -> bool:
        if self.expects in ("key", "key or end"):
            self.expects = "colon"
            return is_string
        if not self.expects_value:
            return False
        self._after_value(end)
        return True

    def _open(self, opener: str, end: int) -> bool:
        if self.expects not in ("value", "value or end") or (not self.opened and opener != "{"):
            return False
        self.opened = True
        self.stack.append(opener)
        self.expects = "key or end" if opener == "{" else "value or end"
        self.safe = end
        return True

    def _close(self, closer: str, end: int) -> bool:
        if not self.stack or _CLOSERS[self.stack[-1]] != closer:
            return False
        if self.expects not in ("comma", "key or end", "value or end"):
            return False
        self.stack.pop()
        self.finished = not self.stack
        self._after_value(end)
        return True

    def _separator(self, separator: str) -> bool:
        if separator == ":" and self.expects == "colon":
            self.expects = "value"
            return True
        if separator == "," and self.expects == "comma":
            self.expects = "key" if self.stack[-1] == "{" else "value"
            return True
        return False

    def _after_value(self, end: int) -> None:
        self.expects = "comma"
        self.safe = end


def _loads(text: str) -> Any:
    return json.loads(text, strict=False)


def _reason(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _kind(value: object) -> str:
    return {list: "an array", str: "a string", bool: "a boolean"}.get(type(value), "a number")
