"""Permission rules such as `bash(git diff *)`, `edit(src/**)`, `read`, and the calls that they are for.

A rule is the name of a tool (`*` for any), alone or with a pattern. For a tool that runs commands the pattern
is a command, in which an unquoted `*` matches any part of a word, and on its own any number of words. For
other tools the pattern is a path as in a .gitignore, relative to the folder that the rule belongs to.
"""

from __future__ import annotations

import difflib
import fnmatch
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from agent.cli.permissions.command_patterns import CommandPattern
from agent.cli.permissions.path_patterns import PathPattern
from agent.cli.permissions.paths_of_call import PathUse, paths_of_call, real_path
from agent.cli.permissions.shell_lexer import (
    Script,
    Unparsable,
    parse_script,
)
from agent.errors import ConfigurationError

Verdict = Literal["allow", "ask", "deny"]
VERDICTS: tuple[Verdict, ...] = ("allow", "ask", "deny")  # from the most permissive on

_RULE = re.compile(r"(?P<tool>[\w.*:/-]+)(?:\((?P<pattern>.+)\))?", re.DOTALL)
# Tools whose rules name the file; for others "always" is offered only when a call has no arguments.
FILE_TOOLS = frozenset("read write edit editdiff imageresize grep find ls".split())
KNOWN_TOOLS = (*sorted(FILE_TOOLS), "bash", "jobs", "plan")
PATHLESS_TOOLS = frozenset(("jobs", "plan"))


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
    def rank(self) -> tuple[bool, bool, int, bool, int]:
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
            elif tool in PATHLESS_TOOLS:
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
    arguments: Mapping[str, object]
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


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value)
