"""The number and the size of the images in a request, and the notes for the others."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from PIL import Image
from support.formats import FORMATS

from agent.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    message_to_json,
)
from agent.models import Model
from agent.providers import image_budget as _image_budget
from agent.providers.image_budget import ImageBudget, image_budget, images_of, within_budget
from agent.providers.images import image_size
from agent.stream import AgentContext, StreamOptions

CLAUDE = FORMATS["anthropic-messages"].model


def png(width: int = 10, height: int = 10, size: int = 0) -> ImageContent:
    """A black PNG, filled up with zeros to `size` bytes."""
    out = io.BytesIO()
    Image.new("1", (width, height)).save(out, "PNG")
    return ImageContent(base64.b64encode(out.getvalue().ljust(size, b"\0")).decode(), "image/png")


def shown(*images: ImageContent) -> UserMessage:
    return UserMessage([TextContent("look"), *images])


def left(messages: Sequence[Any]) -> list[tuple[int, int] | None]:
    """The sizes of the images that are left."""
    blocks = [block for m in messages for block in m.content if not isinstance(m.content, str)]
    return [image_size(block.data) for block in blocks if isinstance(block, ImageContent)]


def texts(message: Any) -> list[str]:
    return [block.text for block in message.content if isinstance(block, TextContent)]


@pytest.fixture
def budget(monkeypatch: pytest.MonkeyPatch) -> Any:
    def give(**limits: int) -> None:
        small = ImageBudget(**({"count": 1000, "chars": 1_000_000} | limits))
        monkeypatch.setattr(_image_budget, "image_budget", lambda model: small)

    return give


def test_a_request_of_many_images_to_claude_has_none_above_2000_pixels() -> None:
    """I04"""
    history = [shown(png(2500, 900) if number == 3 else png()) for number in range(25)]
    body = FORMATS["anthropic-messages"].module.build_request(
        CLAUDE, AgentContext("", history), StreamOptions()
    )
    images = [part for m in body["messages"] for part in m["content"] if part["type"] == "image"]
    assert [image_size(part["source"]["data"]) for part in images] == [(10, 10)] * 24
    assert "2500x900" in body["messages"][3]["content"][1]["text"]


def test_twenty_images_may_be_large() -> None:
    history = [shown(png(2500, 900)) for _ in range(20)]
    assert within_budget(history, CLAUDE) is history


def test_claude_has_its_limits_behind_any_format() -> None:
    model = Model("anthropic/claude-x", "openai-completions", "openrouter", input=("text", "image"))
    history = [shown(png(2500, 900) if number == 3 else png()) for number in range(25)]
    assert len(left(within_budget(history, model))) == 24


def test_an_image_that_no_request_may_hold_is_left_out() -> None:
    changed = within_budget([shown(png(8001, 10), png())], CLAUDE)
    assert left(changed) == [(10, 10)]
    assert "8001x10" in texts(changed[0])[1]


@pytest.mark.parametrize("api", FORMATS)
def test_the_oldest_images_are_left_out_and_the_history_stays(api: str, budget: Any) -> None:
    budget(count=3)
    found = FORMATS[api]
    history = [shown(png(number, 1)) for number in range(1, 6)]
    before = [message_to_json(m) for m in history]
    body = json.dumps(found.module.build_request(found.model, AgentContext("", history), StreamOptions()))
    sent = [number for number in range(1, 6) if png(number, 1).data in body]
    assert sent == [3, 4, 5]
    assert body.count("An older image was left out") == 2
    assert [message_to_json(m) for m in history] == before


def test_the_size_of_all_images_together_is_kept(budget: Any) -> None:
    budget(chars=1600)
    history = [shown(png(number, 1, 300)) for number in range(1, 7)]  # 400 characters each
    assert left(within_budget(history, CLAUDE)) == [(3, 1), (4, 1), (5, 1), (6, 1)]


def test_images_of_tool_results_count_and_are_left_out_too(budget: Any) -> None:
    budget(count=1)
    call = AssistantMessage([ToolCall("c1", "look", {})], stop_reason="toolUse")
    history: list[Message] = [
        UserMessage("go"),
        call,
        ToolResultMessage("c1", "look", [png(1, 1)]),
        shown(png(2, 2)),
    ]
    changed = within_budget(history, CLAUDE)
    assert left(changed[2:]) == [(2, 2)]
    assert changed[:2] == history[:2]


def test_consecutive_images_that_are_left_out_become_one_note(budget: Any) -> None:
    budget(count=1)
    (message,) = within_budget([shown(png(), png(), png())], CLAUDE)
    assert len(texts(message)) == 2
    assert len(left([message])) == 1


def test_the_beginning_of_a_conversation_rarely_changes(budget: Any) -> None:
    """Caches of servers are keyed by it."""
    budget(count=40)
    history = [shown(png(number + 1, 1)) for number in range(80)]
    boundaries = {len(left(within_budget(history[:n], CLAUDE))) - n for n in range(41, 81)}
    assert len(boundaries) == 4


def test_a_message_is_changed_once_and_its_copy_kept(budget: Any) -> None:
    budget(count=1)
    history = [shown(png()), shown(png())]
    assert within_budget(history, CLAUDE)[0] is within_budget(history, CLAUDE)[0]
    assert images_of(history[0]) is images_of(history[0])


def test_a_model_without_eyes_needs_no_budget(budget: Any) -> None:
    budget(count=1)
    history = [shown(png()), shown(png())]
    assert within_budget(history, replace(CLAUDE, input=("text",))) is history


def test_an_image_of_unknown_size_is_not_called_too_large() -> None:
    history = [shown(ImageContent("aGk=", "image/heic")) for _ in range(25)]
    assert within_budget(history, CLAUDE) is history


def test_the_budgets_differ_by_server() -> None:
    assert image_budget(CLAUDE).count == 100
    assert image_budget(replace(CLAUDE, context_window=1_000_000)).count == 600
    assert image_budget(FORMATS["google-generative-ai"].model).count == 3000
    assert image_budget(FORMATS["openai-responses"].model).crowd == 0
