"""Permission rules such as `bash(git diff *)`, `edit(src/**)`, `read`, and how a call is judged by them.

A rule is the name of a tool (`*` for any), alone or with a pattern. For a tool that runs commands the pattern
is a command, in which an unquoted `*` matches any part of a word, and on its own any number of words. For
other tools the pattern is a path as in a .gitignore, relative to the folder that the rule belongs to.
"""

from __future__ import annotations

import difflib
import fnmatch
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from agent.cli.permissions.command_patterns import CommandPattern
from agent.cli.permissions.path_patterns import PathPattern
from agent.cli.permissions.paths_of_call import NO_PATH, PathUse, paths_of_call, real_path
from agent.cli.permissions.shell_lexer import (
    EXPANDS,
    EXPANSIONS,
    WILD,
    Command,
    Script,
    Unparsable,
    fragments,
    parse_pattern,
    parse_script,
)
from agent.cli.permissions.wrapped_commands import effects_of
from agent.errors import ConfigurationError

Verdict = Literal["allow", "ask", "deny"]
VERDICTS: tuple[Verdict, ...] = ("allow", "ask", "deny")  # from the most permissive on

_RULE = re.compile(r"(?P<tool>[\w.*:/-]+)(?:\((?P<pattern>.+)\))?", re.DOTALL)
# Tools whose rules name the file; for others "always" is offered only when a call has no arguments.
_FILE_TOOLS = frozenset("read write edit editdiff imageresize grep find ls".split())
KNOWN_TOOLS = (*sorted(_FILE_TOOLS), "bash", "jobs", "plan")
_PATHLESS_TOOLS = frozenset(("jobs", "plan"))
_GLOB_CHARACTER = re.compile(r"[*?\[\\]")
# Commands that change nothing.
_HARMLESS = frozenset(("test", "[", "true", "false", ":"))


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
    def command(self) -> CommandPattern:
        """The pattern for commands; raises Unparsable."""
        return CommandPattern.parse(self.pattern, allows=self.verdict == "allow")

    @cached_property
    def path(self) -> PathPattern:
        """The pattern for paths; raises BadGlob."""
        return PathPattern.parse(self.pattern, base=self.base, allows=self.verdict == "allow")


def parse_rule(verdict: Verdict, text: str, *, base: str, is_project: bool, source: str) -> Rule:
    """Parse a rule; raises ConfigurationError."""
    found = _RULE.fullmatch(text.strip())
    if found is None:
        raise ConfigurationError(f"{source}: {text!r} is not a rule; write tool or tool(pattern)")
    rule = Rule(verdict, found["tool"], (found["pattern"] or "").strip(), base, is_project, source)
    if rule.pattern and rule.tool != "*" and rule.is_for("bash") and not runs_commands(rule.tool):
        raise ConfigurationError(f"{source}: {text!r}: a pattern for commands is written bash(...)")
    _check_tool(rule)
    if rule.pattern:
        from agent_tools.search.globs import BadGlob

        tool = rule.tool.casefold()
        try:
            if runs_commands(rule.tool):
                _ = rule.command
            elif tool in _PATHLESS_TOOLS:
                raise BadGlob(f"{tool} uses no path")
            else:
                _ = rule.path
        except (Unparsable, BadGlob) as error:
            raise ConfigurationError(f"{source}: the pattern of {text!r} can't be used: {error}") from None
    return rule


def _check_tool(rule: Rule) -> None:
    """Refuse a rule that asks or denies and whose tool looks like a misspelt one: it would never apply."""
    name = rule.tool.casefold()
    if rule.verdict == "allow" or any(map(rule.is_for, KNOWN_TOOLS)):
        return
    if close := difflib.get_close_matches(name[:50], KNOWN_TOOLS, n=1, cutoff=0.75):
        raise ConfigurationError(
            f"{rule.source}: {rule.text!r}: no tool {rule.tool}; did you mean {close[0]}?"
        )


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
    def script(self) -> Script:
        """The parts of the shell command; raises Unparsable."""
        return parse_script(self.command)

    @cached_property
    def folder(self) -> str:
        """The resolved folder in which a command runs."""
        folder = self.arguments.get("cwd")
        return os.path.realpath(self.cwd) if folder is None else real_path(_text(folder), self.cwd)

    @cached_property
    def uses(self) -> tuple[PathUse, ...]:
        """The files and folders that the tool would use."""
        return paths_of_call(self.tool, self.arguments, self.cwd)

    def is_inside(self, real: str) -> bool:
        """True for a resolved path in the working folder."""
        root = os.path.realpath(self.cwd)
        return real == root or real.startswith(root.rstrip("/") + "/")


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
    if not call.uses:
        return _most_specific(rule for rule in rules if not rule.pattern)
    return _strictest(
        [_most_specific(r for r in rules if not r.pattern or r.path.matches(use)) for use in call.uses]
    )


