"""What commands get to know of the environment they run in."""

from __future__ import annotations

import pytest

from agent_tools.process.environment import command_environment, filtered_environment

SECRETS = [
    *("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_KEY", "openai_api_key", "APIKEY", "STRIPE_SECRET_KEY"),
    *(
        "GITHUB_TOKEN",
        "GH_TOKEN",
        "HF_TOKEN",
        "AWS_SESSION_TOKEN",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "NPM_AUTH_TOKENS",
    ),
    *("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "CLIENT_SECRET", "DJANGO_SECRETS", "SSH_PRIVATE_KEY"),
    *("PGPASSWORD", "DB_PASSWORD_FILE", "MYSQL_PWD", "SMTP_PASS", "VAULT_PASSWD", "GPG_PASSPHRASE"),
    *("GOOGLE_APPLICATION_CREDENTIALS", "AZURE_CREDENTIAL", "GITHUB_PAT", "NPM_AUTH", "SESSION_COOKIE"),
]
HARMLESS = [
    *("PATH", "HOME", "LANG", "LC_ALL", "PWD", "OLDPWD", "USER", "SHELL", "TERM", "TMPDIR", "SSH_AUTH_SOCK"),
    *(
        "XAUTHORITY",
        "TOKENIZERS_PARALLELISM",
        "MAX_OUTPUT_TOKENS",
        "KEYBOARD_LAYOUT",
        "VIRTUAL_ENV",
        "HTTP_PROXY",
    ),
    *("MONKEY", "COMPASS", "PASSENGER", "PATTERN", "AUTHOR", "GIT_AUTHOR_NAME", "PYTHONPATH"),
]


@pytest.mark.parametrize("name", SECRETS)
def test_the_filter_drops_secrets(name: str) -> None:
    """B23"""
    assert filtered_environment({name: "x"}) == {}


@pytest.mark.parametrize("name", HARMLESS)
def test_the_filter_keeps_what_commands_need(name: str) -> None:
    """B23"""
    assert filtered_environment({name: "x"}) == {name: "x"}


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
