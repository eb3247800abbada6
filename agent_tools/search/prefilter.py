"""Derives cheaper conditions from a pattern that every matching line fulfils, and some others too.

A recursive descent parser replaces each piece of the pattern by one that matches as much or more: a
look-around by nothing, a reference to a group by anything, a possessive repetition by a plain one. For
ripgrep, whose Unicode tables may differ from ours, each class also takes all characters outside ASCII. A
pattern with unsupported syntax has no prefilter: each line is matched.

Literal needles alone would be simpler: 17 of 19 everyday patterns have one. `benchmarks/search.py` shows that
they are not enough (50,000 files, times relative to ripgrep, promised at most 2.5): ignoring case 4.2 instead
of 1.2, 1,478 matching files 3.2 instead of 1.5, a pattern without a literal 10.6 instead of 1.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import regex

# Searching more alternatives than this one by one costs more than the expression itself.
_MAX_NEEDLES = 8
# ripgrep refuses expressions that become too large.
_MAX_REPEATS = 1000

# Any character outside ASCII, and any byte that is not UTF-8 (such a line is read as Latin-1).
_WIDE = r"[\x{80}-\x{10FFFF}]"
_BYTE = r"(?-u:[\x80-\xFF])"
_ANYTHING = f"(?:.|{_BYTE})"

_REPETITION = regex.compile(r"[*+?]|\{(\d*)(,?)(\d*)\}")
_OPENING = regex.compile(r"\?(?::|>|P?<[A-Za-z_]\w*>)")
_LOOKAROUND = regex.compile(r"\?<?[=!]")
_PROPERTY = regex.compile(r"\{[^{}]*\}|\w")
_POSIX_CLASS = regex.compile(r"\[:\w+:\]")
_CODE_DIGITS = {"x": 2, "u": 4, "U": 8}
_CONTROL = {"t": "\t", "f": "\f", "v": "\v", "n": "\n", "r": "\r"}


@dataclass(frozen=True, slots=True)
class Prefilter:
    """Conditions that every matching line fulfils.

    `rust` is an expression for ripgrep, `python` one for `regex` that may be run over many lines at once.
    Each matching line contains one of the `needles`, unless there are none. With `ignore_case` the needles
    are in lower case and hold for ASCII lines only.
    """

    rust: str
    python: str
    needles: tuple[str, ...]


def prefilter_for(text: str, ignore_case: bool) -> Prefilter | None:
    """The prefilter of a pattern that `regex` accepts; None for unsupported syntax."""
    reader = _Parser(text, ignore_case)
    try:
        part = reader.read()
    except (_Unsupported, RecursionError, ValueError):  # nested too deeply, or an invalid number
        return None
    return Prefilter(part.rust, reader.shortened(part.python), tuple(sorted(part.needles or ())))


class _Unsupported(Exception):
    """Syntax for which no wider form is known."""


@dataclass(slots=True)
class _Part:
    """The wider forms of a piece of a pattern.

    `exact` is the text it matches when that is always the same ("" for an assertion); what it matches
    contains one of the `needles`.
    """

    rust: str
    python: str
    exact: str | None = None
    needles: frozenset[str] | None = None


def _better(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    """The more selective of two sets of needles: that with the longer shortest text."""
    if one is None or other is None:
        return one or other
    return one if (min(map(len, one)), -len(one)) >= (min(map(len, other)), -len(other)) else other


class _Parser:
    def __init__(self, text: str, ignore_case: bool) -> None:
        self._text = text
        self._position = 0
        self._ignore_case = ignore_case
        self._depth = 0
        self._branches = 1  # of the whole pattern
        # If it begins with a repetition: its whole text, the text of the piece, and the least count.
        self._first: tuple[str, str, int] | None = None

    def read(self) -> _Part:
        part = self._alternatives()
        if self._position != len(self._text):
            raise _Unsupported
        return part

    def shortened(self, python: str) -> str:
        """The expression with its first repetition reduced to the least count; it matches the same lines.

        `x+=` and `x=` match in the same lines, but a backtracking engine tries the former from every x.
        """
        if self._first is None or self._branches > 1:
            return python
        whole, piece, least = self._first
        kept = piece + (f"{{{least}}}" if least > 1 else "") if least else ""
        return kept + python.removeprefix(whole)

    def _peek(self) -> str:
        return self._text[self._position : self._position + 1]

    def _take(self) -> str:
        character = self._peek()
        if not character:
            raise _Unsupported
        self._position += 1
        return character

    def _skip(self, expression: regex.Pattern[str]) -> regex.Match[str] | None:
        found = expression.match(self._text, self._position)
        if found:
            self._position = found.end()
        return found

    def _alternatives(self) -> _Part:
        self._depth += 1
        branches = [self._sequence()]
        while self._peek() == "|":
            self._position += 1
            branches.append(self._sequence())
        self._depth -= 1
        if not self._depth:
            self._branches = len(branches)
        if len(branches) == 1:
            return branches[0]
        needles: frozenset[str] | None = frozenset()
        for branch in branches:
            needles = needles | branch.needles if needles is not None and branch.needles else None
        if needles is not None and len(needles) > _MAX_NEEDLES:
            needles = None
        rust = "|".join(branch.rust for branch in branches)
        return _Part(rust, "|".join(branch.python for branch in branches), None, needles)

    def _sequence(self) -> _Part:
        parts: list[_Part] = []
        run = ""
        needles: frozenset[str] | None = None
        while self._peek() not in ("", "|", ")"):
            part = self._repeated()
            parts.append(part)
            if part.exact is not None:
                run += part.exact
            else:
                needles = _better(_better(needles, frozenset({run}) if run else None), part.needles)
                run = ""
        needles = _better(needles, frozenset({run}) if run else None)
        exact = run if all(part.exact is not None for part in parts) else None
        return _Part(
            "".join(part.rust for part in parts), "".join(part.python for part in parts), exact, needles
        )

    def _repeated(self) -> _Part:
        start = self._position
        part = self._atom()
        repeat_at = self._position
        found = self._skip(_REPETITION)
        if found is None:
            return part
        if part.exact == "":
            raise _Unsupported  # an assertion, repeated
        least, most = _bounds(found)
        if max(least, most or 0) > _MAX_REPEATS:
            raise _Unsupported
        repeat = self._text[repeat_at : self._position]
        lazy = "?" if self._peek() == "?" else ""
        self._position += self._peek() in ("?", "+")
        if self._skip(_REPETITION):
            raise _Unsupported
        python = part.python + repeat + lazy
        if not start and self._depth == 1:
            self._first = python, part.python, least
        needles = frozenset({part.exact}) if part.exact else part.needles
        rust = f"(?:{part.rust}){{{least},{'' if most is None else most}}}{lazy}"
        return _Part(rust, python, None, needles if least else None)

    def _atom(self) -> _Part:
        start = self._position
        character = self._take()
        if character == "(":
            return self._group()
        if character == "[":
            return self._class(start)
        if character == "\\":
            return self._escape(start)
        if character == ".":
            return _Part(_ANYTHING, ".")
        if character == "^":
            # A byte order mark is not part of the first line.
            return _Part(r"^\x{FEFF}?", "^", "")
        if character == "$":
            # A carriage return before the line feed is not part of the line.
            return _Part(r"\r?$", "$", "")
        if character in "*+?":
            raise _Unsupported
        return self._literal(character, start)

    def _group(self) -> _Part:
        is_assertion = self._skip(_LOOKAROUND) is not None
        if not is_assertion and not self._skip(_OPENING) and self._peek() == "?":
            raise _Unsupported
        part = self._alternatives()
        if self._take() != ")":
            raise _Unsupported
        if is_assertion:
            return _Part("", "", "")
        return _Part(f"(?:{part.rust})", f"(?:{part.python})", part.exact, part.needles)

    def _escape(self, start: int) -> _Part:
        character = self._take()
        if character in "dDsSwW":
            return _Part(rf"(?:[\{character}{_WIDE}]|{_BYTE})", self._text[start : self._position])
        if character == "b":
            return _Part(r"(?-u:\b)" if self._beside_a_letter(start) else "", r"\b", "")
        if character == "B":
            return _Part("", r"\B", "")
        if character == "A":
            return _Part(r"^\x{FEFF}?", "^", "")
        if character in "zZ":
            return _Part(r"\r?$", "$", "")
        if character in "123456789":
            if self._peek().isdigit():
                raise _Unsupported
            return _Part(f"{_ANYTHING}*", "(?:.*)")
        if character in "pP" and self._skip(_PROPERTY):
            return _Part(_ANYTHING, self._text[start : self._position])
        return self._literal(self._escaped(character), start)

    def _escaped(self, character: str) -> str:
        """The character of an escape whose first letter has been read."""
        if character in _CODE_DIGITS:
            end = self._position + _CODE_DIGITS[character]
            digits, self._position = self._text[self._position : end], end
            return chr(int(digits, 16))
        if character in _CONTROL:
            return _CONTROL[character]
        if character.isascii() and character.isalnum():
            raise _Unsupported
        return character

    def _beside_a_letter(self, start: int) -> bool:
        """True when the `\\b` at `start` is next to a plain ASCII letter that is always matched there.

        Such a boundary is one for bytes too. Elsewhere ripgrep, which sees bytes where we may see Latin-1
        letters, could miss one.
        """
        letter = "[A-Za-z0-9_]"
        if self._ignore_case:
            letter = "[A-HJLM-RT-Za-hjlm-rt-z0-9_]"  # i, k and s have relatives outside ASCII
        if regex.match(rf"{letter}(?![*?{{])", self._text[start + 2 : start + 4]):
            return True
        before = self._text[max(0, start - 10) : start]
        # A letter may be the end of an escape, the longest of which has ten characters.
        return "\\" not in before and bool(regex.search(rf"{letter}$", before))

    def _literal(self, character: str, start: int) -> _Part:
        if character in "\n\r":
            raise _Unsupported
        python = self._text[start : self._position]
        code = ord(character)
        rust = character if character.isascii() and character.isalnum() else rf"\x{{{code:X}}}"
        if not self._ignore_case:
            if 0x80 <= code <= 0xFF:
                rust = rf"(?:{rust}|(?-u:\x{code:X}))"
            return _Part(rust, python, character)
        # ripgrep does not know the Turkish pairs of i and I.
        if code >= 0x80:
            return _Part(f"(?:[i{rust}]|{_WIDE}|{_BYTE})", python)
        return _Part(r"[i\x{130}\x{131}]" if character in "iI" else rust, python, character.lower())

    def _class(self, start: int) -> _Part:
        negated = self._peek() == "^"
        self._position += negated
        members: list[str] = []
        wide = False
        while self._peek() != "]" or not members:
            text, is_wide = self._member()
            members.append(text)
            wide = wide or is_wide
        self._position += 1
        inside = f"[{'^' if negated else ''}{''.join(members)}]"
        if wide and self._ignore_case:
            inside += "|i"
        wide = wide or negated or self._ignore_case
        return _Part(f"(?:{inside}|{_WIDE}|{_BYTE})" if wide else inside, self._text[start : self._position])

    def _member(self) -> tuple[str, bool]:
        """A member of a class in the syntax of ripgrep, and whether it can match more than ASCII."""
        named = self._skip(_POSIX_CLASS)
        if named:
            return named[0], True
        low = self._member_character()
        if low is None:
            return self._text[self._position - 2 : self._position], True
        rest = self._text[self._position : self._position + 2]
        if not (rest.startswith("-") and rest != "-]"):
            return rf"\x{{{ord(low):X}}}", ord(low) >= 0x80
        self._position += 1
        high = self._member_character()
        if high is None or high < low:
            raise _Unsupported
        return rf"\x{{{ord(low):X}}}-\x{{{ord(high):X}}}", ord(high) >= 0x80

    def _member_character(self) -> str | None:
        """One character of a class; None for a class escape such as `\\d`."""
        character = self._take()
        if character == "[":
            raise _Unsupported  # ripgrep reads a nested class
        if character != "\\":
            # Doubled marks are set operations in ripgrep; written as a number each is a plain character.
            return character
        character = self._take()
        return None if character in "dDsSwW" else self._escaped(character)


def _bounds(found: regex.Match[str]) -> tuple[int, int | None]:
    if found[0] in ("*", "+", "?"):
        return {"*": (0, None), "+": (1, None), "?": (0, 1)}[found[0]]
    least = int(found[1] or 0)
    if not found[2]:
        return least, least
    return least, int(found[3]) if found[3] else None
