"""Ends a bracketed paste whose end mark was lost.

Between the marks of a paste prompt_toolkit's parser takes every byte as text. When the end mark never comes,
as over a broken connection, it would swallow all later keys, Ctrl-C included.
"""

from __future__ import annotations

from typing import Any, Protocol

from prompt_toolkit.input import Input

_START, _END = "\x1b[200~", "\x1b[201~"
_CTRL_C, _ESC = "\x03", "\x1b"
# A mark may arrive in two reads.
_KEPT = len(_END) - 1


class Parser(Protocol):
    """The part of prompt_toolkit's Vt100Parser that an input calls."""

    def feed(self, data: str) -> None: ...

    def flush(self) -> None: ...


class PasteGuard:
    """A parser around another: Ctrl-C or Esc pressed inside a paste ends the paste.

    A key counts as pressed when it arrives alone. Those characters inside a pasted text arrive with their
    neighbours. What was pasted so far is inserted.
    """

    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._is_pasting = False
        self._last = ""

    def feed(self, data: str) -> None:
        """Parse input; prompt_toolkit calls it with the text of each read."""
        if self._is_pasting and data and not data.strip(_CTRL_C):
            self._end_paste()
            self._parser.feed(_CTRL_C)
            return
        seen = self._last + data
        self._is_pasting = seen.rfind(_START) > seen.rfind(_END) or (self._is_pasting and _END not in seen)
        self._last = seen[-_KEPT:]
        self._parser.feed(data)

    def flush(self) -> None:
        """Take an incomplete sequence as it is; prompt_toolkit calls it when no more input follows."""
        if self._is_pasting and self._last.endswith(_ESC):
            self._end_paste(_END.removeprefix(_ESC))  # the Esc becomes the beginning of the mark
        self._parser.flush()

    def _end_paste(self, mark: str = _END) -> None:
        self._is_pasting = False
        self._last = ""
        self._parser.feed(mark)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)


def guard_pastes(source: Input) -> None:
    """Put a PasteGuard around the parser of an input; inputs without such a parser stay as they are."""
    parser = getattr(source, "vt100_parser", None)
    if parser is not None:
        source.vt100_parser = PasteGuard(parser)  # type: ignore[attr-defined]
