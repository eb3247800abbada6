"""Notices when a JSON object that arrives in pieces is whole, at the cost of one look at each character."""

from __future__ import annotations

import re

from agent.partial_json import parse_arguments

_IN_STRING = re.compile(r'["\\\\]')
_OUTSIDE = re.compile(r'["{}\[\]]')


class ObjectScan:
    """Scans the pieces of a JSON text. An object that was encoded as a string once more counts as one."""

    __slots__ = ("_depth", "_escaped", "_has_ended", "_in_string", "_pieces", "_whole", "characters")

    def __init__(self) -> None:
        self.characters = 0  # scanned so far
        self._pieces: list[str] = []
        self._depth = 0
        self._in_string = False
        self._escaped = False  # the next character belongs to an escape
        self._has_ended = False
        self._whole: bool | None = None  # not decided yet

    def add(self, piece: str) -> None:
        """Take in the next piece."""
        self.characters += len(piece)
        if self._has_ended:
            if piece and not piece.isspace():
                self._whole = False
            return
        self._pieces.append(piece)
        end = self._end_in(piece)
        if end >= 0:
            self._has_ended = True
            if piece[end:].strip():
                self._whole = False

    @property
    def is_whole(self) -> bool:
        """True when the pieces are one JSON object. They are parsed once, when the last bracket has come."""
        if self._whole is None and self._has_ended:
            text = "".join(self._pieces)
            self._whole = not parse_arguments(text)[1]
            self._pieces = []
        return bool(self._whole)

    def _end_in(self, piece: str) -> int:
        """Where the value ends in a piece; -1 when it does not."""
        position = 0
        if self._escaped and piece:
            self._escaped, position = False, 1
        while match := (_IN_STRING if self._in_string else _OUTSIDE).search(piece, position):
            position = match.end()
            match match[0]:
                case "\\":
                    position += 1
                    self._escaped = position > len(piece)
                case '"':
                    self._in_string = not self._in_string
                case "{" | "[":
                    self._depth += 1
                case _:
                    self._depth -= 1
            if self._depth <= 0 and not self._in_string:
                return min(position, len(piece))
        return -1
