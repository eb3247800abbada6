"""Histories encoded in Anthropic's format."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from support.messages import (
    API,
    CLAUDE,
    HELLO,
    IMAGE,
    assistant,
    assistant_calls,
    complete,
    marks,
    request,
    sent,
)
from support.sse_server import SseServer

from agent.messages import (
    AssistantMessage,
    Message,
    ServerContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    message_from_json,
    message_to_json,
)
from agent.models import Model

SEARCH = ServerContent(
    "server_tool_use", '{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}'
)
FOUND = ServerContent(
    "web_search_tool_result", '{"type":"web_search_tool_result","tool_use_id":"s1","content":[]}'
)
SUMMARY = ServerContent("compaction", '{"type":"compaction","content":"so far"}', "so far")


def kinds(message: dict[str, Any]) -> list[str]:
    return [block["type"] for block in message["content"]]


# --- users ---


def test_user_content_is_a_string_or_blocks() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    assert sent([UserMessage("a"), UserMessage([TextContent("b"), TextContent(" "), IMAGE])]) == [
        {"role": "user", "content": "a"},
        {"role": "user", "content": [{"type": "text", "text": "b"}, image]},
    ]


@pytest.mark.parametrize("content", ["", "  ", [], [TextContent(" ")], "\ud800"])
def test_an_empty_user_message_is_not_sent(content: Any) -> None:
    assert sent([UserMessage(content)]) == []


def test_images_are_a_note_to_a_model_that_cannot_see() -> None:
    (message,) = sent([UserMessage([IMAGE, IMAGE])], replace(CLAUDE, input=("text",)))
    assert "cannot see images" in message["content"][0]["text"]


# --- turns ---


def test_a_turn_is_its_blocks() -> None:
    turn = assistant(TextContent("a"), ToolCall("t1", "ls", {"path": "é"}))
    assert sent([turn])[0] == {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "a"},
            {"type": "tool_use", "id": "t1", "name": "ls", "input": {"path": "é"}},
        ],
    }


def test_nothing_stands_between_a_call_and_its_result() -> None:
    """Y04"""
    turn = assistant(TextContent("a"), ToolCall("t1", "ls", {}), TextContent("b"))
    wire = sent([turn, ToolResultMessage("t1", "ls", "x")])
    assert kinds(wire[0]) == ["text", "text", "tool_use"]
    assert kinds(wire[1]) == ["tool_result"]


def test_a_signed_turn_keeps_its_order() -> None:
    turn = assistant(ThinkingContent("h", "s"), ToolCall("t1", "ls", {}), TextContent("b"))
    assert kinds(sent([turn])[0]) == ["thinking", "tool_use", "text"]


def test_a_block_that_is_not_sent_keeps_no_order() -> None:
    turn = assistant(ToolCall("t1", "ls", {}), TextContent("b"), SEARCH)
    wire = sent([turn, ToolResultMessage("t1", "ls", "x"), UserMessage("go")])
    assert kinds(wire[0]) == ["text", "tool_use"]


def test_empty_texts_are_not_replayed() -> None:
    """Y05"""
    turn, results = sent(
        [
            assistant(TextContent(""), TextContent("\n\n"), ToolCall("t1", "ls", {})),
            ToolResultMessage("t1", "ls", ""),
        ]
    )
    assert kinds(turn) == ["tool_use"]
    assert "no output" in results["content"][0]["content"]


def test_an_aborted_turn_is_not_sent() -> None:
    """Y01, Y06"""
    for content in ((), (ToolCall("t1", "ls", {}),)):
        aborted = AssistantMessage(content, API, "anthropic", "claude-x", stop_reason="aborted")
        messages = sent([UserMessage("a"), aborted, UserMessage("go on")])
        assert [message["role"] for message in messages] == ["user", "user"]


def test_a_call_without_its_result_gets_one_that_says_so() -> None:
    """Y01"""
    wire = sent([UserMessage("a"), assistant_calls(ToolCall("t1", "ls", {})), UserMessage("go on")])
    assert [message["role"] for message in wire] == ["user", "assistant", "user", "user"]
    (result,) = wire[2]["content"]
    assert (result["tool_use_id"], result["content"]) == ("t1", "No result provided")
    assert result["is_error"]


def test_a_turn_with_nothing_to_say_is_not_sent() -> None:
    """Y06"""
    wire = sent([UserMessage("a"), assistant(ThinkingContent(" ")), assistant(), UserMessage("b")])
    assert [message["role"] for message in wire] == ["user", "user"]


def test_a_result_without_its_call_is_not_sent() -> None:
    """Y03"""
    wire = sent([UserMessage("a"), ToolResultMessage("tX", "ls", "x"), UserMessage("b")])
    assert [message["content"] for message in wire] == ["a", "b"]


def test_an_invented_tool_name_is_legal_on_replay() -> None:
    """Y16"""
    turn, _ = sent(
        [assistant_calls(ToolCall("1", "foo.bar baz", {})), ToolResultMessage("1", "foo.bar baz", "x")]
    )
    assert turn["content"][0]["name"] == "foo_bar_baz"


def test_a_long_or_illegal_id_is_the_same_on_call_and_result() -> None:
    """Y14"""
    raw = "call_" + "x" * 440 + "|fc/é"
    turn, results = sent([assistant_calls(ToolCall(raw, "ls", {})), ToolResultMessage(raw, "ls", "x")])
    assert turn["content"][0]["id"] == results["content"][0]["tool_use_id"] == "call_" + "x" * 59


def test_reused_ids_are_unique_on_the_wire() -> None:
    """Y17"""
    messages: list[Message] = []
    for number in range(2):
        messages += [
            assistant_calls(ToolCall("call_0", "ls", {})),
            ToolResultMessage("call_0", "ls", str(number)),
        ]
    messages += [assistant_calls(ToolCall("call_0", "ls", {"n": 1}), ToolCall("call_0", "ls", {"n": 2}))]
    messages += [ToolResultMessage("call_0", "ls", "2"), ToolResultMessage("call_0", "ls", "3")]
    wire = sent(messages)
    calls = [block["id"] for turn in wire[::2] for block in turn["content"]]
    results = [(b["tool_use_id"], b["content"]) for m in wire[1::2] for b in m["content"]]
    assert calls == ["call_0", "call_0_2", "call_0_3", "call_0_4"]
    assert results == list(zip(calls, "0123", strict=True))


# --- results ---


def test_the_results_of_a_turn_are_in_one_message() -> None:
    calls = assistant_calls(ToolCall("1", "ls", {}), ToolCall("2", "ls", {}))
    results = [ToolResultMessage("2", "ls", "b", is_error=True), ToolResultMessage("1", "ls", "a")]
    assert sent([calls, *results, UserMessage("go")])[1:] == [
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "1", "content": "a", "is_error": False},
                {"type": "tool_result", "tool_use_id": "2", "content": "b", "is_error": True},
            ],
        },
        {"role": "user", "content": "go"},
    ]


def test_results_are_texts_with_their_meta() -> None:
    result = ToolResultMessage("1", "ls", [TextContent("a"), TextContent("b")], meta={"hash": "x"})
    (block,) = sent([assistant_calls(ToolCall("1", "ls", {})), result])[1]["content"]
    assert block["content"] == "a\nb\n[hash: x]"


def test_an_image_stays_in_its_result() -> None:
    result = ToolResultMessage("1", "read", [TextContent("t"), IMAGE])
    (block,) = sent([assistant_calls(ToolCall("1", "read", {})), result])[1]["content"]
    assert [part["type"] for part in block["content"]] == ["text", "image"]


def test_an_image_of_a_failed_call_stands_after_all_results() -> None:
    """The server takes only text in a result that is marked as an error, and results only at the front."""
    calls = assistant_calls(ToolCall("1", "read", {}), ToolCall("2", "read", {}))
    results = [ToolResultMessage("1", "read", [IMAGE], is_error=True), ToolResultMessage("2", "read", "x")]
    message = sent([calls, *results])[1]
    assert kinds(message) == ["tool_result", "tool_result", "image"]
    assert message["content"][0]["content"] == "(see attached image)"


# --- thinking ---


def test_signed_and_redacted_thinking_go_back_byte_for_byte() -> None:
    """Y07"""
    turn = assistant(
        ThinkingContent("", "S"), ThinkingContent("", "R+/=", redacted=True), ToolCall("t1", "ls", {})
    )
    stored = message_from_json(json.loads(json.dumps(message_to_json(turn))))
    assert sent([stored])[0]["content"][:2] == [
        {"type": "thinking", "thinking": "", "signature": "S"},
        {"type": "redacted_thinking", "data": "R+/="},
    ]


def test_thinking_whose_text_must_change_loses_its_signature() -> None:
    """Y07"""
    (turn, _) = sent([assistant(ThinkingContent("a\ud800b", "S"), ToolCall("1", "ls", {}))])
    assert turn["content"][0] == {"type": "text", "text": "ab"}


def test_unsigned_thinking_is_text() -> None:
    assert sent([assistant(ThinkingContent("hm"), TextContent("x"))])[0]["content"][0] == {
        "type": "text",
        "text": "hm",
    }


def test_a_server_that_signs_nothing_gets_its_thinking_back() -> None:
    turn = assistant(ThinkingContent("a"), ThinkingContent("b"), TextContent("x"))
    wire = sent([turn], allowUnsignedThinking=True)
    assert wire[0]["content"][:2] == [
        {"type": "thinking", "thinking": "a", "signature": ""},
        {"type": "thinking", "thinking": "b", "signature": ""},
    ]


def test_thinking_of_another_model_of_the_server_stays_signed_and_hidden_thinking_does_not() -> None:
    turn = assistant(
        ThinkingContent("h", "S"), ThinkingContent("", "R", redacted=True), TextContent("x"), model="older"
    )
    assert kinds(sent([turn])[0]) == ["thinking", "text"]


def test_thinking_of_another_provider_is_text_without_tags() -> None:
    turn = assistant(ThinkingContent("h", "S"), TextContent("x"), provider="other")
    assert [block["text"] for block in sent([turn])[0]["content"]] == ["h", "x"]


def test_of_two_thinking_blocks_in_a_row_the_first_goes_back() -> None:
    """The server sends two at times, and refuses to take them back unchanged."""
    turn = assistant(
        ThinkingContent("a", "1"), TextContent(""), ThinkingContent("b", "2"),
        ThinkingContent("", "R", redacted=True), ToolCall("t", "ls", {}), ThinkingContent("c", "3"),
    )  # fmt: skip
    content = sent([turn, ToolResultMessage("t", "ls", "x")])[0]["content"]
    signed = [block.get("signature", block["type"]) for block in content]
    assert signed == ["1", "redacted_thinking", "tool_use", "3"]


def test_a_last_turn_to_go_on_with_ends_in_neither_thinking_nor_blanks() -> None:
    turn = assistant(TextContent("go \n"), ThinkingContent("h", "S"), ThinkingContent("", "R", redacted=True))
    assert sent([UserMessage("a"), turn])[-1]["content"] == [{"type": "text", "text": "go"}]
    assert len(sent([UserMessage("a"), assistant(ThinkingContent("h", "S"))])) == 1
    assert sent([turn, UserMessage("b")])[0]["content"][0] == {"type": "text", "text": "go \n"}


# --- blocks of the server ---


def test_blocks_of_the_server_go_back_byte_for_byte(sse_server: SseServer) -> None:
    """Spaces, escapes and the order of keys included."""
    raw = '{"tool_use_id": "s1",  "type":"web_search_tool_result","content":["\\u00e9",1.50]}'
    sse_server.play(*HELLO)
    turn = assistant(SEARCH, ServerContent("web_search_tool_result", raw), TextContent("x"))
    complete(sse_server, [UserMessage("a"), turn, UserMessage("b")])
    body = sse_server.requests[0].body
    assert SEARCH.raw.encode() + b"," + raw.encode() + b"," in body


def test_another_provider_gets_the_text_of_a_block_or_nothing() -> None:
    turn = assistant(SEARCH, FOUND, SUMMARY, TextContent("x"), provider="other")
    assert [block["text"] for block in sent([turn])[0]["content"]] == ["so far", "x"]


def test_a_search_without_its_result_is_not_sent() -> None:
    turn = assistant(TextContent("a"), SEARCH)
    assert kinds(sent([turn, UserMessage("b")])[0]) == ["text"]
    assert kinds(sent([turn, UserMessage("b"), assistant(TextContent("c")), UserMessage("d")])[0]) == ["text"]


def test_a_search_that_others_have_gone_past_is_not_sent() -> None:
    wire = sent([assistant(TextContent("a"), SEARCH), UserMessage("b"), assistant(TextContent("c"))])
    assert kinds(wire[0]) == ["text"]


def test_a_result_without_its_search_is_not_sent() -> None:
    assert kinds(sent([assistant(FOUND, TextContent("a")), UserMessage("b")])[0]) == ["text"]


def test_a_search_that_this_format_cannot_send_answers_nothing() -> None:
    """The same provider, called in another format."""
    other = AssistantMessage([SEARCH, TextContent("a")], "other-api", "anthropic", "claude-x")
    wire = sent([other, UserMessage("b"), assistant(FOUND, TextContent("c")), UserMessage("d")])
    assert [kinds(message) for message in wire[::2]] == [["text"], ["text"]]


def test_a_paused_search_goes_on_where_it_paused() -> None:
    turn = assistant(TextContent("a"), SEARCH)
    assert kinds(sent([UserMessage("q"), turn])[1]) == ["text", "server_tool_use"]


def test_a_search_may_wait_for_our_tools() -> None:
    """Its result comes with the turn after ours, and both stay from then on."""
    turn = assistant(SEARCH, ToolCall("t", "ls", {}))
    result = ToolResultMessage("t", "ls", "x")
    assert kinds(sent([turn, result])[0]) == ["server_tool_use", "tool_use"]
    wire = sent([turn, result, assistant(FOUND, TextContent("a")), UserMessage("b")])
    assert [kinds(message) for message in wire[::2]] == [
        ["server_tool_use", "tool_use"],
        ["web_search_tool_result", "text"],
    ]


def test_a_block_of_the_server_that_is_no_json_is_not_sent() -> None:
    assert kinds(sent([assistant(ServerContent("x", "{cut"), TextContent("a")), UserMessage("b")])[0]) == [
        "text"
    ]


# --- strings ---


def test_lone_surrogates_are_not_sent(sse_server: SseServer) -> None:
    """J04"""
    sse_server.play(*HELLO)
    history: list[Message] = [
        UserMessage("a\ud800😀"),
        assistant_calls(ToolCall("1", "ls", {"k\udfff": "x\ud99c y"})),
        ToolResultMessage("1", "ls", "r\udc00"),
    ]
    complete(sse_server, history, system="s\ud800", cache_retention="none")
    body = json.loads(sse_server.requests[0].body.decode("utf-8"))
    assert body["system"][0]["text"] == "s"
    assert body["messages"][0]["content"] == "a😀"
    assert body["messages"][1]["content"][0]["input"] == {"k": "x y"}
    assert body["messages"][2]["content"][0]["content"] == "r"


# --- cache marks ---

MARK = {"type": "ephemeral"}


def test_the_last_two_user_messages_are_marked() -> None:
    history: list[Message] = [
        UserMessage("a"),
        UserMessage("b"),
        assistant_calls(ToolCall("1", "ls", {}), ToolCall("2", "ls", {})),
        ToolResultMessage("1", "ls", "x"),
        ToolResultMessage("2", "ls", [IMAGE]),
    ]
    first, second, turn, results = request(history)["messages"]
    assert first["content"] == "a"
    assert second["content"] == [{"type": "text", "text": "b", "cache_control": MARK}]
    assert marks(turn) == 0
    assert [block.get("cache_control") for block in results["content"]] == [None, MARK]


@pytest.mark.parametrize("text", ["]}", '"}', "\\", 'a"}]}', "{}", "é\u2028😀"])
def test_a_mark_changes_no_text(text: str) -> None:
    for content in (text, [TextContent("a"), TextContent(text)]):
        (message,) = request([UserMessage(content)])["messages"]
        assert message["content"][-1] == {"type": "text", "text": text, "cache_control": MARK}


def test_a_mark_does_not_stay_on_the_message() -> None:
    message = UserMessage("a")
    request([message])
    assert request([message, UserMessage("b"), UserMessage("c")])["messages"][0]["content"] == "a"


# --- work ---


def test_history_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request encodes what is new in it, marks included; the rest is what earlier ones made."""
    from agent.providers.anthropic_messages import messages as encoding
    from agent.providers.history_transform import to_json

    encoded: list[int] = []

    def counting(value: Any) -> bytes:
        encoded.append(1)
        return to_json(value)

    monkeypatch.setattr(encoding, "to_json", counting)
    history: list[Message] = []
    for number in range(50):
        history += [
            assistant_calls(ToolCall(f"c{number}", "ls", {})),
            ToolResultMessage(f"c{number}", "ls", "x"),
        ]
        request(history)
    assert len(encoded) == 100


