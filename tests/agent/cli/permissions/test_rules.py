"""Parsing permission rules."""

from __future__ import annotations

import pytest

from agent.cli.permissions.rules import Verdict, parse_rule
from agent.errors import ConfigurationError


@pytest.mark.parametrize(
    "text", ["", "bash(", "bash()", "bash(a; b)", "bash('a)", "edit([)", "a b", "b*(rm)"]
)
def test_an_invalid_rule_is_an_error_that_names_its_file(text: str) -> None:
    with pytest.raises(ConfigurationError, match="the file"):
        parse_rule("deny", text, base="/", is_project=False, source="the file")


@pytest.mark.parametrize(
    "text", ["bash(rm:*)", "bash(a; b)", "plan(x)", "jobs(x)", "edit($HOME/x)", "bsh", "edti(x)"]
)
def test_a_restricting_rule_that_can_never_apply_is_an_error(text: str) -> None:
    with pytest.raises(ConfigurationError, match="the file"):
        parse_rule("deny", text, base="/", is_project=False, source="the file")


@pytest.mark.parametrize(
    "text", ["*", "bash", "BASH(rm *)", "mcp:server/tool", "other_tool(src/**)", "web_*", "b*"]
)
def test_rules_for_any_tool_are_taken(text: str) -> None:
    verdicts: tuple[Verdict, ...] = ("allow", "ask", "deny")
    for verdict in verdicts:
        assert parse_rule(verdict, text, base="/", is_project=False, source="the file").text == text
