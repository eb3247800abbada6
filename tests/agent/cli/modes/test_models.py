"""`agent models`: the model list as a table."""

from __future__ import annotations

import sys

import pytest
from support.command import environment, run_command

from agent.cli.display.amounts import duration, money, short_count
from agent.cli.modes.models import model_row
from agent.model_list import model_list
from agent.models import Model, known_models

MODELS = [sys.executable, "-m", "agent", "models"]


def test_every_known_model_has_a_line() -> None:
    lines = run_command(MODELS).stdout.splitlines()
    assert [line.split()[0] for line in lines[1 : len(known_models()) + 1]] == sorted(known_models())


def test_a_pattern_chooses_by_part_of_the_name() -> None:
    lines = run_command([*MODELS, "HAIKU-4"]).stdout.splitlines()
    assert lines[0].split()[:3] == ["model", "context", "output"]
    row = next(line for line in lines if line.startswith("anthropic/claude-haiku-4-5 "))
    assert row.split() == [
        *("anthropic/claude-haiku-4-5", "200k", "64k", "1.00", "5.00", "0.10", "yes"),
        *("low", "medium", "high"),
    ]


def test_source_and_date_are_printed() -> None:
    shown = run_command([*MODELS, "claude"]).stdout
    _, source, date = model_list()
    assert source in shown
    assert date in shown


def test_an_unknown_price_is_printed_as_unknown() -> None:
    row = model_row("x/y", Model("y", "openai-completions", "x"))
    assert row[3:6] == ("unknown", "unknown", "unknown")


def test_a_pattern_that_fits_nothing_exits_with_1() -> None:
    ended = run_command([*MODELS, "no-such-model"])
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "no-such-model" in ended.stderr


@pytest.mark.parametrize("option", ["--continue", "--resume"])
def test_options_of_sessions_are_refused_as_not_implemented(option: str) -> None:
    ended = run_command([sys.executable, "-m", "agent", option], env=environment())
    assert ended.returncode == 2
    assert "not yet" in ended.stderr


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (999, "999"), (1000, "1k"), (1234, "1.2k"), (128_000, "128k"), (1_048_576, "1M")],
)
def test_tokens_are_short(number: int, text: str) -> None:
    assert short_count(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.44, "0.4s"), (12.3, "12s"), (59.7, "1m 00s"), (185, "3m 05s"), (7800, "2h 10m")]
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("dollars", "text"), [(0, "$0.00"), (0.00042, "$0.0004"), (0.0123, "$0.012"), (1.5, "$1.50")]
)
def test_money_has_its_significant_decimals(dollars: float, text: str) -> None:
    assert money(dollars) == text
