"""Finds the lines of a file that are most similar to a quotation that is not in it, for an error text."""

from __future__ import annotations

import difflib
import re

from agent_tools.truncate import cut_line

_ANCHORS = 5  # the number of longest quoted lines that are searched exactly
_SHORTEST_ANCHOR = 4  # characters; shorter lines, such as a lone brace, occur everywhere
_SCANNED = 1_000_000  # characters compared word by word; takes about a tenth of a second
_FINALISTS = 8
_SIMILAR = 0.6  # difflib's own bound for a close match
_SHOWN_LINES = 12
_SHOWN_LENGTH = 200
_WORD = re.compile(r"\w+")


def closest_lines(text: str, quoted: str) -> str:
    """The numbered lines of `text` closest to the quotation, and how they differ; "" if none is similar."""
    wanted = quoted.strip("\n").split("\n")
    first = _by_anchor(text, wanted)
    if first is None:
        first = _by_words(text, wanted)
    if first is None:
        return ""
    count = min(len(wanted), _SHOWN_LINES)
    start = _start_of_line(text, first)
    lines = text[start : start + 50 * _SHOWN_LENGTH * count].split("\n")[:count]
    shown = [f"{first + n}: {cut_line(line, _SHOWN_LENGTH)}" for n, line in enumerate(lines, 1)]
    if [line.strip() for line in lines] == [line.strip() for line in wanted]:
        shown.append("(These differ from oldText only in blanks at the start or end of lines.)")
    return "\n".join(shown)


def _by_anchor(text: str, wanted: list[str]) -> int | None:
    """The first line (from 0) of the block around a quoted line that does stand in the text."""
    by_length = sorted(range(len(wanted)), key=lambda index: -len(wanted[index].strip()))
    for index in by_length[:_ANCHORS]:
        anchor = wanted[index].strip()
        found = text.find(anchor) if len(anchor) >= _SHORTEST_ANCHOR else -1
        if found >= 0:
            return max(0, text.count("\n", 0, found) - index)
    return None


def _by_words(text: str, wanted: list[str]) -> int | None:
    """The same for the quoted line that has most words in common with a line of the text."""
    index = max(range(len(wanted)), key=lambda index: len(wanted[index].strip()))
    target = wanted[index].strip()[:_SHOWN_LENGTH]
    words = set(_WORD.findall(target))
    scores = []
    for number, line in enumerate(text[:_SCANNED].split("\n")):
        shared = len(words.intersection(_WORD.findall(line[: 2 * _SHOWN_LENGTH])))
        if shared or len(words) < 2:
            scores.append((-shared, number, line.strip()[:_SHOWN_LENGTH]))
    best, where = _SIMILAR, None
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(target)
    for _, number, line in sorted(scores)[:_FINALISTS]:
        matcher.set_seq1(line)
        ratio = matcher.ratio()
        if ratio > best:
            best, where = ratio, max(0, number - index)
    return where


def _start_of_line(text: str, line: int) -> int:
    start = 0
    for _ in range(line):
        start = text.index("\n", start) + 1
    return start
