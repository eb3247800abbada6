"""A prompt as callers may write one."""

from __future__ import annotations

from typing import Any

import pytest

from agent import Agent
from agent.errors import ConfigurationError
from agent.messages import ImageContent, TextContent, UserMessage
from agent.runtime.prompts import Prompt, prompt_messages

MESSAGE = UserMessage("m")
IMAGE = ImageContent("aGk=", "image/png")


@pytest.mark.parametrize(
    ("prompt", "expected"), [(MESSAGE, [MESSAGE]), ([MESSAGE, MESSAGE], [MESSAGE, MESSAGE]), ((), [])]
)
def test_messages_stay_as_they_are(prompt: Prompt, expected: list[Any]) -> None:
    assert prompt_messages(prompt) == expected


def test_texts_become_user_messages() -> None:
    first, second = prompt_messages(["a", MESSAGE])
    assert (first.role, second) == ("user", MESSAGE)
    assert isinstance(first, UserMessage)
    assert first.content == "a"


def test_images_stand_behind_the_text() -> None:
    (message,) = prompt_messages("look", [IMAGE])
    assert message.content == (TextContent("look"), IMAGE)  # type: ignore[union-attr]


@pytest.mark.parametrize("prompt", [MESSAGE, [MESSAGE]])
def test_images_beside_a_message_are_refused(prompt: Prompt) -> None:
    with pytest.raises(ConfigurationError, match="images go with a text prompt"):
        prompt_messages(prompt, [IMAGE])


BLANK: list[Any] = [
    "",
    " ",
    "\n\t\u00a0\u2003",
    ["hi", ""],
    UserMessage(""),
    UserMessage([]),
    UserMessage([TextContent(" "), TextContent("")]),
]


@pytest.mark.parametrize("prompt", BLANK)
def test_a_blank_message_is_refused(prompt: Any) -> None:
    """FR-13"""
    with pytest.raises(ConfigurationError, match="the message is blank"):
        prompt_messages(prompt)


@pytest.mark.parametrize("call", ["prompt", "run", "stream", "steer", "follow_up", "reply", "simple_prompt"])
def test_no_call_takes_a_blank_message(call: str) -> None:
    """FR-13"""
    with Agent("openai/gpt-5-mini", park=True) as agent:
        with pytest.raises(ConfigurationError, match="the message is blank"):
            getattr(agent, call)(" ")
        assert not agent.has_queued_messages
        assert agent.state.messages == []


def test_an_image_is_a_message_without_any_text() -> None:
    (message,) = prompt_messages("", [IMAGE])
    assert message.content[-1] == IMAGE  # type: ignore[union-attr,index]


@pytest.mark.parametrize("prompt", [None, 5, b"bytes", {"role": "user"}, ["ok", None], [["nested"]]])
def test_anything_else_is_refused_by_the_name_of_its_type(prompt: Any) -> None:
    with pytest.raises(ConfigurationError, match="a message must be text or a message object, not"):
        prompt_messages(prompt)
