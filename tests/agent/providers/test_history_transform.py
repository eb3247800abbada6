"""A history adapted to the model that it is sent to."""

from __future__ import annotations

import json
import random

import pytest

from agent.messages import (
    AssistantMessage,
    CustomMessage,
    ImageContent,
    Message,
    ServerContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    message_to_json,
)
from agent.models import Model
from agent.providers.history_transform import (
    NO_RESULT,
    Placed,
    arrange,
    assistant_blocks,
    clean,
    legal_id,
    result_blocks,
    to_json,
    tool_names,
    user_blocks,
    wire_name,
)
from agent.tools import AgentTool

TARGET = Model("m", "some-api", "some-provider", input=("text", "image"))
BLIND = Model("m", "some-api", "some-provider")
IMAGE = ImageContent("aGk=", "image/png")


def turn(
    *blocks: object, stop: str = "toolUse", model: str = "m", provider: str = "some-provider"
) -> Message:
    return AssistantMessage(blocks, "some-api", provider, model, stop_reason=stop, timestamp=7)  # type: ignore[arg-type]


def calls(*ids: str, stop: str = "toolUse") -> Message:
    return turn(*(ToolCall(id, "ls", {}) for id in ids), stop=stop)


def result(id: str, text: str = "ok") -> Message:
    return ToolResultMessage(id, "ls", text)


def outline(placed: list[Placed]) -> list[str]:
    """`user`, `assistant:ids`, `result:id=text` for each message."""
    lines = []
    for message, ids in placed:
        match message:
            case UserMessage():
                lines.append("user")
            case AssistantMessage():
                lines.append(f"assistant:{','.join(ids)}")
            case _:
                lines.append(f"result:{ids[0]}={message.text}")
    return lines


# --- arrange ---


def test_a_whole_history_is_kept_as_it_is() -> None:
    messages = [UserMessage("a"), calls("t1", "t2"), result("t1"), result("t2"), turn(TextContent("x"))]
    assert outline(arrange(messages)) == [
        "user",
        "assistant:t1,t2",
        "result:t1=ok",
        "result:t2=ok",
        "assistant:",
    ]


def test_an_aborted_call_and_its_results_are_left_out() -> None:
    """Y01"""
    messages = [UserMessage("a"), calls("t1", stop="aborted"), result("t1"), UserMessage("go on")]
    assert outline(arrange(messages)) == ["user", "user"]


def test_a_call_without_result_gets_one_before_the_next_message() -> None:
    """Y01"""
    placed = arrange([calls("t1", "t2"), result("t2"), UserMessage("go on")])
    assert outline(placed) == ["assistant:t1,t2", f"result:t1={NO_RESULT}", "result:t2=ok", "user"]
    missing = placed[1][0]
    assert isinstance(missing, ToolResultMessage)
    assert missing.is_error
    assert missing.timestamp == 7


def test_calls_at_the_end_of_the_history_are_answered_too() -> None:
    assert outline(arrange([calls("t1")])) == ["assistant:t1", f"result:t1={NO_RESULT}"]


def test_a_result_without_its_call_is_dropped() -> None:
    """Y03"""
    assert outline(arrange([UserMessage("a"), result("tX"), UserMessage("b")])) == ["user", "user"]


def test_a_result_that_came_after_a_user_message_stands_next_to_its_call() -> None:
    messages = [calls("t1"), UserMessage("wait"), result("t1"), turn(TextContent("x"))]
    assert outline(arrange(messages)) == ["assistant:t1", "result:t1=ok", "user", "assistant:"]


def test_results_are_put_in_the_order_of_the_calls() -> None:
    placed = arrange([calls("t1", "t2"), result("t2", "two"), result("t1", "one")])
    assert outline(placed) == ["assistant:t1,t2", "result:t1=one", "result:t2=two"]


def test_a_second_result_of_a_call_is_dropped() -> None:
    placed = arrange([calls("t1"), result("t1", "first"), result("t1", "second")])
    assert outline(placed) == ["assistant:t1", "result:t1=first"]


def test_an_id_used_again_in_a_later_turn_gets_a_stable_suffix() -> None:
    """Y17"""
    messages = [calls("call_0"), result("call_0", "a"), calls("call_0"), result("call_0", "b")]
    expected = ["assistant:call_0", "result:call_0=a", "assistant:call_0_2", "result:call_0_2=b"]
    assert outline(arrange(messages)) == expected
    longer = [*messages, calls("call_0"), result("call_0", "c")]
    assert outline(arrange(longer)) == [*expected, "assistant:call_0_3", "result:call_0_3=c"]


def test_an_id_used_twice_in_one_batch_keeps_each_result_with_its_call() -> None:
    """Y17"""
    placed = arrange([calls("call_0", "call_0"), result("call_0", "a"), result("call_0", "b")])
    assert outline(placed) == ["assistant:call_0,call_0_2", "result:call_0=a", "result:call_0_2=b"]


