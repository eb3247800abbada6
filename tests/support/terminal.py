"""Terminals to test with: consoles that keep what rich draws, and a screen that obeys escape codes."""

from __future__ import annotations

import io
import re

from rich.cells import cell_len
from rich.console import Console

_PIECE = re.compile(r"\x1b\[([?0-9;]*)([@-~])|\x1b\][^\x07]*\x07|\x1b[=>]|(.)", re.DOTALL)


def recorded_console(width: int = 80, height: int = 24, *, terminal: bool = True) -> Console:
    """A console that writes to memory; `written(console)` gives it back."""
    return Console(
        file=io.StringIO(),
        force_terminal=terminal,
        width=width,
        height=height,
        color_system="standard" if terminal else None,
        highlight=False,
        legacy_windows=False,
        _environ={"TERM": "xterm-256color"},
    )


def written(console: Console) -> str:
    """Everything that was written, escape codes included."""
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def screen(text: str) -> list[str]:
    """The lines that an endless, wide terminal shows after this output."""
    view = Screen(columns=10_000, rows=10_000)
    view.feed(text.replace("\n", "\r\n"))
    return view.lines


class Screen:
    """What a terminal shows: the lines that scrolled away, and the rows one sees. Colours are dropped.

    Obeys what rich and prompt_toolkit write; any other code fails the test, since it would be a guess.
    """

    _IGNORED = frozenset("mhltq")  # colours, modes, titles, the cursor's shape

    def __init__(self, columns: int, rows: int) -> None:
        self.columns = columns
        self.rows = rows
        self._scrolled: list[str] = []
        self._grid: list[list[str]] = [[]]
        self._row = self._column = 0
        self._rest = ""

    @property
    def lines(self) -> list[str]:
        """Everything from the first line to the last that is not empty."""
        lines = [*self._scrolled, *("".join(row).rstrip() for row in self._grid)]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    @property
    def visible(self) -> list[str]:
        """The rows one sees."""
        return ["".join(row).rstrip() for row in self._grid]

    def feed(self, text: str) -> None:
        """Obey more output; a code that is cut waits for its rest."""
        text = self._rest + text
        start = text.rfind("\x1b", max(0, len(text) - 40))
        cut = start >= 0 and not re.match(r"\x1b(\[[?0-9;]*[@-~]|\][^\x07]*\x07|[=>])", text[start:])
        self._rest = text[start:] if cut else ""
        for piece in _PIECE.finditer(text[:start] if cut else text):
            if piece[3]:
                self._character(piece[3])
            elif piece[2]:
                self._obey(piece[1], piece[2])

    def resize(self, columns: int, rows: int) -> None:
        """Another size; what is there stays as it is, as in a terminal that does not wrap again."""
        self.columns, self.rows = columns, rows
        while len(self._grid) > rows:
            self._scroll()

    def _character(self, character: str) -> None:
        if character == "\r":
            self._column = 0
        elif character == "\n":
            self._down()
        elif character == "\b":
            self._column = max(0, self._column - 1)
        elif character != "\x07":
            self._put(character)

    def _put(self, character: str) -> None:
        width = cell_len(character)
        if self._column + width > self.columns:
            self._column = 0
            self._down()
        row = self._grid[self._row]
        row += [" "] * (self._column + width - len(row))
        if width:
            row[self._column : self._column + width] = [character, *[""] * (width - 1)]
        self._column += width

    def _down(self) -> None:
        self._row += 1
        if self._row == self.rows:
            self._scroll()
        elif self._row == len(self._grid):
            self._grid.append([])

    def _scroll(self) -> None:
        self._scrolled.append("".join(self._grid.pop(0)).rstrip())
        self._row = max(0, self._row - 1)
        while self._row >= len(self._grid):
            self._grid.append([])

    def _obey(self, parameters: str, code: str) -> None:
        number = int(parameters) if parameters.isdigit() else 0
        match code:
            case "A":
                self._row = max(0, self._row - (number or 1))
            case "B":
                for _ in range(number or 1):
                    self._down()
            case "C":
                self._column = min(self.columns - 1, self._column + (number or 1))
            case "D":
                self._column = max(0, self._column - (number or 1))
            case "J" if number == 0:
                del self._grid[self._row][self._column :]
                del self._grid[self._row + 1 :]
            case "K":
                del self._grid[self._row][0 if number == 2 else self._column :]
            case _ if code not in self._IGNORED:
                raise AssertionError(f"an escape code that this screen does not know: {parameters}{code}")
