"""Builds the environment of a command: no prompts, colours for logs, and no secrets on request."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from agent_tools.process.secrets import is_secret

# Set only where the variable is not set: many programs omit colours on a pipe, and displays that show the raw
# output need them. The model never sees them.
_COLOUR = {"CLICOLOR": "1", "CLICOLOR_FORCE": "3", "FORCE_COLOR": "1"}

# No user can answer: `true` as the editor leaves the text unchanged, prompts fail, the pager is cat.
_UNATTENDED = {
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "EDITOR": "true",
    "VISUAL": "true",
    "PAGER": "cat",
    "SSH_ASKPASS_REQUIRE": "never",
}


def filtered_environment(environ: Mapping[str, str], pass_env: Collection[str] = ()) -> dict[str, str]:
    """Return `environ` without the variables that look like secrets, by name or by value.

    `pass_env` names variables to keep anyway.
    """
    return {name: value for name, value in environ.items() if name in pass_env or not is_secret(name, value)}


def command_environment(environ: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return `environ` adapted to unattended commands, with `changes` applied; None removes a variable."""
    merged: dict[str, str | None] = {**_COLOUR, **environ, **_UNATTENDED, **changes}
    return {name: value for name, value in merged.items() if value is not None}