def test_the_suffix_avoids_ids_that_are_in_use_and_the_limit() -> None:
    long = "x" * 64
    placed = arrange([calls("a_2"), calls("a"), calls("a"), calls(long), calls(long)])
    ids = [id for message, ids in placed if isinstance(message, AssistantMessage) for id in ids]
    assert ids == ["a_2", "a", "a_3", long, "x" * 62 + "_2"]


def test_a_result_answers_the_latest_turn_that_used_its_id() -> None:
    placed = arrange([calls("t1"), UserMessage("x"), calls("t1"), result("t1", "late")])
    assert outline(placed) == [
        "assistant:t1",
        f"result:t1={NO_RESULT}",
        "user",
        "assistant:t1_2",
        "result:t1_2=late",
    ]


def test_a_long_or_illegal_id_is_mapped_alike_for_call_and_result() -> None:
    """Y14"""
    raw = "call_" + "x" * 440 + "|fc/é"
    ((_, ids), (_, result_ids)) = arrange([calls(raw), result(raw)])
    assert ids == result_ids
    assert len(ids[0]) <= 64
    assert ids[0].replace("_", "").isalnum()


def test_ids_that_differ_only_in_illegal_characters_stay_apart() -> None:
    placed = arrange([calls("a/b", "a|b"), result("a|b", "2"), result("a/b", "1")])
    assert outline(placed) == ["assistant:a_b,a_b_2", "result:a_b=1", "result:a_b_2=2"]


def test_entries_of_the_application_are_not_sent() -> None:
    assert outline(arrange([UserMessage("a"), CustomMessage("note", 1)])) == ["user"]


def test_the_arrangement_of_a_prefix_never_changes() -> None:
    messages: list[Message] = []
    before: list[str] = []
    for number in range(20):
        messages += [UserMessage("u"), calls("c", f"d{number}"), result("c"), result(f"d{number}")]
        now = outline(arrange(messages))
        assert now[: len(before)] == before
        before = now


def test_reused_ids_cost_one_lookup_each() -> None:
    asked = []

    def counting(raw: str) -> str:
        asked.append(raw)
        return legal_id(raw)

    arrange([message for _ in range(500) for message in (calls("call_0"), result("call_0"))], counting)
    # One to normalise each call, one for each suffix.
    assert len(asked) == 999


def test_the_stored_messages_are_not_changed() -> None:
    messages = [calls("a/b", "x"), result("a/b"), UserMessage("u"), calls("x")]
    before = json.dumps([message_to_json(message) for message in messages])
    first = arrange(messages)
    assert outline(first) == outline(arrange(messages))
    assert json.dumps([message_to_json(message) for message in messages]) == before


# --- what a turn says ---


def test_thinking_of_another_model_becomes_bare_text() -> None:
    other = turn(ThinkingContent("deep"), TextContent("hi"), provider="other")
    assert assistant_blocks(other, TARGET) == [TextContent("deep"), TextContent("hi")]


def test_signed_thinking_stays_verbatim_within_the_provider() -> None:
    signed = ThinkingContent("", "S")
    assert assistant_blocks(turn(signed, model="older"), TARGET) == [signed]
    assert assistant_blocks(turn(signed, provider="other"), TARGET) == []


def test_unsigned_thinking_stays_thinking_for_the_same_model_and_blank_one_goes() -> None:
    assert assistant_blocks(turn(ThinkingContent("a"), ThinkingContent(" ")), TARGET) == [
        ThinkingContent("a")
    ]
    assert assistant_blocks(turn(ThinkingContent("a"), model="older"), TARGET) == [TextContent("a")]


def test_redacted_thinking_is_for_the_same_model_only() -> None:
    redacted = ThinkingContent("", "opaque", redacted=True)
    assert assistant_blocks(turn(redacted), TARGET) == [redacted]
    assert assistant_blocks(turn(redacted, model="older"), TARGET) == []


def test_a_signature_goes_when_its_text_has_to_change() -> None:
    """Y07: never text changed with the signature kept."""
    assert assistant_blocks(turn(ThinkingContent("a\ud800b", "S")), TARGET) == [ThinkingContent("ab")]


def test_signatures_of_text_and_calls_are_for_the_same_model_only() -> None:
    call = ToolCall("1", "ls", {}, "sig")
    content = (TextContent("t", "sig"), call)
    assert assistant_blocks(turn(*content), TARGET) == list(content)
    assert assistant_blocks(turn(*content, model="older"), TARGET) == [
        TextContent("t"),
        ToolCall("1", "ls", {}),
    ]


def test_a_server_block_is_its_display_text_elsewhere() -> None:
    shown, hidden = ServerContent("search", "{}", "3 hits"), ServerContent("search", "{}")
    assert assistant_blocks(turn(shown, hidden), TARGET) == [shown, hidden]
    assert assistant_blocks(turn(shown, hidden, provider="other"), TARGET) == [TextContent("3 hits")]


