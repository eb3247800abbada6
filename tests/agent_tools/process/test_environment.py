"""The environment of commands."""

from __future__ import annotations

from agent_tools.process.environment import command_environment, filtered_environment


def test_the_filter_drops_secrets_and_keeps_what_commands_need() -> None:
    """B23"""
    environ = {"OPENAI_API_KEY": "x", "DATABASE_URL": "postgres://u:p@h/d", "PATH": "/bin", "MAX_TOKENS": "1"}
    assert filtered_environment(environ) == {"PATH": "/bin", "MAX_TOKENS": "1"}


def test_a_name_can_be_let_through() -> None:
    environ = {"HF_TOKEN": "a", "GH_TOKEN": "b"}
    assert filtered_environment(environ, ["HF_TOKEN"]) == {"HF_TOKEN": "a"}


def test_editors_and_prompts_are_disabled() -> None:
    """B16"""
    env = command_environment({"GIT_EDITOR": "vim", "EDITOR": "code --wait", "PAGER": "less"}, {})
    assert (env["GIT_EDITOR"], env["EDITOR"], env["VISUAL"], env["PAGER"]) == ("true", "true", "true", "cat")
    assert (env["GIT_SEQUENCE_EDITOR"], env["GIT_TERMINAL_PROMPT"]) == ("true", "0")


def test_colours_are_requested_only_where_the_variable_is_not_set() -> None:
    env = command_environment({"FORCE_COLOR": "0"}, {})
    assert (env["FORCE_COLOR"], env["CLICOLOR"], env["CLICOLOR_FORCE"]) == ("0", "1", "3")


def test_changes_override_and_none_removes() -> None:
    """B23"""
    env = command_environment(
        {"A": "1", "B": "2"}, {"A": None, "B": "3", "CLICOLOR": None, "GIT_EDITOR": "ed"}
    )
    assert "A" not in env
    assert "CLICOLOR" not in env
    assert (env["B"], env["GIT_EDITOR"]) == ("3", "ed")
