"""Splits a shell command into its simple commands, and refuses every command it cannot split for certain.

Rules that allow commands are matched against the result, so nothing is guessed: substitutions, control
structures, functions, here-documents and redirections to files raise `Unparsable`. The accepted rest is
words, quotes, plain variables as arguments, comments, input redirections, subshells, groups, `!`, `time` and
the separators of commands.

No library does this soundly. Of the parsers tried, `tree-sitter-bash` reads `"A$\\<newline>(touch x)"` as
plain text where bash runs `touch`, and `bashlex` misses substitutions in here-documents and fails on `time`,
`[[` and `case`. The tests compare this lexer with bash itself on random commands.

A word is a string without quotes in which a marker precedes each character that the shell expands: `EXPANDS`
before an unquoted `*`, `?`, `[`, `~` or `$`, `EXPANDS_QUOTED` before a `$` in double quotes. So `rm *` and
`rm '*'` are different words. Variables are written as `${name}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

WILD = "\x01"  # an unquoted * in a pattern
EXPANDS = "\x02"
EXPANDS_QUOTED = "\x03"
EXPANSIONS = re.compile("[\x02\x03]")

_RESERVED_CHARACTERS = re.compile("[\0-\3\x7f]")  # our markers, and what bash uses for its own
_BLANK = " \t"
_OPERATOR = re.compile(r"&&|\|\||\|&|[;&|\n]")
_END = r"(?=[ \t\n;&|()]|$)"
# Redirections that read and write no file, from the operator on.
_NULL_REDIRECTION = re.compile(rf"(?:(?:&>>?|>>?|<)[ \t]*/dev/null|>&[12]){_END}")
_INPUT = re.compile(r"<(?![<>&(])")
_DIGITS = re.compile(r"[0-9]+", re.ASCII)
_MAX_DESCRIPTOR_DIGITS = 3
_DESCRIPTOR_VARIABLE = re.compile(r"\{[A-Za-z_]\w*(?:\[.*)?\}", re.ASCII | re.DOTALL)
_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*|[0-9?#@*!$-])|\{([A-Za-z_]\w*)\})", re.ASCII)
_VARIABLE_NAME = re.compile(r"[A-Za-z_]\w*\+?", re.ASCII)
_TILDE = re.compile(r"~[\w.+-]*(?=[/ \t\n;&|()<>:]|$)", re.ASCII)
_REFUSED_WORDS = frozenset(
    "[[ ]] case coproc do done elif else esac fi for function if in select then until while".split()
)
_KEYWORDS = frozenset(("{", "}", "!", "time", *_REFUSED_WORDS))
# Builtins evaluate the subscript of an array as arithmetic, quoted or not.
_SUBSCRIPT = re.compile(r"\[[^\]]*(?:\$\(|`)")
_MAX_HERE_DOCUMENTS = 50  # each one may cost a search through the rest of the text
_HERE_DOCUMENT = re.compile(r"<<(-?)[ \t]*(?:(['\"])(.+?)\2|\\?([\w.]+))")


class Unparsable(ValueError):
    """The command cannot be split for certain; the text says why."""


@dataclass(frozen=True, slots=True)
class Command:
    """A simple command: its variable assignments, and its words (see the module for their markers)."""

    words: tuple[str, ...]
    assignments: tuple[str, ...] = ()


@dataclass(slots=True)
class Script:
    """The simple commands of a text, and all of its tokens: words, operators and redirections."""

    commands: list[Command] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)

    @property
    def is_one_command(self) -> bool:
        """True for one simple command without redirections, operators and keywords."""
        if len(self.commands) != 1:
            return False
        command = self.commands[0]
        return len(self.tokens) == len(command.words) + len(command.assignments)


def parse_script(text: str) -> Script:
    """Split a command; raises Unparsable."""
    return _Lexer(text).run()


def parse_pattern(pattern: str) -> Script:
    """Split the pattern of a rule, with `WILD` for each unquoted `*`; raises Unparsable."""
    return _Lexer(pattern, is_pattern=True).run()


def split_lines(command: str) -> list[str]:
    """The text of a command with a line for each simple command; raises Unparsable.

    Joined together the lines are the text without the line feeds that it had outside quotes. A text with
    comments or line continuations is split at its own line feeds.
    """
    lexer = _Lexer(command)
    lexer.run()
    if lexer.text != command:
        return command.split("\n")
    lines = []
    start = 0
    for end in [*lexer.breaks, len(command)]:
        if line := command[start:end].strip(" \t\n"):
            lines += line.split("\n")
        start = end
    return lines


def without_markers(word: str) -> str:
    """The word as text, quoted and unquoted parts alike."""
    return EXPANSIONS.sub("", word)


def fragments(text: str) -> Iterator[Command]:
    """Every possible command in a text that cannot be split: only for rules that ask or deny.

    The bodies of here-documents are data and left out.
    """
    text = _without_here_documents(text.replace("\\\n", ""))
    for fragment in re.split(r"[;&|\n(){}`<>]|\$\(", text):
        words = re.sub(r"[\"'\\\x01-\x03]", "", fragment).split()
        start = 0
        while start < len(words) and (words[start] in _KEYWORDS or _is_assignment(words[start])):
            start += 1
        if words[start:]:
            yield Command(tuple(words[start:]))


def _without_here_documents(text: str) -> str:
    lines = text.split("\n")
    kept = []
    at = searched = 0
    while at < len(lines):
        line = lines[at]
        kept.append(line)
        at += 1
        for found in _HERE_DOCUMENT.finditer(line):
            searched += 1
            if searched <= _MAX_HERE_DOCUMENTS:
                delimiter = found[3] or found[4]
                ends = (n for n in range(at, len(lines)) if lines[n].lstrip("\t") == delimiter)
                at = next(ends, at - 1) + 1  # without an end it is no here-document
    return "\n".join(kept)


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and _VARIABLE_NAME.fullmatch(name) is not None


def _join_lines(text: str, *, is_pattern: bool) -> str:
    """The text without line continuations and comments, as bash reads it before it looks for tokens.

    Constructs that the lexer refuses are not interpreted: what follows them in the text does not matter.
    """
    result: list[str] = []
    at = 0
    quote = ""
    at_word_start = True
    while at < len(text):
        character = text[at]
        if quote == "'":
            end = text.find("'", at)
            end = len(text) if end < 0 else end + 1
            result.append(text[at:end])
            at, quote = end, ""
            continue
        if character == "\\":
            if text[at + 1 : at + 2] != "\n":
                result.append(text[at : at + 2])
                at_word_start = False
            at += 2
            continue
        if character == "#" and at_word_start and not quote:
            if is_pattern:
                raise Unparsable("a comment")
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
            continue
        if character == '"' or (character == "'" and not quote):
            quote = "" if quote else character
        at_word_start = not quote and character in " \t\n;&|()<>"
        result.append(character)
        at += 1
    return "".join(result)


class _Lexer:
    """Reads the text once. `_word` is None between words."""

    def __init__(self, text: str, *, is_pattern: bool = False) -> None:
        if _RESERVED_CHARACTERS.search(text):
            raise Unparsable("control characters")
        self.text = self._text = _join_lines(text, is_pattern=is_pattern)
        self.breaks: list[int] = []  # where the operators between commands end
        self._at = 0
        self._is_pattern = is_pattern
        self._script = Script()
        self._groups: list[str] = []
        self._operator = ""  # the one before the current command
        self._reads_target = False  # the next word is the file of a redirection
        self._word: list[str] | None = None
        self._is_quoted = False  # a part of the word is
        self._is_assignment = False
        self._brace = -1  # the index of the first unquoted one among the parts of the word
        self._start_command()

    def run(self) -> Script:
        while self._at < len(self._text):
            self._step(self._text[self._at])
        self._end_command()
        if self._groups:
            raise Unparsable("an open group")
        return self._script

    # -- commands ----------------------------------------------------------------------------------------

    def _start_command(self) -> None:
        self._words: list[str] = []
        self._assignments: list[str] = []
        self._has_redirection = False
        self._follows_group = False
        self._follows_time = False

    def _end_command(self) -> None:
        self._end_word()
        if self._reads_target:
            raise Unparsable("a redirection")
        if self._words or self._assignments:
            self._script.commands.append(Command(tuple(self._words), tuple(self._assignments)))
        self._start_command()

    def _step(self, character: str) -> None:
        if character in _BLANK:
            self._end_word()
            self._at += 1
        elif redirection := _NULL_REDIRECTION.match(self._text, self._at):
            self._redirect(has_descriptor=character != "&")
            self._script.tokens.append(EXPANDS + re.sub("[ \t]", "", redirection[0]))
            self._at = redirection.end()
        elif operator := _OPERATOR.match(self._text, self._at):
            self._end_command()
            self._operator = operator[0]
            self._script.tokens.append(f"{EXPANDS}{operator[0]}")
            self._at = operator.end()
            self.breaks.append(self._at)
        elif _INPUT.match(self._text, self._at):
            self._redirect(has_descriptor=True)
            self._reads_target = True
            self._at += 1
        elif character in "()":
            self._parenthesis(character)
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

    def _redirect(self, *, has_descriptor: bool) -> None:
        word = "".join(self._word or ())
        if has_descriptor and not self._is_quoted:
            if _DESCRIPTOR_VARIABLE.fullmatch(word):
                raise Unparsable("a redirection that sets a variable")
            if _DIGITS.fullmatch(word):
                if len(word) > _MAX_DESCRIPTOR_DIGITS:
                    raise Unparsable("a redirection")
                self._script.tokens.append(f"{EXPANDS}{word}")
                self._word = None
        self._end_word()
        if self._reads_target:
            raise Unparsable("a redirection")
        self._has_redirection = True

    def _parenthesis(self, character: str) -> None:
        if self._word is not None or self._words or self._assignments or self._reads_target:
            if character == "(":
                raise Unparsable("a function or a glob in parentheses")
        elif character == "(" and (self._follows_group or self._has_redirection or self._follows_time):
            raise Unparsable("a parenthesis")
        if character == "(":
            if self._text[self._at + 1 : self._at + 2] == "(":
                raise Unparsable("arithmetic")
            self._open_group("(")
        else:
            self._end_command()
            self._close_group("(")
        self._at += 1

    def _open_group(self, group: str) -> None:
        self._groups.append(group)
        self._script.tokens.append(f"{EXPANDS}{group}")
        self._operator = group
        self._start_command()

    def _close_group(self, group: str) -> None:
        if not self._groups or self._groups.pop() != group:
            raise Unparsable("a group that is not open")
        self._script.tokens.append(f"{EXPANDS}close")
        self._follows_group = True

    # -- words -------------------------------------------------------------------------------------------

    def _start_word(self) -> None:
        self._word = []
        self._is_quoted = False
        self._is_assignment = False
        self._brace = -1

    @property
    def _is_name(self) -> bool:
        """True while the word may be the name of the command, which must be certain."""
        return not (self._words or self._is_assignment or self._reads_target)

    def _add(self, text: str) -> None:
        if self._word is None:
            self._start_word()
        assert self._word is not None
        self._word.append(text)

    def _plain(self, character: str) -> None:
        if character in "<>":
            raise Unparsable("a redirection")
        if character == "`":
            raise Unparsable("a command substitution")
        if character == "=" and self._word and not self._is_quoted and not self._words:
            self._is_assignment = _VARIABLE_NAME.fullmatch("".join(self._word)) is not None
        if character == "*" and self._is_pattern:
            self._add(WILD)
        elif character == "[" and self._is_name and self._is_word("["):
            self._add(character)
        elif character in "*?[":
            if self._is_name:
                raise Unparsable(f"{character} in the name of the command")
            self._add(EXPANDS + character)
        elif character == "~" and self._may_be_tilde() and _TILDE.match(self._text, self._at):
            self._add(EXPANDS + character)
        else:
            self._add(character)
            if character == "{" and self._brace < 0:
                self._brace = len(self._word or ()) - 1
        self._at += 1

    def _is_word(self, text: str) -> bool:
        """True when the text at this place is a word of its own."""
        after = self._text[self._at + len(text) : self._at + len(text) + 1]
        return self._word is None and self._text.startswith(text, self._at) and after in ("", " ", "\t", "\n")

    def _may_be_tilde(self) -> bool:
        return self._word is None or "".join(self._word[-1:]) in ("=", ":")

    def _backslash(self) -> None:
        following = self._text[self._at + 1 : self._at + 2]
        if not following:
            raise Unparsable("a backslash at the end")
        self._at += 2
        self._add(following)
        self._is_quoted = True

    def _single_quotes(self) -> None:
        end = self._text.find("'", self._at + 1)
        if end < 0:
            raise Unparsable("an open quote")
        self._add("")
        self._is_quoted = True
        self._add(self._text[self._at + 1 : end])
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
            if character == "\\" and following and following in '$`"\\':
                self._add(following)
                self._at += 2
                continue
            self._add(character)
            self._at += 1
        self._at += 1

    def _dollar(self, in_quotes: bool = False) -> None:
        variable = _VARIABLE.match(self._text, self._at)
        if variable is None:
            following = self._text[self._at + 1 : self._at + 2]
            if following and following in "({[" + ("" if in_quotes else "'\""):
                raise Unparsable(f"${following}")
            self._add("$")
            self._at += 1
            return
        if self._is_name:
            raise Unparsable("a variable in the name of the command")
        marker = EXPANDS_QUOTED if in_quotes else EXPANDS
        self._add(f"{marker}${{{variable[1] or variable[2]}}}")
        self._at = variable.end()

    def _end_word(self) -> None:
        if self._word is None:
            return
        word = "".join(self._word)
        after_brace = "".join(self._word[self._brace + 1 :]) if self._brace >= 0 else ""
        self._word = None
        if not self._is_pattern and ("," in after_brace or ".." in after_brace):
            raise Unparsable("a brace expansion")  # else bash leaves the braces as they are
        if self._reads_target:
            self._end_target(word)
            return
        if not self._words and not self._assignments and not self._is_quoted and word in _KEYWORDS:
            self._keyword(word)
            return
        if self._follows_group:
            raise Unparsable("a word after a group")
        if self._follows_time and not self._words and word.startswith("-"):
            if word != "-p" or self._is_quoted:
                raise Unparsable("an option of time")
            self._follows_time = False
            self._script.tokens.append(EXPANDS + word)
            return
        if _SUBSCRIPT.search(without_markers(word)):
            raise Unparsable("a subscript that bash may evaluate")
        if self._is_assignment and not self._words:
            self._assignments.append(word)
            self._script.tokens.append(f"{EXPANDS}={word}")
            return
        if self._brace >= 0 and not self._words:
            raise Unparsable("{ in the name of the command")
        self._words.append(word)
        self._script.tokens.append(word)

    def _end_target(self, word: str) -> None:
        self._reads_target = False
        if EXPANSIONS.search(word) or re.sub("/+", "/", word).startswith("/dev/") or not word:
            raise Unparsable("a redirection")
        self._script.tokens.append(f"{EXPANDS}<{word}")

    def _keyword(self, word: str) -> None:
        in_pipe = self._operator in ("|", "|&")
        if word in _REFUSED_WORDS or self._has_redirection:
            raise Unparsable(word)
        if word == "}":
            if self._follows_group or self._follows_time:
                raise Unparsable(word)
            self._close_group("{")
        elif self._follows_group or (in_pipe and word != "{"):
            raise Unparsable(word)
        elif word == "{":
            if self._follows_time:
                raise Unparsable(word)
            self._open_group("{")
        else:  # ! and time stand before a pipeline
            self._script.tokens.append(f"{EXPANDS}{word}")
            self._follows_time = word == "time" or self._follows_time
