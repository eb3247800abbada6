"""Builds the environment of a command: no prompts, colours for logs, and no secrets on request."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

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

# Words between underscores that mark the name of a secret.
_SECRET_NAME = re.compile(
    r"SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|APIKEY|API_KEY|COOKIE"
    r"|(?:^|_)(?:ACCESS|PRIVATE|ENCRYPTION|SIGNING|MASTER|AUTH|ACCOUNT|SERVICE|DEPLOY)_?KEYS?(?:_|$)"
    r"|(?:^|_)(?:API|AUTH|ACCESS)_?TOKENS(?:_|$)"
    r"|TOKEN(?:_|$)|_(?:KEY|PASS|PWD|PAT|AUTH)$",
    re.IGNORECASE,
)


def filtered_environment(environ: Mapping[str, str], pass_env: Collection[str] = ()) -> dict[str, str]:
    """`environ` without the variables whose names say that they hold an API key, a token or a password.

    Decided by the name alone (`OPENAI_API_KEY`, `GITHUB_TOKEN`, `AWS_SECRET_ACCESS_KEY`, `PGPASSWORD` ...),
    in any case; `pass_env` names those to keep all the same.
    """
    return {
        name: value for name, value in environ.items() if name in pass_env or not _SECRET_NAME.search(name)
    }


def command_environment(environ: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return `environ` adapted to unattended commands, with `changes` applied; None removes a variable."""
    merged: dict[str, str | None] = {**_COLOUR, **environ, **_UNATTENDED, **changes}
    return {name: value for name, value in merged.items() if value is not None}
