"""The frame of the decoders: what holds for each of the four wire formats."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from support.dialects import DIALECTS, Dialect
from support.sse_server import SseServer
from support.sse_server import cut as sse_cut

from agent import Agent, AgentTool, RetryPolicy
from agent.messages import message_from_json, message_to_json
from agent.models import Model
from agent.providers.decoder import OpenCall, normalized
from agent.providers.http.failure import ProviderError, aborted
from agent.retry import ErrorClass
from agent.stream import StreamDone, StreamError, StreamEvent, TextDelta, ToolCallEnd, ToolCallStart

NETWORK = ProviderError("unexpected EOF", ErrorClass("network", True))


@pytest.fixture(params=DIALECTS.values(), ids=list(DIALECTS))
def dialect(request: pytest.FixtureRequest) -> Dialect:
    found: Dialect = request.param
    return found


def calls_of(dialect: Dialect, payloads: list[str]) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, call.arguments) for call in dialect.built(payloads).message.tool_calls]


def starts_and_ends(events: list[StreamEvent]) -> tuple[list[int], list[int]]:
    starts = [event.index for event in events if isinstance(event, ToolCallStart)]
    return starts, [event.index for event in events if isinstance(event, ToolCallEnd)]


# --- the end ---


def test_the_last_event_is_the_end_and_no_other(dialect: Dialect) -> None:
    events = dialect.events([*dialect.opening(), *dialect.text(0, "a", "b"), *dialect.end()])
    assert [event.type for event in events if event.type in ("done", "error")] == ["done"]
    assert events[-1].type == "done"


def test_an_empty_stream_is_an_error(dialect: Dialect) -> None:
    (end,) = dialect.events([])
    assert isinstance(end, StreamError)
    assert "ended" in end.error_message


def test_an_error_of_the_server_is_the_end(dialect: Dialect) -> None:
    payloads = [*dialect.opening(), *dialect.text(0, "a"), *dialect.error("Overloaded"), *dialect.end()]
    message = dialect.built(payloads).message
    assert (message.text, message.stop_reason) == ("a", "error")
    assert "Overloaded" in message.error_message


def test_an_abort_after_the_stop_reason_is_an_abort(dialect: Dialect) -> None:
    def payloads() -> Iterator[str]:
        yield from dialect.opening()
        yield from dialect.text(0, "a")
        raise aborted()

    end = dialect.events(payloads())[-1]
    assert isinstance(end, StreamError)
    assert end.stop_reason == "aborted"


@pytest.mark.parametrize(
    "payload", [b'\xff\xfe{"a"', "\ufeff{}", " ", "", '{"a":1} x', "[[{}]]", "NaN", b"{}"]
)
def test_payloads_that_are_no_event_are_skipped(dialect: Dialect, payload: str | bytes) -> None:
    whole = [*dialect.opening(), *dialect.text(0, "a", "b"), *dialect.end()]
    message = dialect.built([part for each in whole for part in (payload, each)]).message
    assert (message.text, message.stop_reason) == ("ab", "stop")


def test_white_space_around_a_payload_is_allowed(dialect: Dialect) -> None:
    whole = [*dialect.opening(), *dialect.text(0, "a", "b"), *dialect.end()]
    assert dialect.built([f" {payload}\n" for payload in whole]).message.text == "ab"


def test_events_may_come_in_one_list(dialect: Dialect) -> None:
    whole = [*dialect.opening(), *dialect.text(0, "a", "b"), *dialect.end()]
    events = ",".join(payload for payload in whole if payload != "[DONE]")
    assert dialect.built([f"[{events}]"]).message.text == "ab"
    assert dialect.module.first_error(f"[{events}]") in (None, "")


# --- words for the end ---

WORDS = {
    "stop": "stop STOP Stop end eos eos_token EOS_TOKEN end_turn endTurn end-of-turn complete COMPLETE done "
    "completed stop_sequence FINISH_REASON_STOP FinishReason.STOP",
    "length": "length LENGTH max_tokens MAX_TOKENS maxTokens max_output_tokens max_completion_tokens "
    "model_length FINISH_REASON_MAX_TOKENS",
}


@pytest.mark.parametrize(("stop", "word"), [(stop, word) for stop in WORDS for word in WORDS[stop].split()])
@pytest.mark.parametrize("name", ["completions", "anthropic", "gemini"])
def test_words_for_a_normal_end_in_any_case(name: str, stop: str, word: str) -> None:
    """Z09"""
    dialect = DIALECTS[name]
    message = dialect.built([*dialect.opening(), *dialect.text(0, "ok"), *dialect.end(word)]).message
    assert (message.text, message.stop_reason) == ("ok", stop)


@pytest.mark.parametrize("word", ["tool_call", "TOOL_CALLS", "toolUse", "function_call", "stop", "complete"])
@pytest.mark.parametrize("name", ["completions", "anthropic", "gemini"])
def test_words_for_an_end_with_calls(name: str, word: str) -> None:
    """Z09"""
    dialect = DIALECTS[name]
    payloads = [*dialect.opening(), *dialect.call(0, "a", "ls", "{}"), *dialect.end(word)]
    assert dialect.built(payloads).message.stop_reason == "toolUse"


@pytest.mark.parametrize("name", ["completions", "anthropic", "gemini"])
def test_an_unknown_word_is_an_error_that_quotes_it(name: str) -> None:
    """Z09"""
    dialect = DIALECTS[name]
    message = dialect.built([*dialect.opening(), *dialect.text(0, "ok"), *dialect.end("Weird_One")]).message
    assert (message.text, message.stop_reason) == ("ok", "error")
    assert "Weird_One" in message.error_message


STATUSES = {
    "completed": "stop",
    "incomplete": "length",
    "failed": "error",
    "cancelled": "error",
    "canceled": "error",
}


@pytest.mark.parametrize("word", [*STATUSES, *map(str.upper, STATUSES)])
def test_the_status_of_a_response_in_any_case(word: str) -> None:
    """Z09"""
    dialect = DIALECTS["responses"]
    message = dialect.built([*dialect.text(0, "ok"), *dialect.end(word)]).message
    assert (message.text, message.stop_reason) == ("ok", STATUSES[word.lower()])


def test_a_word_is_compared_without_case_separators_and_prefix() -> None:
    assert {normalized(word) for word in ("MAX_TOKENS", "maxTokens", "FinishReason.MAX_TOKENS")} == {
        "maxtokens"
    }


LENGTH_WORDS = {"responses": "incomplete", "gemini": "MAX_TOKENS", "anthropic": "max_tokens"}


@pytest.mark.parametrize("pieces", [(), ("half a te",)])
def test_a_response_cut_by_its_limit_ends_with_length(dialect: Dialect, pieces: tuple[str, ...]) -> None:
    """FR-7"""
    word = next((LENGTH_WORDS[name] for name in LENGTH_WORDS if DIALECTS[name] is dialect), "length")
    text = dialect.text(0, *pieces) if pieces else []
    end = dialect.events([*dialect.opening(), *text, *dialect.end(word)])[-1]
    assert isinstance(end, StreamDone)
    assert end.stop_reason == "length"


def test_a_pause_of_claude_is_marked() -> None:
    """FR-24"""
    dialect = DIALECTS["anthropic"]
    end = dialect.events([*dialect.opening(), *dialect.text(0, "a"), *dialect.end("pause_turn")])[-1]
    assert end == StreamDone("stop", end.usage, paused=True)  # type: ignore[union-attr]
    end = dialect.events([*dialect.opening(), *dialect.text(0, "a"), *dialect.end()])[-1]
    assert not end.paused  # type: ignore[union-attr]


# --- a stop reason that was not the end ---


def stop_only(dialect: Dialect) -> str:
    """The payload with the stop reason, without the mark that ends the stream."""
    return dialect.end()[0]


EARLY = pytest.mark.parametrize("name", ["completions", "anthropic", "gemini"])


@EARLY
def test_content_after_a_stop_reason_belongs_to_the_response(name: str) -> None:
    """Z01"""
    dialect = DIALECTS[name]
    one, two, three = (dialect.text(index, text) for index, text in enumerate(("one ", "two ", "three")))
    payloads = [*dialect.opening(), *one, stop_only(dialect), *two, stop_only(dialect), *three]
    message = dialect.built(payloads).message
    assert (message.text, message.stop_reason) == ("one two three", "stop")


@EARLY
def test_content_after_a_stop_reason_lifts_the_deadline(name: str) -> None:
    """Z01"""
    dialect = DIALECTS[name]
    waits: list[float | None] = []
    payloads = [*dialect.opening(), *dialect.text(0, "one "), stop_only(dialect)]
    dialect.events(payloads, expect_end=waits.append)
    assert waits == [5.0]
    waits.clear()
    dialect.events([*payloads, *dialect.text(1, "two"), stop_only(dialect)], expect_end=waits.append)
    assert waits[0] == 5.0
    assert waits[-1] is None


@EARLY
def test_a_stop_reason_in_each_chunk_sets_no_deadline_again(name: str) -> None:
    """Z01"""
    dialect = DIALECTS[name]
    waits: list[float | None] = []
    payloads = dialect.opening()
    for index, text in enumerate("abc"):
        payloads += [*dialect.text(index, text), stop_only(dialect)]
    dialect.events(payloads, expect_end=waits.append)
    assert waits.count(5.0) == 1
    assert waits[-1] is None


@EARLY
def test_a_break_after_content_that_followed_a_stop_reason_is_an_error(name: str) -> None:
    """Z01"""
    dialect = DIALECTS[name]

    def payloads() -> Iterator[str]:
        yield from [*dialect.opening(), *dialect.text(0, "a"), stop_only(dialect), *dialect.text(1, "b")]
        raise NETWORK

    assert dialect.events(payloads())[-1].type == "error"


# --- calls ---

# Not gemini, whose calls come whole.
IN_PIECES = pytest.mark.parametrize("name", ["completions", "responses", "anthropic"])


@IN_PIECES
def test_a_call_that_breaks_off_has_no_end(name: str) -> None:
    """FS-W1"""
    dialect = DIALECTS[name]
    for broken in ([], dialect.error("overloaded_error: Overloaded")):
        payloads = dialect.call(0, "c", "t", '{"path":"a', closed=False)
        events = dialect.events([*dialect.opening(), *payloads, *broken])
        assert starts_and_ends(events) == ([0], [])
        assert events[-1].type == "error"


def test_a_call_cut_by_a_filter_has_no_end() -> None:
    """FS-W1"""
    dialect = DIALECTS["completions"]
    events = dialect.events([*dialect.call(0, "c", "t", '{"a":'), *dialect.end("content_filter")])
    assert starts_and_ends(events) == ([0], [])


@IN_PIECES
def test_a_network_error_inside_a_call_leaves_it_open(name: str) -> None:
    """FS-W1"""
    dialect = DIALECTS[name]

    def payloads() -> Iterator[str]:
        yield from [*dialect.opening(), *dialect.call(0, "c", "t", '{"a":1}', closed=False)]
        raise NETWORK

    events = dialect.events(payloads())
    assert starts_and_ends(events) == ([0], [])


@IN_PIECES
def test_of_two_calls_the_one_that_was_cut_has_no_end(name: str) -> None:
    """FS-W1"""
    dialect = DIALECTS[name]
    first = dialect.call(0, "a", "t", '{"x":1}')
    second = dialect.call(1, "b", "t", '{"y":', closed=False)
    starts, ends = starts_and_ends(dialect.events([*dialect.opening(), *first, *second]))
    assert starts == [0, 1]
    assert ends == ([0] if dialect.closes_calls else [])


def test_the_same_call_under_another_index_is_one_call(dialect: Dialect) -> None:
    """Z14"""
    once = dialect.call(0, "c1", "look", '{"path":', '"."}')
    again = dialect.call(1, "c1", "look", '{"path": "."}')
    payloads = [*dialect.opening(), *once, *again, *dialect.end()]
    assert calls_of(dialect, payloads) == [("look", {"path": "."})]


def test_the_same_call_sent_again_under_its_index_is_one_call(dialect: Dialect) -> None:
    """Z14"""
    call = dialect.call(0, "c1", "look", '{"path":"."}')
    payloads = [*dialect.opening(), *call, *call, *dialect.end()]
    assert calls_of(dialect, payloads) == [("look", {"path": "."})]


@pytest.mark.parametrize(("name", "arguments"), [("look", '{"path":"/"}'), ("list", '{"path":"."}')])
def test_an_id_used_for_another_call_makes_two_calls(dialect: Dialect, name: str, arguments: str) -> None:
    once, other = dialect.call(0, "c1", "look", '{"path":"."}'), dialect.call(1, "c1", name, arguments)
    assert len(calls_of(dialect, [*dialect.opening(), *once, *other, *dialect.end()])) == 2


def test_equal_calls_with_ids_of_their_own_are_two_calls(dialect: Dialect) -> None:
    once, other = (dialect.call(index, f"c{index}", "look", "{}") for index in (0, 1))
    assert len(calls_of(dialect, [*dialect.opening(), *once, *other, *dialect.end()])) == 2


@pytest.mark.parametrize("name", ["responses", "anthropic"])
def test_a_call_announced_twice_is_one_call(name: str) -> None:
    """Z14"""
    dialect = DIALECTS[name]
    begun, *rest = dialect.call(0, "c1", "look", '{"path":', '"."}')
    for payloads in ([begun, begun, *rest], [begun, rest[0], begun, *rest[1:]]):
        whole = [*dialect.opening(), *payloads, *dialect.end()]
        assert calls_of(dialect, whole) == [("look", {"path": "."})]


@pytest.mark.parametrize("name", ["responses", "anthropic"])
def test_a_text_announced_twice_is_one_block(name: str) -> None:
    """Z14"""
    dialect = DIALECTS[name]
    begun, *rest = dialect.text(0, "a", "b")
    message = dialect.built([*dialect.opening(), begun, begun, *rest, *dialect.end()]).message
    assert [block.text for block in message.content] == ["ab"]  # type: ignore[union-attr]


@IN_PIECES
def test_a_repeated_call_that_breaks_off_is_open(name: str) -> None:
    """FS-W1"""
    dialect = DIALECTS[name]
    once = dialect.call(0, "c1", "look", '{"path":"."}')
    again = dialect.call(1, "c1", "look", '{"path"', closed=False)
    starts, ends = starts_and_ends(dialect.events([*dialect.opening(), *once, *again]))
    assert starts == [0, 1]
    assert 1 not in ends


# --- characters ---

HALVES = [("a\ud83d", "\ude00b"), ("\ud83d", "\ude00"), ("😀\ud83d", "\ude00\ud83d", "\ude00")]


@pytest.mark.parametrize(("pieces", "count"), [*zip(HALVES, (1, 1, 3), strict=True)])
def test_a_character_sent_in_two_halves_is_joined(
    dialect: Dialect, pieces: tuple[str, ...], count: int
) -> None:
    """Z18"""
    payloads = [*dialect.opening(), *dialect.text(0, *pieces), *dialect.end()]
    deltas = [event.delta for event in dialect.events(payloads) if isinstance(event, TextDelta)]
    assert "".join(deltas).count("😀") == count
    for delta in deltas:
        delta.encode()


def test_half_a_character_that_stays_alone_is_kept(dialect: Dialect) -> None:
    payloads = [*dialect.opening(), *dialect.text(0, "a\ud83d", "b", "c\ud83d"), *dialect.end()]
    assert dialect.built(payloads).message.text == "a\ud83dbc\ud83d"


@IN_PIECES
def test_a_character_of_arguments_sent_in_two_halves_is_joined(name: str) -> None:
    """Z18"""
    dialect = DIALECTS[name]
    call = dialect.call(0, "c", "t", '{"a":"\ud83d', '\ude00"}')
    assert calls_of(dialect, [*dialect.opening(), *call, *dialect.end()]) == [("t", {"a": "😀"})]


def test_a_message_with_joined_characters_survives_json(dialect: Dialect) -> None:
    """Z18"""
    payloads = [*dialect.opening(), *dialect.text(0, "\ud83d", "\ude00"), *dialect.end()]
    message = dialect.built(payloads).message
    assert message_from_json(json.loads(json.dumps(message_to_json(message)))) == message


@pytest.mark.parametrize("name", ["completions", "responses", "anthropic"])
def test_an_index_may_be_a_string(name: str) -> None:
    dialect = DIALECTS[name]
    first, second = (dialect.call(index, f"c{index}", "t", f'{{"n":{index}', "}") for index in (0, 1))
    mixed = [payload for pair in zip(first, second, strict=True) for payload in pair]
    payloads = [re.sub(r'(index": )(\d)', r'\1"\2"', payload) for payload in mixed]
    calls = calls_of(dialect, [*dialect.opening(), *payloads, *dialect.end()])
    assert calls == [("t", {"n": 0}), ("t", {"n": 1})]


# --- work ---


def test_the_arguments_of_a_call_are_parsed_once() -> None:
    call = OpenCall("c", "t")
    call.pieces += ['{"a":', "1}"]
    first = call.arguments()
    assert first == {"a": 1}
    assert call.arguments() is first
    call.pieces.append(" ")
    assert call.arguments() == first


def test_a_thousand_repetitions_of_a_call_are_one_call(dialect: Dialect) -> None:
    """Z14"""
    calls = [payload for index in range(1000) for payload in dialect.call(index, "c", "t", "{}")]
    assert calls_of(dialect, [*dialect.opening(), *calls, *dialect.end()]) == [("t", {})]


# --- a whole run ---


@pytest.mark.parametrize("broken", ["the server's error", "the connection"])
@pytest.mark.parametrize("cut", ['{"path":"a', '{"path":"a"}'])
@IN_PIECES
def test_a_call_that_broke_off_never_runs_and_is_asked_for_again(
    name: str, cut: str, broken: str, sse_server: SseServer
) -> None:
    """FS-W1"""
    dialect = DIALECTS[name]
    ran: list[object] = []
    whole = dialect.call(0, "a", "look", '{"path":"b"}')
    call = dialect.call(1, "c", "look", cut, closed=False)
    error = dialect.error("overloaded_error: Overloaded") if broken == "the server's error" else []
    steps = [f"data: {payload}\n\n" for payload in (*dialect.opening(), *whole, *call, *error)]
    sse_server.play(*steps, *([] if error else [sse_cut()]))
    answer = (*dialect.opening(), *dialect.text(0, "done"), *dialect.end())
    sse_server.play(*(f"data: {payload}\n\n" for payload in answer))
    model = Model("m", dialect.api, "local", sse_server.url)
    look = AgentTool("look", "Look.", {}, lambda arguments, context: ran.append(arguments) or "seen")
    retry = RetryPolicy((0.0,), (0.0,), (), ())
    with Agent(model, tools=[look], retry=retry, get_api_key=lambda provider: "key") as agent:
        result = agent.run("go")
    assert (result.text, ran) == ("done", [])
    assert len(sse_server.requests) == 2
    assert not any(getattr(message, "tool_calls", ()) for message in result.messages)
