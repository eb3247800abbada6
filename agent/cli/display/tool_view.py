"""Renders one tool call: its header, its result, and the change it made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from agent.cli.display.amounts import duration
from agent.cli.display.clean_text import clean
from agent.messages import ImageContent
from agent.tools import ToolResult

# A screen holds several calls only if each takes a few lines. A change is read more closely.
RESULT_LINES = 6
DIFF_LINES = 24
_RUNNING_LINES = 3
# Wider than any terminal; a line of a minified file has megabytes.
_LONGEST_LINE = 500
_SLOW = 1.0  # the duration of a call is shown from this many seconds on

_TITLE_STYLES = {"path": "cyan", "pattern": "magenta", "accent": "bold"}
_DIFF_STYLES = {"+": "green", "-": "red"}


def header(name: str, arguments: Mapping[str, Any], hint: Any, mark: Text, note: str = "") -> Text:
    """One line: a mark, the tool, the arguments that its display hint names, and a note."""
    line = Text.assemble(mark, " ", (clean(name), "bold"), no_wrap=True, overflow="ellipsis")
    for label, text, style in _title(arguments, hint):
        line.append(f" {label} " if label else " ", "dim")
        line.append(text, style)
    if note:
        line.append(f"  {note}", "dim")
    return line


def finished_call(
    name: str, arguments: Mapping[str, Any], hint: Any, result: ToolResult, is_error: bool, seconds: float
) -> RenderableType:
    """The header of a finished call and a few lines of its result."""
    mark = Text("✗", "red") if is_error else Text("●", "green")
    note = duration(seconds) if seconds >= _SLOW else ""
    return Group(header(name, arguments, hint, mark, note), *_outcome(result, is_error, hint))


def running_call(
    name: str, arguments: Mapping[str, Any], hint: Any, mark: Text, seconds: float, progress: str
) -> RenderableType:
    """The header of a running call, and its last progress."""
    lines = progress.rstrip().split("\n")[-_RUNNING_LINES:] if progress.strip() else []
    note = duration(seconds) if seconds >= _SLOW else ""
    return Group(header(name, arguments, hint, mark, note), *(row(line, "dim") for line in lines))


def _title(arguments: Mapping[str, Any], hint: Any) -> list[tuple[str, str, str]]:
    """Label, text and style of each argument in the header."""
    shown = getattr(hint, "title_args", None)
    if not shown:
        return [(f"{name}=", _on_one_line(value), "") for name, value in arguments.items()]
    parts = []
    for arg in shown:
        value = arguments.get(arg.name)
        if value is not None:
            text = f"/{value}/" if arg.style == "pattern" else str(value)
            parts.append((arg.label, _on_one_line(text), _TITLE_STYLES.get(arg.style, "")))
    return parts


def _outcome(result: ToolResult, is_error: bool, hint: Any) -> list[Text]:
    diff = result.details.get("diff") if isinstance(result.details, Mapping) else None
    if isinstance(diff, str) and diff and not is_error:
        return _diff(diff)
    rows = _text(result.text, is_error, hint)
    images = (block for block in result.content if isinstance(block, ImageContent))
    return rows + [row(_image(block), "dim") for block in images]


def _text(text: str, is_error: bool, hint: Any) -> list[Text]:
    if not text.strip():
        return []
    style = "red" if is_error else "dim"
    lines = text.rstrip().split("\n")
    limit = min(getattr(hint, "result_max_lines", 0) or RESULT_LINES, RESULT_LINES)
    left = len(lines) - limit
    if left <= 1:  # a notice about one omitted line would be as long as that line
        return [row(line, style) for line in lines]
    more = row(f"... {left} more lines", "dim italic")
    # The end of an error and of a program's output is the informative part.
    if is_error or getattr(hint, "use_box", False):
        return [more, *(row(line, style) for line in lines[-limit:])]
    return [*(row(line, style) for line in lines[:limit]), more]


def _diff(diff: str) -> list[Text]:
    lines = diff.rstrip("\n").split("\n")
    left = len(lines) - DIFF_LINES
    shown: Sequence[str] = lines if left <= 1 else lines[:DIFF_LINES]
    rows = [row(line, _DIFF_STYLES.get(line[:1], "dim")) for line in shown]
    return rows if left <= 1 else [*rows, row(f"... {left} more lines", "dim italic")]


def _image(block: ImageContent) -> str:
    kilobytes = max(1, len(block.data) * 3 // 4 // 1000)
    return f"image: {block.mime_type}, {kilobytes} kB"


def row(line: str, style: str) -> Text:
    """A line below a header, cut at the right edge of the screen."""
    line = clean(line[:_LONGEST_LINE].expandtabs(4))
    return Text("    " + line, style, no_wrap=True, overflow="ellipsis")


def _on_one_line(value: Any) -> str:
    return " ".join(clean(str(value)[:_LONGEST_LINE].replace("\n", " ")).split())
