"""The chunks of a Chat Completions stream as events, and as the message they build."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from agent.messages import AssistantMessage, Source, TextContent, ThinkingContent, ToolCall
from agent.models import Model
from agent.providers.http.failure import ProviderError, aborted
from agent.providers.openai_completions.decode import CompletionsDecoder, decode, first_error
from agent.retry import ErrorClass, classify_error, is_resumable
from agent.stream import (
    BuiltMessage,
    StreamDone,
    StreamError,
    StreamEvent,
    StreamStart,
    TextDelta,
    ToolCallStart,
    build_message,
)
from agent.usage import Cost, ModelCost, Usage

MODEL = Model("m", "openai-completions", "local")
DONE = "[DONE]"


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> str:
    choice: dict[str, Any] = {"index": 0, "delta": delta, "finish_reason": finish}
    return json.dumps({"id": "c1", "object": "chat.completion.chunk", "choices": [choice]} | more)


def usage_chunk(**usage: Any) -> str:
    return json.dumps({"id": "c1", "choices": [], "usage": usage})


def piece(
    index: Any = None, id: Any = None, name: Any = None, arguments: Any = None, **more: Any
) -> dict[str, Any]:
    """A fragment of a tool call without the fields that are None."""
    function = {k: v for k, v in (("name", name), ("arguments", arguments)) if v is not None}
    fragment = {k: v for k, v in (("index", index), ("id", id)) if v is not None}
    return {"tool_calls": [fragment | {"function": function} | more]}


def events_of(*payloads: str | bytes, **options: Any) -> list[StreamEvent]:
    return list(decode(payloads, **options))


def built(*payloads: str | bytes, **options: Any) -> BuiltMessage:
    *log, end = events_of(*payloads, **options)
    assert isinstance(end, StreamDone | StreamError)
    indexes = [event.index for event in log if event.type.endswith("_start")]  # type: ignore[union-attr]
    assert indexes == list(range(len(indexes))), "each block has an index of its own"
    return build_message(log, end, MODEL, 0)


def message_of(*payloads: str | bytes, **options: Any) -> AssistantMessage:
    return built(*payloads, **options).message


def calls_of(*deltas: dict[str, Any], finish: str = "tool_calls") -> list[tuple[str, str, dict[str, Any]]]:
    message = message_of(*map(chunk, deltas), chunk({}, finish), DONE)
    return [(call.id, call.name, call.arguments) for call in message.tool_calls]


# --- text and how a stream ends ---


def test_text_arrives_delta_by_delta() -> None:
    events = events_of(
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Hel"}),
        chunk({"content": "lo"}),
        chunk({}, "stop"),
        DONE,
    )
    assert [event.type for event in events] == [
        "start", "text_start", "text_delta", "text_delta", "text_end", "done",
    ]  # fmt: skip
    assert isinstance(events[0], StreamStart)
    assert events[0].response_id == "c1"
    assert [event.delta for event in events if isinstance(event, TextDelta)] == ["Hel", "lo"]


def test_the_first_response_id_and_model_are_reported_once() -> None:
    filter_results = json.dumps({"id": "", "model": "", "choices": []})
    events = events_of(filter_results, chunk({"content": "x"}, model="m-2025"), chunk({}, "stop"), DONE)
    assert [event for event in events if isinstance(event, StreamStart)] == [StreamStart("c1", "m-2025")]


@pytest.mark.parametrize(
    ("finish", "stop"),
    [("stop", "stop"), ("end", "stop"), ("length", "length"), ("tool_calls", "stop"), (None, "stop")],
)
def test_finish_reasons_of_a_text_answer(finish: str | None, stop: str) -> None:
    assert message_of(chunk({"content": "x"}), chunk({}, finish), DONE).stop_reason == stop


@pytest.mark.parametrize("finish", ["stop", "tool_calls", "function_call", None])
def test_a_response_with_calls_stops_for_tools_whatever_the_finish_reason(finish: str | None) -> None:
    delta = piece(0, "c1", "ls", "{}")
    assert message_of(chunk(delta), chunk({}, finish), DONE).stop_reason == "toolUse"


def test_a_cut_answer_with_calls_keeps_its_reason() -> None:
    delta = piece(0, "c1", "ls", '{"a"')
    assert message_of(chunk(delta), chunk({}, "length"), DONE).stop_reason == "length"


@pytest.mark.parametrize("finish", ["content_filter", "zzz", "insufficient_system_resource"])
def test_other_finish_reasons_are_errors_that_name_them(finish: str) -> None:
    message = message_of(chunk({"content": "par"}), chunk({}, finish), DONE)
    assert message.stop_reason == "error"
    assert finish in message.error_message
    assert message.text == "par"


def test_a_full_window_is_an_overflow() -> None:
    message = message_of(chunk({}, "model_context_window_exceeded"), DONE)
    assert classify_error(text=message.error_message).kind == "context_overflow"


def test_a_finish_reason_without_done_is_a_success() -> None:
    """P08"""
    message = message_of(chunk({"content": "x"}), chunk({}, "stop"))
    assert (message.stop_reason, message.text) == ("stop", "x")


def test_a_stream_that_just_ends_is_an_error_that_can_be_resumed() -> None:
    """P09"""
    message = message_of(chunk({"content": "par"}))
    assert (message.stop_reason, message.text) == ("error", "par")
    assert "stream ended unexpectedly" in message.error_message
    assert is_resumable(message.error_message)


def test_an_empty_stream_is_an_error() -> None:
    assert message_of().stop_reason == "error"
    assert events_of(DONE) == [StreamDone("stop")]


def test_a_broken_connection_after_the_finish_reason_does_no_harm() -> None:
    def payloads() -> Iterator[str]:
        yield chunk({"content": "x"}, "stop")
        raise ProviderError("i/o timeout", ErrorClass("network", True))

    assert list(decode(payloads()))[-1] == StreamDone("stop")


@pytest.mark.parametrize(
    ("failure", "stop"),
    [(ProviderError("unexpected EOF", ErrorClass("network", True)), "error"), (aborted(), "aborted")],
)
def test_a_broken_connection_ends_the_stream_with_its_text(failure: ProviderError, stop: str) -> None:
    def payloads() -> Iterator[str]:
        yield chunk({"content": "x"}, usage={"prompt_tokens": 3})
        raise failure

    end = list(decode(payloads()))[-1]
    assert end == StreamError(str(failure), stop, Usage(3, total_tokens=3))  # type: ignore[arg-type]


def test_the_end_is_expected_once() -> None:
    waits: list[float] = []
    payloads = [chunk({"content": "x"}), chunk({}, "stop"), chunk({}, "stop"), DONE]
    list(decode(payloads, expect_end=waits.append))
    assert waits == [5.0]


def test_nothing_is_read_after_done() -> None:
    def payloads() -> Iterator[str]:
        yield chunk({"content": "x"}, "stop")
        yield DONE
        raise AssertionError("read on")

    assert list(decode(payloads()))[-1] == StreamDone("stop")


def test_the_usage_chunk_after_the_finish_reason_is_the_last_one() -> None:
    def payloads() -> Iterator[str]:
        yield chunk({"content": "x"}, "stop")
        yield usage_chunk(prompt_tokens=1, completion_tokens=1)
        raise AssertionError("read on")

    assert list(decode(payloads()))[-1].type == "done"


def test_content_null_and_no_calls_is_an_empty_answer() -> None:
    """L22"""
    message = message_of(chunk({"role": "assistant", "content": None}, "stop"), DONE)
    assert (message.stop_reason, message.content) == ("stop", ())


@pytest.mark.parametrize(
    "junk",
    ["not json", "null", "42", "[]", '"x"', "{}", '{"choices":null}', '{"choices":[]}', '{"choices":[null]}',
     '{"choices":{}}', '{"choices":[{}]}', '{"choices":[{"delta":null}]}', '{"choices":[{"delta":[1]}]}',
     '{"choices":[{"delta":{"tool_calls":[null,1,{}]}}]}',
     '{"choices":[{"delta":{"tool_calls":{"index":[]}}}]}',
     '{"choices":[{"delta":{"content":7,"reasoning":7,"refusal":7,"function_call":7}}]}',
     '{"choices":[{"delta":{"reasoning_details":[1,null,{}]}}],"usage":7}', "[" * 5000],
)  # fmt: skip
def test_a_chunk_that_makes_no_sense_is_skipped(junk: str) -> None:
    message = message_of(
        junk, chunk({"content": "a"}), junk, chunk({"content": "b"}), chunk({}, "stop"), DONE
    )
    assert (message.stop_reason, message.text) == ("stop", "ab")


def test_payloads_may_be_bytes() -> None:
    assert message_of(chunk({"content": "é"}).encode(), chunk({}, "stop").encode(), b"[DONE]").text == "é"


def test_content_may_come_as_parts() -> None:
    parts = [{"type": "text", "text": "a"}, "b", {"type": "image"}, {"type": "text", "text": "c"}]
    assert message_of(chunk({"content": parts}), chunk({}, "stop"), DONE).text == "abc"


def test_thinking_parts_are_thinking() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "a"},
    ]
    message = message_of(chunk({"content": parts}), chunk({}, "stop"), DONE)
    assert (message.thinking, message.text) == ("hm", "a")


def test_a_refusal_is_text() -> None:
    message = message_of(
        chunk({"refusal": "I can't "}), chunk({"refusal": "do that"}), chunk({}, "stop"), DONE
    )
    assert message.text == "I can't do that"


def test_an_answer_in_one_piece_is_understood() -> None:
    choice = {
        "message": {
            "content": "hi",
            "tool_calls": [{"id": "a", "function": {"name": "ls", "arguments": "{}"}}],
        },
        "finish_reason": "tool_calls",
    }
    message = message_of(json.dumps({"id": "c1", "choices": [choice], "usage": {"prompt_tokens": 2}}))
    assert message.content == (TextContent("hi"), ToolCall("a", "ls", {}))
    assert message.usage.input == 2


def test_a_whole_message_after_its_deltas_is_not_repeated() -> None:
    last = json.dumps({"choices": [{"message": {"content": "ab"}, "finish_reason": "stop"}]})
    assert message_of(chunk({"content": "a"}), chunk({"content": "b"}), last).text == "ab"


# --- thinking ---


def test_the_field_of_the_reasoning_is_its_signature() -> None:
    message = message_of(
        chunk({"reasoning_content": "r1"}),
        chunk({"reasoning_content": "r2", "content": None}),
        chunk({"content": "a"}),
        chunk({}, "stop"),
        DONE,
    )
    assert message.content == (ThinkingContent("r1r2", "reasoning_content"), TextContent("a"))


def test_reasoning_in_two_fields_is_counted_once() -> None:
    message = message_of(chunk({"reasoning": "r", "reasoning_content": "r"}), chunk({}, "stop"), DONE)
    assert message.content == (ThinkingContent("r", "reasoning_content"),)


def test_a_switch_of_kind_begins_a_new_block() -> None:
    deltas = [{"reasoning": "a"}, {"content": "b"}, {"reasoning": "c", "content": "d"}]
    message = message_of(*map(chunk, deltas), chunk({}, "stop"), DONE)
    assert message.content == (
        ThinkingContent("a", "reasoning"),
        TextContent("b"),
        ThinkingContent("c", "reasoning"),
        TextContent("d"),
    )


def test_encrypted_reasoning_is_the_signature_of_its_call() -> None:
    detail = {"type": "reasoning.encrypted", "id": "c1", "data": "abc"}
    message = message_of(
        chunk({"reasoning_details": [detail, {"type": "reasoning.text", "text": "x"}]}),
        chunk(piece(0, "c1", "ls", "{}")),
        chunk({}, "tool_calls"),
        DONE,
    )
    (call,) = message.tool_calls
    assert json.loads(call.signature or "") == detail


# --- tool calls ---


def test_a_call_comes_in_pieces() -> None:
    pieces = [piece(0, "c1", "ls", ""), piece(0, arguments='{"pa'), piece(0, arguments='th":"x"}')]
    assert calls_of(*pieces) == [("c1", "ls", {"path": "x"})]


def test_interleaved_calls_stay_apart() -> None:
    """P18"""
    pieces = [
        piece(0, "a", "one", ""), piece(1, "b", "two", ""), piece(0, arguments='{"a"'),
        piece(1, arguments='{"b"'), piece(0, arguments=":1}"), piece(1, arguments=":2}"),
    ]  # fmt: skip
    assert calls_of(*pieces) == [("a", "one", {"a": 1}), ("b", "two", {"b": 2})]


def test_an_index_used_for_every_call_does_not_merge_them() -> None:
    """P19"""
    pieces = [
        piece(0, "a", "ls", '{"p"'), piece(0, arguments=":1}"),
        piece(0, "b", "ls", '{"p"'), piece(0, arguments=":2}"),
    ]  # fmt: skip
    assert calls_of(*pieces) == [("a", "ls", {"p": 1}), ("b", "ls", {"p": 2})]


def test_a_call_without_arguments_is_not_merged_with_the_next_one_either() -> None:
    """P19"""
    assert calls_of(piece(0, "a", "ls", ""), piece(0, "b", "ls", "{}")) == [("a", "ls", {}), ("b", "ls", {})]


def test_whole_calls_under_one_index_without_ids_stay_apart() -> None:
    """P19"""
    calls = calls_of(piece(0, None, "ls", '{"p":1}'), piece(0, None, "ls", '{"p":2}'))
    assert [arguments for _, _, arguments in calls] == [{"p": 1}, {"p": 2}]
    assert len({id for id, _, _ in calls}) == 2


@pytest.mark.parametrize("placeholder", ["null", "", None, "None"])
@pytest.mark.parametrize("index", [0, None])
def test_a_placeholder_id_goes_on_with_the_call(placeholder: str | None, index: int | None) -> None:
    """P21"""
    more = {"tool_calls": [{"id": placeholder, "function": {"arguments": '"x":1}'}}]}
    if index is not None:
        more["tool_calls"][0]["index"] = index
    assert calls_of(piece(0, "c1", "ls", "{"), more) == [("c1", "ls", {"x": 1})]


def test_one_id_for_two_calls_of_a_batch_makes_two_calls() -> None:
    """Y17"""
    calls = calls_of(piece(0, "call_0", "a", '{"x":1}'), piece(1, "call_0", "b", '{"x":2}'))
    assert calls == [("call_0", "a", {"x": 1}), ("call_0", "b", {"x": 2})]
    assert calls == calls_of(piece(0, "call_0", "a", '{"x":1}'), piece(0, "call_0", "b", '{"x":2}'))
    assert calls == calls_of(piece(None, "call_0", "a", '{"x":1}'), piece(None, "call_0", "b", '{"x":2}'))


def test_id_and_name_repeated_with_every_piece_are_one_call() -> None:
    pieces = [piece(0, "c1", "ls", '{"a"'), piece(0, "c1", "ls", ":{"), piece(0, "c1", "ls", "}}")]
    assert calls_of(*pieces, piece(0, "c1", "ls", "")) == [("c1", "ls", {"a": {}})]


def test_a_new_id_with_every_piece_is_one_call() -> None:
    pieces = [piece(0, "c1", "ls", '{"a"'), piece(0, "c2", None, ":1"), piece(0, "c3", None, "}")]
    assert calls_of(*pieces) == [("c1", "ls", {"a": 1})]


def test_a_fragment_with_another_index_is_matched_by_its_id() -> None:
    assert calls_of(piece(0, "c1", "ls", '{"a"'), piece(3, "c1", None, ":1}")) == [("c1", "ls", {"a": 1})]


def test_a_call_without_id_gets_one() -> None:
    ((id, name, arguments),) = calls_of(piece(0, None, "ls", "{"), piece(0, arguments="}"))
    assert id.startswith("call_")
    assert (name, arguments) == ("ls", {})


def test_a_name_may_come_after_the_id_and_the_arguments() -> None:
    pieces = [piece(0, "c1", "", '{"a"'), piece(0, name="ls"), piece(0, arguments=":1}")]
    assert calls_of(*pieces) == [("c1", "ls", {"a": 1})]


def test_a_second_call_may_begin_with_its_arguments() -> None:
    pieces = [piece(0, "a", "one", '{"x":1}'), piece(1, None, None, '{"y":2}'), piece(1, "b", "two")]
    assert calls_of(*pieces) == [("a", "one", {"x": 1}), ("b", "two", {"y": 2})]


def test_empty_names_in_later_pieces_change_nothing() -> None:
    assert calls_of(piece(0, "c1", "ls", "{"), piece(0, "c1", "", "}")) == [("c1", "ls", {})]


def test_a_call_whose_name_never_comes_is_still_there() -> None:
    assert calls_of(piece(0, "c1", None, "{}")) == [("c1", "", {})]


@pytest.mark.parametrize("delta", [piece(0, "c1", "ls", ""), piece(0, "c1", "ls"),
                                   {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "ls", "arguments": None}}]}])  # fmt: skip # noqa: E501
def test_arguments_that_never_come_are_none(delta: dict[str, Any]) -> None:
    """J02, J03"""
    assert calls_of(delta) == [("c1", "ls", {})]


def test_arguments_may_be_an_object() -> None:
    assert calls_of(piece(0, "c1", "ls", {"path": "é"})) == [("c1", "ls", {"path": "é"})]


def test_tool_calls_may_be_one_object() -> None:
    delta = {"tool_calls": piece(0, "c1", "ls", "{}")["tool_calls"][0]}
    assert calls_of(delta) == [("c1", "ls", {})]


def test_the_old_function_call_is_a_call() -> None:
    deltas = [{"function_call": {"name": "ls", "arguments": '{"a"'}}, {"function_call": {"arguments": ":1}"}}]
    ((id, name, arguments),) = calls_of(*deltas, finish="function_call")
    assert id
    assert (name, arguments) == ("ls", {"a": 1})


@pytest.mark.parametrize("arguments", ["[1,2]", '"s"', "42", "true", [1, 2], 42, True])
def test_arguments_that_are_no_object_are_reported(arguments: Any) -> None:
    """J09"""
    whole = built(chunk(piece(0, "c1", "ls", arguments)), chunk({}, "tool_calls"), DONE)
    assert whole.message.tool_calls == (ToolCall("c1", "ls", {}),)
    assert "object" in whole.argument_errors[0]


def test_arguments_null_are_no_arguments() -> None:
    """J09"""
    whole = built(chunk(piece(0, "c1", "ls", "null")), chunk({}, "tool_calls"), DONE)
    assert whole.message.tool_calls == (ToolCall("c1", "ls", {}),)
    assert not whole.argument_errors


def test_cut_arguments_under_a_wrong_finish_reason_are_reported() -> None:
    """L14"""
    delta = piece(0, "c1", "write", '{"path":"f","content":"abc')
    whole = built(chunk(delta), chunk({}, "tool_calls"), DONE)
    assert "not valid JSON" in whole.argument_errors[0]


def test_a_large_integer_keeps_every_digit() -> None:
    """J10"""
    delta = piece(0, "c1", "ls", '{"id":12345678901234567890}')
    assert calls_of(delta) == [("c1", "ls", {"id": 12345678901234567890})]


def test_text_between_calls_leaves_them_whole() -> None:
    deltas = [piece(0, "c1", "ls", "{"), {"content": "hm"}, piece(0, arguments="}")]
    message = message_of(*map(chunk, deltas), chunk({}, "tool_calls"), DONE)
    assert message.content == (ToolCall("c1", "ls", {}), TextContent("hm"))


def test_a_name_on_the_wire_is_mapped_to_the_tools_own() -> None:
    events = events_of(
        chunk(piece(0, "c1", "foo_bar", "{}")), chunk({}, "tool_calls"), names={"foo_bar": "foo.bar"}
    )
    assert [event.name for event in events if isinstance(event, ToolCallStart)] == ["foo.bar"]


def test_a_call_is_not_closed_when_the_stream_breaks() -> None:
    events = events_of(chunk(piece(0, "c1", "ls", '{"a"')))
    assert "toolcall_end" not in [event.type for event in events]
    assert events[-1].type == "error"


# --- errors in the stream ---


def test_an_error_in_mid_stream_keeps_the_text_and_its_kind() -> None:
    """P14"""
    error = json.dumps({"error": {"message": "Overloaded", "type": "overloaded_error"}})
    message = message_of(chunk({"content": "par"}), error, chunk({"content": "never"}))
    assert (message.stop_reason, message.text) == ("error", "par")
    assert "overloaded" in message.error_message.lower()
    assert classify_error(text=message.error_message).retryable


@pytest.mark.parametrize(
    ("error", "text", "kind"),
    [
        ({"error": {"message": "slow down", "code": 429}}, "429 slow down", "rate_limit"),
        ({"error": {"message": "slow down", "code": "429"}}, "429 slow down", "rate_limit"),
        ({"error": {"message": "m", "code": "insufficient_quota"}}, "m (insufficient_quota)", "quota"),
        ({"error": {"message": "m", "type": "t", "code": "c"}}, "m (t, c)", "unknown"),
        ({"error": {"message": "m", "metadata": {"raw": "overloaded"}}}, "m\noverloaded", "overloaded"),
        ({"error": "bad gateway 502"}, "bad gateway 502", "server"),
        ({"object": "error", "message": "m", "code": 503}, "503 m", "server"),
        ({"error": {"detail": 1}}, '{"detail":1}', "unknown"),
    ],
)  # fmt: skip
def test_the_text_of_an_error_can_be_classified(error: dict[str, Any], text: str, kind: str) -> None:
    assert message_of(json.dumps(error)).error_message == text
    assert classify_error(text=text).kind == kind


def test_an_error_beats_the_finish_reason_next_to_it() -> None:
    message = message_of(chunk({"content": ""}, "error", error={"code": 502, "message": "provider gone"}))
    assert message.error_message == "502 provider gone"


def test_an_error_that_is_null_is_none() -> None:
    assert message_of(chunk({"content": "x"}, "stop", error=None)).stop_reason == "stop"


def test_the_first_chunks_are_held_back_until_one_has_content() -> None:
    assert first_error(chunk({"role": "assistant", "content": ""})) == ""
    assert first_error('{"choices":[]}') == ""
    assert first_error("junk") == ""
    for begun in (
        chunk({"content": "x"}),
        chunk({"reasoning": "x"}),
        chunk(piece(0, "a", "b")),
        chunk({}, "stop"),
        DONE,
    ):
        assert first_error(begun) is None
    assert first_error('{"error":{"message":"Overloaded"}}') == "Overloaded"


# --- usage ---


def usage_from(**usage: Any) -> Usage:
    return message_of(chunk({"content": "x"}, "stop"), usage_chunk(**usage), DONE).usage


def test_cached_tokens_are_not_counted_twice() -> None:
    """U03"""
    usage = usage_from(
        prompt_tokens=12929,
        completion_tokens=29,
        total_tokens=12958,
        prompt_tokens_details={"cached_tokens": 10880},
    )
    assert usage == Usage(2049, 29, 10880, 0, 12958)


def test_running_totals_replace_each_other() -> None:
    """U05"""
    chunks = [
        chunk({"content": "x"}, usage={"prompt_tokens": 7, "completion_tokens": n}) for n in (100, 150, 200)
    ]
    assert message_of(*chunks, chunk({}, "stop"), DONE).usage == Usage(7, 200, total_tokens=207)


def test_written_tokens_are_taken_out_of_the_cached_ones() -> None:
    details = {"cached_tokens": 30, "cache_write_tokens": 10}
    assert usage_from(prompt_tokens=100, prompt_tokens_details=details) == Usage(70, 0, 20, 10, 100)


def test_deepseeks_cache_hits_count() -> None:
    assert usage_from(prompt_tokens=100, prompt_cache_hit_tokens=60, completion_tokens=1) == Usage(
        40, 1, 60, 0, 101
    )


@pytest.mark.parametrize(("total", "output"), [(130, 20), (150, 40), (None, 20)])
def test_reasoning_tokens_are_added_only_where_the_total_has_them(total: int | None, output: int) -> None:
    details = {"reasoning_tokens": 20}
    usage = usage_from(
        prompt_tokens=110, completion_tokens=20, total_tokens=total, completion_tokens_details=details
    )
    assert usage == Usage(110, output, total_tokens=110 + output, reasoning=20)


def test_usage_may_stand_in_the_choice() -> None:
    choice = {"delta": {"content": "x"}, "finish_reason": "stop", "usage": {"prompt_tokens": 5}}
    assert message_of(json.dumps({"choices": [choice]}), DONE).usage.input == 5


def test_odd_counts_are_zero() -> None:
    assert usage_from(prompt_tokens=None, completion_tokens="x", prompt_tokens_details=[]) == Usage()


def test_usage_is_priced() -> None:
    chunks = (
        chunk({"content": "x"}, "stop"),
        usage_chunk(prompt_tokens=1_000_000, completion_tokens=500_000),
    )
    assert message_of(*chunks, cost=ModelCost(2.0, 8.0)).usage.cost.total == 6.0


def test_a_cost_that_the_server_states_is_kept() -> None:
    chunks = (chunk({"content": "x"}, "stop"), usage_chunk(prompt_tokens=1, cost=0.25))
    assert message_of(*chunks, cost=ModelCost(2.0, 8.0)).usage.cost.total == 0.25


# --- work ---


def test_no_delta_is_read_twice() -> None:
    """The arguments of a long call are parsed once by the reader of the message, never by the decoder."""
    parts = [piece(0, arguments="x" * 10) for _ in range(2000)]
    events = events_of(
        chunk(piece(0, "c1", "w", '{"a":"')), *map(chunk, parts), chunk(piece(0, arguments='"}'))
    )
    streamed = sum(len(event.delta) for event in events if event.type == "toolcall_delta")  # type: ignore[union-attr]
    assert streamed == 2000 * 10 + 8


@pytest.mark.parametrize("more", ["id and name", "an id of its own", "an index of its own"])
def test_the_cost_of_a_call_in_pieces_is_linear(more: str) -> None:
    """FR-10: every character is scanned at most once, however the server labels the pieces."""
    pieces = ['{"a":[', *(["{},"] * 3000), "{}]}"]
    decoder = CompletionsDecoder()
    for number, arguments in enumerate(pieces):
        if number == 0 or more == "id and name":
            fragment = piece(0, "c1", "ls", arguments)
        elif more == "an id of its own":
            fragment = piece(0, f"c{number}", None, arguments)
        else:
            fragment = piece(number, None, None, arguments)
        list(decoder.feed(json.loads(chunk(fragment))))
    (call,) = decoder.calls
    assert call.arguments() == json.loads("".join(pieces))
    assert call.characters_scanned <= sum(map(len, pieces))


# --- a call that is sent twice ---

WHOLE = '{"path":"."}'


@pytest.mark.parametrize("again", [WHOLE, json.dumps(WHOLE), '{ "path": "." }', {"path": "."}])
@pytest.mark.parametrize("named", [True, False])
def test_a_whole_call_repeated_after_its_fragments_is_one_call(again: Any, named: bool) -> None:
    """Z14"""
    fragments = [piece(0, "a", "look", ""), piece(0, arguments='{"path"'), piece(0, arguments=':"."}')]
    repeated = piece(0, "a", "look", again) if named else piece(0, arguments=again)
    assert calls_of(*fragments, repeated) == [("a", "look", {"path": "."})]
    assert calls_of(*fragments, repeated, repeated) == [("a", "look", {"path": "."})]


@pytest.mark.parametrize("index", [0, None])
def test_a_call_without_index_or_id_repeated_is_one_call(index: int | None) -> None:
    """Z14"""
    call = piece(index, None if index == 0 else "a", "look", WHOLE)
    assert [arguments for _, _, arguments in calls_of(call, call)] == [{"path": "."}]


def test_equal_calls_without_index_and_id_in_one_chunk_are_two() -> None:
    call = piece(None, None, "look", WHOLE)["tool_calls"]
    assert len(calls_of({"tool_calls": call + call})) == 2


def test_the_old_function_call_repeated_is_one_call() -> None:
    """Z14"""
    legacy = {"function_call": {"name": "look", "arguments": WHOLE}}
    assert len(calls_of(legacy, legacy)) == 1


def test_a_repeated_call_in_fragments_under_another_index_is_one_call() -> None:
    """Z14"""
    fragments = [piece(0, "a", "look", WHOLE), piece(1, "a", "look", ""), piece(1, arguments=WHOLE[:4])]
    assert len(calls_of(*fragments, piece(1, arguments=WHOLE[4:]))) == 1
    assert len(calls_of(*fragments, piece(1, arguments=WHOLE[4:-2] + 'x"}'))) == 2


def test_an_object_inside_the_arguments_is_no_repetition() -> None:
    call = calls_of(piece(0, "a", "look", '{"a":'), piece(0, arguments="{}"), piece(0, arguments="}"))
    assert call == [("a", "look", {"a": {}})]


# --- citations ---


@pytest.mark.parametrize("late", [False, True])
def test_annotations_are_kept_with_their_text(late: bool) -> None:
    """FR-11"""
    citation = {"type": "url_citation", "url_citation": {"url": "https://a.b", "title": "A"}}
    cited = {"annotations": [citation, None, {}]}
    deltas = [{"content": "x"}, piece(0, "a", "ls", "{}"), cited] if late else [{"content": "x"} | cited]
    message = message_of(*map(chunk, deltas), chunk({}, "stop"), DONE)
    assert message.content[0] == TextContent("x", None, (citation,))
    assert message.sources == (Source("A", "https://a.b"),)


# --- other counters ---


def test_an_own_key_at_openrouter_costs_the_fee_and_the_providers_share() -> None:
    """Z03"""
    byok = {"is_byok": True, "cost_details": {"upstream_inference_cost": 0.036}}
    assert usage_from(prompt_tokens=1, cost=0.0018, **byok).cost == Cost(total=0.0378)
    assert usage_from(prompt_tokens=1, cost=0, **byok).cost == Cost(total=0.036)


def test_without_an_own_key_the_providers_share_is_part_of_the_cost() -> None:
    """Z03"""
    details = {"upstream_inference_cost": 0.03}
    assert usage_from(prompt_tokens=1, cost=0.04, is_byok=False, cost_details=details).cost.total == 0.04


def test_an_own_key_without_the_providers_share_is_an_estimate() -> None:
    """Z03"""
    assert usage_from(prompt_tokens=1, cost=0.0018, is_byok=True).cost == Cost(total=0.0018, is_estimate=True)


@pytest.mark.parametrize("cost", [2, 2.0])
def test_a_cost_in_whole_dollars_is_a_cost(cost: float) -> None:
    assert usage_from(prompt_tokens=1, cost=cost).cost.total == 2.0


@pytest.mark.parametrize("cost", [None, True, "0.1", -1, 0, 1e400, [], {}])
def test_a_cost_that_is_none_leaves_the_price_of_the_model(cost: Any) -> None:
    payloads = chunk({"content": "x"}, "stop"), usage_chunk(prompt_tokens=1_000_000, cost=cost)
    assert message_of(*payloads, cost=ModelCost(2.0, 8.0)).usage.cost.total == 2.0


def test_kimis_cached_tokens_are_taken_out_of_the_input() -> None:
    """Z15"""
    usage = usage_from(prompt_tokens=19, completion_tokens=13, total_tokens=32, cached_tokens=12)
    assert usage == Usage(7, 13, 12, 0, 32)


def test_litellms_cache_of_anthropic_is_counted() -> None:
    """Z15"""
    details = {"cached_tokens": 10, "cache_creation_tokens": 20, "cache_creation_token_details": HOUR}
    usage = usage_from(prompt_tokens=100, prompt_tokens_details=details, cache_creation_input_tokens=20)
    assert usage == Usage(70, 0, 10, 20, 100, cache_write_1h=15)


HOUR = {"ephemeral_1h_input_tokens": 15, "ephemeral_5m_input_tokens": 5}


def test_counts_in_the_names_of_other_formats_are_read() -> None:
    assert usage_from(input_tokens=5, output_tokens=3) == Usage(5, 3)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"prompt_tokens": 5, "total_tokens": 8}, Usage(5, 3)),
        ({"completion_tokens": 3, "total_tokens": 8}, Usage(5, 3)),
        ({"total_tokens": 8}, Usage(8)),
        ({"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 0}, Usage(5, 3)),
        ({"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 99}, Usage(5, 3)),
        ({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, Usage()),
        ({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 9}}, Usage(0, 0, 9)),
    ],
)
def test_partial_counts_are_completed_from_the_total(counts: dict[str, int], expected: Usage) -> None:
    assert usage_from(**counts) == expected


ZEROS = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


@pytest.mark.parametrize("last", [ZEROS, dict.fromkeys(ZEROS), {}, None, [], 7])
def test_an_empty_usage_at_the_end_does_not_undo_an_earlier_one(last: Any) -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
    payloads = chunk({"content": "x"}, usage=usage), chunk({}, "stop", usage=last), DONE
    assert message_of(*payloads).usage == Usage(5, 3)


def test_counts_that_come_in_parts_are_put_together() -> None:
    parts = [{"prompt_tokens": 5}, {"completion_tokens": 3}, {"prompt_tokens_details": {"cached_tokens": 2}}]
    payloads = [chunk({"content": "x"}, usage=part) for part in parts]
    assert message_of(*payloads, chunk({}, "stop"), DONE).usage == Usage(3, 3, 2)


def test_a_usage_that_is_sent_twice_counts_once() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 3}
    payloads = chunk({"content": "x"}, "stop", usage=usage), usage_chunk(**usage), DONE
    assert message_of(*payloads).usage == Usage(5, 3)
