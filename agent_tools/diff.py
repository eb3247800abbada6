"""Computes the difference of two texts, line by line, for people and models.

Lines that occur once in both texts and in the same order are paired first (patience diff); the lines between
two pairs are compared with Myers' greedy algorithm in steps of bounded length. Time and memory are about
linear in the number of lines, whatever they contain. The result is always correct, and minimal unless the
texts are very different. `difflib` is not used because its time is quadratic: it takes 9 s where this module
takes 0.2 s.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

CONTEXT_LINES = 4
# Differences that one greedy step finds. Its cost is the square of this; more differences take several steps,
# each starting from the farthest point of the one before.
_STEP = 64
_NO_FINAL_NEWLINE = "\\ No newline at end of file"


@dataclass(frozen=True, slots=True)
class Diff:
    """Rows of a sign, a number and the line. `first_changed_line` counts in the new text; None if equal."""

    text: str
    first_changed_line: int | None
    added: int = 0
    removed: int = 0


def generate_diff(old: str, new: str, context: int = CONTEXT_LINES) -> Diff:
    """The changed lines with `context` lines around them (zero or less: four); "" for equal texts.

    Removed and unchanged lines are numbered as in the old text, added ones as in the new; removals come
    before additions. Omitted lines show as one row of dots. A line feed at the very end adds no line; a row
    says when only one of the texts has it.
    """
    whole = diff_of_part(old, new, 0, 0, context)
    assert whole is not None
    return whole


def diff_of_part(
    old: str, new: str, lines_above: int, lines_below: int, context: int = CONTEXT_LINES
) -> Diff | None:
    """`generate_diff` of texts from which `old` and `new` are parts: whole lines that contain all changes.

    None when the part is too small: among repeated lines a change may be reported further down than it was
    made.
    """
    if old == new:
        return Diff("", None)
    context = context if context > 0 else CONTEXT_LINES
    # One line more than is shown on each side, so that the row of dots appears.
    start, tail = _alike(old, new, context + 1)
    before, after = _lines(old[start : len(old) - tail]), _lines(new[start : len(new) - tail])
    above = lines_above + old.count("\n", 0, start)
    below = lines_below + old.count("\n", len(old) - tail) + (tail > 0 and not old.endswith("\n"))
    changes = list(_changes(before, after))
    if (lines_above and changes[0].old_start <= context) or (
        lines_below and len(before) - changes[-1].old_end <= context
    ):
        return None
    rows = _Rows(before, after, context, above, below)
    return Diff(
        text="\n".join(rows.render(changes)),
        first_changed_line=above + max(1, min(changes[0].new_start + 1, len(after))),
        added=sum(change.new_end - change.new_start for change in changes),
        removed=sum(change.old_end - change.old_start for change in changes),
    )


@dataclass(frozen=True, slots=True)
class _Change:
    """Lines `old_start` to `old_end` of the old text became lines `new_start` to `new_end` of the new one."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def _alike(old: str, new: str, margin: int) -> tuple[int, int]:
    """The lengths of the common start and end of two texts: whole lines, less `margin` lines each."""
    shorter = min(len(old), len(new))
    head = _longest(shorter, lambda start, end: old[start:end] == new[start:end])
    tail = _longest(
        shorter - head,
        lambda start, end: old[len(old) - end : len(old) - start] == new[len(new) - end : len(new) - start],
    )
    start = head
    for _ in range(margin + 1):
        start = old.rfind("\n", 0, max(0, start - 1)) + 1
    # The first piece of the tail may be half a line.
    end = len(old) - tail
    for _ in range(margin + 1):
        end = old.find("\n", end) + 1 or len(old)
    return start, len(old) - end


def _longest(most: int, equal: Callable[[int, int], bool]) -> int:
    """The largest length up to `most` to which two texts are equal; compares about twice as much."""
    known, step = 0, 1 << 16
    while known < most and step:
        end = min(known + step, most)
        if equal(known, end):
            known = end
        else:
            most, step = end, step // 2
    return known


def _lines(text: str) -> list[str]:
    """The lines with their line feeds, so that a missing last one is a difference."""
    lines = [line + "\n" for line in text.split("\n")]
    last = lines.pop().removesuffix("\n")
    return [*lines, last] if last else lines


class _Rows:
    """Writes changes as rows."""

    def __init__(self, before: list[str], after: list[str], context: int, above: int, below: int) -> None:
        self._before = before
        self._after = after
        self._context = context
        self._above = above  # lines of the whole text before the first; `below`: after the last
        self._width = len(str(max(above + below + max(len(before), len(after)), 1)))
        self._names_end = bool(before and after) and before[-1].endswith("\n") != after[-1].endswith("\n")

    def render(self, changes: list[_Change]) -> Iterator[str]:
        start, is_first = 0, True
        for change in changes:
            yield from self._unchanged(start, change.old_start, tail=not is_first, head=True)
            yield from self._side("-", self._before, change.old_start, change.old_end)
            yield from self._side("+", self._after, change.new_start, change.new_end)
            start, is_first = change.old_end, False
        yield from self._unchanged(start, len(self._before), tail=True, head=False)

    def _unchanged(self, start: int, end: int, *, tail: bool, head: bool) -> Iterator[str]:
        """Context: `tail` lines end the change above, `head` lines lead to the one below."""
        first_hidden = min(end, start + self._context) if tail else start
        last_hidden = max(first_hidden, end - self._context) if head else end
        yield from self._side(" ", self._before, start, first_hidden)
        if last_hidden > first_hidden:
            yield f" {'':>{self._width}} ..."
        yield from self._side(" ", self._before, last_hidden, end)

    def _side(self, sign: str, lines: list[str], start: int, end: int) -> Iterator[str]:
        for number in range(start, end):
            line = lines[number]
            yield f"{sign}{self._above + number + 1:>{self._width}} {line.removesuffix(chr(10))}"
            if self._names_end and not line.endswith("\n"):
                yield _NO_FINAL_NEWLINE


