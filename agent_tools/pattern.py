"""What a grep pattern means, and what can be known of its hits before a file is read line by line.

The dialect is that of the package `regex` in its version 0 (so nearly that of Python's `re`, with `\\p{..}`
and `[[:alpha:]]`), applied to one line at a time, without the line's ending. Two things are milder: braces
that are no repetition stand for themselves (`interface{}`), and `\\x{41}` is a character. Within what Python,
Rust and PCRE share (literals, classes, groups, alternatives, repetitions, anchors, `\\b`) it agrees with
ripgrep.

From a pattern of that shared part two cheaper questions are made, both with "yes" for every file that has a
hit: `needles`, texts one of which must occur, and `for_ripgrep`, an expression for Rust's engine.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import regex

from agent_tools.tool import ToolFailure

# More alternatives than this cost more to look for one by one than the expression itself.
_MAX_NEEDLES = 8

_FUZZY_BRACE = regex.compile(
    r"""(?xs)
      \\[pPNxugk]\{[^{}]*\}      # \p{Lu}: the braces belong to the escape
    | \\.
    | \[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]
    | \{(?:\d+(?:,\d*)?|,\d+)\}  # a repetition
    | (?P<brace>[{}])
    """
)
_HEX_ESCAPE = regex.compile(r"\\x\{([0-9a-fA-F]{1,6})\}")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern ready for use, shared freely between threads.

    `expression` finds hits in one line; `across` (None when there is no such thing) may be run over many
    lines at once to find the lines worth a look. `needles` are texts of which each matching line holds at
    least one, letter for letter (ASCII case aside with `ignore_case`); empty when nothing is known.
    `for_ripgrep` is None when Rust's engine reads the pattern otherwise or not at all.
    """

    source: str
    literal: bool
    ignore_case: bool
    expression: Any
    across: Any
    needles: tuple[str, ...]
    for_ripgrep: str | None

    @property
    def finds_itself(self) -> bool:
        """Whether each line that holds the pattern's own text matches it."""
        if self.literal or regex.escape(self.source, special_only=True) == self.source:
            return True
        return not set("^$\\(") & set(self.source) and self.expression.fullmatch(self.source) is not None


@functools.lru_cache(maxsize=64)
def compile_pattern(source: str, literal: bool, ignore_case: bool) -> Pattern:
    """Read a pattern; raises ToolFailure with the place of the mistake and a way out."""
    flags = regex.VERSION0 | (regex.IGNORECASE if ignore_case else 0)
    text = regex.escape(source, special_only=True) if literal else _tamed(source)
    try:
        expression = regex.compile(text, flags)
    except (regex.error, OverflowError, RecursionError, ValueError) as error:
        raise ToolFailure(
            f"invalid regex {source!r}: {error}. To search for exactly this text call grep again with "
            "literal=true, or put a backslash before each of ( ) [ ] { } . * + ? ^ $ | \\ meant as itself."
        ) from None
    try:
        reader = _Reader(text, ignore_case)
        shared = reader.read()
    except _NotShared:
        return Pattern(source, literal, ignore_case, expression, None, (), None)
    across = regex.compile(reader.shortened(), flags | regex.MULTILINE)
    needles = tuple(sorted(shared.needles)) if shared.needles else ()
    return Pattern(source, literal, ignore_case, expression, across, needles, shared.rust)


def _tamed(source: str) -> str:
    """The pattern with braces that are no repetition escaped: `regex` would read `a{e}` as "a, or nearly"."""
    source = _HEX_ESCAPE.sub(lambda found: _character(int(found[1], 16), found[0]), source)
    return str(
        _FUZZY_BRACE.sub(lambda found: "\\" + found[0] if found["brace"] is not None else found[0], source)
    )


def _character(code: int, otherwise: str) -> str:
    return f"\\U{code:08x}" if code <= 0x10FFFF else otherwise


class _NotShared(Exception):
    """The pattern uses something outside the part that all engines read alike."""


# Any character outside ASCII, and any byte that is part of none (a line that is no UTF-8 is read as Latin-1).
_RUST_WIDE = r"[\x{80}-\x{10FFFF}]"
_RUST_BYTE = r"(?-u:[\x80-\xFF])"


