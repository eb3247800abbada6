"""Messages as input items of the Responses format."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from support.completions import IMAGE
from support.responses import API, HELLO, LOCAL, assistant, complete, done, ended, reasoning_item, sent
from support.sse_server import SseServer

from agent.messages import (
    AssistantMessage,
    ServerContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from agent.models import Model
from agent.providers.openai_responses import messages as _responses_messages

CALL = ToolCall("call_1|fc_1", "ls", {"a": 1})
RESULT = ToolResultMessage("call_1|fc_1", "ls", "fine")
TEXT = TextContent("text", '{"v":1,"id":"msg_9"}')


def thought(*summary: str, **more: Any) -> ThinkingContent:
    return ThinkingContent("\n\n".join(summary), json.dumps(reasoning_item(*summary, **more)))


# --- users ---


def test_user_content_is_a_list_of_parts() -> None:
    parts = [{"type": "input_text", "text": "hi"}]
    image = {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,aGk="}
    assert sent([UserMessage("hi")]) == [{"role": "user", "content": parts}]
    assert sent([UserMessage([TextContent("hi"), IMAGE])])[0]["content"] == [*parts, image]


def test_images_are_a_note_to_a_model_that_cannot_see() -> None:
    (part,) = sent([UserMessage([IMAGE, IMAGE])], replace(LOCAL, input=("text",)))[0]["content"]
    assert "cannot see images" in part["text"]


@pytest.mark.parametrize("content", ["", " \n", [], [TextContent("")]])
def test_an_empty_user_message_is_not_sent(content: Any) -> None:
    assert sent([UserMessage(content)]) == []


# --- turns of the same model ---


def test_a_turn_goes_back_in_its_order_and_word_for_word() -> None:
    """Y10"""
    reasoning = thought()
    items = sent([assistant(reasoning, TEXT, CALL, stop_reason="toolUse"), RESULT])
    assert items == [
        json.loads(reasoning.signature or ""),
        {
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "id": "msg_9",
            "content": [{"type": "output_text", "text": "text", "annotations": []}],
        },
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "ls", "arguments": '{"a":1}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "fine"},
    ]
    assert items[0]["summary"] == []


def test_a_reasoning_item_has_a_summary_and_no_nulls_but_in_what_is_encrypted() -> None:
    item = {"type": "reasoning", "id": "rs_1", "status": None, "content": None, "encrypted_content": None}
    (got, _) = sent([assistant(ThinkingContent("", json.dumps(item)), TEXT)])
    assert got == {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": None}


def test_the_phase_goes_back() -> None:
    signature = '{"v":1,"id":"msg_9","phase":"final_answer"}'
    assert sent([assistant(TextContent("x", signature))])[0]["phase"] == "final_answer"
    odd = '{"v":1,"id":"msg_9","phase":"dreaming"}'
    assert "phase" not in sent([assistant(TextContent("x", odd))])[0]


@pytest.mark.parametrize(
    ("signature", "id"),
    [
        ("msg_old", "msg_old"),
        (None, "msg_1"),
        ("{broken", "msg_1"),
        ('{"v":1}', "msg_1"),
        ('{"v":1,"id":7}', "msg_1"),
    ],
)
def test_a_text_without_an_id_gets_the_one_of_its_place(signature: str | None, id: str) -> None:
    items = sent([UserMessage("hi"), assistant(TextContent("x", signature))])
    assert items[1]["id"] == id


def test_made_up_ids_are_unique() -> None:
    items = sent([assistant(TextContent("a"), TextContent("b")), assistant(TextContent("c"))])
    assert [item["id"] for item in items] == ["msg_0", "msg_0_2", "msg_1"]


def test_a_long_id_of_a_text_is_a_short_hash() -> None:
    first, second = sent(
        [assistant(TextContent("x", "msg_" + "y" * 61)), assistant(TextContent("x", "msg_" + "z" * 61))]
    )
    assert first["id"].startswith("msg_")
    assert len(first["id"]) <= 64
    assert first["id"] != second["id"]


def test_thinking_without_a_reasoning_item_is_left_out_and_so_are_the_ids_that_need_it() -> None:
    items = sent([assistant(ThinkingContent("hm"), TEXT, CALL, stop_reason="toolUse"), RESULT])
    assert [item["type"] for item in items] == ["message", "function_call", "function_call_output"]
    assert items[0]["id"] == "msg_0"
    assert "id" not in items[1]


def test_reasoning_that_nothing_follows_is_not_sent() -> None:
    """Y09: the answer was cut there; aborted turns are not sent at all."""
    assert sent([UserMessage("a"), assistant(thought(), stop_reason="aborted"), UserMessage("b")]) == sent(
        [UserMessage("a"), UserMessage("b")]
    )
    cut = sent([assistant(TEXT, thought(), stop_reason="length")])
    assert [item["type"] for item in cut] == ["message"]
    assert sent([assistant(thought(), stop_reason="length")]) == []
    blank = sent([assistant(thought(), TextContent(" "))])
    assert blank == []


def test_nothing_stands_between_a_call_and_its_result() -> None:
    """Y04"""
    turn = assistant(TextContent("a"), thought(), CALL, TextContent("b"), stop_reason="toolUse")
    types = [item["type"] for item in sent([turn, RESULT])]
    assert types == ["message", "message", "reasoning", "function_call", "function_call_output"]


def test_reasoning_stays_before_the_item_it_led_to() -> None:
    other = ToolCall("call_2|fc_2", "ls", {})
    turn = assistant(thought(id="rs_1"), CALL, thought(id="rs_2"), other, thought(id="rs_3"), TEXT)
    ids = [item.get("id") for item in sent([turn])]
    assert ids[:6] == ["rs_3", "msg_9", "rs_1", "fc_1", "rs_2", "fc_2"]


def test_what_the_servers_tools_did_goes_back_word_for_word() -> None:
    block = ServerContent("web_search_call", '{"type":"web_search_call","id":"ws_1"}', "searched")
    assert sent([assistant(block, TEXT)])[0] == {"type": "web_search_call", "id": "ws_1"}
    assert sent([assistant(block, provider="other")])[0]["content"][0]["text"] == "searched"


def test_empty_texts_are_not_replayed() -> None:
    """Y05"""
    empty = ToolResultMessage(CALL.id, "ls", "")
    call, result = sent([assistant(TextContent(""), CALL, stop_reason="toolUse"), empty])
    assert call["type"] == "function_call"
    assert "no output" in result["output"]


def test_a_turn_with_nothing_to_say_is_not_sent() -> None:
    """Y06"""
    history = [UserMessage("a"), assistant(stop_reason="aborted"), assistant(), UserMessage("b")]
    assert [item["role"] for item in sent(history)] == ["user", "user"]


# --- turns of other models ---


def test_another_model_of_the_provider_gets_no_ids_of_calls() -> None:
    turn = assistant(thought("x"), TEXT, CALL, model="older", stop_reason="toolUse")
    reasoning, message, call, result = sent([turn, RESULT])
    assert reasoning == reasoning_item("x")
    assert message["id"] == "msg_0"
    assert "id" not in call
    assert (call["call_id"], result["call_id"]) == ("call_1", "call_1")


def test_another_provider_gets_reasoning_as_text_and_legal_ids() -> None:
    call = ToolCall("call+x_|item/=__", "ls", {})
    turn = assistant(thought("hm"), call, provider="other", stop_reason="toolUse")
    text, got, result = sent([turn, ToolResultMessage(call.id, "ls", "fine")])
    assert (text["type"], text["content"][0]["text"]) == ("message", "hm")
    assert (got["id"], got["call_id"], result["call_id"]) == ("fc_item", "call_x", "call_x")


def test_a_call_of_another_format_has_one_id() -> None:
    turn = AssistantMessage([ToolCall("toolu_1", "ls", {})], "anthropic-messages", "anthropic", "claude")
    call, result = sent([turn, ToolResultMessage("toolu_1", "ls", "x")])
    assert "id" not in call
    assert (call["call_id"], result["call_id"]) == ("toolu_1", "toolu_1")


def test_azure_and_openai_do_not_know_each_others_reasoning() -> None:
    turn = assistant(thought("hm"), TEXT, provider="openai")
    azure = Model("m", API, "azure", "https://x.openai.azure.com")
    assert [item["type"] for item in sent([turn], azure)] == ["message", "message"]


# --- ids and results ---


def test_a_long_and_odd_id_is_legal_for_call_and_result() -> None:
    """Y14"""
    id = "call_" + "x" * 440 + "|fc/é"
    call, result = sent(
        [assistant(ToolCall(id, "ls", {}), stop_reason="toolUse"), ToolResultMessage(id, "ls", "y")]
    )
    assert call["call_id"] == result["call_id"] == "call_" + "x" * 59
    assert call["id"] == "fc"


def test_reused_ids_are_unique_on_the_wire() -> None:
    """Y17"""
    call, result = ToolCall("call_0|fc_0", "ls", {}), ToolResultMessage("call_0|fc_0", "ls", "x")
    turn = assistant(call, stop_reason="toolUse")
    batch = assistant(call, call, stop_reason="toolUse")
    items = sent([turn, result, turn, result, batch, result, result])
    calls = [(item["call_id"], item.get("id")) for item in items if item["type"] == "function_call"]
    results = [item["call_id"] for item in items if item["type"] == "function_call_output"]
    assert calls == [("call_0", "fc_0"), ("call_0_2", None), ("call_0_3", None), ("call_0_4", None)]
    assert results == [id for id, _ in calls]


def test_an_aborted_call_is_not_sent() -> None:
    """Y01"""
    history = [UserMessage("a"), assistant(CALL, stop_reason="aborted"), UserMessage("go on")]
    assert [item["role"] for item in sent(history)] == ["user", "user"]


def test_a_call_without_result_gets_one_and_a_result_without_call_none() -> None:
    """Y03"""
    call, result, user = sent([assistant(CALL, stop_reason="toolUse"), UserMessage("go on")])
    assert (result["call_id"], result["output"]) == (call["call_id"], "No result provided")
    assert user["role"] == "user"
    assert sent([UserMessage("a"), RESULT]) == sent([UserMessage("a")])


def test_an_invented_tool_name_is_legal_on_replay() -> None:
    """Y16"""
    call = replace(CALL, name="foo.bar baz")
    assert sent([assistant(call, stop_reason="toolUse"), RESULT])[0]["name"] == "foo_bar_baz"


def test_images_of_a_result_stay_in_its_item() -> None:
    result = ToolResultMessage(CALL.id, "ls", [TextContent("look"), IMAGE], meta={"hash": "1"})
    turn = assistant(CALL, stop_reason="toolUse")
    items = sent([turn, result])
    assert len(items) == 2
    assert items[1]["output"] == [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,aGk="},
        {"type": "input_text", "text": "[hash: 1]"},
    ]
    blind = sent([turn, ToolResultMessage(CALL.id, "ls", [IMAGE])], replace(LOCAL, input=("text",)))
    assert "cannot see images" in blind[1]["output"]


def test_lone_surrogates_are_not_sent(sse_server: SseServer) -> None:
    """J04"""
    call = replace(CALL, arguments={"a": "x\ud99c y😀"})
    sse_server.play(*HELLO)
    history = [UserMessage("a\ud800😀"), assistant(call, stop_reason="toolUse"), RESULT]
    assert complete(sse_server, history, system="s\udfff").text == "hello"
    body = sse_server.requests[0].body.decode("utf-8")
    system, user, sent_call, _ = json.loads(body)["input"]
    assert (system["content"], user["content"][0]["text"]) == ("s", "a😀")
    assert json.loads(sent_call["arguments"]) == {"a": "x y😀"}


def test_a_server_block_is_sent_back_unchanged(sse_server: SseServer) -> None:
    reasoning = reasoning_item("hm", status="completed")
    message = {
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "id": "msg_7",
        "phase": "commentary",
        "content": [{"type": "output_text", "text": "é", "annotations": []}],
    }
    call = {"type": "function_call", "id": "fc_7", "call_id": "call_7", "name": "ls", "arguments": '{"a":1}'}
    sse_server.play(done(0, **reasoning), done(1, **message), done(2, **call), ended())
    turn = complete(sse_server)
    assert sent([turn, ToolResultMessage(turn.tool_calls[0].id, "ls", "x")])[:3] == [reasoning, message, call]


# --- once ---


def test_history_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    to_json = _responses_messages.to_json

    def counted(value: Any) -> bytes:
        made.append(value)
        return to_json(value)

    monkeypatch.setattr(_responses_messages, "to_json", counted)
    history: list[Any] = []
    for number in range(20):
        call = ToolCall(f"call_{number}|fc_{number}", "ls", {})
        history += [UserMessage("hi"), assistant(TEXT, call, stop_reason="toolUse")]
        history += [ToolResultMessage(call.id, "ls", "x")]
        sent(history)
    assert len(made) == 20 * 4


def test_a_window_that_slides_over_the_history_encodes_nothing_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The place of a turn, which gives texts without an id theirs, is put in without encoding."""
    made: list[Any] = []
    to_json = _responses_messages.to_json
    history: list[Any] = []
    for number in range(20):
        history += [UserMessage(f"{number}"), assistant(TextContent("\x00"), model="older")]
    sent(history)
    monkeypatch.setattr(_responses_messages, "to_json", lambda value: made.append(value) or to_json(value))
    items = sent(history[10:])
    assert made == []
    assert [item["id"] for item in items if "id" in item][:2] == ["msg_1", "msg_3"]
    assert items[1]["content"][0]["text"] == "\x00"


def test_annotations_go_back_as_they_came() -> None:
    """FR-11"""
    annotation = {"type": "url_citation", "start_index": 0, "end_index": 1, "url": "u", "title": "t"}
    text = TextContent("x", citations=(annotation,))
    (item,) = sent([assistant(text)])
    assert item["content"][0]["annotations"] == [annotation]
    (item,) = sent([assistant(text, provider="other")])
    assert item["content"][0]["annotations"] == []
