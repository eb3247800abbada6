"""Matches the command patterns of rules against the words of commands.

A pattern is a simple command in which an unquoted `*` matches any part of a word, and on its own any number
of words. In an allowing rule it can also be a compound command without stars, which matches only itself.

Matching takes time proportional to the length of the command: a pattern has at most `MAX_WORDS` words, and is
run over the words as a state machine, without backtracking.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from agent.cli.permissions.risky_options import risky_words
from agent.cli.permissions.shell_lexer import (
    EXPANDS,
    EXPANDS_QUOTED,
    EXPANSIONS,
    WILD,
    Command,
    Script,
    Unparsable,
    parse_pattern,
    without_markers,
)
from agent.cli.permissions.wrapped_commands import Effects

MAX_WORDS = 100

# Options with a value that stand between a program and its subcommand.
_GLOBAL_VALUES = {
    "git": frozenset(
        "-C -c --git-dir --work-tree --namespace --super-prefix --config-env --attr-source".split()
    ),
    "docker": frozenset(
        "-H --host -c --context --config -l --log-level --tlscacert --tlscert --tlskey".split()
    ),
    "podman": frozenset("-H --host -c --connection --context --config --log-level --root --url".split()),
    "kubectl": frozenset(
        "-n --namespace --context --cluster --kubeconfig --user -s --server --token --as --as-group "
        "--request-timeout --cache-dir --certificate-authority --client-key --profile -v".split()
    ),
    "npm": frozenset("--prefix -C -w --workspace --registry --userconfig --cache --loglevel --tag".split()),
    "cargo": frozenset("--config -Z -C --color --manifest-path --target-dir".split()),
    "make": frozenset("-C -f -I -o -W --directory --file --makefile --include-dir".split()),
    "gh": frozenset("-R --repo".split()),
}
_MAKE_VARIABLE = re.compile(r"[A-Za-z_]\w*[+:?!]*=", re.ASCII)
# Options before the subcommand that change nothing about it, for rules that allow.
_HARMLESS_OPTIONS = {"git": frozenset(("--no-pager", "-P", "--no-optional-locks"))}

# Assignments before a command that cannot change what it runs: these names, or any other name that is not
# listed below with a number or a switch as its value.
_HARMLESS_VARIABLES = re.compile(
    "CI|DEBUG|VERBOSE|V|NO_COLOR|(FORCE|CLI)_?COLOR(_FORCE)?|TERM|COLUMNS|LINES|LANG|LANGUAGE|LC_[A-Z]+|TZ|NODE_ENV|"
    "RAILS_ENV|RUST_BACKTRACE|RUST_LOG|LOG_?LEVEL|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|PYTHONHASHSEED|SEED"
)
_RISKY_VARIABLES = re.compile(
    r"(LD|DYLD|BASH|GIT|SSH|PYTHON|PERL|RUBY|NODE|NPM|npm|JAVA|CARGO|RUST|GO|PIP|UV|XDG|LESS|MAKE|PYTEST|CMAKE)\w*|"
    r"\w*(PATH|HOME|DIR|PAGER|EDITOR|VISUAL|SHELL|ENV|IFS|OPTS|OPTIONS|FLAGS|CONFIG|PRELOAD|COMMAND|WRAPPER|CMD|"
    r"PROGRAM|ASKPASS|BROWSER|CONF|ENGINES?|MODULES?|TERMINFO|TERMCAP|STARTUP|HOOKS?|INIT|PROFILE|RSH|SSH|CORRECT|NODE|CC|CXX|AR|AS|FC|RC|LIBS?|FILE|PROXY|proxy|CPP|PS4|PROMPT|_CLI)"
)
_HARMLESS_VALUE = re.compile(r"[\w.,:+@-]*", re.ASCII)
_SWITCH = re.compile(r"\d+(\.\d+)?|true|false|yes|no|on|off|", re.IGNORECASE | re.ASCII)

_PARENT = re.compile(r"(?:^|[/=:])\.\.(?:/|$)")
# A variable, or a glob that begins with a dot, may stand for `..`.
_MAY_BE_PARENT = re.compile(rf"[{EXPANDS}{EXPANDS_QUOTED}]\$|(?:^|/)\.[^/]*{EXPANDS}")

Match = Literal["yes", "maybe", "no"]


@dataclass(frozen=True, slots=True)
class CommandPattern:
    """A parsed pattern. `tokens` is set for a compound command, which is compared as a whole."""

    words: tuple[str, ...]
    assignments: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    plain: tuple[str, ...] = field(default=())

    @classmethod
    def parse(cls, text: str, *, allows: bool) -> CommandPattern:
        """Parse a pattern; raises Unparsable for one that can match nothing."""
        script = parse_pattern(text)
        if not script.is_one_command or not script.commands[0].words:
            if not allows or not script.commands:
                raise Unparsable("a pattern is for one command, without ; & | < and line feeds")
            if any(WILD in token for token in script.tokens):
                raise Unparsable("a pattern of several commands cannot contain *")
            return cls((), tokens=tuple(script.tokens))
        command = script.commands[0]
        if len(command.words) > MAX_WORDS:
            raise Unparsable(f"more than {MAX_WORDS} words")
        _check_for_colon(command.words)
        words = tuple(
            word
            for at, word in enumerate(command.words)
            if at == 0 or word != WILD or command.words[at - 1] != WILD
        )
        return cls(words, command.assignments, (), tuple(_as_text(word) for word in words))

    def matches_whole(self, script: Script) -> bool:
        """True when the pattern is a compound command and equals the script."""
        return bool(self.tokens) and self.tokens == tuple(script.tokens)

    def allows(self, command: Command) -> bool:
        """True when the command is certain to be one that an allowing pattern names."""
        if self.tokens or not command.words:
            return False
        if self.assignments:
            if len(self.assignments) != len(command.assignments) or not all(
                map(_word_matches, self.assignments, command.assignments)
            ):
                return False
        elif not all(map(_is_harmless_assignment, command.assignments)):
            return False
        words = _without_harmless_options(command.words)
        if not self._may_start(words[0]):
            return False
        risky = risky_words(words) if any(WILD in word for word in self.words) else frozenset()
        states = self._closure({0}, self.words)
        for at, word in enumerate(words):
            following = set()
            for state in states:
                if state == len(self.words):
                    continue
                pattern = self.words[state]
                if pattern == WILD:
                    if at not in risky:
                        following.add(state)
                elif _allowed_word_matches(pattern, word) and (
                    at not in risky or _names_option(pattern, word)
                ):
                    following.add(state + 1)
            states = self._closure(following, self.words)
            if not states:
                return False
        return len(self.words) in states

    def restricts(self, command: Command, effects: Effects) -> Match:
        """Match for a rule that asks or denies: against everything that the command runs."""
        if self.assignments and not all(
            any(_word_matches(_as_text(pattern), _as_text(given)) for given in command.assignments)
            for pattern in self.assignments
        ):
            return "no"
        result: Match = "no"
        for words in effects.exact:
            if not self._may_begin(words[0]):
                continue
            if self._run(words, anywhere=False, certain=True):
                return "yes"
            if any(map(EXPANSIONS.search, words)) and self._run(words, anywhere=False, certain=False):
                result = "maybe"
        for words in effects.tails:
            if not any(map(self._may_begin, words)):
                continue
            if self._run(words, anywhere=True, certain=True):
                return "yes"
            if any(map(EXPANSIONS.search, words)) and self._run(words, anywhere=True, certain=False):
                result = "maybe"
        return result

    # -- the state machine -------------------------------------------------------------------------------

    def _may_start(self, word: str) -> bool:
        return _word_matches(self.words[0], word) or self.words[0] == WILD

    def _may_begin(self, word: str) -> bool:
        if self.plain[0] == WILD or EXPANSIONS.match(word):
            return True
        return _program_matches(self.plain[0], _as_text(word))

    @staticmethod
    def _closure(states: set[int], words: Sequence[str]) -> set[int]:
        for state in sorted(states):
            while state < len(words) and words[state] == WILD:
                state += 1
                states.add(state)
        return states

    @property
    def _subcommands(self) -> int:
        """The number of leading words that are a program and its subcommands, before options and stars."""
        count = 1
        while count < len(self.plain) and self.plain[count] != WILD and self.plain[count][:1] not in "-+":
            count += 1
        return count

    def _run(self, words: Sequence[str], *, anywhere: bool, certain: bool) -> bool:
        """Run the words; `anywhere` lets the command begin at any word, `certain` takes expansions as text.

        State n is "before pattern word n"; the states above `end` are the same, after an option that may take
        the next word as its value.
        """
        end = len(self.plain)
        subcommands = self._subcommands
        states: set[int] = set()
        for at, word in enumerate(words):
            text = _as_text(word)
            if at == 0 or anywhere:
                states |= self._closure({0}, self.plain)
            following: set[int] = set()
            for state in states:
                if state > end:  # this word is the value of an option
                    following.add(state - end - 1)
                elif state < end:
                    following |= self._step(state, text, subcommands)
                    if not certain and (state > 0 or not anywhere):
                        following |= self._expansions(word, state)
            above = {state for state in following if state > end}
            states = above | self._closure(following - above, self.plain)
        return end in states

    def _step(self, state: int, text: str, subcommands: int) -> set[int]:
        """The states after a word, taken as text."""
        following: set[int] = set()
        pattern = self.plain[state]
        if pattern == WILD:
            following.add(state)
        elif (_program_matches if state == 0 else _word_matches)(pattern, text):
            following.add(state + 1)
        if 0 < state < subcommands and text.startswith(("-", "+")):
            value_of_option = len(self.plain) + 1 + state
            known_values = _GLOBAL_VALUES.get(self.plain[0]) if state == 1 else None
            if known_values is None:  # it is not known whether the option takes a value
                following |= {state, value_of_option}
            else:
                following.add(value_of_option if text in known_values else state)
        elif state == 1 and self.plain[0] == "make" and _MAKE_VARIABLE.match(text):
            following.add(state)
        return following

    def _expansions(self, word: str, state: int) -> set[int]:
        """The states after a word that the shell expands, whatever it expands to."""
        found = EXPANSIONS.search(word)
        is_home = word.startswith(f"{EXPANDS}~") and len(EXPANSIONS.findall(word)) == 1
        if found is None or is_home:
            return set()
        prefix = without_markers(word[: found.start()])
        is_glob = "$" not in word[found.start() :]
        pattern = self.plain[state]
        literal = pattern.partition(WILD)[0]
        shared = min(len(prefix), len(literal))
        if prefix[:shared] != literal[:shared] or (len(literal) < len(prefix) and WILD not in pattern):
            return set()
        if is_glob and literal.startswith("-"):
            return set()
        if f"{EXPANDS}$" not in word or state == 0:  # one word, or names of files
            return {state + 1}
        return set(range(state if not prefix else state + 1, len(self.plain) + 1))


def _word_matches(pattern: str, word: str) -> bool:
    """Match a pattern word, in which `WILD` is any part, in linear time: the leftmost place for each part."""
    if WILD not in pattern:
        return pattern == word
    first, *middle, last = pattern.split(WILD)
    if len(word) < len(first) + len(last) or not word.startswith(first) or not word.endswith(last):
        return False
    at, end = len(first), len(word) - len(last)
    for part in middle:
        at = word.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True


def _allowed_word_matches(pattern: str, word: str) -> bool:
    """Match a word for a rule that allows: a star inside a word does not lead to a folder above."""
    if WILD in pattern and _PARENT.search(word) and not _PARENT.search(pattern):
        return False
    if WILD in pattern and pattern != WILD and _MAY_BE_PARENT.search(word):
        return False
    return _word_matches(pattern, word)


def _program_matches(pattern: str, word: str) -> bool:
    return _word_matches(pattern, word) or _word_matches(pattern, word.rpartition("/")[2])


def _names_option(pattern: str, word: str) -> bool:
    """True when the pattern word spells a risky word, and does not only begin like it."""
    literal = pattern.partition(WILD)[0]
    return WILD not in pattern or len(literal) >= min(len(word), 2 if word[1:2] != "-" else 5)


def _as_text(word: str) -> str:
    """The word as text for rules that ask or deny: without quotes, and with the home folder in its place."""
    if EXPANSIONS.search(word) is None:
        return word
    home = os.path.expanduser("~")
    word = word.replace(f"{EXPANDS}~/", f"{home}/").replace("${HOME}", home)
    return home if word == f"{EXPANDS}~" else without_markers(word)


def _without_harmless_options(words: tuple[str, ...]) -> tuple[str, ...]:
    harmless = _HARMLESS_OPTIONS.get(words[0], frozenset())
    at = 1
    while at < len(words) and words[at] in harmless:
        at += 1
    return (words[0], *words[at:])


def _is_harmless_assignment(assignment: str) -> bool:
    name, _, value = assignment.partition("=")
    if _HARMLESS_VARIABLES.fullmatch(name):
        return _HARMLESS_VALUE.fullmatch(value) is not None
    return not _RISKY_VARIABLES.fullmatch(name) and _SWITCH.fullmatch(value) is not None


def _check_for_colon(words: Sequence[str]) -> None:
    """Refuse `rm:*`, the notation of another agent, which would match no command here."""
    last = words[-1] if words else ""
    if last.endswith(f":{WILD}") and (len(words) == 1 or (len(words) == 2 and words[0] in _GLOBAL_VALUES)):
        raise Unparsable(f"write {' '.join(words).removesuffix(f':{WILD}')} * for any arguments")
