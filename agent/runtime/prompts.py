"""The messages of a prompt, as callers may write one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent.errors import ConfigurationError
from agent.messages import ImageContent, Message, TextContent, UserMessage

Prompt = str | Message | Sequence[str | Message]


def prompt_messages(prompt: Prompt, images: Sequence[ImageContent] = ()) -> list[Message]:
    """The messages of a text, a message or several. Raises ConfigurationError for anything else."""
    if isinstance(prompt, str) and images:
        return [UserMessage([TextContent(prompt), *images])]
    if images:
        raise ConfigurationError("images go with a text prompt; put them into the message's content instead")
    if isinstance(prompt, (list, tuple)):
        return [as_message(item) for item in prompt]
    return [as_message(prompt)]


def as_message(message: Any) -> Message:
    """A message as it is, a text as a user message. Raises ConfigurationError for anything else."""
    if isinstance(message, str):
        return UserMessage(message)
    if not hasattr(message, "role"):
        raise ConfigurationError(f"a message must be text or a message object, not {type(message).__name__}")
    return message  # type: ignore[no-any-return]
