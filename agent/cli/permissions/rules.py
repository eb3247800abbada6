"""Permission rules such as `bash(git diff *)`, `edit(src/**)`, `read`, and how a call is judged by them.

A rule is the name of a tool (`*` for any), alone or with a pattern. For a tool that runs commands the pattern
is a command, in which an unquoted `*` matches any part of a word, and on its own any number of words. For
other tools the pattern is a path as in a .gitignore, relative to the folder that the rule belongs to.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from agent.cli.permissions.shell_lexer import (
    WILD,
    Unparsable,
    effective_commands,
    fragments,
    runs_command_text,
    split_commands,
    split_pattern,
)
from agent.errors import ConfigurationError

Verdict = Literal["allow", "ask", "deny"]
VERDICTS: tuple[Verdict, ...] = ("allow", "ask", "deny")  # from the most permissive on

_RULE = re.compile(r"(?P<tool>[\w.*-]+)(?:\((?P<pattern>.+)\))?", re.DOTALL)
_GLOB_CHARACTER = re.compile(r"[*?\[\\]")
# Arguments that are paths in every tool.
_PATH_ARGUMENTS = ("path", "output")
_SEARCHES = frozenset(("grep", "find", "ls"))  # their path defaults to the working folder


@dataclass(frozen=True)
class Rule:
    """One rule. Relative paths start in `base`; `source` is the file that holds it, for messages.

    `is_project` is true for a rule of this project, false for one of all projects.
    """

    verdict: Verdict
    tool: str
    pattern: str = ""
    base: str = "."
    is_project: bool = False
    source: str = ""

    @property
    def text(self) -> str:
        """The rule as written in the file."""
        return f"{self.tool}({self.pattern})" if self.pattern else self.tool

    @cached_property
    def rank(self) -> tuple[Any, ...]:
        """The sort key of specificity, higher first; ties go to the project, then to the stricter verdict."""
        specific = (bool(self.pattern), self.tool != "*", len(self.pattern.replace("*", "")))
        return (*specific, self.is_project, VERDICTS.index(self.verdict))

    def is_for(self, tool: str) -> bool:
        """True when the rule applies to that tool."""
        return fnmatch.fnmatchcase(tool.casefold(), self.tool.casefold())

    @cached_property
    def words(self) -> re.Pattern[str]:
        """The pattern as a regular expression for the words of a command, each preceded by a NUL."""
        parts = []
        for word in split_pattern(self.pattern):
            any_part = re.escape(word).replace(re.escape(WILD), "[^\0]*")
            parts.append("(?:\0[^\0]*)*" if word == WILD else f"\0{any_part}")
        return re.compile("".join(parts), re.DOTALL)

    @cached_property
    def paths(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        """The pattern as regular expressions: for absolute paths as written, and for resolved paths."""
        pattern = os.path.expanduser(self.pattern)
        if "/" not in pattern and pattern != ".":
            if self.verdict != "allow":
                # A bare name is denied in every folder, and so is everything inside it.
                named = self._expression("/", f"**/{pattern}")
                return named, named
            pattern = f"**/{pattern}"
        base = os.path.abspath(self.base)
        if os.path.isabs(pattern):
            literal = _GLOB_CHARACTER.split(pattern, maxsplit=1)[0]
            base = literal if literal == pattern else os.path.dirname(literal)
            pattern = pattern[len(base) :].lstrip("/")
        while pattern.startswith(("./", "../")):
            step, pattern = pattern.split("/", 1)
            base = os.path.normpath(os.path.join(base, step))
        pattern = "" if pattern == "." else pattern.rstrip("/")
        return self._expression(base, pattern), self._expression(os.path.realpath(base), pattern)

    def _expression(self, base: str, pattern: str) -> re.Pattern[str]:
        from agent_tools.search.globs import translate

        ignore_case = 0 if self.verdict == "allow" else re.IGNORECASE  # .ENV may be the same file
        inside = f"/{translate(pattern)}" if pattern else ""
        return re.compile(f"{re.escape(base.rstrip('/'))}{inside}(?:/.*)?", re.DOTALL | ignore_case)


def parse_rule(verdict: Verdict, text: str, *, base: str, is_project: bool, source: str) -> Rule:
    """Parse a rule; raises ConfigurationError."""
    found = _RULE.fullmatch(text.strip())
    if found is None:
        raise ConfigurationError(f"{source}: {text!r} is not a rule; write tool or tool(pattern)")
    rule = Rule(verdict, found["tool"], (found["pattern"] or "").strip(), base, is_project, source)
    if rule.pattern and rule.tool != "*" and rule.is_for("bash") and not runs_commands(rule.tool):
        raise ConfigurationError(f"{source}: {text!r}: a pattern for commands is written bash(...)")
    if rule.pattern:
        from agent_tools.search.globs import BadGlob

        try:
            _ = rule.words if runs_commands(rule.tool) else rule.paths
        except (Unparsable, BadGlob) as error:
            raise ConfigurationError(f"{source}: the pattern of {text!r} can't be used: {error}") from None
    return rule


def runs_commands(tool: str) -> bool:
    """True for the tools whose patterns are commands."""
    return tool.casefold() == "bash"


@dataclass(frozen=True)
class Call:
    """A tool call in the working folder `cwd`."""

    tool: str
    arguments: Mapping[str, Any]
    cwd: str

    @cached_property
    def command(self) -> str:
        """The shell command; empty for a tool that runs none."""
        return _text(self.arguments.get("command")) if runs_commands(self.tool) else ""

    @cached_property
    def commands(self) -> list[list[str]]:
        """The simple commands of the shell command; raises Unparsable."""
        folder = self.arguments.get("cwd")
        if folder is not None and not self.is_inside(self._real(_text(folder))):
            raise Unparsable("it runs outside the working folder")
        return split_commands(self.command)

    @cached_property
    def paths(self) -> list[tuple[str, str]]:
        """The absolute paths among the arguments, each as written and resolved."""
        named = [_text(self.arguments[key]) for key in _PATH_ARGUMENTS if self.arguments.get(key) is not None]
        if not named and self.tool in _SEARCHES:
            named = [self.cwd]
        return [(self._absolute(path), self._real(path)) for path in named]

    def is_inside(self, real: str) -> bool:
        """True for a resolved path in the working folder."""
        root = os.path.realpath(self.cwd)
        return real == root or real.startswith(root.rstrip("/") + "/")

    def _absolute(self, path: str) -> str:
        from agent_tools.files.paths import find_existing
        from agent_tools.tool import ToolFailure

        try:
            return os.path.normpath(find_existing(path, self.cwd))
        except (ToolFailure, OSError, ValueError):
            return os.path.normpath(os.path.join(self.cwd, path))

    def _real(self, path: str) -> str:
        from agent_tools.files.paths import find_existing
        from agent_tools.tool import ToolFailure

        try:
            return os.path.realpath(find_existing(path, self.cwd))
        except (ToolFailure, OSError, ValueError):  # no tool accepts such a path
            return "/\0"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict of the rules and the reason; the verdict is None when no rule applies."""

    verdict: Verdict | None
    why: str = ""


