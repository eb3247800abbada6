"""The settings of an agent as attributes."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from agent import Agent, get_model
from agent.errors import ConfigurationError, UnknownModelError
from agent.runtime.settings import Setting


def settings() -> dict[str, Setting[Any, Any]]:
    return {name: value for name, value in vars(Agent).items() if isinstance(value, Setting)}


def test_every_setting_is_documented_and_read_with_the_value_it_was_made_with() -> None:
    agent = Agent(session_id="s")
    assert agent.session_id == "s"
    for name, setting in settings().items():
        assert getattr(agent, name) == getattr(agent._settings, name)
        assert inspect.getdoc(setting)


def test_a_value_is_converted_when_it_is_set() -> None:
    agent = Agent()
    agent.model = "openai/gpt-5-mini"
    agent.fallbacks = ["openai/gpt-5-mini"]
    agent.server_tools = [{"type": "search"}]
    assert agent.model == get_model("openai/gpt-5-mini")
    assert agent.fallbacks == (agent.model,)
    assert agent.server_tools == ({"type": "search"},)


def test_a_value_that_is_refused_changes_nothing() -> None:
    agent = Agent("openai/gpt-5-mini")
    before = agent.model
    with pytest.raises(UnknownModelError):
        agent.model = "openai/no-such-model"
    with pytest.raises(ConfigurationError):
        agent.transport = "websocket"
    assert (agent.model, agent.transport) == (before, "auto")


def test_two_agents_share_no_setting() -> None:
    first, second = Agent(), Agent()
    first.system_prompt = "first"
    assert second.system_prompt == ""
