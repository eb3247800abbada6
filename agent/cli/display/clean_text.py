"""Text that is safe to write to a terminal.

A terminal obeys control characters, and directional overrides make one command look like another. Text from
models, tools, files and servers therefore passes `clean` on its way out: `CleanStream` does it for a text
stream, `agent.cli.display.clean_console` for rich.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TextIO, cast

# The C0 and C1 controls but tab and line feed, and the embeddings, overrides and isolates of the
# bidirectional algorithm (Unicode Annex 9).
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_LINE = 160


def clean(text: str) -> str:
    """The text without control characters, except tabs and line feeds, and without directional overrides."""
    return _CONTROL.sub("", text)


def one_line(text: str, limit: int = _LINE) -> str:
    """The cleaned text on one line, cut to `limit` characters."""
    text = text[: limit * 8]  # a line of a minified file has megabytes
    line = " ".join(clean(text.replace("\n", " ")).split()) if "\n" in text else clean(text)
    return line if len(line) <= limit else line[: limit - 3] + "..."


class OutputError(OSError):
    """Standard output can't be written; the cause says why."""


class CleanStream:
    """A text stream whose `write` cleans; everything else is that of the stream inside.

    A failed write raises OutputError, or is ignored when the output `is_optional`, as notes for people are.
    """

    def __init__(self, stream: TextIO, is_optional: bool = False) -> None:
        self.stream = stream
        self._is_optional = is_optional

    def write(self, text: str) -> int:
        """Write the cleaned text; returns the length of the given one, as callers check it."""
        self._guarded(lambda: self.stream.write(clean(text)))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each cleaned line."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush the stream inside."""
        self._guarded(self.stream.flush)

    def _guarded(self, action: Callable[[], object]) -> None:
        try:
            action()
        except (OSError, ValueError) as error:  # ValueError: the stream is closed
            if not self._is_optional:
                raise OutputError(str(error)) from error
            discard_output(self.stream)

    def __getattr__(self, name: str) -> object:
        return getattr(self.stream, name)


def discard_output(stream: TextIO) -> None:
    """Point the descriptor of a stream that can't be written at the null device.

    Otherwise the interpreter's flush at exit fails again, with a message and code 120.
    """
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def cleaned(stream: TextIO, is_optional: bool = False) -> TextIO:
    """The stream as a `CleanStream`."""
    return cast(TextIO, CleanStream(stream, is_optional))


def unwrapped(stream: TextIO) -> TextIO:
    """The stream inside a `CleanStream`, for a writer that cleans by itself and writes escape codes."""
    inner: object = stream
    return inner.stream if isinstance(inner, CleanStream) else stream