@dataclass(slots=True)
class _Part:
    """A piece of a pattern: what Rust is given for it, and what its hits must hold.

    `exact` is the one text it matches, if it matches only one; `needles` the set of texts of which one must
    occur, if any is known. `optional` pieces promise nothing.
    """

    rust: str
    exact: str | None = None
    needles: frozenset[str] | None = None


def _better(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    """The more telling of two sets of needles: that with the longer shortest text."""
    if one is None or other is None:
        return one or other
    return one if (min(map(len, one)), -len(one)) >= (min(map(len, other)), -len(other)) else other


class _Reader:
    """Reads a pattern by recursive descent and stops at whatever is not shared by all engines."""

    def __init__(self, text: str, ignore_case: bool) -> None:
        self._text = text
        self._position = 0
        self._ignore_case = ignore_case
        self._depth = 0
        self._branches = 1  # of the whole pattern
        self._first: tuple[int, int, int] | None = None

    def shortened(self) -> str:
        """The pattern without the repetition it begins with: each line it matches still matches.

        `x+=` and `x=` hold in the same lines, but a backtracking engine tries the first from every x to the
        last of them.
        """
        if self._first is None or self._branches > 1:
            return self._text
        atom_end, end, least = self._first
        kept = self._text[:atom_end] + (f"{{{least}}}" if least > 1 else "") if least else ""
        return kept + self._text[end:]

    def read(self) -> _Part:
        part = self._alternatives()
        if self._position != len(self._text):
            raise _NotShared
        return part

    def _peek(self) -> str:
        return self._text[self._position : self._position + 1]

    def _take(self) -> str:
        character = self._peek()
        if not character:
            raise _NotShared
        self._position += 1
        return character

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
        return _Part("|".join(branch.rust for branch in branches), None, needles)

    def _sequence(self) -> _Part:
        rust: list[str] = []
        run = ""
        needles: frozenset[str] | None = None
        whole: str | None = ""
        while self._peek() not in ("", "|", ")"):
            part = self._repeated()
            rust.append(part.rust)
            if part.exact is not None:
                run += part.exact
            else:
                needles = _better(needles, frozenset({run}) if run else None)
                needles = _better(needles, part.needles)
                run = ""
            whole = whole + part.exact if whole is not None and part.exact is not None else None
        needles = _better(needles, frozenset({run}) if run else None)
        return _Part("".join(rust), whole, needles)

    def _repeated(self) -> _Part:
        start = self._position
        part = self._atom()
        atom_end = self._position
        least, most = self._repetition()
        if (least, most) == (1, 1):
            return part
        if not part.rust or self._text[start] in "^$" or self._text[start : start + 2] in (r"\b", r"\B"):
            raise _NotShared
        if self._peek() == "+":
            raise _NotShared  # possessive
        lazy = self._peek() == "?"
        self._position += lazy
        if self._peek() in ("*", "+", "?") or (self._peek() == "{"):
            raise _NotShared
        if least > 1000 or (most or 0) > 1000:
            raise _NotShared  # Rust refuses large automata
        if not start:
            self._first = atom_end, self._position, least
        bounds = f"{{{least},{'' if most is None else most}}}"
        needles = part.needles if part.exact is None else frozenset({part.exact}) if part.exact else None
        return _Part(f"(?:{part.rust}){bounds}{'?' if lazy else ''}", None, needles if least else None)

    def _repetition(self) -> tuple[int, int | None]:
        found = regex.compile(r"[*+?]|\{(\d*)(,?)(\d*)\}").match(self._text, self._position)
        if found is None:
            return 1, 1
        self._position = found.end()
        if found[0] in ("*", "+", "?"):
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[found[0]]
        least = int(found[1] or 0)
        if not found[2]:
            return least, least
        return least, int(found[3]) if found[3] else None

    def _atom(self) -> _Part:
        start = self._position
        character = self._take()
        if character == "(":
            return self._group()
        if character == "[":
            return self._class()
        if character == "\\":
            return self._escape(start)
        if character == ".":
            return _Part(f"(?:.|{_RUST_BYTE})")
        if character == "^":
            # The byte order mark is not part of the first line.
            return _Part(r"^\x{FEFF}?")
        if character == "$":
            # Nor is the carriage return of a line ending.
            return _Part(r"\r?$")
        if character in "*+?":
            raise _NotShared
        return self._literal(character)

    def _group(self) -> _Part:
        opening = regex.compile(r"\?(?::|P?<[A-Za-z_]\w*>)").match(self._text, self._position)
        if opening:
            self._position = opening.end()
        elif self._peek() == "?":
            raise _NotShared
        part = self._alternatives()
        if self._take() != ")":
            raise _NotShared
        return _Part(f"(?:{part.rust})", part.exact, part.needles)

    def _escape(self, start: int) -> _Part:
        character = self._take()
        if character in "dDsSwW":
            return _Part(rf"(?:[\{character}{_RUST_WIDE}]|{_RUST_BYTE})")
        if character == "b":
            return _Part(r"(?-u:\b)" if self._beside_a_letter(start) else "")
        if character == "B":
            return _Part("")
        if character in "tfv":
            return self._literal({"t": "\t", "f": "\f", "v": "\v"}[character])
        if character == "U":
            digits = self._text[self._position : self._position + 8]
            self._position += 8
            return self._literal(chr(int(digits, 16)))
        if character.isascii() and (character.isalnum() or character == "\n"):
            raise _NotShared
        return self._literal(character)

    def _beside_a_letter(self, start: int) -> bool:
        """Whether the `\\b` at `start` stands next to a plain ASCII letter that it is sure to touch.

        There a boundary is one for bytes too, whatever follows on its other side; elsewhere Rust, which sees
        bytes where we may see Latin-1 letters, could miss one.
        """
        letter = "[A-Za-z0-9_]"
        if self._ignore_case:
            letter = "[A-HJLM-RT-Za-hjlm-rt-z0-9_]"  # i, k and s have relatives outside ASCII
        if regex.match(rf"{letter}(?![*?{{])", self._text[start + 2 : start + 4]):
            return True
        return bool(regex.search(rf"(?<!\\){letter}$", self._text[:start]))

    def _literal(self, character: str) -> _Part:
        if character in "\n\r":
            raise _NotShared
        code = ord(character)
        rust = character if character.isascii() and character.isalnum() else rf"\x{{{code:X}}}"
        if not self._ignore_case:
            if 0x80 <= code <= 0xFF:
                rust = rf"(?:{rust}|(?-u:\x{code:X}))"
            return _Part(rust, exact=character)
        # Rust leaves the Turkish pairs of i and I out.
        if code >= 0x80:
            return _Part(f"(?:[i{rust}]|{_RUST_WIDE}|{_RUST_BYTE})")
        return _Part(r"[i\x{130}\x{131}]" if character in "iI" else rust, exact=character.lower())

    def _class(self) -> _Part:
        negated = self._peek() == "^"
        self._position += negated
        members: list[str] = []
        wide = False
        while True:
            if self._peek() == "]" and members:
                self._position += 1
                break
            text, is_wide = self._member()
            members.append(text)
            wide = wide or is_wide
        inside = f"[{'^' if negated else ''}{''.join(members)}]"
        if wide and self._ignore_case:
            inside += "|i"
        wide = wide or negated or self._ignore_case
        return _Part(f"(?:{inside}|{_RUST_WIDE}|{_RUST_BYTE})" if wide else inside)

    def _member(self) -> tuple[str, bool]:
        """A member of a class in Rust's spelling, and whether it can stand for more than ASCII."""
        named = regex.compile(r"\[:\w+:\]").match(self._text, self._position)
        if named:
            self._position = named.end()
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
            raise _NotShared
        return rf"\x{{{ord(low):X}}}-\x{{{ord(high):X}}}", ord(high) >= 0x80

    def _member_character(self) -> str | None:
        """One character of a class; None for a class escape such as `\\d`."""
        character = self._take()
        if character == "[":
            raise _NotShared  # a nested class for Rust
        if character != "\\":
            # Doubled marks are set operations for Rust; each is spelled by its number, so they are none.
            return character
        character = self._take()
        if character in "dDsSwW":
            return None
        if character in "tfvnr":
            return {"t": "\t", "f": "\f", "v": "\v", "n": "\n", "r": "\r"}[character]
        if character == "U":
            digits = self._text[self._position : self._position + 8]
            self._position += 8
            return chr(int(digits, 16))
        if character.isascii() and character.isalnum():
            raise _NotShared
        return character
