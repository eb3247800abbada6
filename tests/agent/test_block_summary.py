"""What an answer is made of, in numbers, and the text of an error that came without one."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from agent.block_summary import (
    BlockSummary,
    arguments_json,
    render_summary,
    summarize_blocks,
    with_error_text,
)
from agent.messages import (
    AssistantMessage,
    ImageContent,
    ServerContent,
    TextContent,
    ThinkingContent,
    ToolCall,
)
from agent.retry import is_resumable, is_retryable


def test_each_block_is_described_by_its_type_and_its_bytes() -> None:
    content = [
        TextContent("hello"),
        ThinkingContent("", "0123456789abcdef", True),
        ToolCall("1", "t", {"a": "b"}),
        ServerContent("s", '{"a":"b"}'),
    ]
    assert summarize_blocks(content) == [
        BlockSummary("text", 5),
        BlockSummary("thinking", 0, 16),
        BlockSummary("toolCall", 9),
        BlockSummary("server", 9),
    ]
    assert render_summary(content) == "[text(len=5), thinking(th=0,sig=16), toolCall(len=9), server(len=9)]"


def test_lengths_are_bytes_and_not_characters() -> None:
    assert summarize_blocks([TextContent("é😀")])[0].len == 6
    assert summarize_blocks([TextContent("\ud83d")])[0].len == 3
    assert summarize_blocks([ToolCall("1", "t", {"é": 1})])[0].len == len('{"é":1}'.encode())


@pytest.mark.parametrize("content", [None, (), [], [ImageContent("", "image/png")], ["text"], [None]])
def test_what_is_no_block_of_an_answer_is_left_out(content: Any) -> None:
    assert summarize_blocks(content) == []
    assert render_summary(content) == "[]"


def test_a_summary_has_the_pinned_fields() -> None:
    assert list(inspect.signature(BlockSummary).parameters) == ["type", "len", "sig_len"]


def test_arguments_are_shown_compact_and_sorted() -> None:
    assert arguments_json({"b": [1, None], "a": "é"}) == '{"a":"é","b":[1,null]}'
    assert arguments_json({}) == "{}"
    assert arguments_json({"a": object()}) == "{}"
    assert arguments_json({1: "a", "b": 2}) == "{}"


@pytest.mark.parametrize("blank", ["", "  \n\t"])
def test_an_error_without_a_text_gets_one_that_is_final(blank: str) -> None:
    message = AssistantMessage(
        [TextContent("half")], "a", "prov", "mod", stop_reason="error", error_message=blank
    )
    named = with_error_text(message)
    for part in (
        "stop_reason=error",
        "no error message",
        "provider=prov",
        "model=mod",
        "blocks: [text(len=4)]",
    ):
        assert part in named.error_message
    assert "\n" not in named.error_message
    assert not is_resumable(named.error_message)
    assert not is_retryable(named.error_message)
    assert message.error_message == blank
    assert named.content == message.content


@pytest.mark.parametrize(
    "message",
    [
        AssistantMessage("", stop_reason="error", error_message="boom"),
        AssistantMessage("", stop_reason="stop"),
        AssistantMessage("", stop_reason="aborted"),
    ],
)
def test_other_messages_are_passed_on_as_they_are(message: AssistantMessage) -> None:
    assert with_error_text(message) is message


def test_an_error_without_blocks_says_so() -> None:
    named = with_error_text(AssistantMessage((), stop_reason="error"))
    assert "blocks: []" in named.error_message
