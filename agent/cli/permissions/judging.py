"""Judges tool calls by the rules, and writes the narrowest rule for a call."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agent.cli.permissions.paths_of_call import NO_PATH, PathUse
from agent.cli.permissions.rules import (
    FILE_TOOLS,
    PATHLESS_TOOLS,
    Call,
    Rule,
    Verdict,
    parse_rule,
    runs_commands,
)
from agent.cli.permissions.shell_lexer import (
    EXPANDS,
    EXPANSIONS,
    WILD,
    Command,
    Unparsable,
    fragments,
    parse_pattern,
)
from agent.cli.permissions.wrapped_commands import effects_of
from agent.errors import ConfigurationError

# Commands that change nothing.
_HARMLESS = frozenset(("test", "[", "true", "false", ":"))
_MAX_WORDS, _MAX_PATH = 1000, 4096  # of a command that are compared with rules for paths
_GLOB_CHARACTER = re.compile(r"[*?\[\\]")


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
        judgement = _judge_command(call, rules)
        hidden = _names_hidden_path(call, rules) if judgement.verdict in (None, "allow") else None
        return hidden or judgement
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
    elif call.folder != os.path.realpath(call.cwd):
        allowing = [rule for rule in allowing if not _is_relative(rule.command.words[:1])]
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


def _names_hidden_path(call: Call, rules: Sequence[Rule]) -> Judgement | None:
    """Ask for a command that names a path which a rule for all tools, such as `*(.env)`, restricts."""
    hiding = [rule for rule in rules if rule.pattern and rule.tool == "*" and rule.verdict != "allow"]
    if not hiding:
        return None
    words = re.split(r"[\s;&|()<>=:,]+", re.sub(r"[\"'\\]", "", call.command))
    for word in list(dict.fromkeys(words))[:_MAX_WORDS]:
        word = word.replace("${HOME}", "~").replace("$HOME", "~")
        if not word or len(word) > _MAX_PATH:
            continue
        try:
            path = os.path.join(call.folder, os.path.expanduser(word))
            use = PathUse(os.path.normpath(path), os.path.realpath(path), False)
        except ValueError:  # no system has such a path
            continue
        for rule in hiding:
            if rule.path.matches(use):
                return Judgement("ask", f"it names {word}: the rule {rule.text} of {rule.source}")
    return None


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


def _is_relative(words: Sequence[str]) -> bool:
    """True for the path of a program that is another one in another folder."""
    return any("/" in word and not word.startswith(("/", f"{EXPANDS}~")) for word in words)


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
        is_plain = not EXPANSIONS.search(folder) and not folder.startswith("-")
        programs = [command.words[0] for command in commands if command.words]
        if is_plain and call.is_inside(real) and not _is_relative(programs):
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
    if call.tool in FILE_TOOLS:
        reals = [use.real for use in call.uses]
        if NO_PATH in reals or any(_GLOB_CHARACTER.search(real) or not real.isprintable() for real in reals):
            return ()
        root = os.path.realpath(call.cwd).rstrip("/") + "/"
        return tuple(
            f"{call.tool}({'./' + real[len(root) :] if real.startswith(root) else real})" for real in reals
        )
    return () if call.arguments and call.tool not in PATHLESS_TOOLS else (call.tool,)


def _is_exact(text: str, call: Call) -> bool:
    """True when the text, read as a pattern, is this command and no other."""
    try:
        return parse_pattern(text).tokens == call.script.tokens
    except Unparsable:
        return False
