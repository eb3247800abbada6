"""Splits a shell command into its simple commands, and refuses every command it cannot split for certain.

Rules that allow commands are matched against the result, so nothing is guessed: substitutions, subshells,
control structures, here-documents, redirections to files and comments raise `Unparsable`. The accepted rest
is words, quotes, plain variables as arguments, and the separators of commands.

No library does this soundly. Of the parsers tried, `tree-sitter-bash` reads `"A$\\<newline>(touch x)"` as
plain text where bash runs `touch`, and `bashlex` misses substitutions in here-documents and fails on `time`,
`[[` and `case`. The tests compare this lexer with bash itself on random commands.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

# Represents an unquoted * in a pattern; commands that contain it are refused.
WILD = "\x01"

_BLANK = " \t"
_SEPARATOR = re.compile(r"&&|\|\||\|&|[;&|\n]")
_END = r"(?=[ \t\n;&|]|$)"
# Redirections that read and write no file.
_NULL_REDIRECTION = re.compile(rf"(?:(?:&>>?|>>?|<)[ \t]*/dev/null|>&[12]){_END}")
_NAME = re.compile(r"\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*\}|[0-9?#@*!$-])", re.ASCII)
_RESERVED = frozenset(
    "! { } [[ ]] case coproc do done elif else esac fi for function if in select then time until "
    "while".split()
)
# Builtins evaluate the subscript of an array as arithmetic, quoted or not.
_SUBSCRIPT = re.compile(r"\[[^\]]*(?:\$\(|`)")
_GLOB_CHARACTERS = "*?[{"
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
# Programs that run the command given in their arguments.
_WRAPPERS = frozenset(
    "sudo doas env command builtin busybox exec nohup nice time timeout stdbuf setsid xargs".split()
)
_MAX_WRAPPER_WORDS = 20  # words after a wrapper at which a command may begin
_SHELLS = frozenset("sh bash dash zsh ksh fish eval source .".split())


class Unparsable(ValueError):
    """The command cannot be split for certain; the text says why."""


def split_commands(command: str) -> list[list[str]]:
    """The simple commands, each as a list of words without quotes; raises Unparsable."""
    return _Lexer(command).run()


def split_pattern(pattern: str) -> list[str]:
    """The words of a pattern, with `WILD` for each unquoted `*`; raises Unparsable."""
    commands = _Lexer(pattern, is_pattern=True).run()
    if len(commands) != 1:
        raise Unparsable("a pattern is for one command, without ; & | and line feeds")
    return commands[0]


def fragments(command: str) -> Iterator[list[str]]:
    """Every possible command in a text that cannot be split: only for rules that ask or deny."""
    for fragment in re.split(r"[;&|\n(){}`<>]|\$\(", command):
        words = re.sub(r"[\"'\\]", "", fragment).split()
        while words and words[0] in _RESERVED:
            words.pop(0)
        if words:
            yield words


def effective_commands(words: Sequence[str]) -> Iterator[list[str]]:
    """The command, and each one it may run: without assignments or a folder, behind `sudo` and such.

    It is unknown where the options of such a wrapper end, so every word after it may begin a command.
    """
    yield list(words)
    start = 0
    while start < len(words) and _ASSIGNMENT.match(words[start]):
        start += 1
    rest = list(words[start:])
    if not rest:
        return
    is_wrapper = os.path.basename(rest[0]) in _WRAPPERS
    for start_of_command in range(min(len(rest), _MAX_WRAPPER_WORDS)) if is_wrapper else (0,):
        yield [os.path.basename(rest[start_of_command]), *rest[start_of_command + 1 :]]


def runs_command_text(words: Sequence[str]) -> bool:
    """True for `bash -c ...`, `eval ...` and similar, whose arguments are command text."""
    return any(os.path.basename(command[0]) in _SHELLS for command in effective_commands(words))


class _Lexer:
    """Reads the text once. `_word` is None between words."""

    def __init__(self, text: str, *, is_pattern: bool = False) -> None:
        self._text = text
        self._at = 0
        self._is_pattern = is_pattern
        self._word: list[str] | None = None
        self._is_quoted = False  # a part of the word is
        self._words: list[str] = []
        self._commands: list[list[str]] = []

    def run(self) -> list[list[str]]:
        if "\0" in self._text or WILD in self._text:
            raise Unparsable("control characters")
        while self._at < len(self._text):
            self._step(self._text[self._at])
        self._end_command()
        return self._commands

    def _step(self, character: str) -> None:
        if character in _BLANK:
            self._end_word()
            self._at += 1
        elif redirection := _NULL_REDIRECTION.match(self._text, self._at):
            if self._word is not None and "".join(self._word).isdecimal() and not self._is_quoted:
                self._word = None  # the number of a file descriptor
            self._end_word()
            self._at = redirection.end()
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
            raise Unparsable("a redirection")
        if character in "()":
            raise Unparsable("a subshell or a function")
        if character == "`":
            raise Unparsable("a command substitution")
        if character == "#" and self._word is None:
            raise Unparsable("a comment")
        if self._is_pattern:
            character = WILD if character == "*" else character
        elif character in _GLOB_CHARACTERS and not self._words:
            raise Unparsable(f"{character} in the name of the command")
        elif character == "{" and self._text[self._at + 1 : self._at + 2] != "}":
            raise Unparsable("a brace expansion")
        self._add(character)
        self._at += 1

    def _backslash(self) -> None:
        following = self._text[self._at + 1 : self._at + 2]
        if not following:
            raise Unparsable("a backslash at the end")
        self._at += 2
        if following != "\n":  # a line continuation
            self._add(following)
            self._is_quoted = True

    def _single_quotes(self) -> None:
        end = self._text.find("'", self._at + 1)
        if end < 0:
            raise Unparsable("an open quote")
        self._add(self._text[self._at + 1 : end])
        self._is_quoted = True
        self._at = end + 1

    def _double_quotes(self) -> None:
        self._add("")
        self._is_quoted = True
        self._at += 1
        while (character := self._text[self._at : self._at + 1]) != '"':
            if not character:
                raise Unparsable("an open quote")
            if character == "`":
                raise Unparsable("a command substitution")
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
                raise Unparsable(f"${following}")
            self._add("$")
            self._at += 1
            return
        if not self._words and not self._is_pattern:
            raise Unparsable("a variable in the name of the command")
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
            raise Unparsable(word)
        if _SUBSCRIPT.search(word):
            raise Unparsable("a subscript that bash may evaluate")
        self._words.append(word)

    def _end_command(self) -> None:
        self._end_word()
        if self._words:
            self._commands.append(self._words)
            self._words = []