def _changes(before: list[str], after: list[str]) -> Iterator[_Change]:
    """The gaps between equal lines, in order."""
    i = j = 0
    for matched_old, matched_new in [*_equal_lines(before, after), (len(before), len(after))]:
        if matched_old > i or matched_new > j:
            yield _Change(i, matched_old, j, matched_new)
        i, j = matched_old + 1, matched_new + 1


def _equal_lines(before: list[str], after: list[str]) -> Iterator[tuple[int, int]]:
    """Pairs of equal lines, rising on both sides."""
    prefix = _common_prefix(before, after)
    suffix = _common_prefix(before[prefix:][::-1], after[prefix:][::-1])
    yield from zip(range(prefix), range(prefix), strict=True)
    # A line that the other side does not contain is a difference; removing these lines first keeps the
    # comparison of rewritten texts cheap.
    a = _shared(before, prefix, len(before) - suffix, set(after[prefix : len(after) - suffix]))
    b = _shared(after, prefix, len(after) - suffix, set(before[prefix : len(before) - suffix]))
    numbers: dict[str, int] = {}
    x = [numbers.setdefault(before[n], len(numbers)) for n in a]
    y = [numbers.setdefault(after[n], len(numbers)) for n in b]
    for i, j in _matches(x, y):
        yield a[i], b[j]
    yield from zip(
        range(len(before) - suffix, len(before)), range(len(after) - suffix, len(after)), strict=True
    )


def _common_prefix(a: Sequence[object], b: Sequence[object]) -> int:
    for count, (left, right) in enumerate(zip(a, b, strict=False)):
        if left != right:
            return count
    return min(len(a), len(b))


def _shared(lines: list[str], start: int, end: int, others: set[str]) -> list[int]:
    return [number for number in range(start, end) if lines[number] in others]


def _matches(x: list[int], y: list[int]) -> Iterator[tuple[int, int]]:
    """Pairs of equal items of two lists: the anchors, and the pairs found between them."""
    i = j = 0
    for anchor_x, anchor_y in [*_anchors(x, y), (len(x), len(y))]:
        yield from _greedy(x, y, (i, j), (anchor_x, anchor_y))
        if anchor_x < len(x):
            yield anchor_x, anchor_y
        i, j = anchor_x + 1, anchor_y + 1


def _anchors(x: list[int], y: list[int]) -> list[tuple[int, int]]:
    """The items that occur once in both lists, as the longest chain that rises on both sides."""
    count_x, count_y = Counter(x), Counter(y)
    place = {item: j for j, item in enumerate(y) if count_y[item] == 1}
    pairs = [(i, place[item]) for i, item in enumerate(x) if count_x[item] == 1 and item in place]
    ends: list[int] = []  # the smallest end of a chain of each length
    chain: list[int] = []  # and which pair that is
    before: list[int] = []  # the pair before each pair in its chain
    for index, (_, j) in enumerate(pairs):
        length = bisect_left(ends, j)
        before.append(chain[length - 1] if length else -1)
        ends[length : length + 1] = [j]
        chain[length : length + 1] = [index]
    longest = []
    index = chain[-1] if chain else -1
    while index >= 0:
        longest.append(pairs[index])
        index = before[index]
    return longest[::-1]


def _greedy(
    x: list[int], y: list[int], start: tuple[int, int], end: tuple[int, int]
) -> Iterator[tuple[int, int]]:
    while start[0] < end[0] and start[1] < end[1]:
        found, start = _step(x, y, start, end)
        yield from found


def _step(
    x: list[int], y: list[int], start: tuple[int, int], end: tuple[int, int]
) -> tuple[list[tuple[int, int]], tuple[int, int]]:
    """Myers' algorithm from `start` until `end` or `_STEP` differences: the pairs, and how far they lead."""
    x0, y0 = start
    width, height = end[0] - x0, end[1] - y0
    farthest = {1: 0}  # diagonal (x - y) to the largest x reached on it
    history: list[dict[int, int]] = []
    for differences in range(_STEP + 1):
        history.append(farthest)
        reached: dict[int, int] = {}
        for k in range(-differences, differences + 1, 2):
            down, right = farthest.get(k + 1, -1), farthest.get(k - 1, -2) + 1
            i = max(down, right)
            j = i - k
            if i < 0 or i > width or j > height or j < 0:
                continue
            while i < width and j < height and x[x0 + i] == y[y0 + j]:
                i, j = i + 1, j + 1
            reached[k] = i
            if i == width and j == height:
                return _trace(history, i, j, start), end
        farthest = reached
    best = max(farthest, key=lambda k: 2 * farthest[k] - k)
    i, j = farthest[best], farthest[best] - best
    return _trace(history, i, j, start), (x0 + i, y0 + j)


def _trace(history: list[dict[int, int]], i: int, j: int, start: tuple[int, int]) -> list[tuple[int, int]]:
    """The pairs on the way to (i, j), found by walking back."""
    pairs = []
    for farthest in reversed(history):
        k = i - j
        down, right = farthest.get(k + 1, -1), farthest.get(k - 1, -2) + 1
        came_down = down >= right
        from_i = down if came_down else right
        while i > from_i:
            i, j = i - 1, j - 1
            pairs.append((start[0] + i, start[1] + j))
        if came_down:
            j -= 1
        else:
            i -= 1
    return pairs[::-1]
