"""Histories encoded in the Chat Completions format."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from support.completions import (
    API,
    DONE,
    HELLO,
    IMAGE,
    LOCAL,
    THINKER,
    C,
    Tool,
    assistant,
    assistant_calls,
    complete,
    request,
    sent,
)
from support.sse_server import SseServer

from agent.messages import (
    AssistantMessage,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from agent.models import Model


def test_user_content_is_a_string_or_parts() -> None:
    assert sent([UserMessage("a"), UserMessage([TextContent("b"), IMAGE])]) == [
        {"role": "user", "content": "a"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "b"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
            ],
        },
    ]


def test_images_are_a_note_to_a_model_that_cannot_see() -> None:
    blind = replace(LOCAL, input=("text",))
    (message,) = sent([UserMessage([IMAGE, IMAGE])], blind)
    (part,) = message["content"]
    assert "cannot see images" in part["text"]


@pytest.mark.parametrize("content", ["", "  ", [], [TextContent(" ")], "\ud800"])
def test_an_empty_user_message_is_not_sent(content: Any) -> None:
    assert sent([UserMessage(content)]) == []


def test_a_turn_is_one_string_and_its_calls() -> None:
    """Y04"""
    call = ToolCall("t1", "ls", {"path": "é"})
    turn = assistant(TextContent("a"), call, TextContent("b"))
    assert sent([turn, ToolResultMessage("t1", "ls", "x")]) == [
        {
            "role": "assistant",
            "content": "ab",
            "tool_calls": [
                {"id": "t1", "type": "function", "function": {"name": "ls", "arguments": '{"path":"é"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "t1", "content": "x"},
    ]


def test_empty_texts_are_not_replayed() -> None:
    """Y05"""
    turn, result = sent(
        [assistant(TextContent(""), ToolCall("t1", "ls", {})), ToolResultMessage("t1", "ls", "")]
    )
    assert turn["content"] is None
    assert "no output" in result["content"]


def test_an_aborted_turn_is_not_sent() -> None:
    """Y01, Y06"""
    for content in ((), (ToolCall("t1", "ls", {}),)):
        aborted = AssistantMessage(content, API, "local", "m", stop_reason="aborted")
        messages = sent([UserMessage("a"), aborted, UserMessage("go on")])
        assert [message["role"] for message in messages] == ["user", "user"]


def test_a_turn_with_nothing_to_say_is_not_sent() -> None:
    """Y06"""
    messages = [
        UserMessage("a"),
        assistant(ThinkingContent("hm", "reasoning")),
        assistant(),
        UserMessage("b"),
    ]
    assert [message["role"] for message in sent(messages)] == ["user", "user"]


def test_a_result_without_its_call_is_not_sent() -> None:
    """Y03"""
    messages = sent([UserMessage("a"), ToolResultMessage("tX", "ls", "x"), UserMessage("b")])
    assert [message["role"] for message in messages] == ["user", "user"]


def test_an_invented_tool_name_is_legal_on_replay() -> None:
    """Y16"""
    turn, _ = sent(
        [assistant_calls(ToolCall("1", "foo.bar baz", {})), ToolResultMessage("1", "foo.bar baz", "x")]
    )
    assert turn["tool_calls"][0]["function"]["name"] == "foo_bar_baz"


def test_reused_ids_are_unique_on_the_wire() -> None:
    """Y17"""
    messages: list[Message] = []
    for number in range(3):
        messages += [
            assistant_calls(ToolCall("call_0", "ls", {})),
            ToolResultMessage("call_0", "ls", str(number)),
        ]
    wire = sent(messages)
    ids = [message["tool_calls"][0]["id"] for message in wire[::2]]
    assert ids == ["call_0", "call_0_2", "call_0_3"]
    assert [(message["tool_call_id"], message["content"]) for message in wire[1::2]] == list(
        zip(ids, "012", strict=True)
    )


def test_a_message_keeps_no_id_that_another_history_gave_it() -> None:
    """Y17"""
    first, second = (
        [assistant_calls(ToolCall("a", "ls", {})), ToolResultMessage("a", "ls", text)] for text in "12"
    )
    assert sent(second)[1]["tool_call_id"] == "a"
    assert [m["tool_call_id"] for m in sent([*first, *second])[1::2]] == ["a", "a_2"]
    assert sent(second)[0]["tool_calls"][0]["id"] == "a"


def test_the_id_of_a_responses_call_is_its_first_half() -> None:
    raw = "call_x|fc+/=" + "y" * 200
    turn, result = sent([assistant_calls(ToolCall(raw, "ls", {})), ToolResultMessage(raw, "ls", "x")])
    assert turn["tool_calls"][0]["id"] == result["tool_call_id"] == "call_x"


def test_a_long_id_is_cut_to_forty() -> None:
    """Y14"""
    raw = "call_" + "x" * 440 + "|fc/é"
    turn, result = sent([assistant_calls(ToolCall(raw, "ls", {})), ToolResultMessage(raw, "ls", "x")])
    assert turn["tool_calls"][0]["id"] == result["tool_call_id"] == "call_" + "x" * 35


def test_mistral_gets_nine_letters_and_digits() -> None:
    mistral = Model("m", API, "mistral", "https://api.mistral.ai/v1")
    calls = [ToolCall("abcDEF123", "ls", {}), ToolCall("call_0", "ls", {}), ToolCall("call_0", "ls", {})]
    wire = sent([assistant_calls(*calls), ToolResultMessage("call_0", "ls", "x")], mistral)
    ids = [call["id"] for call in wire[0]["tool_calls"]]
    assert ids[0] == "abcDEF123"
    assert len(set(ids)) == 3
    assert all(len(id) == 9 and id.isalnum() for id in ids)
    assert [message["tool_call_id"] for message in wire[1:]] == ids
    assert wire[1]["name"] == "ls"


def test_results_are_texts_with_their_meta() -> None:
    result = ToolResultMessage("1", "ls", [TextContent("a"), TextContent("b")], meta={"hash": "x"})
    assert sent([assistant_calls(ToolCall("1", "ls", {})), result])[1]["content"] == "a\nb\n[hash: x]"


def test_images_of_a_run_of_results_follow_in_one_user_message() -> None:
    calls = assistant_calls(ToolCall("1", "read", {}), ToolCall("2", "read", {}))
    results = [
        ToolResultMessage("1", "read", [IMAGE]),
        ToolResultMessage("2", "read", [TextContent("t"), IMAGE]),
    ]
    wire = sent([UserMessage("look"), calls, *results])
    assert [message["role"] for message in wire] == ["user", "assistant", "tool", "tool", "user"]
    assert [message["content"] for message in wire[2:4]] == ["(see attached image)", "t"]
    assert [part["type"] for part in wire[4]["content"]] == ["text", "image_url", "image_url"]


def test_a_server_may_want_an_assistant_between_result_and_user() -> None:
    history = [
        assistant_calls(ToolCall("1", "ls", {})),
        ToolResultMessage("1", "ls", [IMAGE]),
        UserMessage("go"),
    ]
    wire = sent(history, requiresAssistantAfterToolResult=True, requiresToolResultName=True)
    assert [message["role"] for message in wire] == ["assistant", "tool", "assistant", "user", "user"]
    assert wire[0]["content"] == ""
    assert wire[1]["name"] == "ls"
    plain = sent(
        [*history[:1], ToolResultMessage("1", "ls", "x"), UserMessage("go")],
        requiresAssistantAfterToolResult=True,
    )
    assert [message["role"] for message in plain] == ["assistant", "tool", "assistant", "user"]


def test_reasoning_goes_back_when_the_flag_asks_for_it() -> None:
    """Y11"""
    turn = assistant(ThinkingContent("r", "reasoning_content"), ToolCall("1", "ls", {}))
    flag = "requiresReasoningContentOnAssistantMessages"
    assert sent([turn], **{flag: True})[0]["reasoning_content"] == "r"
    assert sent([assistant(TextContent("x"))], **{flag: True})[0]["reasoning_content"] == ""
    assert "reasoning_content" not in sent([turn])[0]
    assert "reasoning_content" not in sent([turn], THINKER, **{flag: False})[0]


def test_a_reasoning_model_gets_its_reasoning_in_the_field_it_came_in() -> None:
    turn = assistant(ThinkingContent("r1", "reasoning"), ThinkingContent("r2", "reasoning"), TextContent("x"))
    assert sent([turn], THINKER) == [{"role": "assistant", "content": "x", "reasoning": "r1\nr2"}]


def test_thinking_of_another_model_is_text() -> None:
    turn = assistant(ThinkingContent("r", "reasoning"), TextContent("x"), provider="other")
    assert sent([turn], THINKER) == [{"role": "assistant", "content": "rx"}]


def test_thinking_may_be_wanted_as_text() -> None:
    turn = assistant(ThinkingContent("r", "reasoning"), TextContent("x"))
    assert sent([turn], requiresThinkingAsText=True) == [{"role": "assistant", "content": "r\n\nx"}]


def test_encrypted_reasoning_goes_back_with_its_call() -> None:
    detail = {"type": "reasoning.encrypted", "id": "1", "data": "abc"}
    turn = assistant_calls(ToolCall("1", "ls", {}, json.dumps(detail)), ToolCall("2", "ls", {}, "no json"))
    assert sent([turn])[0]["reasoning_details"] == [detail]


def test_googles_extra_of_a_call_goes_back_with_it(sse_server: SseServer) -> None:
    """Gemini 3 answers 400 to a call without the signature it came with."""
    extra = {"google": {"thought_signature": "sig=="}}
    function = {"name": "ls", "arguments": "{}"}
    calls = [{"index": 0, "id": id, "function": function} for id in ("a", "b")]
    calls[0] |= {"extra_content": extra}
    sse_server.play(C({"tool_calls": calls}), C({}, "tool_calls"), DONE)
    turn = complete(sse_server)
    wire = sent([turn])[0]["tool_calls"]
    assert [call.get("extra_content") for call in wire] == [extra, None]
    assert "extra_content" not in sent([turn], replace(LOCAL, id="other"))[0]["tool_calls"][0]


def test_lone_surrogates_are_not_sent(sse_server: SseServer) -> None:
    """J04"""
    sse_server.play(*HELLO)
    history = [
        UserMessage("a\ud800😀"),
        assistant_calls(ToolCall("1", "ls", {"k\udfff": "x\ud99c y"})),
        ToolResultMessage("1", "ls", "r\udc00"),
    ]
    complete(sse_server, history, system="s\ud800")
    body = json.loads(sse_server.requests[0].body.decode("utf-8"))
    assert [message["content"] for message in body["messages"]] == ["s", "a😀", None, "r"]
    assert body["messages"][2]["tool_calls"][0]["function"]["arguments"] == '{"k":"x y"}'


def test_a_large_integer_keeps_every_digit_on_replay() -> None:
    """J10"""
    turn = sent([assistant_calls(ToolCall("1", "ls", {"id": 12345678901234567890}))])[0]
    assert turn["tool_calls"][0]["function"]["arguments"] == '{"id":12345678901234567890}'


# --- cache marks ---

CLAUDE = Model("anthropic/claude-sonnet-4.5", API, "openrouter")
MARK = {"type": "ephemeral"}


def test_claude_through_openrouter_gets_marks_on_prompt_tool_and_last_text() -> None:
    history = [
        UserMessage("a"),
        UserMessage("b"),
        assistant_calls(ToolCall("1", "ls", {})),
        ToolResultMessage("1", "ls", "x"),
    ]
    body = request(history, CLAUDE, "sys", [Tool("one"), Tool("two")])
    system, first, last, turn, _ = body["messages"]
    assert system["content"] == [{"type": "text", "text": "sys", "cache_control": MARK}]
    assert last["content"] == [{"type": "text", "text": "b", "cache_control": MARK}]
    assert (first["content"], turn["content"]) == ("a", None)
    assert [tool.get("cache_control") for tool in body["tools"]] == [None, MARK]


def test_marks_can_be_long_or_left_out() -> None:
    for retention, expected in (("long", MARK | {"ttl": "1h"}), ("none", None)):
        (message,) = request([UserMessage("a")], CLAUDE, cache_retention=retention)["messages"]
        part = message["content"][0] if expected else {}
        assert part.get("cache_control") == expected


def test_a_mark_does_not_stay_on_the_message() -> None:
    message = UserMessage("a")
    request([message], CLAUDE)
    assert request([message, UserMessage("b")], CLAUDE)["messages"][0]["content"] == "a"


# --- work ---


def test_history_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request encodes what is new in it; the rest is put together from what earlier ones made."""
    from agent.providers.openai_completions import messages as encoding

    encoded: list[int] = []

    def counting(value: Any) -> bytes:
        encoded.append(1)
        return original(value)

    original = encoding.to_json
    monkeypatch.setattr(encoding, "to_json", counting)
    history: list[Message] = []
    for number in range(50):
        history += [
            assistant_calls(ToolCall(f"c{number}", "ls", {})),
            ToolResultMessage(f"c{number}", "ls", "x"),
        ]
        request(history)
    assert len(encoded) == 100


def test_models_with_the_same_dialect_share_the_encoded_form() -> None:
    message = UserMessage("x")
    for seed in range(20):
        request([message], replace(LOCAL, headers={"x-seed": str(seed)}, base_url=f"http://host-{seed}"))
    assert message._encoded is not None
    assert len(message._encoded) == 1
