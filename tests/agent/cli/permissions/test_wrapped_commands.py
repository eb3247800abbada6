"""Finding the commands that a command runs."""

from __future__ import annotations

import pytest

from agent.cli.permissions.shell_lexer import parse_script
from agent.cli.permissions.wrapped_commands import Effects, effects_of, wrapped_at


def _effects(text: str) -> Effects:
    (command,) = parse_script(text).commands
    return effects_of(command)


@pytest.mark.parametrize(
    ("command", "at"),
    [
        ("sudo rm", 1),
        ("sudo -u me rm", 3),
        ("sudo -nu me A=1 rm", 4),
        ("env -u A B=1 rm", 4),
        ("nice -n 5 rm", 3),
        ("nice -5 rm", 2),
        ("timeout -s KILL 5 rm", 4),
        ("timeout --kill-after=1 5 rm", 3),
        ("timeout -- 5 rm", 3),
        ("xargs -0 -I{} rm", 3),
        ("xargs", 1),
        ("sudo --unknown x rm", None),
        ("sudo $x rm", None),
        ("ls x", None),
    ],
)
def test_the_command_of_a_wrapper_begins_behind_its_options(command: str, at: int | None) -> None:
    assert wrapped_at(parse_script(command).commands[0].words) == at


def test_wrappers_in_wrappers_are_all_found() -> None:
    assert [words[0] for words in _effects("sudo env A=1 nice make x").exact] == [
        "sudo",
        "env",
        "nice",
        "make",
    ]


def test_text_is_split_into_its_commands() -> None:
    assert ("rm", "x") in _effects("sh -c 'ls; rm x'").exact
    assert ("rm", "x") in _effects("find . -exec sh -c 'rm x' \\;").exact
    assert ("rm", "-f") in _effects("alias x='rm -f'").exact


@pytest.mark.parametrize(
    "command", ["find . -name rm", "git log rm", "docker", "ls sudo rm", "git commit -m 'a; rm'"]
)
def test_arguments_of_other_programs_are_no_commands(command: str) -> None:
    assert not any(words[0] == "rm" for words in _effects(command).exact)


@pytest.mark.parametrize(
    "command",
    ["sh x", "sh", "python -c x", "python", "perl -ne x", "node --eval=x", ". x", "awk 'a|getline'"],
)
def test_code_and_scripts_are_opaque(command: str) -> None:
    assert _effects(command).opaque


@pytest.mark.parametrize(
    "command", ["python x.py", "python -m pytest -c x", "perl x.pl", "awk '{print $1}'", "make"]
)
def test_programs_that_run_files_of_the_project_are_not(command: str) -> None:
    assert not _effects(command).opaque


def test_text_in_text_ends_somewhere() -> None:
    text = "ls"
    for _ in range(4):
        text = "sh -c '" + text.replace("'", "'\\''") + "'"
    assert not _effects(text).opaque
    for _ in range(3):
        text = "sh -c '" + text.replace("'", "'\\''") + "'"
    assert _effects(text).opaque
