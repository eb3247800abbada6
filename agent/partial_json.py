"""Reads JSON objects that may be unfinished: what a model has written of a tool call's arguments so far."""

from __future__ import annotations

import json
import re
from typing import Any

# One token: a bracket or separator, a whole string, or a run that should be a number or literal.
_TOKEN = re.compile(r'\s*(?:([{}\[\],:])|("[^"\\]*(?:\\.[^"\\]*)*")|([^\s{}\[\],:"]+))', re.DOTALL)
# The whole characters and whole escapes of a string that has no end yet.
_OPEN_STRING = re.compile(r'\s*"[^"\\]*(?:(?:\\u[0-9a-fA-F]{4}|\\[^u])[^"\\]*)*', re.DOTALL)
# Half a character beyond the first 65,536: its other half may still come.
_HIGH_SURROGATE = re.compile(r"(?<!\\)(?:\\\\)*(\\u[dD][89abAB][0-9a-fA-F]{2})$")
_CLOSERS = {"{": "}", "[": "]"}


def parse_arguments(text: str) -> tuple[dict[str, Any], str]:
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
        return parse_partial_object(
            text
        ), f"the arguments are not valid JSON, they may be cut off ({_reason(error)})"
    if value is None:
        return {}, ""
    if not isinstance(value, dict):
        return {}, f"the arguments must be a JSON object, got {_kind(value)}"
    return value, ""


def _unwrapped(text: str) -> Any:
    """The value that was encoded as a string once more, or the string itself when it is just that."""
    try:
        return _loads(text)
    except ValueError:
        return text


def parse_partial_object(text: str) -> dict[str, Any]:
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
    while match := _TOKEN.match(text, position):
        position = match.end()
        punctuation, string, other = match.groups()
        # A run that touches the end may go on: `12` could become `123`.
        if other is not None and position == len(text):
            break
        if not scan.take(punctuation, string is not None, position):
            break
        if scan.finished:
            break
    if not scan.opened:
        return None
    # Since the last safe place only a key, a colon or a comma can have come: the open brackets are the same.
    if scan.expects_value and not scan.finished and (open_string := _OPEN_STRING.match(text, position)):
        end = open_string.end()
        half = _HIGH_SURROGATE.search(text, max(position, end - 64), end)
        return text[: half.start(1) if half else end] + '"' + scan.closers()
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
