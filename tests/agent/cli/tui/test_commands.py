"""The names of the commands, and misspelt ones."""

from __future__ import annotations

import pytest

from agent.cli.tui.commands import COMMANDS, NOT_YET, help_text, meant_command


def test_the_help_names_every_command() -> None:
    assert all(name in help_text() for name in COMMANDS | NOT_YET)


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("/modl", "/model"),
        ("/Help", "/help"),
        ("/exit", "/quit"),
        ("/thikning ", "/thinking"),
        ("/xyz", None),
        ("/tmp", None),
        ("/modl of the car", None),
        ("modl", None),
        ("/", None),
        ("", None),
    ],
)
def test_only_a_single_word_near_a_command_is_a_misspelling(line: str, meant: str | None) -> None:
    assert meant_command(line) == meant
