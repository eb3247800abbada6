"""Consoles that keep what rich draws, and a terminal's reading of it."""

from __future__ import annotations

import io
import re

from rich.console import Console

_STYLE = re.compile(r"\x1b\[[0-9;]*m")


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
    """The lines that a terminal shows after this output: cursor moves obeyed, colours dropped."""
    lines: list[str] = [""]
    row = column = 0
    for piece in re.findall(r"\x1b\[[?0-9;]*[A-Za-z]|[^\x1b]", _STYLE.sub("", text)):
        if piece == "\n":
            row, column = row + 1, 0
            if row == len(lines):
                lines.append("")
        elif piece == "\r":
            column = 0
        elif piece[0] == "\x1b":
            if piece.endswith("A"):
                row = max(0, row - int(piece[2:-1] or 1))
            elif piece == "\x1b[2K":
                lines[row] = ""
        else:
            lines[row] = lines[row][:column].ljust(column) + piece + lines[row][column + 1 :]
            column += 1
    return [line.rstrip() for line in lines]