def test_blank_text_blocks_are_left_out() -> None:
    """Y05"""
    call = ToolCall("1", "ls", {})
    assert assistant_blocks(turn(TextContent(""), TextContent(" \n"), call), TARGET) == [call]


# --- what a user message and a result say ---


@pytest.mark.parametrize("content", ["", " \n", [], [TextContent(" ")], "\ud800"])
def test_a_blank_user_message_has_no_blocks(content: object) -> None:
    assert user_blocks(UserMessage(content), TARGET) == []  # type: ignore[arg-type]


def test_a_run_of_images_is_one_note_to_a_model_that_cannot_see() -> None:
    message = UserMessage([TextContent("a"), IMAGE, IMAGE, TextContent("b"), IMAGE])
    texts = [block.text for block in user_blocks(message, BLIND) if isinstance(block, TextContent)]
    assert len(texts) == 4
    assert texts[0::2] == ["a", "b"]
    assert "cannot see images" in texts[1]
    assert texts[1] == texts[3]
    assert user_blocks(message, TARGET) == list(message.content)


def test_the_note_for_an_image_of_a_tool_has_other_words() -> None:
    in_result = result_blocks(ToolResultMessage("1", "read", [IMAGE]), BLIND)
    in_message = user_blocks(UserMessage([IMAGE]), BLIND)
    assert "image" in in_result[0].text  # type: ignore[union-attr]
    assert in_result != in_message


@pytest.mark.parametrize("content", [(), (TextContent(""),), (TextContent(" \n"),)])
def test_an_empty_result_becomes_a_sentence(content: tuple[TextContent, ...]) -> None:
    """Y05"""
    (fine,) = result_blocks(ToolResultMessage("1", "ls", content), TARGET)
    (failed,) = result_blocks(ToolResultMessage("1", "ls", content, is_error=True), TARGET)
    assert "no output" in fine.text  # type: ignore[union-attr]
    assert "failed" not in fine.text  # type: ignore[union-attr]
    assert "no output" in failed.text  # type: ignore[union-attr]
    assert "failed" in failed.text  # type: ignore[union-attr]


def test_an_image_alone_is_no_empty_result() -> None:
    assert result_blocks(ToolResultMessage("1", "read", [IMAGE]), TARGET) == [IMAGE]


def test_meta_is_the_last_text_and_fills_an_empty_result() -> None:
    full = ToolResultMessage("1", "read", "text", meta={"hash": "abc", "alpha": "1"})
    assert result_blocks(full, TARGET) == [TextContent("text"), TextContent("[alpha: 1]\n[hash: abc]")]
    empty = ToolResultMessage("1", "read", [], meta={"hash": "abc"})
    assert result_blocks(empty, TARGET) == [TextContent("[hash: abc]")]
    assert full.content == (TextContent("text"),)


# --- strings ---


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("é 你 😀", "é 你 😀"),
        ("x\ud99c y", "x y"),
        ("\udc00\ud800", ""),
        ("\ud83d\ude00!", "😀!"),
        ("😀\ud83d", "😀"),
    ],
)
def test_lone_surrogates_go_and_emoji_stay(text: str, expected: str) -> None:
    """J04"""
    assert clean(text) == expected
    assert json.loads(to_json({"a": [text]})) == {"a": [expected]}


def test_clean_text_always_encodes() -> None:
    rng = random.Random(3)
    alphabet = ["\ud800", "\udfff", "\ud83d", "\ude00", "a", "é", "😀", "\x00"]
    for _ in range(300):
        clean("".join(rng.choices(alphabet, k=6))).encode()


def test_numbers_json_has_no_word_for_become_null() -> None:
    value = {"a": float("nan"), "b": [float("inf"), 1.5], "c": ({"d": float("-inf")},)}
    assert json.loads(to_json(value)) == {"a": None, "b": [None, 1.5], "c": [{"d": None}]}


def test_a_large_integer_keeps_every_digit() -> None:
    """J10"""
    assert to_json({"id": 12345678901234567890}) == b'{"id":12345678901234567890}'


def test_an_invented_tool_name_is_made_legal() -> None:
    """Y16"""
    assert wire_name("foo.bar baz") == "foo_bar_baz"
    assert wire_name("é" * 80) == "_" * 64
    assert wire_name("") == "tool"
    assert wire_name("read") == "read"


def test_tools_whose_names_become_equal_get_numbers_within_the_limit() -> None:
    names = ["foo.bar", "foo bar", "foo_bar", "x" * 64 + "1", "x" * 64 + "2"]
    wire = tool_names([AgentTool(name, "", {}, lambda arguments, context: "") for name in names])
    assert list(wire) == names
    assert [wire[name] for name in names[:3]] == ["foo_bar", "foo_bar_2", "foo_bar_3"]
    assert len(set(wire.values())) == len(names)
    assert all(len(name) <= 64 for name in wire.values())


def test_an_empty_id_gets_letters() -> None:
    assert legal_id("") == "call"
