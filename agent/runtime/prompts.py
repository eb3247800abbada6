"""The messages of a prompt, as callers may write one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent.errors import ConfigurationError
from agent.messages import ImageContent, Message, TextContent, UserBlock, UserMessage, checked_message

Prompt = str | Message | Sequence[str | Message]


def prompt_messages(prompt: Prompt, images: Sequence[ImageContent] = ()) -> list[Message]:
    """The messages of a text, a message or several. Raises ConfigurationError for anything else."""
    if isinstance(prompt, str) and images:
        return [as_message(UserMessage([TextContent(prompt), *images]))]
    if images:
        raise ConfigurationError("images go with a text prompt; put them into the message's content instead")
    if isinstance(prompt, (list, tuple)):
        return [as_message(item) for item in prompt]
    return [as_message(prompt)]


def as_message(message: Any) -> Message:
    """A message as it is, a text as a user message. Raises ConfigurationError for anything else.

    A blank one is refused too: providers reject empty messages, so it would be left out of the request, and
    the model would answer the message before it once more.
    """
    try:
        checked = checked_message(message)
    except TypeError as error:
        raise ConfigurationError(str(error)) from None
    if isinstance(checked, UserMessage) and _is_blank(checked.content):
        raise ConfigurationError("the message is blank: it has no text and no image for the model to read")
    return checked


def _is_blank(content: str | Sequence[UserBlock]) -> bool:
    if isinstance(content, str):
        return not content.strip()
    return all(isinstance(block, TextContent) and not block.text.strip() for block in content)
