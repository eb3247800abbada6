"""The options of a request are written once; what holds them takes them all."""

from __future__ import annotations

from dataclasses import fields

import pytest

from agent.cancel import CancelToken
from agent.loop import LoopConfig
from agent.models import Model
from agent.retry import RetryPolicy
from agent.runtime.settings import Settings
from agent.stream import StreamOptions

MODEL = Model("m", "scripted", "scripted")


@pytest.mark.parametrize("holder", [LoopConfig, Settings])
def test_every_option_of_a_request_is_an_option_of_what_makes_it(holder: type[StreamOptions]) -> None:
    options = {option.name for option in fields(StreamOptions)}
    assert options < {option.name for option in fields(holder)}


def test_the_options_of_a_request_are_those_of_the_configuration() -> None:
    config = LoopConfig(MODEL, session_id="s", temperature=0.5, headers={"a": "b"}, timeout=3.0)
    options = config.stream_options()
    assert (options.session_id, options.temperature, options.timeout) == ("s", 0.5, 3.0)
    assert options.headers == {"a": "b"}
    assert type(options) is StreamOptions
    options.temperature = 1.0
    assert config.temperature == 0.5


def test_a_configuration_without_a_signal_has_one_of_its_own() -> None:
    first, second = LoopConfig(MODEL), LoopConfig(MODEL, cancel=None)  # type: ignore[arg-type]
    first.cancel.cancel()
    assert not second.cancel.is_set()


def test_settings_reach_the_loop_with_the_thinking_level_as_reasoning() -> None:
    settings = Settings(
        model=MODEL, thinking_level="high", session_id="s", retry=RetryPolicy(request=()), fallbacks=(MODEL,)
    )
    cancel = CancelToken()
    config = settings.loop_config(MODEL, cancel)
    assert (config.reasoning, config.session_id, config.fallbacks) == ("high", "s", (MODEL,))
    assert config.retry is settings.retry
    assert config.cancel is cancel
    settings.thinking_level = "off"
    assert settings.loop_config(MODEL, cancel).reasoning == ""


def test_a_side_query_carries_no_hooks_limits_callbacks_and_server_tools() -> None:
    settings = Settings(
        model=MODEL,
        server_tools=("web",),
        server_compaction={"a": 1},
        on_payload=lambda payload, model: None,
        on_retry=lambda attempt, delay, text: None,
        transform_context=lambda messages: messages,
    )
    config = settings.side_query_config(MODEL, "low", CancelToken())
    assert config.reasoning == "low"
    assert (config.server_tools, config.server_compaction) == ((), None)
    assert config.on_payload is config.on_retry is config.transform_context is config.hooks is None
    assert config.limits is None
