"""Deltas become one message: views on the way, the message at the end, and what odd streams are taken for."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import itertools
import json
import pickle
import random
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.events import MessageUpdate
from agent.messages import (
    AssistantMessage,
    ServerContent,
    TextContent,
    ThinkingContent,
    ToolCall,
)
from agent.models import Model
from agent.stream import (
    STREAM_EVENTS,
    EventLog,
    PartialMessage,
    ServerBlock,
    StreamDone,
    StreamError,
    StreamEvent,
    StreamOptions,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    build_message,
    stream_event_to_json,
)
from agent.usage import Cost, ModelCost, Usage

MODEL = Model("m-1", "some-api", "some-provider", cost=ModelCost(1.0, 2.0))


def built(*events: StreamEvent, end: StreamDone | StreamError | None = None) -> AssistantMessage:
    return build_message(list(events), end or StreamDone(), MODEL, 5).message


def view(*events: StreamEvent) -> PartialMessage:
    return PartialMessage(list(events), len(events))


# -- the events --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "wire", "fields"),
    [
        (StreamStart, "start", "response_id model"),
        (TextStart, "text_start", "index"),
        (TextDelta, "text_delta", "index delta"),
        (TextEnd, "text_end", "index signature"),
        (ThinkingStart, "thinking_start", "index"),
        (ThinkingDelta, "thinking_delta", "index delta"),
        (ThinkingEnd, "thinking_end", "index signature redacted"),
        (ToolCallStart, "toolcall_start", "index id name"),
        (ToolCallDelta, "toolcall_delta", "index delta"),
        (ToolCallEnd, "toolcall_end", "index arguments"),
        (StreamDone, "done", "stop_reason usage message"),
        (StreamError, "error", "error_message stop_reason usage message"),
    ],
)
def test_stream_events_have_the_pinned_type_and_positions(kind: type, wire: str, fields: str) -> None:
    names = fields.split()
    assert list(inspect.signature(kind).parameters)[: len(names)] == names
    values = [f"value {n}" for n, _ in enumerate(names)]
    event = kind(*values)
    assert [getattr(event, name) for name in names] == values
    assert event.type == kind.type == wire  # type: ignore[attr-defined]
    assert kind in STREAM_EVENTS


def test_what_may_be_left_out_of_a_stream_event() -> None:
    assert StreamStart() == StreamStart("", "")
    assert StreamDone() == StreamDone("stop", None, None)
    assert StreamError("x") == StreamError("x", "error", None, None)
    assert (TextEnd(0), ThinkingEnd(0), ToolCallEnd(0)) == (
        TextEnd(0, None),
        ThinkingEnd(0, None, False),
        ToolCallEnd(0, None),
    )


def test_the_json_of_a_stream_event_holds_what_it_carries() -> None:
    shown = [
        stream_event_to_json(event)
        for event in (
            StreamStart("resp", "real"),
            TextStart(0),
            TextDelta(0, "x"),
            ThinkingEnd(1, "sig", True),
            ToolCallStart(2, "c", "t"),
            ToolCallEnd(2, {}),
            ServerBlock(3, ServerContent("search", "{}")),
            StreamDone("length"),
            StreamError("boom"),
        )
    ]
    assert shown == [
        {"type": "start", "responseId": "resp", "model": "real"},
        {"type": "text_start", "contentIndex": 0},
        {"type": "text_delta", "contentIndex": 0, "delta": "x"},
        {"type": "thinking_end", "contentIndex": 1, "signature": "sig", "redacted": True},
        {"type": "toolcall_start", "contentIndex": 2, "id": "c", "name": "t"},
        {"type": "toolcall_end", "contentIndex": 2, "arguments": {}},
        {
            "type": "server_block",
            "contentIndex": 3,
            "block": {"type": "server", "providerType": "search", "raw": "{}"},
        },
        {"type": "done", "reason": "length"},
        {"type": "error", "reason": "error", "errorMessage": "boom"},
    ]
    assert json.loads(json.dumps(shown)) == shown


def test_the_options_of_a_request_have_the_pinned_names() -> None:
    names = (
        "cancel api_key api_key_error refresh_api_key reasoning thinking_budgets session_id transport "
        "max_tokens temperature headers tool_choice server_tools server_compaction cache_retention retry "
        "max_retry_delay on_retry on_payload timeout"
    )
    options = StreamOptions()
    assert all(hasattr(options, name) for name in names.split())
    assert not options.cancel.is_set()


# -- the message at the end --------------------------------------------------------------------------------


def test_an_answer_of_every_kind_of_block() -> None:
    message = built(
        StreamStart("resp_1", "m-1-2025"),
        ThinkingStart(0),
        ThinkingDelta(0, "hm"),
        ThinkingDelta(0, "m"),
        ThinkingEnd(0, "sig"),
        TextStart(1),
        TextDelta(1, "Hello, "),
        TextDelta(1, "world."),
        TextEnd(1, "tsig"),
        ToolCallStart(2, "c1", "bash"),
        ToolCallDelta(2, '{"command":'),
        ToolCallDelta(2, '"ls"}'),
        ToolCallEnd(2, None, "csig"),
        ServerBlock(3, ServerContent("search", '{"q" :1}')),
        end=StreamDone("toolUse", Usage(1_000_000, 500_000)),
    )
    assert message == AssistantMessage(
        [
            ThinkingContent("hmm", "sig"),
            TextContent("Hello, world.", "tsig"),
            ToolCall("c1", "bash", {"command": "ls"}, "csig"),
            ServerContent("search", '{"q" :1}'),
        ],
        "some-api",
        "some-provider",
        "m-1",
        Usage(1_000_000, 500_000, 0, 0, 1_500_000, Cost(1.0, 1.0, 0, 0, 2.0)),
        "toolUse",
        "",
        "resp_1",
        "m-1-2025",
        5,
    )


def test_a_plain_stream_of_deltas_needs_no_starts_and_no_ends() -> None:
    message = built(
        ThinkingDelta(0, "a"),
        TextDelta(1, "b"),
        ToolCallStart(2, "c", "t"),
        ToolCallDelta(2, "{}"),
        TextDelta(3, "d"),
    )
    assert message.content == (
        ThinkingContent("a"),
        TextContent("b"),
        ToolCall("c", "t", {}),
        TextContent("d"),
    )


def test_blocks_written_in_turns_keep_their_own_text_and_the_order_of_their_opening() -> None:
    message = built(
        ToolCallStart(1, "b", "two"),
        ToolCallStart(0, "a", "one"),
        ToolCallDelta(0, '{"n":'),
        ToolCallDelta(1, '{"m":'),
        ToolCallDelta(0, "1}"),
        ToolCallDelta(1, "2}"),
        ToolCallEnd(0),
        ToolCallEnd(1),
    )
    assert message.tool_calls == (ToolCall("b", "two", {"m": 2}), ToolCall("a", "one", {"n": 1}))


def test_an_index_that_is_used_again_begins_a_new_block() -> None:
    message = built(
        TextStart(0),
        TextDelta(0, "a"),
        TextEnd(0),
        TextStart(0),
        TextDelta(0, "b"),
        TextEnd(0),
        TextDelta(0, "c"),
    )
    assert message.content == (TextContent("a"), TextContent("b"), TextContent("c"))
    assert message.text == "abc"
    mixed = built(ThinkingDelta(0, "hm"), TextDelta(0, "x"), ToolCallStart(0, "c", "t"))
    assert mixed.content == (ThinkingContent("hm"), TextContent("x"), ToolCall("c", "t", {}))


def test_an_end_or_a_start_that_comes_twice_changes_nothing() -> None:
    once = [
        ThinkingStart(0),
        ThinkingDelta(0, "hm"),
        ThinkingEnd(0, "sig", True),
        TextStart(1),
        TextDelta(1, "x"),
        TextEnd(1, "tsig"),
        ToolCallStart(2, "c", "t"),
        ToolCallDelta(2, '{"a":1}'),
        ToolCallEnd(2, {"a": 2}, "csig"),
    ]
    twice = [
        event
        for item in once
        for event in ([item] if isinstance(item, (TextDelta, ThinkingDelta, ToolCallDelta)) else [item, item])
    ]
    assert built(*twice) == built(*once)
    quieter = [*once, ThinkingEnd(0), TextEnd(1), ToolCallEnd(2)]
    assert built(*quieter) == built(*once)


def test_two_calls_under_one_index_are_two_calls() -> None:
    message = built(
        ToolCallStart(0, "a", "t"),
        ToolCallDelta(0, "{}"),
        ToolCallStart(0, "b", "t"),
        ToolCallDelta(0, '{"x":1}'),
    )
    assert [call.id for call in message.tool_calls] == ["a", "b"]
    assert [call.arguments for call in message.tool_calls] == [{}, {"x": 1}]


def test_calls_without_an_id_get_one_each() -> None:
    message = built(
        ToolCallStart(0, "", "a"), ToolCallEnd(0), ToolCallStart(1, "", "b"), ToolCallStart(2, "c", "c")
    )
    ids = [call.id for call in message.tool_calls]
    assert len(set(ids)) == 3
    assert all(ids)
    assert ids[2] == "c"


def test_blocks_that_hold_nothing_are_left_out_but_a_signature_is_something() -> None:
    assert (
        built(TextStart(0), TextEnd(0), ThinkingStart(1), ThinkingDelta(1, ""), ThinkingEnd(1, "")).content
        == ()
    )
    assert built(ThinkingStart(0), ThinkingEnd(0, "sig", True)).content == (ThinkingContent("", "sig", True),)
    assert built(TextEnd(0, "sig")).content == (TextContent("", "sig"),)
    assert built(TextDelta(0, " ")).content == (TextContent(" "),)


def test_arguments_at_the_end_replace_those_of_the_deltas() -> None:
    message = built(ToolCallStart(0, "c", "t"), ToolCallDelta(0, '{"a":1'), ToolCallEnd(0, {"a": 2}))
    assert message.tool_calls[0].arguments == {"a": 2}
    assert built(ToolCallStart(0, "c", "t"), ToolCallEnd(0, {})).tool_calls[0].arguments == {}


def test_the_first_response_id_and_the_first_other_model_win() -> None:
    message = built(
        StreamStart("", "m-1"), StreamStart("r1", "m-1"), StreamStart("r2", "m-2"), StreamStart("", "m-3")
    )
    assert (message.response_id, message.response_model) == ("r1", "m-2")


def test_usage_that_brings_its_cost_keeps_it() -> None:
    usage = Usage(10, cost=Cost(total=7.0))
    assert built(end=StreamDone("stop", usage)).usage == usage
    assert built().usage == Usage()


def test_an_error_keeps_what_came_and_says_why() -> None:
    message = built(TextDelta(0, "half"), end=StreamError("boom", usage=Usage(3)))
    assert (message.text, message.stop_reason, message.error_message) == ("half", "error", "boom")
    assert message.usage.input == 3
    assert built(end=StreamError("stop", "aborted")).stop_reason == "aborted"


def test_malformed_arguments_are_reported_by_the_position_of_their_call() -> None:
    """J09: an array as arguments; and a call that was cut off."""
    log: list[StreamEvent] = [
        TextDelta(0, "x"),
        ToolCallStart(1, "a", "t"),
        ToolCallDelta(1, "{}"),
        ToolCallStart(2, "b", "t"),
        ToolCallDelta(2, "[1,2]"),
        ToolCallStart(3, "c", "t"),
        ToolCallDelta(3, '{"path":"a", "text": "ha'),
        ToolCallStart(4, "d", "t"),
        ToolCallEnd(4, [1]),  # type: ignore[arg-type]
        ToolCallStart(5, "e", "t"),
    ]
    result = build_message(log, StreamDone("toolUse"), MODEL, 0)
    assert [call.arguments for call in result.message.tool_calls] == [
        {},
        {},
        {"path": "a", "text": "ha"},
        {},
        {},
    ]
    assert sorted(result.argument_errors) == [1, 2, 3]
    assert "object" in result.argument_errors[1]
    assert "cut off" in result.argument_errors[2]
    assert "object" in result.argument_errors[3]


def test_a_large_integer_reaches_the_message_whole() -> None:
    """J10: an id beyond 2**53."""
    message = built(
        ToolCallStart(0, "c", "t"), ToolCallDelta(0, '{"id":12345678901'), ToolCallDelta(0, "234567890}")
    )
    assert message.tool_calls[0].arguments == {"id": 12345678901234567890}


def test_arguments_sent_as_a_json_string_are_an_object_all_the_same() -> None:
    """E23: the argument object encoded once more."""
    text = json.dumps(json.dumps({"path": "f", "newText": "l1\nl\t2"}))
    message = built(ToolCallStart(0, "c", "edit"), *(ToolCallDelta(0, letter) for letter in text))
    assert message.tool_calls[0].arguments == {"path": "f", "newText": "l1\nl\t2"}


# -- a message that comes ready made ------------------------------------------------------------------------


def test_a_message_at_the_end_replaces_what_was_built() -> None:
    canned = AssistantMessage(
        [ToolCall("c", "t", {})], "a", "p", "m", Usage(1, cost=Cost(0.5)), "toolUse", timestamp=9
    )
    assert built(TextDelta(0, "x"), end=StreamDone(message=canned)) is canned


def test_a_ready_made_message_gets_usage_and_price_when_it_has_none() -> None:
    canned = AssistantMessage("x", timestamp=9)
    message = built(end=StreamDone("stop", Usage(1_000_000), canned))
    assert message.usage.cost.total == 1.0
    assert canned.usage == Usage()
    own = AssistantMessage("x", usage=Usage(2_000_000), timestamp=9)
    assert built(end=StreamDone("stop", Usage(1), own)).usage.cost.total == 2.0


def test_a_ready_made_message_of_an_error_is_one() -> None:
    message = built(end=StreamError("boom", message=AssistantMessage("half", timestamp=9)))
    assert (message.text, message.stop_reason, message.error_message) == ("half", "error", "boom")
    silent = AssistantMessage("half", stop_reason="aborted", timestamp=9)
    message = built(end=StreamError("boom", message=silent))
    assert (message.stop_reason, message.error_message) == ("aborted", "boom")
    telling = AssistantMessage("half", stop_reason="error", error_message="its own", timestamp=9)
    assert built(end=StreamError("boom", message=telling)) == telling


# -- views on the way ---------------------------------------------------------------------------------------


def test_a_view_stays_what_it_was_when_the_answer_grows() -> None:
    log: list[StreamEvent] = [TextDelta(0, "a")]
    early = PartialMessage(log, 1)
    log += [TextDelta(0, "b"), ToolCallStart(1, "c", "t"), ToolCallDelta(1, '{"x":1,"y":"ha')]
    late = PartialMessage(log, len(log))
    log += [TextEnd(0), ToolCallDelta(1, 'lf"}'), ToolCallEnd(1)]
    assert (early.text, early.tool_calls) == ("a", ())
    assert late.text == "ab"
    assert late.tool_calls == (ToolCall("c", "t", {"x": 1, "y": "ha"}),)
    assert early.role == late.role == "assistant"


def test_a_view_shows_thinking_and_text_apart() -> None:
    seen = view(ThinkingDelta(0, "hm"), TextDelta(1, "x"), ThinkingDelta(2, "m"))
    assert (seen.thinking, seen.text) == ("hmm", "x")
    assert seen.content == (ThinkingContent("hm"), TextContent("x"), ThinkingContent("m"))


def test_a_view_of_nothing_yet_is_empty() -> None:
    nothing = PartialMessage([], 0)
    assert (nothing.text, nothing.thinking, nothing.tool_calls, nothing.content) == ("", "", (), ())


def test_a_copy_of_a_view_copies_no_log_and_a_pickle_only_what_it_shows() -> None:
    log: list[StreamEvent] = [TextDelta(0, "a"), TextDelta(0, "b" * 10_000)]
    early = PartialMessage(log, 1)
    assert copy.copy(early) is copy.deepcopy(early) is early
    pickled = pickle.dumps(early)
    assert len(pickled) < 1000
    assert pickle.loads(pickled).text == "a"
    event = MessageUpdate(early, log[0])
    assert dataclasses.asdict(event)["message"] is early


def test_a_view_never_raises_on_arguments_in_the_making() -> None:
    """J06: a backslash at the edge of a delta."""
    deltas = ['{"a":"x', "\\", 'n"}']
    log: list[StreamEvent] = [ToolCallStart(0, "c", "t"), *(ToolCallDelta(0, delta) for delta in deltas)]
    seen = [PartialMessage(log, n).tool_calls[0].arguments for n in (2, 3, 4)]
    assert seen == [{"a": "x"}, {"a": "x"}, {"a": "x\n"}]


def test_a_view_reads_its_log_once() -> None:
    class CountingLog(list[StreamEvent]):
        reads = 0

        def __getitem__(self, position: Any) -> Any:
            type(self).reads += 1
            return super().__getitem__(position)

    log = CountingLog(TextDelta(0, "x") for _ in range(1000))
    views = [PartialMessage(log, length) for length in range(1000)]
    assert CountingLog.reads == 0
    assert views[500].text == "x" * 500
    assert views[500].thinking == ""
    assert views[500].tool_calls == ()
    assert CountingLog.reads == 500


def test_arguments_are_parsed_at_the_end_and_not_at_each_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    """J01: 100,000 characters of arguments, one delta each, cost their length and not its square."""
    import agent.stream

    scanned = 0

    def count(parse: Any) -> Any:
        def counted(text: str) -> Any:
            nonlocal scanned
            scanned += len(text)
            return parse(text)

        return counted

    for name in ("parse_arguments", "parse_partial_object"):
        monkeypatch.setattr(agent.stream, name, count(getattr(agent.stream, name)))
    text = json.dumps({"path": "f", "content": "x" * 100_000})
    log: list[StreamEvent] = [ToolCallStart(0, "c", "write")]
    views = []
    for letter in text:
        log.append(ToolCallDelta(0, letter))
        views.append(PartialMessage(log, len(log)))
    message = build_message(log, StreamDone("toolUse"), MODEL, 0).message
    assert len(message.tool_calls[0].arguments["content"]) == 100_000
    assert scanned == len(text)
    assert len(views[50_000].tool_calls[0].arguments["content"]) > 49_000
    assert scanned < 2 * len(text)


index = st.integers(0, 2)
letters = st.text('ab{}[]":,\\1n ', max_size=4)
signatures = st.none() | st.text("s", max_size=2)
logs = st.lists(
    st.one_of(
        st.builds(StreamStart),
        st.builds(TextStart, index),
        st.builds(TextDelta, index, letters),
        st.builds(TextEnd, index, signatures),
        st.builds(ThinkingStart, index),
        st.builds(ThinkingDelta, index, letters),
        st.builds(ThinkingEnd, index, signatures, st.booleans()),
        st.builds(ToolCallStart, index, st.sampled_from(["", "c1", "c2"]), st.just("t")),
        st.builds(ToolCallDelta, index, letters),
        st.builds(ToolCallEnd, index, st.none() | st.just({"a": 1})),
        st.builds(ServerBlock, index, st.just(ServerContent("s", "{}"))),
    ),
    max_size=25,
)


@settings(deadline=None)
@given(logs)
def test_a_view_equals_the_one_of_a_log_that_ended_there_and_text_never_shrinks(
    log: list[StreamEvent],
) -> None:
    growing: list[StreamEvent] = []
    views = [PartialMessage(growing, 0)]
    for event in log:
        growing.append(event)
        views.append(PartialMessage(growing, len(growing)))
    for length, seen in enumerate(views):
        assert seen.content == PartialMessage(copy.deepcopy(log[:length]), length).content
    for before, after in itertools.pairwise(views):
        assert len(before.text) <= len(after.text)
        assert len(before.thinking) <= len(after.thinking)
        assert len(before.content) <= len(after.content)
        for old, new in zip(before.content, after.content, strict=False):
            assert type(old) is type(new)
            if isinstance(old, TextContent):
                assert new.text.startswith(old.text)  # type: ignore[union-attr]


@settings(deadline=None)
@given(logs, st.sampled_from([StreamDone("toolUse"), StreamError("boom")]))
def test_the_message_says_what_the_last_view_showed(
    log: list[StreamEvent], end: StreamDone | StreamError
) -> None:
    seen = PartialMessage(log, len(log))
    result = build_message(log, end, MODEL, 0)
    message = result.message
    assert message.text == seen.text
    assert message.thinking == seen.thinking
    assert [call.name for call in message.tool_calls] == [call.name for call in seen.tool_calls]
    ids = zip(message.tool_calls, seen.tool_calls, strict=True)
    assert all(call.id == before.id or not before.id for call, before in ids)
    assert all(call.id for call in message.tool_calls)
    kept = [
        block
        for block in seen.content
        if not isinstance(block, (TextContent, ThinkingContent))
        or block.signature
        or (block.text if isinstance(block, TextContent) else block.thinking)
    ]
    assert len(kept) == len(message.content)
    assert all(0 <= position < len(message.tool_calls) for position in result.argument_errors)


# -- views of a growing log --------------------------------------------------------------------------------


class CountingDelta(TextDelta):
    """A delta that counts how often it is handled."""

    handled = 0

    @property
    def delta(self) -> str:  # type: ignore[override]
        CountingDelta.handled += 1
        return "ab"

    @delta.setter
    def delta(self, value: str) -> None:
        pass


def test_reading_the_text_at_every_delta_handles_each_delta_once() -> None:
    log = EventLog()
    CountingDelta.handled = 0
    for count in range(1, 4001):
        log.append(CountingDelta(0, ""))
        assert len(PartialMessage(log, count).text) == 2 * count
    assert CountingDelta.handled == 4000


def test_views_read_in_any_order_and_twice_are_those_of_the_events_alone() -> None:
    events: list[StreamEvent] = [
        ThinkingDelta(0, "hm"),
        ThinkingEnd(0, "sig"),
        TextStart(1),
        TextDelta(1, "a"),
        ToolCallStart(2, "c1", "find"),
        ToolCallDelta(2, '{"x": [1,'),
        TextDelta(1, "b"),
        ToolCallDelta(2, " 2]}"),
        ToolCallEnd(2),
        TextEnd(1),
        TextDelta(1, "new block"),
    ]
    for seed in range(50):
        log = EventLog()
        views: list[PartialMessage] = []
        rng = random.Random(seed)
        for event in events:
            log.append(event)
            views.append(PartialMessage(log, len(log)))
            for seen in rng.sample(views, rng.randint(0, len(views))):
                alone = PartialMessage(events[: views.index(seen) + 1], views.index(seen) + 1)
                assert (seen.text, seen.thinking) == (alone.text, alone.thinking)
                assert seen.content == alone.content


def test_views_may_be_read_by_several_threads_at_once() -> None:
    log = EventLog()
    log.extend(TextDelta(0, "x") for _ in range(500))
    wrong: list[int] = []

    def read() -> None:
        wrong.extend(n for n in range(1, 501) if PartialMessage(log, n).text != "x" * n)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
