"""The command line, from arguments to frozen records."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest
from support.command import environment, run_command

from agent.cli.options import (
    DEFAULT_MAX_TURNS,
    DemoOptions,
    ModelsOptions,
    RunOptions,
    parse_demo,
    parse_models,
    parse_run,
)
from agent.errors import ConfigurationError


def test_the_records_have_the_defaults_of_the_parsers() -> None:
    assert dataclasses.replace(parse_run([]), cwd=".", words=(), pass_env=()) == RunOptions()
    assert parse_demo([]) == DemoOptions()
    assert parse_models([]) == ModelsOptions()


def test_options_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        parse_run([]).cwd = "/"  # type: ignore[misc]


def test_options_may_come_before_and_after_the_words() -> None:
    options = parse_run(["--model", "a/b", "fix", "the test", "--tools", "read, grep", "--approve", "ask"])
    assert (options.words, options.model) == (["fix", "the test"], "a/b")
    assert (options.tools, options.approve) == (["read", "grep"], "ask")
    assert parse_run(["--tools", "none"]).tools == []
    assert parse_run([]).tools is None
    assert parse_run(["--pass-env", "A", "--pass-env", "B"]).pass_env == ["A", "B"]
    assert parse_run([]).max_turns == DEFAULT_MAX_TURNS


def test_the_folder_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "sub").mkdir()
    assert parse_run([]).cwd == str(tmp_path)
    assert parse_run(["--cwd", "sub"]).cwd == parse_run(["--cwd", "~/sub"]).cwd == str(tmp_path / "sub")


@pytest.mark.parametrize("folder", ["no/such", "file", ""])
def test_a_folder_that_is_none_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    if folder:
        with pytest.raises(ConfigurationError, match=f"--cwd: {folder} is not a folder"):
            parse_run(["--cwd", folder])
    else:
        assert parse_run(["--cwd", folder]).cwd == str(tmp_path)


@pytest.mark.parametrize("option", ["--continue", "--resume"])
def test_options_of_sessions_are_refused_as_not_implemented(option: str) -> None:
    ended = run_command([sys.executable, "-m", "agent", option], env=environment())
    assert ended.returncode == 2
    assert "not yet" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fix", "--model", "x", "the", "test"], ["fix", "the", "test"]),
        (["--model", "x", "fix", "-q", "the test"], ["fix", "the test"]),
        (["fix", "--model", "x", "--", "-v", "--json"], ["fix", "-v", "--json"]),
        (["--", "models"], ["models"]),
        (["--model", "x", "models", "demo"], ["models", "demo"]),
        (["--", "a", "--", "b"], ["a", "--", "b"]),
        (["- a bullet"], ["- a bullet"]),
    ],
)
def test_words_and_options_come_in_any_order(arguments: list[str], words: list[str]) -> None:
    """N19"""
    options = parse_run(arguments)
    assert (options.words, options.json) == (words, False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["models", "are", "wrong in", "it"], "agent -- models are 'wrong in' it"),
        (["demo", "my", "feature"], "agent -- demo my feature"),
        (["-hello"], "a prompt that begins with a dash follows --: agent -- -hello"),
        (["-quick fix", "now"], "agent -- '-quick fix' now"),
        (["-p", "-hello you"], "-p='-hello you'"),
        (["--yolo", "hi"], "unrecognized arguments: --yolo (see agent --help)"),
        (["models", "--frob"], "unrecognized arguments: --frob (see agent models --help)"),
    ],
)
def test_words_that_look_like_a_command_or_option_run_nothing_and_are_explained(
    arguments: list[str], said: str
) -> None:
    """N19"""
    ended = run_command([sys.executable, "-m", "agent", *arguments], env=environment())
    assert (ended.returncode, ended.stdout) == (2, "")
    assert said in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_the_way_that_the_errors_name_works() -> None:
    """N19"""
    assert parse_run(["-p=-hello you"]).prompt == "-hello you"
    assert parse_run(["--", "-quick fix", "now"]).words == ["-quick fix", "now"]