def judge(call: Call, rules: Sequence[Rule]) -> Judgement:
    """Judge a call by the rules.

    A rule that denies beats all others. Of the rest the most specific one applies: with a pattern before
    without, for this tool before for any, the longer pattern before the shorter; then the project's before
    the user's; then ask before allow. A compound command or several paths get the strictest verdict of their
    parts.
    """
    rules = [rule for rule in rules if rule.is_for(call.tool)]
    if call.command:
        return _judge_command(call, rules)
    if not call.paths:
        return _most_specific(rule for rule in rules if not rule.pattern)
    return _strictest(
        [_most_specific(r for r in rules if not r.pattern or _matches_path(r, path)) for path in call.paths]
    )


def _judge_command(call: Call, rules: Sequence[Rule]) -> Judgement:
    rules = [rule for rule in rules if not rule.pattern or runs_commands(rule.tool)]
    general = [rule for rule in rules if not rule.pattern]
    guarded = any(rule.pattern and rule.verdict != "allow" for rule in rules)
    try:
        commands = call.commands
        if guarded and any(map(runs_command_text, commands)):
            raise Unparsable("a command inside a text")
    except Unparsable as problem:
        matching = [
            r
            for r in rules
            if r.pattern and r.verdict != "allow" and _matches_any(r, fragments(call.command))
        ]
        judgement = _most_specific([*matching, *general])
        if guarded and judgement.verdict in (None, "allow"):
            return Judgement("ask", f"rules cannot be matched against this command: {problem}")
        return judgement
    return _strictest(
        [_most_specific(r for r in rules if not r.pattern or _matches_command(r, w)) for w in commands]
    )


def _matches_command(rule: Rule, words: Sequence[str]) -> bool:
    """True when the rule matches the command; rules that ask or deny also look behind `sudo` and `/bin/`."""
    candidates = [words] if rule.verdict == "allow" else effective_commands(words)
    return any(rule.words.fullmatch("".join(f"\0{word}" for word in command)) for command in candidates)


def _matches_any(rule: Rule, commands: Iterable[Sequence[str]]) -> bool:
    return any(_matches_command(rule, words) for words in commands)


def _matches_path(rule: Rule, path: tuple[str, str]) -> bool:
    written, real = path
    if rule.verdict == "allow":  # a link in an allowed folder does not allow its target
        return rule.paths[1].fullmatch(real) is not None
    return any(expression.fullmatch(p) for expression in rule.paths for p in (written, real))


def _most_specific(rules: Iterable[Rule]) -> Judgement:
    rules = list(rules)
    if not rules:
        return Judgement(None)
    denying = [rule for rule in rules if rule.verdict == "deny"]
    rule = max(denying or rules, key=lambda rule: rule.rank)
    return Judgement(rule.verdict, f"the rule {rule.text} of {rule.source}")


def _strictest(judgements: Sequence[Judgement]) -> Judgement:
    """The strictest judgement: deny, ask, no rule, allow."""
    order: tuple[Verdict | None, ...] = ("deny", "ask", None, "allow")
    return min(judgements, key=lambda judgement: order.index(judgement.verdict), default=Judgement(None))


def narrowest_rules(call: Call) -> tuple[str, ...]:
    """The narrowest rules that allow exactly this call; none when no rule can express it."""
    if call.command:
        try:
            commands = call.commands
        except Unparsable:
            return ()
        if any(map(runs_command_text, commands)):
            return ()
        return tuple(dict.fromkeys(f"{call.tool}({shlex.join(words)})" for words in commands))
    if not call.paths:
        return (call.tool,)
    reals = [real for _, real in call.paths]
    if any(_GLOB_CHARACTER.search(real) or not real.isprintable() for real in reals):
        return ()
    root = os.path.realpath(call.cwd).rstrip("/") + "/"
    return tuple(
        f"{call.tool}({'./' + real[len(root) :] if real.startswith(root) else real})" for real in reals
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value)
