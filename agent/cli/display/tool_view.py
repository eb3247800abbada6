"""Renders one tool call with rich: its header, its result, and the change it made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from agent.cli.display.amounts import duration
from agent.cli.display.call_text import LONGEST_LINE, excerpt, title_parts
from agent.cli.display.clean_text import clean
from agent.messages import ImageContent
from agent.tools import ToolDisplayHint, ToolResult

# A change is read more closely than other results.
DIFF_LINES = 24
_RUNNING_LINES = 3
_SLOW = 1.0  # the duration of a call is shown from this many seconds on

_TITLE_STYLES = {"path": "cyan", "pattern": "magenta", "accent": "bold"}
_DIFF_STYLES = {"+": "green", "-": "red"}
_INDENT, _BOX = "    ", "  \u2502 "


@dataclass(slots=True)
class Call:
    """A tool call as it is shown. `label` is the readable name of the tool, `started` a monotonic time."""

    label: str
    arguments: Mapping[str, Any]
    hint: ToolDisplayHint | None
    started: float
    progress: str = ""


def finished_call(
    call: Call, result: ToolResult, is_error: bool, seconds: float, cwd: str = ""
) -> RenderableType:
    """The header of a finished call and a few lines of its result."""
    mark = Text("✗", "red") if is_error else Text("●", "green")
    return Group(_header(call, mark, seconds, cwd), *_outcome(result, is_error, call.hint))


def running_call(call: Call, mark: Text, seconds: float, cwd: str = "") -> RenderableType:
    """The header of a running call, and its last progress."""
    progress = call.progress.rstrip()
    lines = progress.split("\n")[-_RUNNING_LINES:] if progress.strip() else []
    return Group(_header(call, mark, seconds, cwd), *(row(line, "dim") for line in lines))


def row(line: str, style: str, indent: str = _INDENT) -> Text:
    """A line below a header, cut at the right edge of the screen."""
    line = clean(line[:LONGEST_LINE].expandtabs(4))
    return Text(indent + line, style, no_wrap=True, overflow="ellipsis")


def _header(call: Call, mark: Text, seconds: float, cwd: str) -> Text:
    line = Text.assemble(mark, " ", (clean(call.label), "bold"), no_wrap=True, overflow="ellipsis")
    for label, text, style in title_parts(call.arguments, call.hint, cwd):
        line.append(f" {label} " if label else " ", "dim")
        line.append(text, _TITLE_STYLES.get(style, ""))
    if seconds >= _SLOW:
        line.append(f"  {duration(seconds)}", "dim")
    return line


def _outcome(result: ToolResult, is_error: bool, hint: ToolDisplayHint | None) -> list[Text]:
    diff = result.details.get("diff") if isinstance(result.details, Mapping) else None
    if isinstance(diff, str) and diff and not is_error:
        return _diff(diff)
    rows = _text(result.text, is_error, hint)
    images = (block for block in result.content if isinstance(block, ImageContent))
    return rows + [row(_image(block), "dim") for block in images]


def _text(text: str, is_error: bool, hint: ToolDisplayHint | None) -> list[Text]:
    style = "red" if is_error else "dim"
    indent = _BOX if hint is not None and hint.use_box else _INDENT
    lines, omitted, is_end = excerpt(text, is_error, hint)
    rows = [row(line, style, indent) for line in lines]
    if not omitted:
        return rows
    more = row(f"... {omitted} more lines", "dim italic", indent)
    return [more, *rows] if is_end else [*rows, more]


def _diff(diff: str) -> list[Text]:
    lines = diff.rstrip("\n").split("\n")
    left = len(lines) - DIFF_LINES
    shown: Sequence[str] = lines if left <= 1 else lines[:DIFF_LINES]
    rows = [row(line, _DIFF_STYLES.get(line[:1], "dim")) for line in shown]
    return rows if left <= 1 else [*rows, row(f"... {left} more lines", "dim italic")]


def _image(block: ImageContent) -> str:
    kilobytes = max(1, len(block.data) * 3 // 4 // 1000)
    return f"image: {block.mime_type}, {kilobytes} kB"
