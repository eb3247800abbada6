"""`agent models`: the model list as a table."""

from __future__ import annotations

import sys

from support.command import run_command

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
