"""The page about models lists what the code knows."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from agent.models import PROVIDERS
from agent.providers import _WIRE_FORMATS as REGISTERED
from agent.providers.anthropic_messages import compat as anthropic_compat
from agent.providers.google_generative_ai import compat as google_compat
from agent.providers.image_budget import _CLAUDE, _CLAUDE_200K, _GEMINI, _OPENAI
from agent.providers.openai_completions import compat as completions_compat
from agent.providers.openai_responses import compat as responses_compat

PAGE = (Path(__file__).parents[3] / "docs" / "models.md").read_text(encoding="utf-8")
FLAGS = {
    "openai-completions": completions_compat.Compat,
    "openai-responses": responses_compat.Compat,
    "anthropic-messages": anthropic_compat.Compat,
    "google-generative-ai": google_compat.Compat,
}


def _section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def _row(section: str, first: str) -> str:
    return next(
        line
        for line in _section(section).splitlines()
        if line.startswith("| ") and first in line.split("|")[1]
    )


@pytest.mark.parametrize("name", PROVIDERS)
def test_every_provider_stands_there_with_its_format_and_keys(name: str) -> None:
    row = _row("Providers and keys", f"`{name}`")
    provider = PROVIDERS[name]
    assert f"`{provider.api}`" in row
    assert all(f"`{variable}`" in row for variable in provider.key_variables)
    assert ("those of the model list" in row) == (not provider.any_id)


@pytest.mark.parametrize("api", REGISTERED)
def test_every_format_stands_there_with_its_flags(api: str) -> None:
    assert _row("Wire formats", f"`{api}`")
    listed = re.findall(r"`(\w+)`", _row("Flags", f"`{api}`").split("|")[2])
    assert listed == [flag.name for flag in fields(FLAGS[api])]


def test_the_limits_of_images_are_those_of_the_code() -> None:
    section = _section("Images")
    for budget in (_CLAUDE, _OPENAI, _GEMINI):
        assert f"{budget.chars // 1_000_000} MB" in section
    for number in (
        _CLAUDE.count,
        _CLAUDE_200K.count,
        _OPENAI.count,
        _GEMINI.count,
        _CLAUDE.side,
        _CLAUDE.crowd_side,
    ):
        assert str(number) in section
