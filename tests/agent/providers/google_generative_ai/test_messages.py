"""Histories encoded in Google's format."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.gemini import (
    API,
    GEMINI_2,
    GEMINI_3,
    IMAGE,
    SKIP,
    G,
    assistant,
    fc,
    message_of,
    sent,
    signature,
)
from support.rounds import rounds
from support.rules import check_contents

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
from agent.providers.google_generative_ai.compat import compat_for
from agent.providers.google_generative_ai.messages import encode_messages, wire_tool_name

S1, S2 = signature("one"), signature("two")
ASK = UserMessage("hi")


def parts_of(message: AssistantMessage, model: Model = GEMINI_3) -> list[dict[str, Any]]:
    """The parts of a turn after a question; its calls are answered."""
    found: list[dict[str, Any]] = sent([ASK, message], model)[1]["parts"]
    return found


def result(id: str = "c1", *content: Any, **more: Any) -> ToolResultMessage:
    return ToolResultMessage(id, "ls", content or (TextContent("done"),), **more)


# --- user ---


def test_a_users_text_and_images_are_parts() -> None:
    assert sent([ASK]) == [{"role": "user", "parts": [{"text": "hi"}]}]
    (content,) = sent([UserMessage([TextContent("see"), IMAGE])])
    assert content["parts"] == [
        {"text": "see"},
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
    ]


@pytest.mark.parametrize("blank", ["", "  \n", [], [TextContent("")], [TextContent(" ")]])
def test_a_blank_message_is_not_sent(blank: Any) -> None:
    assert sent([UserMessage(blank)]) == []


def test_a_model_without_images_gets_a_note_for_them() -> None:
    (content,) = sent([UserMessage([IMAGE, IMAGE])], replace(GEMINI_3, input=("text",)))
    (part,) = content["parts"]
    assert "image was left out" in part["text"]


def test_half_characters_are_left_out_and_whole_ones_kept() -> None:
    assert sent([UserMessage("a\ud800😀\udc00b")])[0]["parts"] == [{"text": "a😀b"}]


# --- turns ---


def test_a_turn_has_the_role_model() -> None:
    assert sent([ASK, assistant(TextContent("yes"))])[1] == {"role": "model", "parts": [{"text": "yes"}]}


def test_blank_texts_and_empty_turns_are_left_out() -> None:
    """Y05, Y06"""
    assert parts_of(assistant(TextContent(""), TextContent("x"), ThinkingContent(" "))) == [{"text": "x"}]
    assert len(sent([ASK, assistant(), assistant(TextContent(" ")), ASK])) == 2


def test_signatures_go_back_on_the_part_they_came_on() -> None:
    turn = assistant(
        ThinkingContent("hm", S1), TextContent("so", S2), ToolCall("c1", "ls", {"a": 1}, signature("three"))
    )
    assert parts_of(turn) == [
        {"thought": True, "text": "hm", "thoughtSignature": S1},
        {"text": "so", "thoughtSignature": S2},
        {"functionCall": {"name": "ls", "args": {"a": 1}}, "thoughtSignature": signature("three")},
    ]


def test_a_signature_without_text_goes_back_beside_others_and_not_alone() -> None:
    assert parts_of(assistant(TextContent("a"), ThinkingContent("b"), TextContent("", S1)))[2] == {
        "text": "",
        "thoughtSignature": S1,
    }
    assert len(sent([ASK, assistant(TextContent("", S1))])) == 1


@pytest.mark.parametrize("bad", ["abc", "a?==", "ab c", "====", "é==="])
def test_what_is_no_signature_is_not_sent_as_one(bad: str) -> None:
    assert parts_of(assistant(TextContent("x", bad))) == [{"text": "x"}]


def test_thinking_without_a_signature_stays_thinking_for_its_model() -> None:
    assert parts_of(assistant(ThinkingContent("hm"))) == [{"thought": True, "text": "hm"}]


@pytest.mark.parametrize(
    "other",
    [
        replace(GEMINI_3, id="gemini-4-argon"),
        replace(GEMINI_3, provider="vertex"),
        Model("claude-x", "anthropic-messages", "anthropic"),
    ],
)
def test_what_another_model_thought_and_signed_is_plain_text(other: Model) -> None:
    turn = assistant(ThinkingContent("hm", S1), TextContent("so", S2), model=other)
    assert parts_of(turn) == [{"text": "hm"}, {"text": "so"}]


def test_redacted_thinking_is_left_out() -> None:
    assert parts_of(assistant(ThinkingContent("", S1, redacted=True), TextContent("x"))) == [{"text": "x"}]


def test_server_blocks_are_sent_back_unchanged() -> None:
    part = {"executableCode": {"code": "1"}, "thoughtSignature": S1}
    block = ServerContent("executableCode", json.dumps(part), "```1```")
    assert parts_of(assistant(block)) == [part]
    other = assistant(block, model=replace(GEMINI_3, id="gemini-3.7-flash"))
    assert parts_of(other) == [{"executableCode": {"code": "1"}}]
    assert parts_of(assistant(block, model=Model("m", "x", "y"))) == [{"text": "```1```"}]
    assert parts_of(assistant(ServerContent("x", "{broken"), TextContent("a"))) == [{"text": "a"}]


def test_turns_with_nothing_between_them_are_one() -> None:
    contents = sent([ASK, assistant(TextContent("a")), UserMessage(" "), assistant(ToolCall("c1", "ls", {}))])
    assert [content["role"] for content in contents] == ["user", "model", "user"]
    check_contents(contents)


def test_a_history_that_begins_with_the_model_gets_an_opening() -> None:
    contents = sent([assistant(ToolCall("c1", "ls", {})), result()])
    assert [content["role"] for content in contents] == ["user", "model", "user"]


# --- calls and results ---


def test_missing_arguments_are_an_empty_object() -> None:
    nothing: Any = None
    assert parts_of(assistant(ToolCall("c1", "ls", nothing)))[0]["functionCall"]["args"] == {}


def test_an_unsigned_call_is_marked_for_models_that_insist_on_signatures() -> None:
    turn = assistant(ToolCall("c1", "ls", {}), model=Model("m", "openai-completions", "openai"))
    assert parts_of(turn)[0]["thoughtSignature"] == SKIP
    assert "thoughtSignature" not in parts_of(turn, GEMINI_2)[0]
    assert "thoughtSignature" not in parts_of(turn, replace(GEMINI_2, id="gemini-2.5-pro"))[0]
    assert parts_of(turn, replace(GEMINI_3, id="gemini-4-hydrogen"))[0]["thoughtSignature"] == SKIP


def test_calls_of_one_turn_are_one_content_and_their_results_the_next() -> None:
    """Y12"""
    turn = message_of(G([fc("a", {}, S1, id="1"), fc("b", id="2")], "STOP"))
    results = [ToolResultMessage("2", "b", "two"), ToolResultMessage("1", "a", "one")]
    _, calls, responses = sent([ASK, turn, *results])
    assert [part.get("thoughtSignature") for part in calls["parts"]] == [S1, None]
    assert responses["role"] == "user"
    assert [part["functionResponse"] for part in responses["parts"]] == [
        {"name": "a", "response": {"output": "one"}},
        {"name": "b", "response": {"output": "two"}},
    ]


def test_each_of_several_signatures_goes_back_on_its_call() -> None:
    """Y13"""
    turn = message_of(G([fc("a", {}, S1), fc("b", {}, S2)], "STOP"))
    assert [part["thoughtSignature"] for part in parts_of(turn)] == [S1, S2]


def test_calls_before_the_first_signed_one_are_marked() -> None:
    turn = assistant(ToolCall("1", "a", {}), ToolCall("2", "b", {}, S1), ToolCall("3", "c", {}))
    assert [part.get("thoughtSignature") for part in parts_of(turn)] == [SKIP, S1, None]


def test_text_after_a_call_goes_before_it_unless_the_turn_is_signed() -> None:
    """Y04"""
    turn = assistant(TextContent("a"), ToolCall("c1", "ls", {}), TextContent("b"))
    assert [next(iter(part)) for part in parts_of(turn)] == ["text", "text", "functionCall"]
    server = assistant(ServerContent("x", '{"x":1}'), ToolCall("c1", "ls", {}), TextContent("b"))
    assert [next(iter(part)) for part in parts_of(server)] == ["x", "functionCall", "text"]
    signed = assistant(ToolCall("c1", "ls", {}, S1), TextContent("b"))
    assert [next(iter(part)) for part in parts_of(signed)] == ["functionCall", "text"]


def test_an_error_is_marked_as_an_error() -> None:
    call = assistant(ToolCall("c1", "ls", {}))
    (part,) = sent([ASK, call, result("c1", TextContent("no such file"), is_error=True)])[2]["parts"]
    assert part == {"functionResponse": {"name": "ls", "response": {"error": "no such file"}}}


def test_an_empty_result_becomes_a_sentence() -> None:
    """Y05"""
    (part,) = sent([ASK, assistant(ToolCall("c1", "ls", {})), result("c1", TextContent(""))])[2]["parts"]
    assert "no output" in part["functionResponse"]["response"]["output"]


def test_an_unanswered_call_is_answered_and_a_result_without_a_call_dropped() -> None:
    """Y01, Y03"""
    contents = sent([ASK, result("zz"), assistant(ToolCall("c1", "ls", {})), UserMessage("go on")])
    assert [content["role"] for content in contents] == ["user", "model", "user", "user"]
    assert contents[2]["parts"][0]["functionResponse"]["response"] == {"error": "No result provided"}
    aborted = assistant(ToolCall("c1", "ls", {}), stop_reason="aborted")
    assert len(sent([ASK, aborted, UserMessage("go on")])) == 2


def test_images_stand_in_the_result_where_the_model_takes_them_there() -> None:
    history: list[Message] = [
        ASK,
        assistant(ToolCall("c1", "ls", {})),
        result("c1", TextContent("see"), IMAGE),
    ]
    picture = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
    (part,) = sent(history)[2]["parts"]
    assert part["functionResponse"] == {"name": "ls", "response": {"output": "see"}, "parts": [picture]}
    _, _, results, images = sent(history, GEMINI_2)
    assert results["parts"] == [{"functionResponse": {"name": "ls", "response": {"output": "see"}}}]
    assert images == {"role": "user", "parts": [{"text": "Tool result image:"}, picture]}


def test_a_result_of_images_alone_points_at_them() -> None:
    (part,) = sent([ASK, assistant(ToolCall("c1", "ls", {})), result("c1", IMAGE)])[2]["parts"]
    assert part["functionResponse"]["response"] == {"output": "(see attached image)"}


def test_images_of_several_results_follow_all_of_them() -> None:
    turn = assistant(ToolCall("1", "a", {}), ToolCall("2", "b", {}), model=GEMINI_2)
    contents = sent([ASK, turn, result("1", IMAGE), result("2", IMAGE), ASK], GEMINI_2)
    assert [len(content["parts"]) for content in contents] == [1, 2, 2, 3, 1]
    check_contents(contents)


def test_images_follow_the_results_they_came_with() -> None:
    turns = [assistant(ToolCall(id, "a", {}), model=GEMINI_2) for id in "12"]
    contents = sent([ASK, turns[0], result("1", IMAGE), turns[1], result("2")], GEMINI_2)
    assert [len(content["parts"]) for content in contents] == [1, 1, 1, 2, 1, 1]


def test_ids_are_sent_to_models_that_match_by_them_alone() -> None:
    """Y14, Y17"""
    long = "call_" + "x" * 440 + "|fc/é"
    calls = assistant(ToolCall(long, "ls", {}), ToolCall(long, "ls", {}))
    history: list[Message] = [ASK, calls, result(long), result(long)]
    _, turn, results = sent(history, replace(GEMINI_2, id="claude-sonnet-5"))
    ids = [part["functionCall"]["id"] for part in turn["parts"]]
    assert ids == [part["functionResponse"]["id"] for part in results["parts"]]
    assert len(set(ids)) == 2
    assert all(len(id) <= 64 and id.isascii() and "|" not in id for id in ids)
    assert "id" not in sent(history)[1]["parts"][0]["functionCall"]


def test_an_invented_name_is_made_fit_and_is_the_same_in_the_result() -> None:
    """Y16"""
    history: list[Message] = [
        ASK,
        assistant(ToolCall("1", "foo.bar baz", {})),
        ToolResultMessage("1", "other", "x"),
    ]
    _, turn, results = sent(history)
    assert turn["parts"][0]["functionCall"]["name"] == "foo_bar_baz"
    assert results["parts"][0]["functionResponse"]["name"] == "foo_bar_baz"


@pytest.mark.parametrize(
    ("name", "wire"), [("ls", "ls"), ("_x", "_x"), ("3d", "_3d"), ("-x", "_-x"), ("", "tool"), ("é", "_")]
)
def test_a_name_begins_with_a_letter_or_an_underscore(name: str, wire: str) -> None:
    assert wire_tool_name(name) == wire
    assert len(wire_tool_name("9" * 99)) == 64


# --- work ---


def test_a_message_is_encoded_once() -> None:
    history: list[Message] = [ASK, assistant(ToolCall("c1", "ls", {})), result()]
    compat = compat_for(GEMINI_3)
    encode_messages(history, GEMINI_3, compat)
    slots = [dict(getattr(message, "_encoded")) for message in history]  # noqa: B009
    encode_messages([*history, assistant(TextContent("more"))], GEMINI_3, compat)
    for message, before in zip(history, slots, strict=True):
        after = getattr(message, "_encoded")  # noqa: B009
        assert after.keys() == before.keys()
        assert all(after[key] is before[key] for key in before)


# --- any history -----------------------------------------------------------------------------------------

TEXTS = st.text(alphabet=st.sampled_from('a \n"\x00é\u2028😀\ud800\udfff'), max_size=6)
SIGNATURES = st.sampled_from([None, "", "x", "not base64", S1, S2])
IDS = st.sampled_from(["a", "call_0", "call_0_2", "", "x|fc_1", "y" * 70])
NAMES = st.sampled_from(["ls", "foo.bar baz", "", "9x", "é" * 70, "n\ud800"])
PARTS = st.lists(
    st.builds(TextContent, TEXTS) | st.builds(ImageContent, st.just("aGk="), st.just("image/png"))
)
ARGUMENTS = st.dictionaries(TEXTS, TEXTS | st.floats() | st.none(), max_size=2)
BLOCKS = st.lists(
    st.builds(TextContent, TEXTS, SIGNATURES)
    | st.builds(ThinkingContent, TEXTS, SIGNATURES, st.booleans())
    | st.builds(ToolCall, IDS, NAMES, ARGUMENTS, SIGNATURES)
    | st.builds(ServerContent, st.just("x"), st.sampled_from(['{"x":1}', "{}", "{"]), st.none() | TEXTS),
    max_size=4,
)
TURNS = st.builds(
    AssistantMessage,
    BLOCKS,
    st.sampled_from([API, "other-api"]),
    st.sampled_from(["google", "other"]),
    st.sampled_from([GEMINI_3.id, GEMINI_2.id]),
    stop_reason=st.sampled_from(["stop", "toolUse", "length", "error", "aborted"]),
)
RESULTS = st.builds(ToolResultMessage, IDS, NAMES, PARTS, st.booleans())
HISTORIES = st.lists(
    st.builds(UserMessage, TEXTS | PARTS) | TURNS | RESULTS | st.builds(CustomMessage, st.just("note")),
    max_size=12,
)
MODELS = st.sampled_from([GEMINI_3, GEMINI_2, replace(GEMINI_3, input=("text",))])
SETTINGS = settings(max_examples=rounds(200), deadline=None, derandomize=True, database=None)


@SETTINGS
@given(HISTORIES, MODELS)
def test_any_history_makes_well_formed_contents(history: list[Message], model: Model) -> None:
    check_contents(sent(history, model), signed=model is not GEMINI_2)


@SETTINGS
@given(HISTORIES, HISTORIES)
def test_what_was_encoded_for_one_model_does_not_leak_to_another(
    history: list[Message], more: list[Message]
) -> None:
    before = [repr(message_to_json(message)) for message in history]
    fresh = sent(history)
    sent(history, GEMINI_2)
    sent(more + history)
    assert sent(history) == fresh
    assert [repr(message_to_json(message)) for message in history] == before
