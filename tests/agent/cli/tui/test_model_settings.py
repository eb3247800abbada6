"""The model and the thinking level of the interactive mode."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agent import Agent
from agent.cli.tui.model_settings import ModelSettings


class _Notes(list[tuple[str, str]]):
    def __call__(self, text: str, style: str) -> None:
        self.append((text, style))


@pytest.fixture
def notes() -> _Notes:
    return _Notes()


@pytest.fixture
def agent() -> Iterator[Agent]:
    with Agent("anthropic/claude-haiku-4-5") as agent:
        yield agent


@pytest.fixture
def settings(agent: Agent, notes: _Notes) -> ModelSettings:
    return ModelSettings(agent, notes, lambda: False)


def test_the_model_is_shown_and_set(settings: ModelSettings, agent: Agent, notes: _Notes) -> None:
    settings.show_or_set_model("")
    settings.show_or_set_model("ollama/qwen3")
    settings.show_or_set_model("")
    assert notes[0][0].startswith("anthropic/claude-haiku-4-5: window 200k, $1 in, $5 out")
    assert [text for text, _ in notes[1:]] == [
        "model: ollama/qwen3",
        "ollama/qwen3: window 128k, price unknown",
    ]
    assert agent.model is not None
    assert agent.model.id == "qwen3"


def test_an_unknown_model_changes_nothing(settings: ModelSettings, agent: Agent, notes: _Notes) -> None:
    settings.show_or_set_model("nowhere/x")
    assert notes[0][1] == "red"
    assert agent.model is not None
    assert agent.model.provider == "anthropic"


def test_the_thinking_level_is_shown_set_and_explained(settings: ModelSettings, notes: _Notes) -> None:
    for level in ("", "high", "max", "hard"):
        settings.show_or_set_thinking(level)
    assert [text for text, _ in notes] == [
        "thinking: off of off, low, medium, high",
        "thinking: high",
        "thinking: high, as anthropic/claude-haiku-4-5 has off, low, medium, high",
        "no level 'hard'; there are " + notes[3][0].partition("there are ")[2],
    ]


def test_the_next_level_comes_round(settings: ModelSettings) -> None:
    seen = []
    for _ in range(5):
        settings.next_thinking_level()
        seen.append(settings.level)
    assert seen == ["low", "medium", "high", "off", "low"]
