"""Messages: their JSON form, both ways, and how they behave as values."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import json
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.messages import (
    AssistantMessage,
    CustomMessage,
    ImageContent,
    Message,
    ServerContent,
    Source,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    default_convert_to_llm,
    encoded_once,
    message_from_json,
    message_to_json,
    now_ms,
    render_meta,
    usage_from_json,
)
from agent.usage import Cost, Usage

text = st.text(max_size=20)
optional = st.none() | text
moment = st.integers(0, 2**53)
count = st.integers(0, 10**9)
dollars = st.floats(0, 1e6)
data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
arguments = st.dictionaries(text, data, max_size=3)
texts = st.builds(TextContent, text, optional)
images = st.builds(ImageContent, text, text)
user_blocks = st.lists(texts | images, max_size=3)
assistant_blocks = st.lists(
    texts
    | st.builds(ThinkingContent, text, optional, st.booleans())
    | st.builds(ToolCall, text, text, arguments, optional)
    | st.builds(ServerContent, text, text, optional),
    max_size=4,
)
costs = st.builds(Cost, dollars, dollars, dollars, dollars, dollars, dollars, st.booleans())
usages = st.builds(Usage, count, count, count, count, count, costs, count, count, count)
reasons = st.sampled_from(["stop", "length", "toolUse", "error", "aborted"])
messages = (
    st.builds(UserMessage, text | user_blocks, moment)
    | st.builds(
        AssistantMessage, assistant_blocks, text, text, text, usages, reasons, text, text, text, moment
    )
    | st.builds(
        ToolResultMessage,
        text,
        text,
        user_blocks,
        st.booleans(),
        data,
        st.none() | st.dictionaries(text, text, max_size=3),
        moment,
    )
    | st.builds(CustomMessage, text, data, moment)
)

# One of each, with every field set.
FULL: list[Message] = [
    UserMessage([TextContent("look", "sig"), ImageContent("aGk=", "image/png")], 1),
    AssistantMessage(
        [
            TextContent("a", "s1"),
            ThinkingContent("b", "s2", True),
            ToolCall("c1", "bash", {"command": "ls", "deep": [1, {"x": None}]}, "s3"),
            ServerContent("web_search", '{"type": "x",  "n": 1}', "searched"),
        ],
        "anthropic-messages",
        "anthropic",
        "claude",
        Usage(1, 2, 3, 4, 10, Cost(0.1, 0.2, 0.3, 0.4, 1.0, 0.5, True), 1, 2, 3),
        "toolUse",
        "an error",
        "resp_1",
        "claude-1",
        2,
    ),
    ToolResultMessage("c1", "bash", [TextContent("ok")], True, {"exit": 1}, {"hash": "abc"}, 3),
    CustomMessage("note", {"a": [1]}, 4),
]


@settings(deadline=None)
@given(messages)
def test_every_message_comes_back_from_json_as_it_was(message: Message) -> None:
    wire = json.dumps(message_to_json(message))
    back = message_from_json(json.loads(wire))
    assert back == message
    assert type(back) is type(message)
    assert json.dumps(message_to_json(back)) == wire


@pytest.mark.parametrize("message", FULL, ids=lambda m: m.role)
def test_a_message_with_every_field_set_comes_back(message: Message) -> None:
    assert message_from_json(json.loads(json.dumps(message_to_json(message)))) == message


def test_the_wire_names_are_camel_case() -> None:
    user, assistant, result, custom = (message_to_json(message) for message in FULL)
    assert user == {
        "role": "user",
        "content": [
            {"type": "text", "text": "look", "textSignature": "sig"},
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        ],
        "timestamp": 1,
    }
    assert assistant == {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "a", "textSignature": "s1"},
            {"type": "thinking", "thinking": "b", "thinkingSignature": "s2", "redacted": True},
            {
                "type": "toolCall",
                "id": "c1",
                "name": "bash",
                "arguments": {"command": "ls", "deep": [1, {"x": None}]},
                "thoughtSignature": "s3",
            },
            {
                "type": "server",
                "providerType": "web_search",
                "raw": '{"type": "x",  "n": 1}',
                "display": "searched",
            },
        ],
        "api": "anthropic-messages",
        "provider": "anthropic",
        "model": "claude",
        "responseModel": "claude-1",
        "usage": {
            "input": 1,
            "output": 2,
            "cacheRead": 3,
            "cacheWrite": 4,
            "totalTokens": 10,
            "cost": {
                "input": 0.1,
                "output": 0.2,
                "cacheRead": 0.3,
                "cacheWrite": 0.4,
                "total": 1.0,
                "serverTools": 0.5,
                "isEstimate": True,
            },
            "reasoning": 1,
            "cacheWrite1h": 2,
            "webSearches": 3,
        },
        "stopReason": "toolUse",
        "responseId": "resp_1",
        "errorMessage": "an error",
        "timestamp": 2,
    }
    assert result == {
        "role": "toolResult",
        "toolCallId": "c1",
        "toolName": "bash",
        "content": [{"type": "text", "text": "ok"}],
        "details": {"exit": 1},
        "meta": {"hash": "abc"},
        "isError": True,
        "timestamp": 3,
    }
    assert custom == {"role": "custom", "kind": "note", "data": {"a": [1]}, "timestamp": 4}


def test_optional_fields_are_left_out_when_empty_and_the_others_are_always_there() -> None:
    assert message_to_json(UserMessage("", 0)) == {"role": "user", "content": "", "timestamp": 0}
    answer = message_to_json(AssistantMessage([TextContent(""), ThinkingContent("")], timestamp=0))
    assert not {"responseModel", "responseId", "errorMessage"} & set(answer)
    assert {"content", "usage", "stopReason", "timestamp"} <= set(answer)
    assert answer["content"] == [{"type": "text", "text": ""}, {"type": "thinking", "thinking": ""}]
    assert message_to_json(ToolResultMessage("1", "t", (), timestamp=0)) == {
        "role": "toolResult",
        "toolCallId": "1",
        "toolName": "t",
        "content": [],
        "isError": False,
        "timestamp": 0,
    }


def test_details_that_are_false_are_still_details() -> None:
    for details in (0, False, "", [], {}):
        message = ToolResultMessage("1", "t", "x", details=details, timestamp=0)
        assert message_from_json(message_to_json(message)) == message


def test_citations_of_a_text_survive_the_round_trip() -> None:
    """FR-11"""
    citation = {"type": "char_location", "cited_text": "\ud83d é", "n": [1, {"x": None}]}
    message = AssistantMessage((TextContent("x", None, (citation, {})),), timestamp=0)
    wire = json.loads(json.dumps(message_to_json(message)))
    assert wire["content"][0]["citations"] == [citation, {}]
    assert message_from_json(wire) == message
    assert hash(message) == hash(AssistantMessage((TextContent("x"),), timestamp=0))


@pytest.mark.parametrize("citations", [None, [], [None, 7, "x"]])
def test_citations_that_are_none_are_left_out(citations: Any) -> None:
    wire = {
        "role": "assistant",
        "content": [{"type": "text", "text": "x", "citations": citations}],
        "timestamp": 0,
    }
    assert message_from_json(wire).content == (TextContent("x"),)  # type: ignore[union-attr]


SOURCES = [
    ({"url": "u", "title": "t"}, Source("t", "u")),
    ({"type": "url_citation", "url_citation": {"url": "u", "title": "t"}}, Source("t", "u")),
    ({"web": {"uri": "u", "title": "t"}}, Source("t", "u")),
    ({"uri": "u"}, Source("u", "u")),
    ({"document_title": "d", "document_index": 0}, Source("d")),
    ({"filename": "f", "file_id": "1"}, Source("f")),
]


@pytest.mark.parametrize(("citation", "source"), SOURCES)
def test_the_source_of_a_citation_of_any_provider(citation: dict[str, Any], source: Source) -> None:
    """FR-11"""
    message = AssistantMessage((TextContent("x", None, (citation, {"n": 1}, citation)),))
    assert message.sources == (source,)


def test_an_unknown_block_is_left_out_without_an_error() -> None:
    for role in ("user", "assistant"):
        wire = {
            "role": role,
            "content": [{"type": "bogus"}, {"type": "text", "text": "x"}, {}, 3],
            "timestamp": 1,
        }
        assert message_from_json(wire).content == (TextContent("x"),)  # type: ignore[union-attr]


def test_a_message_of_an_unknown_role_loads_as_a_custom_one_that_holds_it() -> None:
    wire = {"role": "bogus", "x": 1, "timestamp": 7}
    message = message_from_json(wire)
    assert message == CustomMessage("unknown", wire, 7)
    assert message_from_json(message_to_json(message)) == message


@pytest.mark.parametrize(
    ("wire", "field"),
    [
        ([], "JSON object"),
        ("user", "JSON object"),
        ({}, "role"),
        ({"role": None}, "role"),
        ({"role": "user", "content": 5}, "content"),
        ({"role": "user", "content": None}, "content"),
        ({"role": "user", "content": "x", "timestamp": "now"}, "timestamp"),
        ({"role": "user", "content": [{"type": "text"}]}, "text"),
        ({"role": "user", "content": [{"type": "image", "data": "x"}]}, "mimeType"),
        ({"role": "assistant", "content": [], "stopReason": "bogus"}, "stopReason"),
        ({"role": "assistant", "content": [], "stopReason": []}, "stopReason"),
        ({"role": "assistant", "content": [], "usage": 5}, "usage"),
        ({"role": "assistant", "content": [], "usage": {"cost": [1]}}, "cost"),
        ({"role": "assistant", "content": [], "usage": {"input": "many"}}, "input"),
        ({"role": "assistant", "content": [{"type": "toolCall", "id": "1"}]}, "name"),
        (
            {
                "role": "assistant",
                "content": [{"type": "toolCall", "id": "1", "name": "t", "arguments": "{}"}],
            },
            "arguments",
        ),
        ({"role": "assistant", "content": [{"type": "server", "providerType": "x", "raw": {}}]}, "raw"),
        ({"role": "toolResult", "content": []}, "toolCallId"),
        ({"role": "toolResult", "toolCallId": "1", "content": [], "meta": "x"}, "meta"),
    ],
)
def test_data_that_is_no_message_is_refused_with_the_name_of_the_field(wire: Any, field: str) -> None:
    with pytest.raises(ValueError, match=field):
        message_from_json(wire)


def test_what_older_files_leave_out_is_filled_in() -> None:
    assert message_from_json({"role": "user", "content": "x"}) == UserMessage("x", 0)
    assert message_from_json({"role": "assistant", "content": "x"}) == AssistantMessage("x", timestamp=0)
    assert message_from_json({"role": "toolResult", "toolCallId": "1", "content": "x"}) == ToolResultMessage(
        "1", "", "x", timestamp=0
    )
    call = {"type": "toolCall", "id": "1", "name": "t", "arguments": None}
    loaded = message_from_json({"role": "assistant", "content": [call]})
    assert loaded == AssistantMessage([ToolCall("1", "t", {})], timestamp=0)


def test_a_large_integer_in_arguments_keeps_every_digit() -> None:
    """J10: an id beyond 2**53 is replayed as it came."""
    message = AssistantMessage([ToolCall("1", "t", {"id": 12345678901234567890})], timestamp=0)
    back = message_from_json(json.loads(json.dumps(message_to_json(message))))
    assert back.tool_calls[0].arguments == {"id": 12345678901234567890}  # type: ignore[union-attr]


def test_the_raw_text_of_a_server_block_is_kept_byte_for_byte() -> None:
    raw = '{"b" : 1,\n "a":"\\u00e9",\t"b":2}'
    message = AssistantMessage([ServerContent("x", raw)], timestamp=0)
    back = message_from_json(json.loads(json.dumps(message_to_json(message))))
    assert back.content[0].raw == raw  # type: ignore[union-attr]


def test_what_is_no_message_has_no_json_form() -> None:
    with pytest.raises(TypeError, match="not a message"):
        message_to_json({"role": "user"})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not a content block"):
        message_to_json(UserMessage([{"type": "text"}]))  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (TextContent, "text signature citations"),
        (ThinkingContent, "thinking signature redacted"),
        (ImageContent, "data mime_type"),
        (ToolCall, "id name arguments signature"),
        (ServerContent, "provider_type raw display"),
        (UserMessage, "content timestamp"),
        (
            AssistantMessage,
            "content api provider model usage stop_reason error_message response_id response_model timestamp",
        ),
        (ToolResultMessage, "tool_call_id tool_name content is_error details meta timestamp"),
        (CustomMessage, "kind data timestamp"),
    ],
)
def test_the_positions_of_the_arguments_are_the_pinned_ones(kind: type, names: str) -> None:
    assert list(inspect.signature(kind).parameters) == names.split()
    values = [f"value {n}" for n, _ in enumerate(names.split())]
    made = kind(*values)
    shown = [getattr(made, name) for name in names.split() if name != "content"]
    assert shown == [value for value, name in zip(values, names.split(), strict=True) if name != "content"]


def test_blocks_and_messages_tell_their_type_and_role() -> None:
    blocks = [block.type for block in FULL[1].content]  # type: ignore[union-attr]
    assert blocks == ["text", "thinking", "toolCall", "server"]
    assert ImageContent("", "").type == "image"
    assert [message.role for message in FULL] == ["user", "assistant", "toolResult", "custom"]


def test_lists_are_kept_as_tuples_and_later_changes_to_them_are_not_seen() -> None:
    blocks: list[Any] = [TextContent("a")]
    made = [UserMessage(blocks), AssistantMessage(blocks), ToolResultMessage("1", "t", blocks)]
    blocks.append(TextContent("b"))
    assert all(message.content == (TextContent("a"),) for message in made)


def test_a_string_as_content_is_kept_by_a_user_message_and_made_a_block_by_the_others() -> None:
    assert UserMessage("x").content == "x"
    assert AssistantMessage("x").content == (TextContent("x"),)
    assert ToolResultMessage("1", "t", "x").content == (TextContent("x"),)


def test_the_text_of_a_message_is_its_text_blocks_without_a_separator() -> None:
    answer = AssistantMessage([TextContent("Hello, "), ThinkingContent("hm"), TextContent("world.")])
    assert answer.text == "Hello, world."
    assert answer.thinking == "hm"
    assert UserMessage([TextContent("a"), ImageContent("", ""), TextContent("b")]).text == "ab"
    assert UserMessage("plain").text == "plain"
    assert ToolResultMessage("1", "t", [TextContent("a"), TextContent("b")]).text == "ab"


def test_tool_calls_come_in_order_as_a_tuple() -> None:
    calls = (ToolCall("1", "a", {}), ToolCall("2", "b", {}))
    assert AssistantMessage([calls[0], TextContent("x"), calls[1]]).tool_calls == calls


def test_the_time_is_that_of_making_unless_given() -> None:
    before = now_ms()
    made = [UserMessage("x"), AssistantMessage(""), ToolResultMessage("1", "t", ""), CustomMessage("k")]
    assert all(before <= message.timestamp <= now_ms() for message in made)
    assert UserMessage("x", 0).timestamp == 0


@pytest.mark.parametrize("message", FULL, ids=lambda m: m.role)
def test_messages_can_not_be_changed(message: Message) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        message.timestamp = 9  # type: ignore[misc]
    assert not hasattr(message, "__dict__")


@pytest.mark.parametrize("message", FULL, ids=lambda m: m.role)
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_and_pickles_are_equal(message: Message, copied: Any) -> None:
    twin = copied(message)
    assert twin == message
    assert hash(twin) == hash(message)
    assert repr(twin) == repr(message)


@pytest.mark.parametrize("message", FULL[:3], ids=lambda m: m.role)
def test_the_encoded_form_is_made_once_and_goes_with_no_copy(message: Message) -> None:
    made: list[Message] = []

    def encode(m: Message) -> int:
        made.append(m)
        return len(made)

    fresh = dataclasses.replace(message)
    bare = repr(fresh), hash(fresh)
    assert [encoded_once(fresh, "format", encode) for _ in range(3)] == [1, 1, 1]
    assert encoded_once(fresh, "other format", encode) == 2
    assert (repr(fresh), hash(fresh)) == bare
    assert fresh == message
    assert "encoded" not in {field.name for field in dataclasses.fields(fresh)}
    copies = [
        dataclasses.replace(fresh, timestamp=99),
        dataclasses.replace(fresh),
        copy.copy(fresh),
        copy.deepcopy(fresh),
        pickle.loads(pickle.dumps(fresh)),
    ]
    assert [encoded_once(twin, "format", encode) for twin in copies] == [3, 4, 5, 6, 7]


def test_a_custom_message_has_no_encoded_form_to_keep() -> None:
    assert encoded_once(CustomMessage("k", 1), "format", lambda m: m.kind) == "k"


def test_messages_with_equal_arguments_are_equal_and_different_ones_are_not() -> None:
    one, other = (AssistantMessage([ToolCall("1", "t", {"n": n})], timestamp=0) for n in (1, 2))
    assert one != other
    assert one == AssistantMessage([ToolCall("1", "t", {"n": 1})], timestamp=0)
    assert len({one, other, AssistantMessage([ToolCall("1", "t", {"n": 1})], timestamp=0)}) == 2


def test_replace_makes_a_changed_copy() -> None:
    message = AssistantMessage("x", stop_reason="error", error_message="boom", timestamp=1)
    changed = dataclasses.replace(message, content=[TextContent("y")], error_message="")
    assert (changed.text, changed.stop_reason, changed.error_message) == ("y", "error", "")
    assert changed.content == (TextContent("y"),)
    assert message.text == "x"


def test_meta_is_shown_as_sorted_lines_the_same_each_time() -> None:
    assert render_meta(None) == render_meta({}) == ""
    assert render_meta({"hash": "abc123"}) == "[hash: abc123]"
    meta = {"zebra": "1", "alpha": "2", "hash": "3"}
    assert {render_meta(dict(meta)) for _ in range(20)} == {"[alpha: 2]\n[hash: 3]\n[zebra: 1]"}


def test_a_model_is_shown_everything_but_custom_messages() -> None:
    user, custom, failed = UserMessage("x"), CustomMessage("k"), AssistantMessage("", stop_reason="error")
    assert default_convert_to_llm([user, custom, failed]) == [user, failed]


@pytest.mark.parametrize("usage", ["x", [], 5])
def test_usage_that_is_no_object_is_a_value_error(usage: Any) -> None:
    """FR-16"""
    with pytest.raises(ValueError, match="usage"):
        usage_from_json(usage)
    answer = message_to_json(AssistantMessage("x")) | {"usage": usage}
    with pytest.raises(ValueError, match="usage"):
        message_from_json(answer)


@pytest.mark.parametrize("details", [object(), {"x": {1, 2}}, float("nan"), b"\xff"])
def test_details_that_json_cannot_hold_are_stored_in_the_nearest_form(details: Any) -> None:
    """FR-17"""
    for message in (ToolResultMessage("c", "t", "x", details=details), CustomMessage("note", details)):
        json.dumps(message_to_json(message), allow_nan=False)


def test_details_nested_too_deeply_are_stored_as_text() -> None:
    """FR-17"""
    details: Any = {}
    for _ in range(5_000):
        details = {"deeper": details}
    json.dumps(message_to_json(ToolResultMessage("c", "t", "x", details={"deep": details})))
