"""Calls a stream function and collects its events."""

from __future__ import annotations

from typing import Any

from agent.messages import AssistantMessage
from agent.stream import AgentContext, StreamDone, StreamError, StreamEvent, StreamOptions, build_message
from agent.testing import ScriptedModel


def events(
    stream: Any, options: StreamOptions | None = None, context: AgentContext | None = None
) -> list[StreamEvent]:
    model = ScriptedModel().model
    return list(stream(model, context or AgentContext(), options or StreamOptions()))


def answer(received: list[StreamEvent]) -> AssistantMessage:
    end = received[-1]
    assert isinstance(end, (StreamDone, StreamError))
    return build_message(received[:-1], end, ScriptedModel().model, 0).message
