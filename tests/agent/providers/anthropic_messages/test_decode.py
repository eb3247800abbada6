"""What the events of an Anthropic stream become, event by event and as a message."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.messages import (
    CS,
    ER,
    HD,
    HELLO,
    JD,
    MD,
    ME,
    MS,
    PING,
    SD,
    TB,
    TD,
    TH,
    TU,
    decoded,
    delta,
    event,
    opened,
    payloads_of,
    start,
)

from agent.messages import ServerContent, Source, TextContent, ThinkingContent, ToolCall
from agent.providers.anthropic_messages.decode import decode, first_error
from agent.providers.http.failure import ProviderError
from agent.retry import ErrorClass, classify_error, is_resumable
from agent.stream import StreamDone, StreamError
from agent.usage import ModelCost, Usage

# --- blocks ---


def test_each_block_has_a_start_deltas_and_an_end() -> None:
    events = list(decode(payloads_of("".join(HELLO))))
    kinds = ["start", "text_start", "text_delta", "text_delta", "text_end", "done"]
    assert [e.type for e in events] == kinds


def test_the_message_keeps_the_servers_id_and_model() -> None:
    message = decoded(*HELLO)
    assert (message.text, message.stop_reason) == ("hello", "stop")
    assert (message.response_id, message.response_model) == ("m1", "x")


def test_the_pieces_of_a_call_are_joined() -> None:
    message = decoded(
        MS, TU(0, "t1", "write"), JD(0, ""), JD(0, '{"path":'), JD(0, '"f"}'), CS(0), MD("tool_use"), ME
    )
    assert message.content == (ToolCall("t1", "write", {"path": "f"}),)
    assert message.stop_reason == "toolUse"


@pytest.mark.parametrize("pieces", [(), (JD(0, ""),)])
def test_a_call_whose_arguments_never_come_has_none(pieces: tuple[str, ...]) -> None:
    """J03"""
    message = decoded(MS, TU(0, "t1", "ls"), *pieces, CS(0), MD("tool_use"), ME)
    assert message.tool_calls == (ToolCall("t1", "ls", {}),)


def test_arguments_may_come_whole_with_the_block() -> None:
    block = opened(0, type="tool_use", id="t1", name="ls", input={"path": "x"})
    message = decoded(MS, block, CS(0), MD("tool_use"), ME)
    assert message.tool_calls == (ToolCall("t1", "ls", {"path": "x"}),)


def test_pieces_of_arguments_count_more_than_what_came_with_the_block() -> None:
    block = opened(0, type="tool_use", id="t1", name="ls", input={"path": "x"})
    message = decoded(MS, block, JD(0, '{"path":"y"}'), CS(0), MD("tool_use"), ME)
    assert message.tool_calls == (ToolCall("t1", "ls", {"path": "y"}),)


def test_half_a_character_in_arguments_harms_nothing() -> None:
    """J04"""
    message = decoded(MS, TU(0, "t1", "ls"), JD(0, '{"a":"x\\ud99c y"}'), CS(0), MD("tool_use"), ME)
    assert message.tool_calls[0].arguments["a"].startswith("x")
    assert message.tool_calls[0].arguments["a"].endswith(" y")


def test_interleaved_blocks_are_distinguished_by_index() -> None:
    """Indexes have gaps where a proxy left blocks out."""
    message = decoded(
        MS, TU(3, "a", "ls"), TU(7, "b", "cat"), JD(7, '{"n":'), JD(3, '{"n":1}'), JD(7, "2}"),
        CS(7), CS(3), MD("tool_use"), ME,
    )  # fmt: skip
    assert message.tool_calls == (ToolCall("a", "ls", {"n": 1}), ToolCall("b", "cat", {"n": 2}))


def test_an_index_used_again_begins_another_block() -> None:
    events = (MS, TB(0), TD(0, "a"), TU(0, "t", "ls"), JD(0, "{}"), CS(0), MD("tool_use"), ME)
    assert decoded(*events).content == (TextContent("a"), ToolCall("t", "ls", {}))
    kinds = [e.type for e in decode(payloads_of("".join(events)))]
    assert kinds[2:5] == ["text_delta", "text_end", "toolcall_start"]


def test_deltas_without_a_block_open_one() -> None:
    message = decoded(MS, HD(0, "hm"), TD(1, "hi"), MD("end_turn"), ME)
    assert message.content == (ThinkingContent("hm"), TextContent("hi"))


def test_events_without_an_index_belong_to_the_latest_block() -> None:
    events = [MS, TU(0, "a", "ls"), JD(0, '{"n":1}'), CS(0), TB(1), TD(1, "x"), CS(1), MD("tool_use"), ME]
    bare = [e.replace('"index": 0, ', "").replace('"index": 1, ', "") for e in events]
    assert bare != events
    assert decoded(*bare).content == (ToolCall("a", "ls", {"n": 1}), TextContent("x"))


def test_a_text_that_never_gets_a_delta_is_dropped() -> None:
    message = decoded(MS, TH(0), SD(0, "s"), CS(0), TB(1), CS(1), TU(2, "t", "ls"), CS(2), MD("tool_use"), ME)
    assert [block.type for block in message.content] == ["thinking", "toolCall"]


def test_a_call_without_an_id_gets_one() -> None:
    block = opened(0, type="tool_use", name="ls", input={})
    (call,) = decoded(MS, block, CS(0), MD("tool_use"), ME).tool_calls
    assert call.id.startswith("toolu_")


def test_a_tool_goes_by_its_own_name() -> None:
    """Y16"""
    message = decoded(MS, TU(0, "t", "foo_bar"), CS(0), MD("tool_use"), ME, names={"foo_bar": "foo.bar"})
    assert message.tool_calls[0].name == "foo.bar"


# --- thinking ---


def test_thinking_ends_with_its_signature() -> None:
    message = decoded(MS, TH(0), HD(0, "a"), HD(0, "b"), SD(0, "si"), SD(0, "g="), CS(0), MD("end_turn"), ME)
    assert message.content == (ThinkingContent("ab", "sig="),)


def test_thinking_that_is_not_shown_is_its_signature() -> None:
    """Y07"""
    message = decoded(MS, TH(0), SD(0, "sig"), CS(0), TB(1), TD(1, "x"), CS(1), MD("end_turn"), ME)
    assert message.content == (ThinkingContent("", "sig"), TextContent("x"))


def test_a_redacted_block_keeps_its_payload() -> None:
    block = opened(0, type="redacted_thinking", data="Er8B==")
    message = decoded(MS, block, CS(0), TB(1), TD(1, "x"), CS(1), MD("end_turn"), ME)
    assert message.content[0] == ThinkingContent("", "Er8B==", redacted=True)


def test_thinking_that_was_cut_has_no_signature() -> None:
    """Half a signature is not a signature."""
    message = decoded(MS, TH(0), HD(0, "hm"), SD(0, "si"))
    assert message.stop_reason == "error"
    assert message.content == (ThinkingContent("hm"),)


# --- blocks of the server ---


def test_a_call_of_the_server_is_kept_with_its_input() -> None:
    block = opened(0, type="server_tool_use", id="s1", name="web_search", input={})
    message = decoded(MS, block, JD(0, '{"query":'), JD(0, '"fish"}'), CS(0), MD("end_turn"), ME)
    (content,) = message.content
    assert isinstance(content, ServerContent)
    assert content.provider_type == "server_tool_use"
    wanted = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "fish"}}
    assert content.raw == json.dumps(wanted, separators=(",", ":"))


def test_a_result_of_the_server_is_kept_as_it_came() -> None:
    result = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"x": "é", "n": 1.5}]}
    message = decoded(MS, opened(1, **result), CS(1), MD("end_turn"), ME)
    (content,) = message.content
    assert isinstance(content, ServerContent)
    assert json.loads(content.raw) == result


def test_a_compaction_is_kept_with_its_summary() -> None:
    block = opened(0, type="compaction", content=None)
    piece = delta(0, "compaction_delta", content="so far: fish", encrypted_content="e==")
    message = decoded(MS, block, piece, CS(0), TB(1), TD(1, "x"), CS(1), MD("end_turn"), ME)
    content = message.content[0]
    assert isinstance(content, ServerContent)
    whole = {"type": "compaction", "content": "so far: fish", "encrypted_content": "e=="}
    assert json.loads(content.raw) == whole
    assert content.display == "so far: fish"


def test_a_block_of_the_server_that_was_cut_is_not_kept() -> None:
    block = opened(0, type="server_tool_use", id="s1", name="web_search", input={})
    assert decoded(MS, block, JD(0, '{"que')).content == ()


def test_citations_are_kept_with_their_text() -> None:
    """FR-11"""
    citation = {"type": "web_search_result_location", "url": "u", "title": "t", "encrypted_index": "e=="}
    cited = delta(0, "citations_delta", citation=citation)
    message = decoded(MS, TB(0), cited, TD(0, "x"), CS(0), MD("end_turn"), ME)
    assert message.content == (TextContent("x", citations=(citation,)),)
    assert message.sources == (Source("t", "u"),)


def test_citations_of_a_whole_block_are_kept() -> None:
    """FR-11"""
    block = opened(0, type="text", text="x", citations=[{"type": "char_location", "document_title": "d"}])
    (text,) = decoded(MS, block, CS(0), MD("end_turn"), ME).content
    assert text == TextContent("x", citations=({"type": "char_location", "document_title": "d"},))


@pytest.mark.parametrize("citation", [None, 7, [], {}, "x"])
def test_a_citation_that_is_none_is_left_out(citation: Any) -> None:
    cited = delta(0, "citations_delta", citation=citation)
    assert decoded(MS, TB(0), cited, TD(0, "x"), CS(0), MD("end_turn"), ME).content == (TextContent("x"),)


# --- how it ends ---


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("end_turn", "stop"), ("stop_sequence", "stop"), ("pause_turn", "stop"), ("compaction", "stop"),
        ("max_tokens", "length"), ("model_context_window_exceeded", "length"),
    ],
)  # fmt: skip
def test_reasons_of_an_end(reason: str, expected: str) -> None:
    """P12"""
    assert decoded(MS, TB(0), TD(0, "x"), CS(0), MD(reason), ME).stop_reason == expected


def test_calls_in_the_response_decide_whatever_the_stop_reason() -> None:
    assert decoded(MS, TU(0, "t1", "ls"), CS(0), MD("end_turn"), ME).stop_reason == "toolUse"
    assert decoded(MS, TB(0), TD(0, "x"), CS(0), MD("tool_use"), ME).stop_reason == "stop"


def test_a_cut_call_is_a_length() -> None:
    """L12"""
    message = decoded(MS, TU(0, "t", "write"), JD(0, '{"path":"f","content":"abc'), MD("max_tokens"), ME)
    assert message.stop_reason == "length"
    assert message.tool_calls[0].name == "write"


@pytest.mark.parametrize("reason", ["refusal", "sensitive"])
def test_a_refusal_is_an_error_that_keeps_what_came(reason: str) -> None:
    """P13"""
    message = decoded(MS, TB(0), TD(0, "par"), CS(0), MD(reason), ME)
    assert (message.stop_reason, message.text) == ("error", "par")
    assert reason in message.error_message
    assert not classify_error(text=message.error_message).retryable


def test_a_refusal_contains_its_reason() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "this could do harm"}
    ended = event("message_delta", delta={"stop_reason": "refusal", "stop_details": details}, usage={})
    message = decoded(MS, ended, ME)
    assert message.error_message.endswith("cyber: this could do harm")


def test_an_unknown_reason_is_an_error_that_quotes_it() -> None:
    """P13"""
    message = decoded(MS, TB(0), TD(0, "x"), CS(0), MD("zzz"), ME)
    assert message.stop_reason == "error"
    assert "'zzz'" in message.error_message


@pytest.mark.parametrize(
    "events",
    [(), (MS,), (MS, TB(0), TD(0, "par")), (MS, TU(0, "t1", "write"), JD(0, '{"path":"f"'))],
)
def test_a_stream_that_just_ends_is_an_error_that_may_be_taken_up(events: tuple[str, ...]) -> None:
    """P10"""
    message = decoded(*events)
    assert message.stop_reason == "error"
    assert message.error_message == "Anthropic stream ended before message_stop"
    assert is_resumable(message.error_message)


def test_an_end_without_message_stop_is_a_success_once_there_was_a_reason() -> None:
    """P11"""
    assert decoded(MS, TB(0), TD(0, "x"), CS(0), MD("end_turn")).stop_reason == "stop"


def test_a_call_that_was_never_closed_counts_when_the_answer_is_complete() -> None:
    message = decoded(MS, TU(0, "t", "ls"), JD(0, '{"a":1}'), MD("tool_use"), ME)
    assert message.tool_calls == (ToolCall("t", "ls", {"a": 1}),)


def test_nothing_is_read_after_message_stop() -> None:
    assert decoded(*HELLO, TB(1), TD(1, "more")).text == "hello"


def test_an_error_in_mid_stream_keeps_the_text_and_the_usage() -> None:
    """P14"""
    message = decoded(MS, TB(0), TD(0, "par"), ER("overloaded_error", "Overloaded"))
    assert (message.stop_reason, message.text) == ("error", "par")
    assert message.error_message == "Overloaded (overloaded_error)"
    assert classify_error(text=message.error_message).retryable
    assert message.usage.input == 10


def test_a_bare_error_is_recognised() -> None:
    """llama.cpp sends its own form of an error in this format."""
    bare = 'event: error\ndata: {"code":500,"message":"no such form","type":"server_error"}\n\n'
    message = decoded(MS, TB(0), TD(0, "par"), bare)
    assert (message.text, message.error_message) == ("par", "500 no such form (server_error)")
    assert [first_error(p) for p in payloads_of(bare)] == [message.error_message]


def test_a_failure_after_the_reason_does_not_undo_the_response() -> None:
    def broken() -> Any:
        yield from payloads_of("".join((MS, TB(0), TD(0, "x"), CS(0), MD("end_turn"))))
        raise ProviderError("unexpected EOF", ErrorClass("network"))

    assert isinstance(list(decode(broken()))[-1], StreamDone)


def test_a_failure_before_the_reason_is_the_last_event_and_keeps_the_usage() -> None:
    def broken() -> Any:
        yield from payloads_of("".join((MS, TB(0), TD(0, "x"))))
        raise ProviderError("unexpected EOF", ErrorClass("network"))

    end = list(decode(broken()))[-1]
    assert isinstance(end, StreamError)
    assert (end.error_message, end.usage) == ("unexpected EOF", Usage(10, 1))


def test_the_end_is_announced_once_as_soon_as_there_is_a_reason() -> None:
    waits: list[float] = []
    list(
        decode(
            payloads_of("".join((MS, MD(None), MD("end_turn"), MD("end_turn"), ME))),
            expect_end=waits.append,
        )
    )
    assert waits == [5.0]


# --- usage ---


def test_counts_replace_each_other() -> None:
    """U01"""
    assert decoded(MS, TB(0), TD(0, "x"), CS(0), MD("end_turn", 15), ME).usage == Usage(10, 15)


def test_cached_tokens_sent_twice_count_once() -> None:
    """U02"""
    cached = {"cache_read_input_tokens": 100, "cache_creation_input_tokens": 7}
    usage = decoded(start(**cached), TB(0), TD(0, "x"), MD("end_turn", 5, **cached), ME).usage
    assert usage == Usage(10, 5, 100, 7, 122)


@pytest.mark.parametrize("more", [{}, {"input_tokens": None}])
def test_a_count_that_is_left_out_stays(more: dict[str, Any]) -> None:
    assert decoded(MS, TB(0), TD(0, "x"), MD("end_turn", 5, **more), ME).usage.input == 10


def test_a_count_of_the_end_wins() -> None:
    assert decoded(MS, MD("end_turn", 5, input_tokens=12), ME).usage == Usage(12, 5)


def test_no_usage_is_unknown() -> None:
    (end,) = decode(payloads_of(event("message_delta", delta={"stop_reason": "end_turn"})))
    assert isinstance(end, StreamDone)
    assert end.usage is None


def test_usage_is_priced() -> None:
    events = (start(input_tokens=1_000_000), MD("end_turn", 1_000_000), ME)
    assert decoded(*events, cost=ModelCost(3.0, 4.0)).usage.cost.total == 7.0


# --- odd servers ---


def test_pings_and_unknown_events_are_passed_over() -> None:
    strange = event("weather", mood="fine")
    events = [x for e in HELLO for x in (PING, strange, e)]
    assert decoded(*events).content == decoded(*HELLO).content


@pytest.mark.parametrize("line", ["{", "[]", "null", "[DONE]", '"x"', "{}", '{"type":7}', "[" * 100_000])
def test_payloads_that_mean_nothing_are_passed_over(line: str) -> None:
    payloads = [x for e in HELLO for p in payloads_of(e) for x in (line, p)]
    assert isinstance(list(decode(payloads))[-1], StreamDone)


ODD: tuple[Any, ...] = (None, 7, "x", [], {}, [1], {"type": None})


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize(
    "field", ["message", "content_block", "delta", "usage", "index", "error", "type", "input", "text"]
)
def test_a_field_of_another_type_raises_nothing(field: str, odd: Any) -> None:
    events = (
        *HELLO[:-2],
        TU(1, "t", "ls"),
        JD(1, "{}"),
        CS(1),
        TH(2),
        HD(2, "h"),
        SD(2, "s"),
        CS(2),
        MD("x"),
    )

    def spoiled(data: Any) -> Any:
        if isinstance(data, dict):
            return {key: odd if key == field else spoiled(value) for key, value in data.items()}
        return data

    for position in range(len(events)):
        payloads = [p for e in events for p in payloads_of(e)]
        payloads[position] = json.dumps(spoiled(json.loads(payloads[position])))
        assert isinstance(list(decode(payloads))[-1], StreamDone | StreamError)


def test_a_response_that_is_not_streamed_is_understood() -> None:
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "hi"},
        {"type": "tool_use", "id": "t", "name": "ls", "input": {"a": 1}},
    ]
    whole = {
        "type": "message", "id": "m9", "model": "y", "content": content, "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "output_tokens": 4},
    }  # fmt: skip
    message = decoded(f"data: {json.dumps(whole)}\n\n")
    assert message.content == (ThinkingContent("hm", "s"), TextContent("hi"), ToolCall("t", "ls", {"a": 1}))
    assert (message.stop_reason, message.response_id, message.usage) == ("toolUse", "m9", Usage(3, 4))


# --- the first events ---


def test_events_without_content_are_held_back() -> None:
    held = [first_error(p) for e in (MS, PING) for p in payloads_of(e)]
    assert held == ["", ""]
    assert [first_error(odd) for odd in ("no json", "[]", "[" * 100_000)] == ["", "", ""]


def test_an_error_is_returned_and_anything_else_begins_the_stream() -> None:
    (error,) = payloads_of(ER("overloaded_error", "Overloaded"))
    assert first_error(error) == "Overloaded (overloaded_error)"
    for e in (TB(0), MD("end_turn"), ME):
        assert [first_error(p) for p in payloads_of(e)] == [None]


# --- work ---


def test_a_delta_costs_one_event_and_no_more() -> None:
    many = [MS, TU(0, "t", "write"), *(JD(0, "x" * 10) for _ in range(500)), CS(0), MD("max_tokens"), ME]
    events = list(decode(p for e in many for p in payloads_of(e)))
    assert len(events) == 500 + 4


# --- what it costs ---

PRICE = ModelCost(3.0, 15.0, 0.3, 3.75)
MILLION = 1_000_000


def usage_from(**counts: Any) -> Usage:
    return decoded(start(input_tokens=0, output_tokens=0), MD("end_turn", 0, **counts), ME, cost=PRICE).usage


def test_cache_writes_for_an_hour_have_their_price() -> None:
    """Z02"""
    by_time = {"ephemeral_1h_input_tokens": MILLION, "ephemeral_5m_input_tokens": 0}
    usage = usage_from(cache_creation_input_tokens=MILLION, cache_creation=by_time)
    assert (usage.cache_write, usage.cache_write_1h, usage.cost.total) == (MILLION, MILLION, 6.0)
    by_time["ephemeral_5m_input_tokens"] = MILLION
    usage = usage_from(cache_creation_input_tokens=2 * MILLION, cache_creation=by_time)
    assert (usage.cache_write_1h, usage.cost.total) == (MILLION, 9.75)


def test_cache_writes_that_are_only_split_are_counted() -> None:
    """Z02"""
    usage = usage_from(cache_creation={"ephemeral_1h_input_tokens": 7, "ephemeral_5m_input_tokens": 5})
    assert (usage.cache_write, usage.cache_write_1h) == (12, 7)


def test_the_split_of_cache_writes_stays_when_the_end_repeats_only_the_sum() -> None:
    """Z02"""
    begun = start(cache_creation_input_tokens=7, cache_creation={"ephemeral_1h_input_tokens": 7})
    usage = decoded(begun, MD("end_turn", 5, cache_creation_input_tokens=7), ME).usage
    assert (usage.cache_write, usage.cache_write_1h) == (7, 7)


def test_searches_of_the_server_are_counted_and_priced() -> None:
    usage = usage_from(server_tool_use={"web_search_requests": 100, "web_fetch_requests": 3})
    assert (usage.web_searches, usage.cost.total) == (100, 1.0)


def test_a_compaction_on_the_server_is_billed() -> None:
    iterations = [
        {"type": "compaction", "input_tokens": 100, "output_tokens": 20},
        {"type": "message", "input_tokens": 10, "output_tokens": 5},
        None,
    ]
    usage = usage_from(input_tokens=10, output_tokens=5, iterations=iterations)
    assert (usage.input, usage.output) == (110, 25)


@pytest.mark.parametrize("end", [{"input_tokens": 0}, {"input_tokens": None}, {}])
def test_a_zero_at_the_end_does_not_undo_a_count(end: dict[str, Any]) -> None:
    assert decoded(MS, TB(0), TD(0, "x"), MD("end_turn", 0, **end), ME).usage == Usage(10, 1)


@pytest.mark.parametrize(
    "odd",
    [{"cache_creation": 7}, {"server_tool_use": []}, {"iterations": {}}, {"output_tokens_details": "x"}],
)
def test_counts_of_another_type_are_zero(odd: dict[str, Any]) -> None:
    assert usage_from(input_tokens=5, **odd).total_tokens == 5