def test_the_bytes_of_a_prefix_never_change() -> None:
    history: list[Message] = [UserMessage("a")]
    before = sent(history)
    for number in range(5):
        history += [assistant_calls(ToolCall("c", "ls", {"n": number})), ToolResultMessage("c", "ls", "x")]
        now = sent(history)
        assert now[: len(before)] == before
        before = now


def test_models_with_equal_encoding_share_the_encoded_form() -> None:
    message = UserMessage("x")
    for seed in range(20):
        request([message], replace(CLAUDE, headers={"x-seed": str(seed)}, base_url=f"http://host-{seed}"))
    assert len(message._encoded) == 1


def test_another_format_does_not_see_what_this_one_made() -> None:
    from support.completions import request as other_format

    message = UserMessage("x")
    request([message])
    assert other_format([message])["messages"] == [{"role": "user", "content": "x"}]
    assert sent([message], Model("m", API, "mine", "http://host")) == [{"role": "user", "content": "x"}]


# --- citations ---

CITATION = {"type": "web_search_result_location", "url": "u", "encrypted_index": "e==", "title": None}


def test_citations_go_back_as_they_came() -> None:
    """FR-11"""
    turn = assistant(SEARCH, FOUND, TextContent("x", citations=(CITATION,)))
    text = sent([turn, UserMessage("b")])[0]["content"][-1]
    assert text == {"type": "text", "text": "x", "citations": [CITATION]}
    assert json.dumps(text["citations"][0]) == json.dumps(CITATION)


def test_another_provider_gets_the_text_without_citations() -> None:
    turn = assistant(TextContent("x", citations=(CITATION,)), provider="other")
    assert sent([turn, UserMessage("b")])[0]["content"] == [{"type": "text", "text": "x"}]


def test_citations_of_a_search_that_is_not_sent_are_not_sent() -> None:
    turn = assistant(FOUND, TextContent("x", citations=(CITATION,)))
    assert sent([turn, UserMessage("b")])[0]["content"] == [{"type": "text", "text": "x"}]


def test_an_answer_before_one_of_thinking_alone_does_not_end_in_blanks() -> None:
    wire = sent([UserMessage("a"), assistant(TextContent("half ")), assistant(ThinkingContent("hm", "sig"))])
    assert wire[-1] == {"role": "assistant", "content": [{"type": "text", "text": "half"}]}
