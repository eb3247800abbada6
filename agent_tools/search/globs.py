"""Translates globs to regular expressions, for find, grep's `glob` and .gitignore files.

`*` and `?` stop at a slash, `**` as a whole segment spans folders, `[a-z]` and `[!a-z]` are classes, a
backslash quotes the next character. A pattern without a slash matches an entry at any depth, one with a slash
the path from its folder. `{a,b}` is for find and grep only: in a .gitignore braces are plain characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from agent_tools.tool import ToolFailure

# Patterns such as {a,b}{c,d}... multiply; with more alternatives than this the braces are plain characters.
_MAX_ALTERNATIVES = 512
# The same for longer patterns, or for more expanded text: expanding them takes seconds.
_MAX_BRACED, _MAX_EXPANDED = 10_000, 100_000

_MAX_LENGTH = 4096  # characters, as of a path

_FOLDERS = "(?:[^/]*/)*?"  # what `**/` spans

_POSIX_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": " \\t\\n\\r\\f\\v",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}


class BadGlob(ValueError):
    """A glob that cannot match, such as one with an unclosed class."""


def check_glob(pattern: str, name: str) -> None:
    """Raise `ToolFailure` for a glob longer than any path: compiling it may take seconds."""
    if len(pattern) > _MAX_LENGTH:
        raise ToolFailure(f"{name} has {len(pattern)} characters; at most {_MAX_LENGTH} are searched for")


def matcher(pattern: str) -> Callable[[str], bool]:
    """A predicate that tells whether a tool's glob matches a path such as `src/a.py` (or `src/`, a folder).

    A pattern that ends in a slash names folders only. A class also stands for its own text, so
    `app/[id]/*.tsx` finds the files of a folder `[id]`, and a path that equals the pattern is matched. Never
    raises.
    """
    wanted = pattern.removeprefix("./").lstrip("/")
    folders_only = wanted.endswith("/")
    wanted = wanted.rstrip("/")
    by_name = "/" not in wanted and wanted != "**"
    expression = "|".join(f"(?:{_lenient(item)})" for item in expand_braces(wanted))
    match = re.compile(expression, re.DOTALL).fullmatch

    def named(path: str) -> bool:
        folder = path.endswith("/")
        if folders_only and not folder:
            return False
        bare = path[:-1] if folder else path
        if by_name:
            bare = bare.rpartition("/")[2]
        return bare == wanted or match(bare) is not None

    return named


def below(pattern: str, root: str) -> str:
    """The pattern from `root` on: a model may put the absolute path of the folder it searches before it."""
    return pattern.removeprefix(root.rstrip("/") + "/")


def expand_braces(pattern: str) -> list[str]:
    """`a.{b,c}` as `a.b` and `a.c`; the pattern itself when its braces are not alternatives."""
    if len(pattern) > _MAX_BRACED:
        return [pattern]
    try:
        expanded = _expand(pattern)
    except RecursionError:  # groups in groups in groups
        return [pattern]
    fits = len(expanded) <= _MAX_ALTERNATIVES and sum(map(len, expanded)) <= _MAX_EXPANDED
    return expanded if fits else [pattern]


def _expand(pattern: str) -> list[str]:
    position = 0
    while position < len(pattern):
        if pattern[position] == "\\":
            position += 2
            continue
        if pattern[position] == "{":
            parts, end = _alternatives(pattern, position)
            if len(parts) > 1:
                tails = _expand(pattern[end:])
                heads = [head for part in parts for head in _expand(part)]
                if len(heads) * len(tails) > _MAX_ALTERNATIVES:
                    return [pattern] * (_MAX_ALTERNATIVES + 1)
                return [pattern[:position] + head + tail for head in heads for tail in tails]
        position += 1
    return [pattern]


def _alternatives(pattern: str, start: int) -> tuple[list[str], int]:
    """The parts of the brace group that opens at `start` and where it ends; no parts when it never closes."""
    depth, begin, position = 0, start + 1, start
    parts: list[str] = []
    while position < len(pattern):
        character = pattern[position]
        if character == "\\":
            position += 1
        elif character == "{":
            depth += 1
        elif character == "," and depth == 1:
            parts.append(pattern[begin:position])
            begin = position + 1
        elif character == "}":
            depth -= 1
            if depth == 0:
                return [*parts, pattern[begin:position]], position + 1
        position += 1
    return [], start


def _lenient(pattern: str) -> str:
    try:
        return translate(pattern, literal_classes=True)
    except BadGlob:
        return re.escape(pattern)


def translate(pattern: str, *, literal_classes: bool = False) -> str:
    """A regular expression for `re` (flag DOTALL, to be matched in full) that means what the glob means.

    With `literal_classes` a class such as `[id]` also matches its own text. Raises BadGlob for an unclosed
    class or a backslash at the end.
    """
    segments = pattern.split("/")
    last = len(segments) - 1
    # Runs of segments, with a `**/` before each run but the first. The first place where a run matches leaves
    # the most to the following runs, so an atomic group (`(?>`) tries no other: trying all takes exponential
    # time.
    runs = [""]
    for index, segment in enumerate(segments):
        if segment != "**":
            runs[-1] += _translate_segment(segment, literal_classes) + ("/" if index < last else "")
        elif index == last:
            runs[-1] += ".+"
        elif runs[-1] or len(runs) == 1:
            runs.append("")
    middle = "".join(f"(?>{_FOLDERS}{run})" for run in runs[1:-1])
    return runs[0] + middle + (_FOLDERS + runs[-1] if len(runs) > 1 else "")


def _translate_segment(segment: str, literal_classes: bool) -> str:
    # The texts between the stars; each but the last is matched at its first place, as above.
    pieces = [""]
    position = 0
    while position < len(segment):
        character = segment[position]
        position += 1
        if character == "*":
            pieces.append("")
        elif character == "?":
            pieces[-1] += "[^/]"
        elif character == "[":
            start = position - 1
            text, position = _translate_class(segment, position)
            literal = re.escape(segment[start:position])
            pieces[-1] += f"(?:{text}|{literal})" if literal_classes else text
        elif character == "\\":
            if position == len(segment):
                raise BadGlob("a backslash at the end of a glob")
            pieces[-1] += re.escape(segment[position])
            position += 1
        else:
            pieces[-1] += re.escape(character)
    middle = "".join(f"(?>[^/]*?{piece})" for piece in pieces[1:-1] if piece)
    return pieces[0] + middle + ("[^/]*" + pieces[-1] if len(pieces) > 1 else "")


def _translate_class(segment: str, position: int) -> tuple[str, int]:
    """The class whose `[` stands just before `position`, and the position after its `]`."""
    negated = segment[position : position + 1] in ("!", "^")
    position += negated
    members: list[str] = []
    first = True
    while True:
        if position >= len(segment):
            raise BadGlob("a class without its ]")
        if segment[position] == "]" and not first:
            break
        first = False
        named = re.compile(r"\[:(\w+):\]").match(segment, position)
        if named:
            members.append(_POSIX_CLASSES.get(named[1], ""))
            position = named.end()
            continue
        low, position = _member(segment, position)
        high = low
        if segment[position : position + 1] == "-" and segment[position + 1 : position + 2] not in ("]", ""):
            high, position = _member(segment, position + 1)
        if low <= high:
            members.append(re.escape(low) if low == high else f"{re.escape(low)}-{re.escape(high)}")
    inside = "".join(members)
    if not inside:
        return ("[^/]" if negated else "(?!)"), position + 1
    return (f"[^/{inside}]" if negated else f"(?!/)[{inside}]"), position + 1


def _member(segment: str, position: int) -> tuple[str, int]:
    if segment[position] == "\\":
        position += 1
        if position >= len(segment):
            raise BadGlob("a class without its ]")
    return segment[position], position + 1
