"""Replaces quoted text in the bytes of a file, for `edit` and `editdiff`.

All quotations are searched in the original text, so no edit sees the result of another; all are applied or
none. Only the quoted span changes, in the encoding of the file and with the line ending of the lines around
it.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pydantic import Field, field_validator, model_validator

from agent_tools.diff import CONTEXT_LINES, Diff, diff_of_part, generate_diff
from agent_tools.editing.closest_lines import closest_lines
from agent_tools.editing.matching import MAX_OCCURRENCES, Haystack, Match, with_line_feeds
from agent_tools.files.encoding import (
    DecodedText,
    damaged_utf8,
    decode,
    displayable,
    encode_argument,
    latin_1,
)
from agent_tools.tool import Arguments, ToolFailure

_LISTED_LINES = 10  # of an ambiguous text


class Replacement(Arguments):
    old_text: str = Field(
        alias="oldText",
        description="Text in the file to replace: exact, including indentation, and found there only once",
    )
    new_text: str = Field(alias="newText", description="What takes its place; empty to delete it")


class EditArguments(Arguments):
    path: str = Field(description="The file, relative to the working directory or absolute")
    old_text: str | None = Field(
        None,
        alias="oldText",
        description="Text in the file to replace: exact, including indentation, and found there only once",
    )
    new_text: str | None = Field(
        None, alias="newText", description="What takes its place; empty to delete it"
    )
    edits: list[Replacement] | None = Field(
        None,
        description="Several replacements at once, instead of oldText and newText. Each oldText is looked "
        "for in the file as it is now; they must not overlap",
    )
    if_hash: str | None = Field(
        None, description="Hash from an earlier read; if the file has changed since, nothing is edited"
    )

    @field_validator("edits", mode="before")
    @classmethod
    def _unwrap(cls, value: Any) -> Any:
        """Models send the list as JSON text, or one bare replacement."""
        if isinstance(value, str):
            try:
                value = json.loads(value, strict=False)
            except ValueError:
                raise ValueError("expected an array of {oldText, newText}, got other text") from None
        return [value] if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _one_form(self) -> EditArguments:
        if self.edits:
            if self.old_text or self.new_text:
                raise ValueError("give either edits or oldText and newText, not both")
        elif self.old_text is None and self.new_text is None:
            raise ValueError("oldText and newText are required (or edits, a list of such pairs)")
        elif self.old_text is None or self.new_text is None:
            raise ValueError(f"{'oldText' if self.old_text is None else 'newText'} is required")
        return self

    @property
    def replacements(self) -> list[Replacement]:
        """The replacements, from either form of the arguments."""
        if self.edits:
            return self.edits
        return [Replacement(oldText=self.old_text or "", newText=self.new_text or "")]


@dataclass(frozen=True, slots=True)
class _Part:
    """Whole lines of a text that contain all changes, and the number of lines omitted above and below."""

    before: str
    after: str
    above: int
    below: int


@dataclass(frozen=True, slots=True)
class Edited:
    """The new bytes of a file, and the diff on demand.

    `before` and `after` are the whole texts with LF, for display.
    """

    data: bytes
    was_forgiving: bool  # a quotation matched in the normalized form only
    _before: str
    _after: Callable[[], str]
    _part: _Part | None

    @property
    def before(self) -> str:
        return displayable(self._before)

    @property
    def after(self) -> str:
        return displayable(with_line_feeds(self._after()))

    def diff(self) -> Diff:
        """The change as rows; of a large file only the lines around it are compared if possible."""
        part, shown = self._part, None
        if part is not None:
            before, after = displayable(part.before), displayable(part.after)
            shown = diff_of_part(before, after, part.above, part.below)
        return generate_diff(self.before, self.after) if shown is None else shown


def apply_edits(data: bytes, replacements: Sequence[Replacement], path: str) -> Edited:
    """The bytes with every replacement made; raises `ToolFailure`, naming each that cannot be made."""
    failures: list[ToolFailure] = []
    for decoded in _candidate_decodings(data):
        try:
            haystack = Haystack(decoded.text)
            splices = _splices(haystack, replacements, path)
        except ToolFailure as failure:
            failures.append(failure)
        else:
            return _spliced(data, decoded, haystack.lf, splices, path)
    raise failures[0]


def _candidate_decodings(data: bytes) -> list[DecodedText]:
    """The text of the file in every likely encoding, the likeliest first.

    A file that is not valid UTF-8 has two: `read` decides by the part that it shows. Damaged UTF-8 may begin
    like a byte order mark of UTF-16; real UTF-16 holds a zero byte in each line feed and space.
    """
    likely = decode(data)
    if likely.encoding.startswith("utf-16") and b"\0" not in data:
        return [likely, damaged_utf8(data)]
    if likely.encoding == "latin-1":
        return [likely, damaged_utf8(data)]
    return [likely, latin_1(data)] if likely.encoding == "utf-8" and likely.note else [likely]


@dataclass(frozen=True, slots=True)
class _Splice:
    match: Match
    start: int
    end: int
    text: str
    name: str


def _splices(haystack: Haystack, replacements: Sequence[Replacement], path: str) -> list[_Splice]:
    """All replacements with their positions, in the order of the text."""
    splices: list[_Splice] = []
    failures: list[str] = []
    for index, replacement in enumerate(replacements):
        name = f"edits[{index}]" if len(replacements) > 1 else ""
        try:
            splices.append(_splice(haystack, replacement, path, name))
        except ToolFailure as failure:
            failures.append(f"{name}: {failure}" if name else str(failure))
    if failures:
        raise ToolFailure("\n".join(failures))
    splices.sort(key=lambda splice: splice.match.start)
    _refuse_overlaps(haystack, splices)
    return splices


def _spliced(data: bytes, decoded: DecodedText, lf: str, splices: list[_Splice], path: str) -> Edited:
    part: _Part | None = None
    after: Callable[[], str]
    if decoded.encoding == "utf-8" and decoded.text.isascii():
        new = _joined_ascii(data, decoded, splices)
        after = functools.partial(_text_of_ascii, new, len(decoded.bom))
        if lf is decoded.text:  # the positions are the same in both
            part = _part_around(lf, splices)
    else:
        text = _joined(decoded.text, splices)
        new = _encoded(decoded, text, path)
        after = functools.partial(str, text)
    if new == data:
        raise ToolFailure(
            f"No changes made to {path}: the replacement is identical to what is there. "
            "(Line endings are kept as the file has them.)"
        )
    return Edited(new, not all(splice.match.is_exact for splice in splices), lf, after, part)


def _part_around(text: str, splices: list[_Splice]) -> _Part:
    """The changed lines, with the context lines of a diff and one more."""
    start, end = splices[0].start, splices[-1].end
    for _ in range(CONTEXT_LINES + 2):
        start = text.rfind("\n", 0, max(0, start - 1)) + 1
        end = text.find("\n", end) + 1 or len(text)
    moved = [dataclasses.replace(s, start=s.start - start, end=s.end - start) for s in splices]
    before = text[start:end]
    below = text.count("\n", end) + (end < len(text) and not text.endswith("\n"))
    return _Part(before, with_line_feeds(_joined(before, moved)), text.count("\n", 0, start), below)


def _splice(haystack: Haystack, replacement: Replacement, path: str, name: str) -> _Splice:
    encode_argument(replacement.new_text, "newText")
    match = _only_match(haystack, replacement.old_text, path)
    new = replacement.new_text.replace("\r\n", "\n")
    start, end = match.start, match.end
    if match.is_exact:
        # Lines that are the same in both texts keep their bytes.
        old = haystack.text[start:end].replace("\r\n", "\n")
        head, tail = _repeated_lines(old, new)
        start += _raw_length(haystack.text, start, head)
        end -= _raw_length_back(haystack.text, end, tail)
        new = new[head : len(new) - tail]
    if "\n" in new and _line_ending(haystack.text, start, end) == "\r\n":
        new = new.replace("\n", "\r\n")
    return _Splice(match, start, end, new, name)


def _only_match(haystack: Haystack, quoted: str, path: str) -> Match:
    if not haystack.text and not quoted:
        return Match(0, 0, True)  # an empty oldText is allowed for an empty file only
    matches = haystack.find(quoted)
    if len(matches) == 1:
        return matches[0]
    if not quoted.removeprefix("\ufeff"):
        raise ToolFailure("oldText must not be empty. Quote the text to replace, or use write.")
    if matches:
        raise ToolFailure(_ambiguous(haystack, matches, path))
    if not quoted.strip():
        raise ToolFailure(f"oldText must not be empty; it has only whitespace that {path} does not.")
    nearest = closest_lines(haystack.lf, quoted.replace("\r\n", "\n"))
    hint = f" The closest lines are:\n{displayable(nearest)}" if nearest else " Read the file again."
    raise ToolFailure(
        f"Could not find the text of oldText in {path}. It must match exactly, including whitespace and "
        f"newlines.{hint}"
    )


def _ambiguous(haystack: Haystack, matches: list[Match], path: str) -> str:
    lines = list(dict.fromkeys(map(str, haystack.lines(matches))))
    places = ", ".join(lines[:_LISTED_LINES]) + (", ..." if len(lines) > _LISTED_LINES else "")
    count = f"{len(matches)}" if len(matches) < MAX_OCCURRENCES else f"at least {MAX_OCCURRENCES}"
    where = f"line{'s' * (len(lines) > 1)} {places}"
    return (
        f"Found {count} occurrences of the text in {path} ({where}). It must be unique: "
        "quote more of the lines around it."
    )


def _refuse_overlaps(haystack: Haystack, splices: list[_Splice]) -> None:
    for one, other in pairwise(splices):
        if other.match.start < one.match.end or other.match.start == one.match.start:
            line = next(haystack.lines([other.match]))
            raise ToolFailure(f"{one.name} and {other.name} overlap at line {line}. Make one edit of them.")


def _text_of_ascii(data: bytes, skipped: int) -> str:
    return data[skipped:].decode()


def _joined_ascii(data: bytes, decoded: DecodedText, splices: list[_Splice]) -> bytes:
    """The new bytes, made by copying the file once; positions are the same in the text and its bytes."""
    body = memoryview(data)[len(decoded.bom) :]
    pieces: list[memoryview | bytes] = [decoded.bom]
    position = 0
    for splice in splices:
        pieces += (body[position : splice.start], splice.text.encode())
        position = splice.end
    return b"".join([*pieces, body[position:]])


def _joined(text: str, splices: list[_Splice]) -> str:
    pieces: list[str] = []
    position = 0
    for splice in splices:
        pieces += (text[position : splice.start], splice.text)
        position = splice.end
    return "".join((*pieces, text[position:]))


def _encoded(decoded: DecodedText, text: str, path: str) -> bytes:
    try:
        return decoded.encode(text)
    except UnicodeEncodeError as error:
        character = error.object[error.start]
        raise ToolFailure(
            f"newText holds {character!r}, which {decoded.encoding_name}, the encoding of {path}, cannot "
            "express. Use other characters, or convert the file first."
        ) from None


def _repeated_lines(old: str, new: str) -> tuple[int, int]:
    """The lengths of the whole lines that both texts begin and end with."""
    before, after = old.split("\n"), new.split("\n")
    # The last piece is not a whole line, so it does not count as part of the head.
    shorter = min(len(before), len(after)) - 1
    head = 0
    while head < shorter and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < shorter - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    return sum(len(line) + 1 for line in before[:head]), sum(
        len(line) + 1 for line in before[len(before) - tail :]
    )


def _raw_length(text: str, start: int, length: int) -> int:
    """The length in the original, where a CRLF counts two, of `length` characters from `start` on."""
    position = start
    while length:
        feed = text.find("\n", position)
        piece = feed + 1 - position - (text[feed - 1 : feed] == "\r" and feed > position)
        position, length = feed + 1, length - piece
    return position - start


def _raw_length_back(text: str, end: int, length: int) -> int:
    """The same for the `length` characters before `end`, which begin with a line feed."""
    position = end
    while length:
        feed = text.rfind("\n", 0, position)
        length -= position - feed
        position = feed - (text[feed - 1 : feed] == "\r")
    return end - position


def _line_ending(text: str, start: int, end: int) -> str:
    """The line ending in a span, else after it, else before it."""
    for feed in (text.find("\n", start, end), text.find("\n", end), text.rfind("\n", 0, start)):
        if feed >= 0:
            return "\r\n" if text[feed - 1 : feed] == "\r" else "\n"
    return "\n"
