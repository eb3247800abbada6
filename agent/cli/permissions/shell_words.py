"""A shell command as the simple commands it is made of, when that can be told for certain.

Rules that allow commands are matched against these. So whatever bash would evaluate, expand into commands or
write to is refused rather than guessed: substitutions, subshells, control structures, here-documents,
redirections to files, comments (a quote in one hides what follows it). What is left is words, quotes, plain
variables as arguments, and the separators of commands.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

# Stands for an unquoted * in a pattern; commands that hold it are refused.
WILD = "\x01"

_BLANK = " \t"
_SEPARATOR = re.compile(r"&&|\|\||\|&|[;&|\n]")
_END = r"(?=[ \t\n;&|]|$)"
# Redirections that write and read nothing.
_HARMLESS = re.compile(rf"(?:(?:&>>?|>>?|<)[ \t]*/dev/null|>&[12]){_END}")
_NAME = re.compile(r"\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*\}|[0-9?#@*!$-])", re.ASCII)
_RESERVED = frozenset(
    "! { } [[ ]] case coproc do done elif else esac fi for function if in select then time until "
    "while".split()
)
# Builtins take the subscript of an array for arithmetic, and evaluate it, quoted or not.
_EVALUATED = re.compile(r"\[[^\]]*(?:\$\(|`)")
_EXPANDS = "*?[{"
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
# Programs that run the command in their arguments.
_WRAPPERS = frozenset(
    "sudo doas env command builtin busybox exec nohup nice time timeout stdbuf setsid xargs".split()
)
_FAR = 20  # words behind a wrapper at which a command may begin
_SHELLS = frozenset("sh bash dash zsh ksh fish eval source .".split())


class NotPlain(ValueError):
    """The command can't be taken apart for certain; the text says why."""


def split_commands(command: str) -> list[list[str]]:
    """The simple commands, each as its words without quotes; raises NotPlain."""
    return _Lexer(command).run()


def split_pattern(pattern: str) -> list[str]:
    """The words of a pattern, in which an unquoted `*` has become `WILD`; raises NotPlain."""
    commands = _Lexer(pattern, is_pattern=True).run()
    if len(commands) != 1:
        raise NotPlain("a pattern is for one command, without ; & | and line feeds")
    return commands[0]


def pieces(command: str) -> Iterator[list[str]]:
    """Whatever might be a command in a text that is not plain: for rules that forbid, never for others."""
    for piece in re.split(r"[;&|\n(){}`<>]|\$\(", command):
        words = re.sub(r"[\"'\\]", "", piece).split()
        while words and words[0] in _RESERVED:
            words.pop(0)
        if words:
            yield words


def readings(words: Sequence[str]) -> Iterator[list[str]]:
    """The words, and what they may come to: without assignments, without a path, and behind `sudo` and such.

    Where the options of such a program end can't be told, so any word behind it may begin a command.
    """
    yield list(words)
    start = 0
    while start < len(words) and _ASSIGNMENT.match(words[start]):
        start += 1
    rest = list(words[start:])
    if not rest:
        return
    is_wrapper = os.path.basename(rest[0]) in _WRAPPERS
    for place in range(min(len(rest), _FAR)) if is_wrapper else (0,):
        yield [os.path.basename(rest[place]), *rest[place + 1 :]]


def runs_a_text(words: Sequence[str]) -> bool:
    """True for `bash -c ...`, `eval ...` and the like, whose arguments are commands again."""
    return any(os.path.basename(reading[0]) in _SHELLS for reading in readings(words))


class _Lexer:
    """One pass over the text. `_word` is None between words."""

    def __init__(self, text: str, *, is_pattern: bool = False) -> None:
        self._text = text
        self._at = 0
        self._is_pattern = is_pattern
        self._word: list[str] | None = None
        self._is_quoted = False  # some of the word was
        self._words: list[str] = []
        self._commands: list[list[str]] = []

    def run(self) -> list[list[str]]:
        if "\0" in self._text or WILD in self._text:
            raise NotPlain("control characters")
        while self._at < len(self._text):
            self._step(self._text[self._at])
        self._end_command()
        return self._commands

    def _step(self, character: str) -> None:
        if character in _BLANK:
            self._end_word()
            self._at += 1
        elif harmless := _HARMLESS.match(self._text, self._at):
            if self._word is not None and "".join(self._word).isdecimal() and not self._is_quoted:
                self._word = None  # the number of a stream
            self._end_word()
            self._at = harmless.end()
        elif separator := _SEPARATOR.match(self._text, self._at):
            self._end_command()
            self._at = separator.end()
        elif character == "\\":
            self._backslash()
        elif character == "'":
            self._single_quotes()
        elif character == '"':
            self._double_quotes()
        elif character == "$":
            self._dollar()
        else:
            self._plain(character)

    def _plain(self, character: str) -> None:
        if character in "<>":
            raise NotPlain("a redirection")
        if character in "()":
            raise NotPlain("a subshell or a function")
        if character == "`":
            raise NotPlain("a command substitution")
        if character == "#" and self._word is None:
            raise NotPlain("a comment")
        if self._is_pattern:
            character = WILD if character == "*" else character
        elif character in _EXPANDS and not self._words:
            raise NotPlain(f"{character} in the name of the command")
        elif character == "{" and self._text[self._at + 1 : self._at + 2] != "}":
            raise NotPlain("a brace expansion")
        self._add(character)
        self._at += 1

    def _backslash(self) -> None:
        following = self._text[self._at + 1 : self._at + 2]
        if not following:
            raise NotPlain("a backslash at the end")
        self._at += 2
        if following != "\n":  # else the line goes on
            self._add(following)
            self._is_quoted = True

    def _single_quotes(self) -> None:
        end = self._text.find("'", self._at + 1)
        if end < 0:
            raise NotPlain("an open quote")
        self._add(self._text[self._at + 1 : end])
        self._is_quoted = True
        self._at = end + 1

    def _double_quotes(self) -> None:
        self._add("")
        self._is_quoted = True
        self._at += 1
        while (character := self._text[self._at : self._at + 1]) != '"':
            if not character:
                raise NotPlain("an open quote")
            if character == "`":
                raise NotPlain("a command substitution")
            if character == "$":
                self._dollar(in_quotes=True)
                continue
            following = self._text[self._at + 1 : self._at + 2]
            if character == "\\" and following and following in '$`"\\\n':
                self._add("" if following == "\n" else following)
                self._at += 2
                continue
            self._add(character)
            self._at += 1
        self._at += 1

    def _dollar(self, in_quotes: bool = False) -> None:
        name = _NAME.match(self._text, self._at)
        if name is None:
            following = self._text[self._at + 1 : self._at + 2]
            if following and following in "({[" + ("" if in_quotes else "'\""):
                raise NotPlain(f"${following}")
            self._add("$")
            self._at += 1
            return
        if not self._words and not self._is_pattern:
            raise NotPlain("a variable in the name of the command")
        self._add(name[0])
        self._at = name.end()

    def _add(self, text: str) -> None:
        if self._word is None:
            self._word = []
            self._is_quoted = False
        self._word.append(text)

    def _end_word(self) -> None:
        if self._word is None:
            return
        word = "".join(self._word)
        self._word = None
        if not self._words and not self._is_quoted and word in _RESERVED:
            raise NotPlain(word)
        if _EVALUATED.search(word):
            raise NotPlain("a subscript that bash may evaluate")
        self._words.append(word)

    def _end_command(self) -> None:
        self._end_word()
        if self._words:
            self._commands.append(self._words)
            self._words = []
