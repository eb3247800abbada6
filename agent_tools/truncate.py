"""Truncates text for a model: whole lines from the start or the end, within a limit of lines and bytes.

Lines end at line feeds; a line feed at the very end of a text starts no further line.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Literal

from agent_tools.tool import JsonObject

MAX_LINES = 2000  # about as many as a model can use in one result
MAX_BYTES = 50 * 1024  # about 12,000 tokens
MAX_LINE_LENGTH = 500  # characters of one line in a list of matches

_KIB = 1024
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Truncation:
    """A text cut to its limits, and what was left out; sizes are UTF-8 bytes.

    `truncated_by` is the limit that applied, "" when everything was kept.
    """

    content: str
    truncated: bool
    truncated_by: Literal["", "lines", "bytes"]
    total_lines: int
    total_bytes: int
    output_lines: int
    output_bytes: int
    last_line_partial: bool = False
    first_line_exceeds_limit: bool = False
    max_lines: int = MAX_LINES
    max_bytes: int = MAX_BYTES

    def summary(self) -> JsonObject:
        """Everything but the content, as plain data for `details`; keys are in camelCase."""
        fields = asdict(replace(self, content=""))
        del fields["content"]
        return {_camel_case(name): value for name, value in fields.items()}


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.title() for word in others)


def format_size(size: int) -> str:
    """A number of bytes for display: 1023B, 1.5KB, 2.5MB."""
    if size < _KIB:
        return f"{size}B"
    if size < _MIB:
        return f"{size / _KIB:.1f}KB"
    return f"{size / _MIB:.1f}MB"


def byte_length(text: str) -> int:
    """The length of a text in UTF-8; lone surrogates count three bytes instead of failing."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def count_lines(text: str) -> int:
    """The number of lines; an empty text has none, a final line feed adds none."""
    return text.count("\n") + (0 if text.endswith("\n") or not text else 1)


def keep_head(text: str, max_lines: int = 0, max_bytes: int = 0) -> Truncation:
    """Keep whole lines from the start; a limit of zero or less means the default.

    A first line longer than `max_bytes` leaves nothing and sets `first_line_exceeds_limit`. A text within
    both limits is returned unchanged; a cut one loses the line feed after its last line.
    """
    whole = _whole(text, max_lines, max_bytes)
    if not whole.truncated:
        return whole
    kept, used, stopped_by = _take(text, whole.max_lines, whole.max_bytes, from_end=False)
    return _cut(whole, kept, used, stopped_by)


def keep_tail(text: str, max_lines: int = 0, max_bytes: int = 0) -> Truncation:
    """Keep whole lines from the end; a limit of zero or less means the default.

    A last line longer than `max_bytes` is itself cut to its end, at a character; `last_line_partial` says so.
    """
    whole = _whole(text, max_lines, max_bytes)
    if not whole.truncated:
        return whole
    kept, used, stopped_by = _take(text, whole.max_lines, whole.max_bytes, from_end=True)
    if kept:
        return _cut(whole, kept[::-1], used, stopped_by)
    body = text.removesuffix("\n")
    tail = _last_bytes(body[body.rfind("\n") + 1 :], whole.max_bytes)
    return replace(
        whole,
        content=tail,
        truncated_by="bytes",
        output_lines=1,
        output_bytes=byte_length(tail),
        last_line_partial=True,
    )


def cut_line(line: str, limit: int = MAX_LINE_LENGTH) -> str:
    """One line cut to `limit` characters, with a mark when something was cut."""
    if limit <= 0:
        limit = MAX_LINE_LENGTH
    return line if len(line) <= limit else line[:limit] + "... [truncated]"


def _whole(text: str, max_lines: int, max_bytes: int) -> Truncation:
    """The record of the uncut text; `truncated` says whether it is over a limit."""
    max_lines = max_lines if max_lines > 0 else MAX_LINES
    max_bytes = max_bytes if max_bytes > 0 else MAX_BYTES
    # An empty text is shown as one (empty) line.
    lines, size = max(1, count_lines(text)), byte_length(text)
    over = lines > max_lines or size > max_bytes
    return Truncation(text, over, "", lines, size, lines, size, max_lines=max_lines, max_bytes=max_bytes)


def _take(
    text: str, max_lines: int, max_bytes: int, *, from_end: bool
) -> tuple[list[str], int, Literal["lines", "bytes"]]:
    """Whole lines from one end, nearest first, their joined size, and the limit that applied.

    Lines are cut off one at a time, so the work is bounded by what is kept, not by the text.
    """
    kept: list[str] = []
    used = 0
    start, end = 0, len(text) - text.endswith("\n")
    while len(kept) < max_lines and start <= end:
        if from_end:
            feed = text.rfind("\n", start, end)
            line_start, line_end = feed + 1, end
        else:
            feed = text.find("\n", start, end)
            line_start, line_end = start, feed if feed >= 0 else end
        # A character is at least one byte: an over-long line is refused without being encoded.
        cost = line_end - line_start + bool(kept)
        if used + cost <= max_bytes:
            cost = byte_length(text[line_start:line_end]) + bool(kept)
        if used + cost > max_bytes:
            return kept, used, "bytes"
        kept.append(text[line_start:line_end])
        used += cost
        if feed < 0:
            break
        start, end = (start, feed) if from_end else (feed + 1, end)
    return kept, used, "lines"


def _cut(whole: Truncation, kept: list[str], used: int, stopped_by: Literal["lines", "bytes"]) -> Truncation:
    complete = len(kept) == whole.total_lines
    return replace(
        whole,
        content="\n".join(kept),
        # Only the final line feed exceeded the limit: no line is missing.
        truncated=not complete,
        truncated_by="" if complete else stopped_by,
        output_lines=len(kept),
        output_bytes=used,
        first_line_exceeds_limit=not kept,
    )


def _last_bytes(text: str, limit: int) -> str:
    """The end of a text within `limit` bytes, from the first whole character on."""
    data = text[-limit:].encode("utf-8", "surrogatepass")[-limit:]
    start = 0
    while start < len(data) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:].decode("utf-8", "surrogatepass")