def _judge_command(call: Call, rules: Sequence[Rule]) -> Judgement:
    general = [rule for rule in rules if not rule.pattern]
    restricting = [rule for rule in rules if _is_for_commands(rule) and rule.verdict != "allow"]
    allowing = [rule for rule in rules if _is_for_commands(rule) and rule.verdict == "allow"]
    if not call.is_inside(call.folder):  # a pattern is meant for the working folder
        allowing = []
    try:
        script = call.script
    except Unparsable as problem:
        matching = [
            rule
            for command in fragments(call.command)
            for effects in (effects_of(command),)
            for rule in restricting
            if rule.command.restricts(command, effects) == "yes"
        ]
        judgement = _most_specific([*matching, *general])
        return _unless_unknown(judgement, str(problem), restricting)
    general += [rule for rule in allowing if rule.command.matches_whole(script)]
    judgements = [_judge_part(command, general, restricting, allowing) for command in script.commands]
    undecided = [judgement for judgement in judgements if judgement.verdict is None]
    if 0 < len(undecided) < len(judgements):
        harmless = _harmless_parts(call)
        judgements = [
            judgement
            for at, judgement in enumerate(judgements)
            if judgement.verdict is not None or at not in harmless
        ]
    return _strictest(judgements) if script.commands else _most_specific(general)


def _judge_part(
    command: Command, general: Sequence[Rule], restricting: Sequence[Rule], allowing: Sequence[Rule]
) -> Judgement:
    rules = [*general, *(rule for rule in allowing if rule.command.allows(command))]
    if not restricting:
        return _most_specific(rules)
    effects = effects_of(command)
    matches = [(rule, rule.command.restricts(command, effects)) for rule in restricting]
    judgement = _most_specific([*rules, *(rule for rule, match in matches if match == "yes")])
    if any(rule.pattern and WILD not in "".join(rule.command.words) for rule in rules):
        return judgement  # exactly this command is allowed
    possible = next((rule for rule, match in matches if match == "maybe"), None)
    if possible is not None:
        return _unless_unknown(judgement, f"it may run what {possible.text} names", restricting)
    return _unless_unknown(judgement, effects.opaque, restricting) if effects.opaque else judgement


def _unless_unknown(judgement: Judgement, problem: str, restricting: Sequence[Rule]) -> Judgement:
    """Ask for a command that is not denied and that the rules for commands cannot be matched against."""
    if restricting and judgement.verdict in (None, "allow"):
        return Judgement("ask", f"rules cannot be matched against this command: {problem}")
    return judgement


def _is_for_commands(rule: Rule) -> bool:
    return bool(rule.pattern) and runs_commands(rule.tool)


def _harmless_parts(call: Call) -> frozenset[int]:
    """The commands that need no rule beside others: tests, and `cd` into a folder of the project."""
    commands = call.script.commands
    harmless = {
        at
        for at, command in enumerate(commands)
        if not command.assignments
        and command.words[0] in _HARMLESS
        and "-v" not in command.words
        and "-R" not in command.words
        and not any("[" in word for word in command.words[1:])
    }
    changes = [at for at, command in enumerate(commands) if command.words[:1] == ("cd",)]
    if changes == [0] and call.script.tokens[2:3] == [f"{EXPANDS}&&"] and "CDPATH" not in os.environ:
        folder = commands[0].words[1]
        real = os.path.realpath(os.path.join(call.folder, folder))
        if not EXPANSIONS.search(folder) and not folder.startswith("-") and call.is_inside(real):
            harmless.add(0)
    return frozenset(harmless)


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
    texts = _narrowest_texts(call)
    try:
        rules = [parse_rule("allow", t, base=call.cwd, is_project=True, source="answer") for t in texts]
    except ConfigurationError:
        return ()
    return texts if judge(call, rules).verdict == "allow" else ()


def _narrowest_texts(call: Call) -> tuple[str, ...]:
    if call.command:
        text = call.command.strip()
        if call.folder != os.path.realpath(call.cwd) or not _is_exact(text, call):
            return ()
        return (f"{call.tool}({text})",)
    if call.tool in _FILE_TOOLS:
        reals = [use.real for use in call.uses]
        if NO_PATH in reals or any(_GLOB_CHARACTER.search(real) or not real.isprintable() for real in reals):
            return ()
        root = os.path.realpath(call.cwd).rstrip("/") + "/"
        return tuple(
            f"{call.tool}({'./' + real[len(root) :] if real.startswith(root) else real})" for real in reals
        )
    return () if call.arguments and call.tool not in _PATHLESS_TOOLS else (call.tool,)


def _is_exact(text: str, call: Call) -> bool:
    """True when the text, read as a pattern, is this command and no other."""
    try:
        return parse_pattern(text).tokens == call.script.tokens
    except Unparsable:
        return False


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value)
