"""The texts of a tool call that every way of showing it shares: name, title and an excerpt of the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from agent.cli.display.clean_text import clean, one_line
from agent.cli.display.paths import short_path
from agent.tools import TitleArg, ToolDisplayHint

# The lines of a result that are shown where the tool's display hint names no number.
RESULT_LINES = 10
# Wider than any terminal; a line of a minified file has megabytes.
LONGEST_LINE = 500


class TitlePart(NamedTuple):
    """An argument in the title of a call: a label before it, its text on one line, and its style."""

    label: str
    text: str
    style: str = ""


class Excerpt(NamedTuple):
    """Some lines of a result; `omitted` lines come after them, or before them when they are the end."""

    lines: Sequence[str]
    omitted: int
    is_end: bool


def title_parts(
    arguments: Mapping[str, object], hint: ToolDisplayHint | None, cwd: str = ""
) -> list[TitlePart]:
    """The arguments that the display hint names, in its order; all arguments where there is no hint."""
    if hint is None or not hint.title_args:
        return [TitlePart(f"{_flat(name)}=", _flat(value)) for name, value in arguments.items()]
    return [
        TitlePart(arg.label, _flat(_styled(arg, value, cwd)), arg.style)
        for arg in hint.title_args
        if (value := arguments.get(arg.name)) is not None
    ]


def title(arguments: Mapping[str, object], hint: ToolDisplayHint | None, cwd: str = "") -> str:
    """The title of a call as plain text on one line."""
    parts = title_parts(arguments, hint, cwd)
    texts = (f"{label}{'' if label.endswith('=') or not label else ' '}{text}" for label, text, _ in parts)
    return one_line(" ".join(texts))


def excerpt(text: str, is_error: bool, hint: ToolDisplayHint | None) -> Excerpt:
    """The beginning of a result, or the end of an error and of a program's output: it shows the outcome.

    The length is the display hint's `result_max_lines`, or RESULT_LINES when that is 0.
    """
    if not text.strip():
        return Excerpt((), 0, False)
    lines = text.rstrip().split("\n")
    limit = (hint.result_max_lines if hint is not None else 0) or RESULT_LINES
    is_end = is_error or (hint is not None and hint.use_box)
    omitted = len(lines) - limit
    if omitted <= 1:  # a notice about one omitted line would be as long as that line
        return Excerpt(lines, 0, is_end)
    return Excerpt(lines[-limit:] if is_end else lines[:limit], omitted, is_end)


def _styled(arg: TitleArg, value: object, cwd: str) -> str:
    match arg.style:
        case "pattern":
            return f"/{value}/"
        case "path":
            return short_path(str(value), cwd)
    return str(value)


def _flat(value: object) -> str:
    return " ".join(clean(str(value)[:LONGEST_LINE].replace("\n", " ")).split())
