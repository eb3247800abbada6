"""The events of a Responses stream as stream events, and as the message they build."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.responses import (
    API,
    HELLO,
    E,
    added,
    call_item,
    created,
    delta,
    done,
    ended,
    message_item,
    reasoning_item,
)
from support.rounds import rounds

from agent.messages import AssistantMessage, ServerContent, Source, TextContent, ThinkingContent, ToolCall
from agent.models import Model
from agent.providers.http.failure import ProviderError, aborted
from agent.providers.openai_responses.decode import decode, first_error
from agent.retry import ErrorClass, classify_error, is_resumable
from agent.stream import BuiltMessage, StreamDone, StreamError, StreamEvent, ToolCallStart, build_message
from agent.usage import ModelCost, Usage

MODEL = Model("m", API, "local")


def payload(event: str) -> str:
    """The data of an event of the wire, or of one that is only data."""
    return event.partition("data: ")[2].rstrip("\n") if event.startswith("event: ") else event


def events_of(*events: str, **options: Any) -> list[StreamEvent]:
    return list(decode(map(payload, events), **options))


def built(*events: str, **options: Any) -> BuiltMessage:
    *log, end = events_of(*events, **options)
    assert isinstance(end, StreamDone | StreamError)
    indexes = [event.index for event in log if event.type.endswith("_start")]  # type: ignore[union-attr]
    assert len(indexes) == len(set(indexes)), "each block has an index of its own"
    return build_message(log, end, MODEL, 0)


def message_of(*events: str, **options: Any) -> AssistantMessage:
    return built(*events, **options).message


def kept(text: str, id: str = "msg_1", **more: str) -> TextContent:
    return TextContent(text, json.dumps({"v": 1, "id": id} | more, separators=(",", ":")))


# --- text and how a stream ends ---


def test_text_arrives_delta_by_delta_and_is_not_repeated() -> None:
    events = events_of(*HELLO)
    assert [event.type for event in events] == [
        "start",
        "text_start",
        "text_delta",
        "text_delta",
        "text_end",
        "done",
    ]
    message = message_of(*HELLO)
    assert message.content == (kept("hello"),)
    assert (message.stop_reason, message.response_id) == ("stop", "resp_1")


def test_the_phase_of_a_message_is_kept_with_its_id() -> None:
    message = message_of(created(), done(0, **message_item("x", phase="commentary")), ended())
    assert message.content == (kept("x", phase="commentary"),)


def test_a_refusal_is_text() -> None:
    item = message_item("") | {"content": [{"type": "refusal", "refusal": "I can't."}]}
    streamed = (
        added(0, type="message", id="msg_1"),
        delta(0, "I ", "refusal"),
        delta(0, "can't.", "refusal"),
    )
    for events in (streamed, ()):
        message = message_of(created(), *events, done(0, **item), ended())
        assert (message.text, message.stop_reason) == ("I can't.", "stop")


def test_parts_of_a_message_are_one_text() -> None:
    parts = [{"type": "output_text", "text": "a"}, {"type": "output_text", "text": "b"}]
    assert message_of(done(0, type="message", id="msg_1", content=parts), ended()).text == "ab"
    streamed = (delta(0, "a", content_index=0), delta(0, "b", content_index=1))
    assert message_of(*streamed, done(0, type="message", content=parts), ended()).text == "ab"


def test_a_reported_model_that_differs_is_kept() -> None:
    assert message_of(created(model="m-2026"), *HELLO[1:]).response_model == "m-2026"
    assert message_of(*HELLO).response_model == ""


def test_an_incomplete_response_is_cut_by_length() -> None:
    cut = ended("incomplete", incomplete_details={"reason": "max_output_tokens"}, usage={"output_tokens": 5})
    message = message_of(created(), delta(0, "par"), cut)
    assert (message.stop_reason, message.text, message.usage.output) == ("length", "par", 5)


def test_nothing_is_read_after_the_end() -> None:
    def payloads() -> Iterator[str]:
        yield payload(ended("incomplete"))
        raise AssertionError("read on after the last event")

    assert list(decode(payloads()))[-1].type == "done"


def test_a_content_filter_is_an_error() -> None:
    message = message_of(
        created(), delta(0, "x"), ended("incomplete", incomplete_details={"reason": "content_filter"})
    )
    assert (message.stop_reason, message.text) == ("error", "x")
    assert "content filter" in message.error_message


@pytest.mark.parametrize(
    ("response", "text"),
    [
        ({"error": {"code": "server_error", "message": "oops"}}, "server_error: oops"),
        ({"error": {"message": "oops"}}, "oops"),
        ({"error": None, "incomplete_details": {"reason": "x"}}, "incomplete: x"),
        ({"error": None}, "the provider ended the response as failed without a reason"),
    ],
)
def test_a_failed_response_is_an_error_with_its_reason(response: dict[str, Any], text: str) -> None:
    message = message_of(created(), delta(0, "par"), ended("failed", **response))
    assert (message.stop_reason, message.text, message.error_message) == ("error", "par", text)


def test_a_failure_is_never_shown_as_text() -> None:
    """P17"""
    failed = json.dumps(
        {
            "type": "response.failed",
            "response": {"error": {"code": "server_is_overloaded", "message": "x"}},
        }
    )
    (event,) = events_of(failed)
    assert event == StreamError("server_is_overloaded: x")
    assert classify_error(text="server_is_overloaded: x").retryable
    assert first_error(failed) == "server_is_overloaded: x"


def test_a_failure_of_the_server_itself_may_be_tried_again() -> None:
    assert classify_error(text="server_error: An error occurred while processing your request.").retryable
    assert not classify_error(text="invalid_prompt: no").retryable
    assert not classify_error(text="my_server_error_count: no").retryable


def test_a_cancelled_response_is_an_error() -> None:
    message = message_of(created(), E("completed", response={"status": "cancelled"}))
    assert message.error_message == "the provider ended the response as cancelled without a reason"


@pytest.mark.parametrize(
    ("event", "text"),
    [
        ({"type": "error", "code": "rate_limit_exceeded", "message": "slow"}, "rate_limit_exceeded: slow"),
        ({"type": "error", "error": {"code": "c", "message": "slow"}}, "c: slow"),
        ({"type": "error", "error": {"type": "t", "code": None, "message": "slow"}}, "t: slow"),
    ],
)
def test_an_error_event_names_its_code(event: dict[str, Any], text: str) -> None:
    message = message_of(created(), delta(0, "par"), json.dumps(event))
    assert (message.stop_reason, message.text) == ("error", "par")
    assert message.error_message == f"Error Code {text}"


def test_an_error_without_code_or_type_is_an_error_too() -> None:
    assert message_of('{"type":"error","message":"bad"}').error_message == "bad"
    assert message_of('{"error":{"message":"bad","code":500}}').error_message == "500 bad"


def test_a_stream_that_just_ends_is_an_error_that_can_be_resumed() -> None:
    """P09"""
    message = message_of(created(), delta(0, "par"))
    assert (message.stop_reason, message.text) == ("error", "par")
    assert message.error_message.startswith("stream ended unexpectedly")
    assert is_resumable(message.error_message)
    assert message_of(created(), delta(0, "par"), "[DONE]").stop_reason == "error"
    assert message_of().stop_reason == "error"


def test_a_whole_answer_before_a_done_mark_counts() -> None:
    assert message_of(*HELLO[:-1], "[DONE]").stop_reason == "stop"


def test_a_break_of_the_connection_is_the_last_event() -> None:
    def broken(failure: ProviderError) -> Iterator[str]:
        yield from map(payload, (created(), delta(0, "par")))
        raise failure

    *_, end = decode(broken(ProviderError("unexpected EOF", ErrorClass("network"))))
    assert end == StreamError("unexpected EOF")
    *_, end = decode(broken(aborted()))
    assert isinstance(end, StreamError)
    assert end.stop_reason == "aborted"


# --- reasoning ---


def test_reasoning_is_kept_whole_for_replay() -> None:
    item = reasoning_item("First.", "Then.")
    message = message_of(
        created(),
        added(0, type="reasoning", id="rs_1", summary=[]),
        E("reasoning_summary_part.added", output_index=0, summary_index=0),
        delta(0, "Fir", "reasoning_summary_text", summary_index=0),
        delta(0, "st.", "reasoning_summary_text", summary_index=0),
        E("reasoning_summary_part.done", output_index=0, summary_index=0),
        delta(0, "Then.", "reasoning_summary_text", summary_index=1),
        done(0, **item),
        done(1, **message_item("ok")),
        ended(),
    )
    thinking, text = message.content
    assert isinstance(thinking, ThinkingContent)
    assert thinking.thinking == "First.\n\nThen."
    assert json.loads(thinking.signature or "") == item
    assert text == kept("ok")


def test_reasoning_without_summary_is_kept_too() -> None:
    message = message_of(
        created(), added(0, type="reasoning", id="rs_1"), done(0, **reasoning_item()), ended()
    )
    (thinking,) = message.content
    assert isinstance(thinking, ThinkingContent)
    assert (thinking.thinking, json.loads(thinking.signature or "")) == ("", reasoning_item())


def test_reasoning_without_deltas_is_taken_from_its_item() -> None:
    assert message_of(done(0, **reasoning_item("a", "b")), ended()).thinking == "a\n\nb"
    text = {"content": [{"type": "reasoning_text", "text": "own"}]}
    assert message_of(done(0, **reasoning_item(**text)), ended()).thinking == "own"


def test_reasoning_that_comes_as_text_and_as_summary_is_one() -> None:
    message = message_of(
        delta(0, "own ", "reasoning_text", content_index=0),
        delta(0, "text", "reasoning_text", content_index=0),
        delta(0, "summary", "reasoning_summary_text", summary_index=0),
        ended(),
    )
    assert message.thinking == "own text"


# --- calls ---


def test_a_call_has_both_ids() -> None:
    message = message_of(
        created(),
        added(0, **call_item("ls", "")),
        delta(0, '{"path"', "function_call_arguments"),
        delta(0, ': "x"}', "function_call_arguments"),
        E("function_call_arguments.done", output_index=0, arguments='{"path": "x"}'),
        done(0, **call_item("ls", '{"path": "x"}')),
        ended(),
    )
    assert message.content == (ToolCall("call_1|fc_1", "ls", {"path": "x"}),)
    assert message.stop_reason == "toolUse"


def test_calls_may_be_interleaved() -> None:
    message = message_of(
        added(0, **call_item("a", "", "c1", "fc_1")),
        added(1, **call_item("b", "", "c2", "fc_2")),
        delta(1, '{"y":', "function_call_arguments"),
        delta(0, '{"x":', "function_call_arguments"),
        delta(1, "2}", "function_call_arguments"),
        delta(0, "1}", "function_call_arguments"),
        ended(),
    )
    assert [(c.id, c.arguments) for c in message.tool_calls] == [("c1|fc_1", {"x": 1}), ("c2|fc_2", {"y": 2})]


@pytest.mark.parametrize("arguments", ["", "{}"])
def test_empty_arguments_are_an_empty_object(arguments: str) -> None:
    """J02, J03"""
    built_ = built(added(0, **call_item("ls", "")), done(0, **call_item("ls", arguments)), ended())
    assert built_.message.tool_calls[0].arguments == {}
    assert not built_.argument_errors


def test_a_call_whose_arguments_never_came_is_a_call() -> None:
    """J03"""
    item = call_item("ls", "") | {"arguments": None}
    message = message_of(added(0, **item), done(0, **item), ended())
    assert [call.arguments for call in message.tool_calls] == [{}]


def test_a_half_character_in_arguments_is_a_string() -> None:
    """J04"""
    arguments = '{"a":"x\\ud99c y"}'
    message = message_of(
        added(0, **call_item("ls", "")), delta(0, arguments, "function_call_arguments"), ended()
    )
    assert message.tool_calls[0].arguments["a"].startswith("x")


@pytest.mark.parametrize("streamed", ["", '{"a":', '{"b": 2}', "{broken"])
@pytest.mark.parametrize("where", ["done event", "item"])
def test_the_whole_arguments_outrank_the_deltas(streamed: str, where: str) -> None:
    whole = '{"a": 1}'
    message = message_of(
        added(0, **call_item("ls", "")),
        delta(0, streamed, "function_call_arguments"),
        *(
            [E("function_call_arguments.done", output_index=0, arguments=whole)]
            if where == "done event"
            else []
        ),
        done(0, **call_item("ls", whole if where == "item" else streamed)),
        ended(),
    )
    assert message.tool_calls[0].arguments == {"a": 1}


def test_a_call_cut_by_length_reports_its_arguments_as_broken() -> None:
    built_ = built(
        added(0, **call_item("ls", "")), delta(0, '{"a": "b', "function_call_arguments"), ended("incomplete")
    )
    assert built_.message.stop_reason == "length"
    assert 0 in built_.argument_errors


def test_names_on_the_wire_are_mapped_back() -> None:
    events = events_of(added(0, **call_item("foo_bar", "")), ended(), names={"foo_bar": "foo.bar"})
    assert [event.name for event in events if isinstance(event, ToolCallStart)] == ["foo.bar"]


def test_a_call_without_ids_gets_one() -> None:
    item = {"type": "function_call", "name": "ls", "arguments": "{}"}
    (call,) = message_of(added(0, **item), done(0, **item), ended()).tool_calls
    assert call.id.startswith("call_")
    assert "|" not in call.id


# --- servers that leave things out ---


def test_a_call_that_is_named_late_gets_its_name_and_its_deltas() -> None:
    events = (delta(0, '{"a": 1}', "function_call_arguments"), done(0, **call_item("ls", "")), ended())
    assert message_of(*events).content == (ToolCall("call_1|fc_1", "ls", {"a": 1}),)


def test_items_may_be_distinguished_by_id_alone() -> None:
    """llama.cpp sends no output_index."""

    def by_id(event: str) -> str:
        data = json.loads(payload(event))
        del data["output_index"]
        return json.dumps(data)

    message = message_of(
        created(),
        *map(
            by_id,
            (
                added(0, type="message", id="msg_1"),
                delta(0, "hi", item_id="msg_1"),
                added(1, **call_item("ls", "")),
                delta(1, '{"a":', "function_call_arguments", item_id="fc_1"),
                delta(1, "1}", "function_call_arguments", item_id="fc_1"),
                done(0, **message_item("hi")),
                done(1, **call_item("ls", '{"a":1}')),
            ),
        ),
        ended(output=[message_item("hi"), call_item("ls", '{"a":1}')]),
    )
    assert message.content == (kept("hi"), ToolCall("call_1|fc_1", "ls", {"a": 1}))


def test_ids_that_change_on_the_way_do_not_double_an_item() -> None:
    message = message_of(
        added(0, type="message", id="one"),
        delta(0, "hi", item_id="two"),
        done(0, **message_item("hi", id="three")),
        ended(output=[message_item("hi", id="four")]),
    )
    assert message.content == (kept("hi", "three"),)


def test_an_item_that_is_done_twice_is_one() -> None:
    item = done(0, **message_item("hi"))
    assert message_of(item, item, ended()).text == "hi"


def test_a_message_without_deltas_is_taken_from_its_item() -> None:
    assert message_of(created(), done(0, **message_item("whole")), ended()).content == (kept("whole"),)


def test_a_response_that_comes_only_with_its_end_is_taken_from_there() -> None:
    output = [reasoning_item("think"), message_item("text"), call_item("ls", '{"a": 1}')]
    message = message_of(created(), ended(output=output))
    assert [block.type for block in message.content] == ["thinking", "text", "toolCall"]
    assert message.stop_reason == "toolUse"


def test_what_was_left_out_before_the_end_is_taken_from_there() -> None:
    output = [message_item("hi"), call_item("ls", '{"a": 1}')]
    message = message_of(created(), delta(0, "hi"), ended(output=output))
    assert message.content == (kept("hi"), ToolCall("call_1|fc_1", "ls", {"a": 1}))


def test_a_body_that_is_no_stream_is_understood() -> None:
    body = {"id": "r", "object": "response", "status": "completed", "error": None, "model": "m-1"}
    message = message_of(json.dumps(body | {"output": [message_item("whole")]}))
    assert (message.text, message.stop_reason) == ("whole", "stop")
    assert (message.response_id, message.response_model) == ("r", "m-1")
    failed = body | {"status": "failed", "error": {"code": "c", "message": "m"}, "output": []}
    assert message_of(json.dumps(failed)).error_message == "c: m"


def test_what_the_servers_own_tools_did_is_kept_for_replay() -> None:
    item = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "é"}}
    message = message_of(
        created(),
        added(0, type="web_search_call", id="ws_1"),
        done(0, **item),
        done(1, **message_item("ok")),
        ended(),
    )
    server, text = message.content
    assert isinstance(server, ServerContent)
    assert (server.provider_type, json.loads(server.raw)) == ("web_search_call", item)
    assert text == kept("ok")
    assert message.stop_reason == "stop"


@pytest.mark.parametrize(
    "noise",
    [
        "nonsense",
        "[1]",
        "null",
        "{}",
        '{"type": null}',
        '{"type": ["x"]}',
        '{"type":"response.brand_new","output_index":0}',
        '{"type":"response.output_text.delta"}',
        '{"type":"response.output_text.delta","delta":7}',
        '{"type":"response.output_item.added"}',
        '{"type":"response.output_item.added","item":[]}',
        '{"type":"response.output_item.done","item":{"type":5}}',
        '{"type":"response.created","response":7}',
        "[" * 100_000,
    ],
)
def test_what_makes_no_sense_is_skipped(noise: str) -> None:
    message = message_of(*(part for event in HELLO for part in (noise, event)))
    assert (message.text, message.stop_reason) == ("hello", "stop")


TYPES = st.sampled_from(
    "created in_progress completed incomplete failed output_item.added output_item.done output_text.delta "
    "refusal.delta reasoning_summary_text.delta reasoning_text.delta function_call_arguments.delta "
    "function_call_arguments.done".split()
)
ODD = st.none() | st.integers(-1, 2) | st.sampled_from(["", "x", '{"a":', "1}"]) | st.just([]) | st.just({})
ITEMS = st.fixed_dictionaries(
    {"type": st.sampled_from(["message", "reasoning", "function_call", "web_search_call", None, 3])},
    optional=dict.fromkeys(("id", "call_id", "name", "arguments", "content", "summary", "phase"), ODD),
)
RESPONSES = st.fixed_dictionaries(
    {},
    optional={
        "status": st.sampled_from(["completed", "incomplete", "failed", 5]),
        "output": ODD | st.lists(ITEMS | ODD, max_size=2),
        "usage": ODD | st.dictionaries(st.sampled_from(["input_tokens", "output_tokens"]), ODD),
        "error": ODD,
        "incomplete_details": ODD,
        "service_tier": ODD,
    },
)
EVENTS = st.fixed_dictionaries(
    {"type": TYPES.map("response.{}".format)},
    optional=dict.fromkeys(("output_index", "item_id", "delta", "arguments", "summary_index"), ODD)
    | {"item": ITEMS | ODD, "response": RESPONSES | ODD},
)


@settings(max_examples=rounds(250), deadline=None, derandomize=True, database=None)
@given(st.lists(EVENTS, max_size=8))
def test_whatever_a_server_sends_has_one_end(events: list[dict[str, Any]]) -> None:
    *log, end = decode(map(json.dumps, events))
    assert isinstance(end, StreamDone | StreamError)
    assert not any(isinstance(event, StreamDone | StreamError) for event in log)
    build_message(log, end, MODEL, 0)
    for event in events:
        first_error(json.dumps(event))


# --- the first event ---


@pytest.mark.parametrize(
    ("event", "verdict"),
    [
        (created(), ""),
        (E("in_progress", response={}), ""),
        (E("queued", response={}), ""),
        ("nonsense", ""),
        ("[" * 100_000, ""),
        ("[DONE]", None),
        (added(0, type="message"), None),
        (ended("completed"), None),
        ('{"type":"error","code":"c","message":"m"}', "Error Code c: m"),
        ('{"error":{"message":"m"}}', "m"),
        (ended("failed", error={"code": "c", "message": "m"}), "c: m"),
        ('{"object":"response","status":"completed","error":null,"output":[]}', None),
    ],
)
def test_a_stream_begins_with_something_good(event: str, verdict: str | None) -> None:
    assert first_error(payload(event)) == verdict


# --- usage ---


def test_cached_tokens_are_counted_once() -> None:
    """U03"""
    usage = {
        "input_tokens": 12929,
        "input_tokens_details": {"cached_tokens": 10880},
        "output_tokens": 29,
        "output_tokens_details": {"reasoning_tokens": 20},
        "total_tokens": 12958,
    }
    assert message_of(*HELLO[:-1], ended(usage=usage)).usage == Usage(2049, 29, 10880, 0, 12958, reasoning=20)


def test_tokens_written_to_the_cache_are_no_plain_input() -> None:
    details = {"cached_tokens": 20, "cache_write_tokens": 30}
    usage = {"input_tokens": 100, "input_tokens_details": details, "output_tokens": 5}
    assert message_of(*HELLO[:-1], ended(usage=usage)).usage == Usage(50, 5, 20, 30, 105)


@pytest.mark.parametrize(
    ("tier", "total"), [("flex", 3.5), ("priority", 14.0), ("default", 7.0), (None, 7.0)]
)
def test_a_tier_has_its_price(tier: str | None, total: float) -> None:
    usage = {"input_tokens": 1_000_000, "output_tokens": 1_000_000}
    end = ended(usage=usage, service_tier=tier)
    assert message_of(*HELLO[:-1], end, cost=ModelCost(3.0, 4.0)).usage.cost.total == total
    assert message_of(*HELLO[:-1], end).usage.cost.total == 0


@pytest.mark.parametrize(
    "usage", [None, [], {"input_tokens": None, "output_tokens": "x"}, {"input_tokens": -1}]
)
def test_odd_usage_counts_nothing(usage: Any) -> None:
    assert message_of(*HELLO[:-1], ended(usage=usage)).usage == Usage()


def test_usage_of_a_failed_response_is_kept() -> None:
    assert message_of(ended("failed", usage={"output_tokens": 3})).usage.output == 3


# --- citations ---


def cited(text: str, *annotations: dict[str, Any]) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": list(annotations)}


URL = {"type": "url_citation", "start_index": 0, "end_index": 2, "url": "https://a.b", "title": "A"}


def test_annotations_are_kept_with_their_text() -> None:
    """FR-11"""
    item = message_item("hi") | {"content": [cited("hi", URL)]}
    added_later = E("output_text.annotation.added", output_index=0, content_index=0, annotation=URL)
    for events in ((done(0, **item),), (delta(0, "hi"), added_later, done(0, **item)), ()):
        message = message_of(created(), *events, ended(output=[item]))
        (text,) = message.content
        assert isinstance(text, TextContent)
        assert text.citations == (URL,)
        assert message.sources == (Source("A", "https://a.b"),)


def test_annotations_without_the_whole_item_are_kept() -> None:
    """FR-11"""
    events = (delta(0, "hi"), E("output_text.annotation.added", output_index=0, annotation=URL))
    (text,) = message_of(created(), *events, ended()).content
    assert isinstance(text, TextContent)
    assert text.citations == (URL,)


def test_places_in_later_parts_move_with_the_joined_text() -> None:
    """FR-11"""
    item = message_item("") | {"content": [cited("one ", URL), cited("two", URL, {"type": "file_citation"})]}
    (text,) = message_of(created(), done(0, **item), ended()).content
    assert isinstance(text, TextContent)
    assert text.text == "one two"
    moved = URL | {"start_index": 4, "end_index": 6}
    assert text.citations == (URL, moved, {"type": "file_citation"})


# --- doubles ---


def test_an_item_without_an_id_that_is_done_twice_is_one() -> None:
    """Z14"""
    item = {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": "{}"}
    message = message_of(created(), added(0, **item), done(0, **item), done(0, **item), ended())
    assert len(message.tool_calls) == 1


def test_whole_calls_without_place_and_item_id_stay_apart() -> None:
    calls = [{"type": "function_call", "call_id": f"c{n}", "name": "ls", "arguments": "{}"} for n in range(2)]
    events = [json.dumps({"type": "response.output_item.done", "item": call}) for call in calls]
    assert len(message_of(created(), *events, ended()).tool_calls) == 2


def test_searches_of_the_server_are_counted_and_priced() -> None:
    searches = [{"type": "web_search_call", "id": f"ws_{n}", "action": {"type": "search"}} for n in range(3)]
    page = {"type": "web_search_call", "id": "ws_9", "action": {"type": "open_page"}}
    items = [done(place, **item) for place, item in enumerate([*searches, page])]
    end = ended(usage={"input_tokens": 1_000_000}, output=[*searches, page])
    usage = message_of(created(), *items, end, cost=ModelCost(3.0, 4.0)).usage
    assert usage.web_searches == 3
    assert usage.cost.total == 3.03


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"input_tokens": 5, "total_tokens": 8}, Usage(5, 3, total_tokens=8)),
        ({"output_tokens": 3, "total_tokens": 8}, Usage(5, 3, total_tokens=8)),
        ({"input_tokens": 5, "input_tokens_details": {"cached_tokens": 9}}, Usage(0, 0, 5)),
        ({"output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 9}}, Usage(0, 5, reasoning=5)),
    ],
)
def test_counts_that_contradict_each_other_stay_plausible(counts: dict[str, Any], expected: Usage) -> None:
    assert message_of(*HELLO[:-1], ended(usage=counts)).usage == expected


def test_a_text_that_comes_only_with_its_done_event_is_taken_from_there() -> None:
    done_text = E("output_text.done", output_index=0, content_index=0, text="whole")
    assert message_of(created(), added(0, type="message", id="m"), done_text, ended()).text == "whole"
    assert message_of(created(), delta(0, "who"), delta(0, "le"), done_text, ended()).text == "whole"
    assert message_of(created(), E("refusal.done", output_index=0, refusal="no"), ended()).text == "no"
