"""From Gemini's chunks to events and messages."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.gemini import GEMINI_3, HELLO, G, fc, message_of, read, sent, signature

from agent.messages import ServerContent, Source, TextContent, ThinkingContent, ToolCall
from agent.providers.google_generative_ai.decode import decode, first_error, usage_of
from agent.providers.http.failure import ProviderError
from agent.retry import ErrorClass, is_resumable
from agent.stream import (
    StreamDone,
    StreamError,
    StreamStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    build_message,
)
from agent.usage import ModelCost, Usage

S1, S2 = signature("one"), signature("two")
USAGE = {"promptTokenCount": 10, "candidatesTokenCount": 3, "totalTokenCount": 13}


# --- blocks ---


def test_text_goes_on_over_chunks_as_one_block() -> None:
    events = read(*HELLO)
    assert [event.type for event in events] == [
        "start",
        "text_start",
        "text_delta",
        "text_delta",
        "text_end",
        "done",
    ]
    assert events[0] == StreamStart("r1", "gemini-x")
    message = message_of(*HELLO)
    assert (message.text, message.response_id, message.response_model) == ("hello", "r1", "gemini-x")


def test_another_kind_begins_another_block() -> None:
    message = message_of(
        G([{"text": "hm", "thought": True}]), G([{"text": "m", "thought": True}, {"text": "so"}], "STOP")
    )
    assert message.content == (ThinkingContent("hmm"), TextContent("so"))


def test_only_thought_marks_thinking_and_a_signature_does_not() -> None:
    message = message_of(G([{"text": "text", "thoughtSignature": S1}, {"text": "!", "thought": 1}], "STOP"))
    assert message.content == (TextContent("text!", S1),)


@pytest.mark.parametrize("later", [{}, {"thoughtSignature": ""}, {"thoughtSignature": None}])
def test_a_missing_or_empty_signature_keeps_the_one_before(later: dict[str, Any]) -> None:
    message = message_of(G([{"text": "a", "thoughtSignature": S1}]), G([{"text": "b"} | later], "STOP"))
    assert message.content == (TextContent("ab", S1),)


def test_a_signature_does_not_pass_on_to_the_next_block() -> None:
    signed = {"text": "a", "thoughtSignature": S1}
    message = message_of(G([signed, {"text": "b", "thought": True}, {"text": "c"}], "STOP"))
    assert message.content == (TextContent("a", S1), ThinkingContent("b"), TextContent("c"))


def test_the_last_signature_of_a_block_is_kept() -> None:
    first = {"text": "a", "thought": True, "thoughtSignature": S1}
    message = message_of(G([first]), G([{"text": "b", "thought": True, "thoughtSignature": S2}], "STOP"))
    assert message.content == (ThinkingContent("ab", S2),)


def test_a_signature_in_an_empty_text_at_the_end_belongs_to_the_text() -> None:
    message = message_of(G([{"text": "a"}]), G([{"text": "", "thoughtSignature": S1}], "STOP"))
    assert message.content == (TextContent("a", S1),)


def test_a_part_that_is_just_a_signature_is_kept_and_the_answer_counts_as_empty() -> None:
    """P24"""
    message = message_of(G([{"thoughtSignature": S1}], "STOP"))
    assert (message.content, message.stop_reason, message.text) == ((TextContent("", S1),), "stop", "")


def test_a_signature_after_thinking_or_a_call_stays_a_part_of_its_own() -> None:
    thought = {"text": "hm", "thought": True}
    message = message_of(G([thought, {"text": "", "thoughtSignature": S1}], "STOP"))
    assert message.content == (ThinkingContent("hm"), TextContent("", S1))
    after_call = message_of(G([fc("ls"), {"thoughtSignature": S1}], "STOP"))
    assert after_call.content[1:] == (TextContent("", S1),)


def test_an_empty_text_opens_and_closes_nothing() -> None:
    events = read(
        G([{"text": "a", "thought": True}]), G([{"text": ""}]), G([{"text": "b", "thought": True}], "STOP")
    )
    assert [event.type for event in events if event.type.endswith("_end")] == ["thinking_end"]


def test_what_only_the_server_understands_is_kept_as_it_came() -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "1+1"}, "thoughtSignature": S1}
    outcome = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2\n"}}
    picture = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
    message = message_of(G([code, outcome, picture, {"text": "2"}], "STOP"))
    first, second, third, text = message.content
    assert isinstance(first, ServerContent)
    assert isinstance(second, ServerContent)
    assert isinstance(third, ServerContent)
    assert json.loads(first.raw) == code
    assert first.display == "```python\n1+1\n```"
    assert (second.provider_type, second.display) == ("codeExecutionResult", "2\n")
    assert (json.loads(third.raw), third.display) == (picture, None)
    assert text == TextContent("2")


# --- calls ---


def test_a_call_comes_whole_with_its_signature() -> None:
    events = read(G([fc("ls", {"path": "."}, S1, id="c1")], "STOP"))
    kinds = [event.type for event in events]
    assert kinds == ["start", "toolcall_start", "toolcall_delta", "toolcall_end", "done"]
    (call,) = message_of(G([fc("ls", {"path": "."}, S1, id="c1")], "STOP")).tool_calls
    assert (call.id, call.name, call.arguments, call.signature) == ("c1", "ls", {"path": "."}, S1)


def test_calls_make_the_answer_a_tool_use_also_when_they_came_before_the_reason() -> None:
    assert message_of(G([fc("ls")], "STOP")).stop_reason == "toolUse"
    assert message_of(G([fc("ls")]), G(None, "STOP")).stop_reason == "toolUse"


def test_each_of_several_signed_calls_keeps_its_signature() -> None:
    """Y13"""
    message = message_of(G([fc("a", {}, S1), fc("b", {}, S2)], "STOP"))
    assert [call.signature for call in message.tool_calls] == [S1, S2]


@pytest.mark.parametrize("call", [{"name": "ls"}, {"name": "ls", "args": None}, {"name": "ls", "args": {}}])
def test_a_call_without_arguments_has_none(call: dict[str, Any]) -> None:
    """J02, J03"""
    *log, end = read(G([{"functionCall": call}], "STOP"))
    assert isinstance(end, StreamDone)
    built = build_message(log, end, GEMINI_3, 0)
    assert built.message.tool_calls[0].arguments == {}
    assert not built.argument_errors


@pytest.mark.parametrize("arguments", [[1, 2], "s", 42, True])
def test_arguments_that_are_no_object_are_an_error_of_the_call(arguments: Any) -> None:
    """J09"""
    *log, end = read(G([fc("ls", arguments)], "STOP"))
    assert isinstance(end, StreamDone)
    assert "object" in build_message(log, end, GEMINI_3, 0).argument_errors[0]


def test_half_a_character_in_arguments_does_no_harm() -> None:
    """J04"""
    raw = G([fc("w", {"a": "x\ud99c y", "b": "é😀"})], "STOP")
    (delta,) = [event.delta for event in read(raw) if isinstance(event, ToolCallDelta)]
    assert delta.encode()
    message = message_of(raw)
    assert message.tool_calls[0].arguments == {"a": "x\ud99c y", "b": "é😀"}
    part = sent([message])[1]["parts"][0]
    assert part["functionCall"]["args"] == {"a": "x y", "b": "é😀"}


def test_ids_that_are_missing_or_used_again_are_made_up() -> None:
    """Y17"""
    other = fc("ls", {"path": "."}, id="c")
    message = message_of(G([fc("ls", id="c"), other, fc("ls"), fc("ls", id="")], "STOP"))
    ids = [call.id for call in message.tool_calls]
    assert ids[0] == "c"
    assert len(set(ids)) == 4
    assert all(id.startswith("ls_") for id in ids[1:])
    again = message_of(G([fc("ls")], "STOP"))
    assert again.tool_calls[0].id not in ids


def test_names_on_the_wire_are_the_tools_own_again() -> None:
    """Also with the prefix that models invent."""
    names = {"a_b": "a.b", "ls": "ls"}
    chunk = G([fc("a_b"), fc("default_api:ls"), fc("default_api.a_b"), fc("other")], "STOP")
    starts = [event for event in read(chunk, names=names) if isinstance(event, ToolCallStart)]
    assert [event.name for event in starts] == ["a.b", "ls", "a.b", "other"]


# --- ends ---


@pytest.mark.parametrize(("reason", "stop"), [("STOP", "stop"), ("MAX_TOKENS", "length")])
def test_reasons_of_a_normal_end(reason: str, stop: str) -> None:
    assert message_of(G([{"text": "x"}], reason)).stop_reason == stop


def test_a_call_in_an_answer_cut_by_its_limit_is_not_one_to_run() -> None:
    assert message_of(G([fc("ls")], "MAX_TOKENS")).stop_reason == "length"


@pytest.mark.parametrize(
    "reason",
    [
        "SAFETY",
        "RECITATION",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "UNEXPECTED_TOOL_CALL",
        "LANGUAGE",
        "OTHER",
        "IMAGE_SAFETY",
        "NO_IMAGE",
        "SOMETHING_NEW",
    ],
)
def test_any_other_reason_is_an_error_that_names_it(reason: str) -> None:
    message = message_of(G([{"text": "par"}, fc("ls")], reason))
    assert (message.stop_reason, message.text) == ("error", "par")
    assert reason in message.error_message
    assert not is_resumable(message.error_message)


def test_a_malformed_call_is_an_error_that_may_be_asked_again() -> None:
    """P22"""
    message = message_of(G([], "MALFORMED_FUNCTION_CALL"))
    assert (message.stop_reason, message.content) == ("error", ())
    assert "MALFORMED_FUNCTION_CALL" in message.error_message
    assert is_resumable(message.error_message)


def test_the_servers_finish_message_is_cut() -> None:
    candidate = {"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "no such call " + "x" * 9999}
    message = message_of(json.dumps({"candidates": [candidate]}))
    assert "no such call" in message.error_message
    assert len(message.error_message) < 700


@pytest.mark.parametrize("reason", ["SAFETY", "PROHIBITED_CONTENT", "OTHER"])
def test_a_blocked_prompt_is_an_error_with_its_usage(reason: str) -> None:
    chunk = json.dumps({"promptFeedback": {"blockReason": reason}, "usageMetadata": USAGE})
    assert first_error(chunk) is None
    (end,) = read(chunk)
    assert isinstance(end, StreamError)
    assert f"blockReason {reason}" in end.error_message
    assert end.usage is not None
    assert end.usage.input == 10


@pytest.mark.parametrize(
    ("chunk", "stop"),
    [
        ({"candidates": [{"finishReason": "STOP", "index": 0}]}, "stop"),
        ({"candidates": [{"content": {"role": "model"}, "finishReason": "STOP"}]}, "stop"),
        ({"candidates": [{"content": {"parts": None}, "finishReason": "STOP"}]}, "stop"),
        ({"candidates": []}, "error"),
        ({"candidates": None}, "error"),
        ({"candidates": [None]}, "error"),
        ({"usageMetadata": USAGE}, "error"),
        ({}, "error"),
    ],
)
def test_a_candidate_without_content_is_an_empty_response_and_none_an_error(
    chunk: dict[str, Any], stop: str
) -> None:
    """P23"""
    message = message_of(json.dumps(chunk))
    assert (message.stop_reason, message.content) == (stop, ())
    assert stop == "stop" or is_resumable(message.error_message)


def test_a_reason_to_block_does_not_count_beside_an_answer() -> None:
    chunk = json.loads(G([{"text": "x"}], "STOP").removeprefix("data: "))
    assert message_of(json.dumps(chunk | {"promptFeedback": {"blockReason": "OTHER"}})).text == "x"
    assert message_of(json.dumps(chunk | {"promptFeedback": {}})).text == "x"


def test_nothing_counts_after_an_error() -> None:
    late = json.loads(G([{"text": "late"}], "STOP").removeprefix("data: "))
    assert message_of(json.dumps([{"error": {"message": "oops"}}, late])).content == ()


def test_the_models_name_has_no_collection_prefix() -> None:
    assert message_of(G([{"text": "x"}], "STOP", modelVersion="models/gemini-y")).response_model == "gemini-y"


def test_a_stream_without_a_reason_is_cut_off() -> None:
    message = message_of(G([{"text": "par"}]))
    assert (message.stop_reason, message.text) == ("error", "par")
    assert is_resumable(message.error_message)


def test_an_error_in_the_stream_ends_it() -> None:
    error = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
    message = message_of(G([{"text": "par"}]), json.dumps(error), G([{"text": "never"}], "STOP"))
    assert (message.stop_reason, message.text) == ("error", "par")
    assert message.error_message == "503 The model is overloaded."


@pytest.mark.parametrize(
    "parts",
    [None, "x", [None, 3, "x"], [{}], [{"text": None}], [{"text": 3}], [{"functionCall": "x"}], [{"new": 1}]],
)
def test_what_is_no_part_is_passed_over(parts: Any) -> None:
    candidate = {"content": {"parts": parts}, "finishReason": "STOP"}
    assert message_of(json.dumps({"candidates": [candidate]})).content == ()


def test_payloads_that_are_no_chunk_are_passed_over() -> None:
    assert message_of("{broken", "3", '"x"', "null", *HELLO).text == "hello"


def test_a_whole_answer_at_once_is_understood_also_as_a_list() -> None:
    chunks = [json.loads(chunk.removeprefix("data: ")) for chunk in HELLO]
    assert message_of(json.dumps(chunks)).text == "hello"


def test_only_the_first_candidate_counts() -> None:
    candidates = [{"content": {"parts": [{"text": text}]}, "finishReason": "STOP"} for text in "ab"]
    assert message_of(json.dumps({"candidates": candidates})).text == "a"


# --- a connection that fails ---


def cut(*chunks: str, failure: ProviderError) -> Any:
    yield from (chunk.removeprefix("data: ") for chunk in chunks)
    raise failure


def test_a_failure_after_the_reason_is_no_failure_of_the_answer() -> None:
    broken = ProviderError("unexpected EOF", ErrorClass("network", True))
    *_, end = decode(cut(*HELLO, failure=broken))
    assert isinstance(end, StreamDone)
    *_, end = decode(cut(HELLO[0], failure=broken))
    assert isinstance(end, StreamError)


def test_the_usage_so_far_is_kept_on_failure() -> None:
    broken = ProviderError("unexpected EOF", ErrorClass("network", True))
    *_, end = decode(cut(G([{"text": "x"}], usageMetadata=USAGE), failure=broken), ModelCost(1.0, 1.0))
    assert isinstance(end, StreamError)
    assert end.usage is not None
    assert (end.usage.input, end.usage.output) == (10, 3)
    assert end.usage.cost.total > 0


def test_the_end_is_expected_once() -> None:
    waits: list[float] = []
    payloads = [chunk.removeprefix("data: ") for chunk in (*HELLO, G(None, "STOP"))]
    list(decode(payloads, expect_end=waits.append))
    assert waits == [5.0]


# --- usage ---


def test_cached_tokens_leave_the_input_and_thoughts_join_the_output() -> None:
    raw = {
        "promptTokenCount": 100,
        "cachedContentTokenCount": 60,
        "candidatesTokenCount": 7,
        "thoughtsTokenCount": 5,
        "totalTokenCount": 112,
    }
    assert usage_of(raw) == Usage(40, 12, 60, 0, 112, reasoning=5)


def test_what_the_servers_tools_put_in_is_input() -> None:
    raw = {"promptTokenCount": 10, "toolUsePromptTokenCount": 5, "totalTokenCount": 15}
    assert usage_of(raw).input == 15


def test_the_last_usage_counts() -> None:
    later = USAGE | {"candidatesTokenCount": 9, "totalTokenCount": 19}
    message = message_of(
        G([{"text": "a"}], usageMetadata=USAGE), G([{"text": "b"}], "STOP", usageMetadata=later)
    )
    assert (message.usage.output, message.usage.total_tokens) == (9, 19)


def test_usage_of_any_shape_is_read() -> None:
    strange = {"promptTokenCount": "10", "candidatesTokenCount": None, "cachedContentTokenCount": -1}
    assert usage_of(strange) == Usage()


# --- the look at the first payloads ---


@pytest.mark.parametrize(
    ("payload", "verdict"),
    [
        ('{"error":{"code":503,"message":"overloaded"}}', "503 overloaded"),
        ('[{"error":{"code":429,"message":"slow"}}]', "429 slow"),
        ('{"responseId":"r"}', ""),
        ('{"candidates":[{"index":0}]}', ""),
        ("no json", ""),
        ('{"usageMetadata":{"promptTokenCount":1}}', None),
        ('{"candidates":[{"content":{"parts":[{"text":"x"}]}}]}', None),
        ('{"candidates":[{"finishReason":"STOP"}]}', None),
    ],
)
def test_a_stream_begins_with_its_first_word(payload: str, verdict: str | None) -> None:
    assert first_error(payload) == verdict


def test_the_end_of_a_call_carries_its_signature_and_no_arguments() -> None:
    (end,) = [e for e in read(G([fc("ls", {}, S1)], "STOP")) if isinstance(e, ToolCallEnd)]
    assert end == ToolCallEnd(0, None, S1)


# --- citations ---


def test_the_sources_of_a_search_are_kept_with_the_text() -> None:
    """FR-11"""
    web = {"web": {"uri": "https://a.b", "title": "A"}}
    one = candidate_with({"groundingMetadata": {"groundingChunks": [web]}}, "x")
    end = candidate_with({"groundingMetadata": {"groundingChunks": [web, {}, None]}, "finishReason": "STOP"})
    quoted = candidate_with({"citationMetadata": {"citationSources": [{"uri": "https://c.d"}]}})
    message = message_of(one, quoted, end)
    assert message.content == (TextContent("x", None, (web, {"uri": "https://c.d"})),)
    assert message.sources == (Source("A", "https://a.b"), Source("https://c.d", "https://c.d"))


def test_sources_that_come_after_a_call_belong_to_the_text_before_it() -> None:
    """FR-11"""
    web = {"web": {"uri": "https://a.b", "title": "A"}}
    end = candidate_with({"groundingMetadata": {"groundingChunks": [web]}, "finishReason": "STOP"})
    message = message_of(G([{"text": "x"}, fc("ls", id="c")]), end)
    assert message.content == (TextContent("x", None, (web,)), ToolCall("c", "ls", {}))


def test_sources_before_and_after_the_end_of_a_text_are_kept() -> None:
    """FR-11"""
    a, b = ({"web": {"uri": f"https://{name}.b", "title": name}} for name in "ab")
    first = candidate_with({"groundingMetadata": {"groundingChunks": [a]}}, "x")
    call = G([fc("ls", id="c")])
    end = candidate_with({"groundingMetadata": {"groundingChunks": [a, b]}, "finishReason": "STOP"})
    assert message_of(first, call, end).content[0] == TextContent("x", None, (a, b))
    new = G([{"text": "y"}])
    message = message_of(first, call, new, end)
    assert [block for block in message.content if isinstance(block, TextContent)] == [
        TextContent("x", None, (a,)),
        TextContent("y", None, (b,)),
    ]


@pytest.mark.parametrize("odd", [None, 7, [], {}, {"groundingChunks": 7}, {"groundingChunks": [None, 7, []]}])
def test_sources_of_another_type_are_none(odd: Any) -> None:
    end = candidate_with({"groundingMetadata": odd, "citationMetadata": odd, "finishReason": "STOP"}, "x")
    assert message_of(end).content == (TextContent("x"),)


def candidate_with(fields: dict[str, Any], text: str = "") -> str:
    parts = [{"text": text}] if text else []
    return json.dumps({"candidates": [{"content": {"parts": parts}} | fields]})


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"promptTokenCount": 5, "totalTokenCount": 8}, Usage(5, 3, total_tokens=8)),
        ({"candidatesTokenCount": 3, "totalTokenCount": 8}, Usage(5, 3, total_tokens=8)),
        ({"promptTokenCount": 5, "cachedContentTokenCount": 9}, Usage(0, 0, 5)),
        ({"promptTokenCount": 0, "candidatesTokenCount": 0, "totalTokenCount": 0}, Usage()),
    ],
)
def test_partial_counts_are_completed_from_the_total(counts: dict[str, int], expected: Usage) -> None:
    assert usage_of(counts) == expected


@pytest.mark.parametrize("last", [{"promptTokenCount": 0, "candidatesTokenCount": 0}, {}, None, 7])
def test_an_empty_usage_at_the_end_does_not_undo_an_earlier_one(last: Any) -> None:
    chunks = G([{"text": "a"}], usageMetadata=USAGE), G([{"text": "b"}], "STOP", usageMetadata=last)
    assert message_of(*chunks).usage == usage_of(USAGE)


@pytest.mark.parametrize("reason", ["BLOCK_REASON_UNSPECIFIED", "", None, 7])
def test_a_prompt_is_not_blocked_for_an_unspecified_reason(reason: Any) -> None:
    feedback = json.dumps({"promptFeedback": {"blockReason": reason}})
    assert message_of(feedback, G([{"text": "x"}], "STOP")).text == "x"
