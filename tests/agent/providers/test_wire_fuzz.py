"""Whatever bytes a server sends: the decoders, the builder and the encoders cope with mutated event streams.

Seeded; `AGENT_TEST_ROUNDS` multiplies the number of streams.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from support import completions, gemini, messages, responses
from support.dialects import DIALECTS, Dialect
from support.rounds import rounds

from agent.messages import (
    AssistantMessage,
    Message,
    TextContent,
    ToolResultMessage,
    UserMessage,
    message_from_json,
    message_to_json,
)
from agent.models import Model
from agent.providers import (
    anthropic_messages,
    google_generative_ai,
    openai_completions,
    openai_responses,
)
from agent.stream import (
    STREAM_EVENTS,
    AgentContext,
    PartialMessage,
    StreamDone,
    StreamError,
    StreamEvent,
    StreamOptions,
    ToolCallEnd,
    ToolCallStart,
    build_message,
    stream_event_to_json,
)
from agent.usage import ModelCost

STREAMS = rounds(250)
COST = ModelCost(3.0, 15.0, tiers=((200_000, ModelCost(6.0, 22.5)),))
ENCODERS: dict[str, Any] = {
    completions.API: (openai_completions, replace(completions.LOCAL, reasoning=True)),
    responses.API: (openai_responses, responses.THINKER),
    messages.API: (anthropic_messages, messages.CLAUDE),
    gemini.API: (google_generative_ai, gemini.GEMINI_3),
}

# --- streams to begin with: every kind of event of a format ---

CACHED = {"cached_tokens": 3}
USAGES: dict[str, dict[str, Any]] = {
    "completions": {
        "prompt_tokens": 9,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 3},
    },
    "responses": {"input_tokens": 9, "output_tokens": 5, "input_tokens_details": CACHED},
    "anthropic": {"output_tokens": 5, "cache_creation": {"ephemeral_1h_input_tokens": 2}},
    "gemini": {"promptTokenCount": 9, "candidatesTokenCount": 5, "totalTokenCount": 14},
}
URL = {"type": "url_citation", "url": "https://a.b", "title": "A", "start_index": 0, "end_index": 1}


def rest(name: str) -> list[dict[str, Any]]:
    """Events that the dialects have no function for: thinking, citations, blocks of the server, pings."""
    match name:
        case "completions":
            delta = {
                "reasoning": "hm",
                "annotations": [URL],
                "reasoning_details": [{"type": "reasoning.encrypted"}],
            }
            return [{"id": "c1", "choices": [{"delta": delta}]}, {"choices": [{"delta": {"refusal": "no"}}]}]
        case "responses":
            thought = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]}
            search = {"type": "web_search_call", "id": "ws_1", "action": {"type": "search"}}
            place = {"output_index": 7}
            return [
                {"type": "response.created", "response": {"id": "r1", "model": "m"}},
                {"type": "response.reasoning_summary_text.delta", "delta": "hm", "summary_index": 0} | place,
                {"type": "response.output_item.done", "item": thought} | place,
                {"type": "response.output_item.done", "output_index": 8, "item": search},
                {"type": "response.output_text.annotation.added", "output_index": 0, "annotation": URL},
            ]
        case "anthropic":
            search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
            cited = {"type": "citations_delta", "citation": URL}
            thought = {"type": "thinking_delta", "thinking": "hm"}
            signed = {"type": "signature_delta", "signature": "s"}
            return [
                {"type": "ping"},
                *anthropic_block(7, {"type": "thinking"}, thought, signed),
                *anthropic_block(8, search),
                *anthropic_block(9, {"type": "text"}, {"type": "text_delta", "text": "so"}, cited),
            ]
        case _:
            thought = {"text": "hm", "thought": True, "thoughtSignature": "c2ln"}
            content = {"parts": [thought, {"executableCode": {"code": "1"}}]}
            sources = {"groundingChunks": [{"web": {"uri": "https://a.b", "title": "A"}}]}
            return [{"candidates": [{"content": content, "groundingMetadata": sources}], "responseId": "r"}]


def anthropic_block(index: int, body: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    place = {"index": index}
    return [
        {"type": "content_block_start", "content_block": body} | place,
        *({"type": "content_block_delta", "delta": delta} | place for delta in deltas),
        {"type": "content_block_stop"} | place,
    ]


def base(name: str) -> list[str]:
    dialect = DIALECTS[name]
    return [
        *dialect.opening(),
        *map(json.dumps, rest(name)),
        *dialect.text(0, "hé", "llo 😀"),
        *dialect.call(1, "call_1", "look", '{"path":"a', '", "n": [1, {"x": null}]}'),
        *dialect.call(2, "call_2", "look", "{}"),
        *dialect.end(usage=USAGES[name]),
    ]


# --- mutations ---

ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 7, 10**30, 1e308, float("inf"), "", " ", "x", "null", "{", '{"a":1}', "stop",
    "error", [], [None], [[]], {}, {"a": None}, {"type": "error", "message": "m"}, "\ud83d", "\ude00", "\x00",
    "é" * 50, ["x"] * 50,
)  # fmt: skip


def nodes(value: Any) -> list[tuple[Any, Any]]:
    """Each place in a JSON value, as its container and its key."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    found = [(value, key) for key in keys]
    return found + [place for key in keys for place in nodes(value[key])]


def in_event(change: Callable[[random.Random, Any, Any], None]) -> Callable[[random.Random, list[Any]], None]:
    """A mutation of the stream that changes one place in one event."""

    def mutate(rng: random.Random, stream: list[Any]) -> None:
        position = rng.randrange(len(stream))
        try:
            event = json.loads(stream[position])
        except (ValueError, RecursionError):
            return
        places = nodes(event)
        if places:
            change(rng, *rng.choice(places))
            stream[position] = json.dumps(event)

    return mutate


def put_odd(rng: random.Random, container: Any, key: Any) -> None:
    container[key] = rng.choice(ODD)


def remove(rng: random.Random, container: Any, key: Any) -> None:
    del container[key]


def wrap(rng: random.Random, container: Any, key: Any) -> None:
    value = container[key]
    container[key] = rng.choice(([value], {"value": value}, str(value), json.dumps(value), [value, value]))


def nest(rng: random.Random, container: Any, key: Any) -> None:
    value: Any = container[key]
    for _ in range(rng.choice((3, 200))):
        value = [value]
    container[key] = value


def enlarge(rng: random.Random, container: Any, key: Any) -> None:
    value = container[key]
    if isinstance(value, str | list):
        container[key] = value * rng.choice((2, 3000))
    elif isinstance(value, int):
        container[key] = value + rng.choice((1, 5, 10**9))


def drop(rng: random.Random, stream: list[Any]) -> None:
    del stream[rng.randrange(len(stream))]


def double(rng: random.Random, stream: list[Any]) -> None:
    position = rng.randrange(len(stream))
    stream.insert(rng.choice((position, rng.randrange(len(stream)))), stream[position])


def reorder(rng: random.Random, stream: list[Any]) -> None:
    one, other = rng.randrange(len(stream)), rng.randrange(len(stream))
    stream[one], stream[other] = stream[other], stream[one]


def cut(rng: random.Random, stream: list[Any]) -> None:
    del stream[rng.randrange(len(stream)) :]


def cut_event(rng: random.Random, stream: list[Any]) -> None:
    position = rng.randrange(len(stream))
    stream[position] = stream[position][: rng.randrange(len(stream[position]) + 1)]


def junk(rng: random.Random, stream: list[Any]) -> None:
    stream.insert(
        rng.randrange(len(stream)), rng.choice(("[DONE]", "", "[]", "NaN", "{}", "[" * 3000, b"\xff\xfe"))
    )


def encode_otherwise(rng: random.Random, stream: list[Any]) -> None:
    position = rng.randrange(len(stream))
    if isinstance(stream[position], str):
        encoding = rng.choice(("utf-8", "utf-8-sig", "utf-16", "utf-32", "latin-1"))
        stream[position] = stream[position].encode(encoding, "replace")


MUTATIONS = [
    drop, double, reorder, cut, cut_event, junk, encode_otherwise,
    *map(in_event, (put_odd, put_odd, remove, wrap, nest, enlarge)),
]  # fmt: skip


def mutated(rng: random.Random, name: str) -> list[str | bytes]:
    stream: list[Any] = base(name)
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        if stream:
            rng.choice(MUTATIONS)(rng, stream)
    return stream


# --- what holds for each of them ---


def check_events(events: list[StreamEvent]) -> None:
    *log, end = events
    assert isinstance(end, StreamDone | StreamError)
    ends = Counter[int]()
    starts = Counter[int]()
    for event in log:
        assert type(event) in STREAM_EVENTS
        assert not isinstance(event, StreamDone | StreamError)
        json.dumps(stream_event_to_json(event))
        if isinstance(event, ToolCallStart):
            starts[event.index] += 1
            assert type(event.id) is str
            assert event.id
            assert type(event.name) is str
        elif isinstance(event, ToolCallEnd):
            ends[event.index] += 1
    assert not starts or max(starts.values()) == 1
    assert ends <= starts, "no end without a start, and none twice"


def check_usage(message: AssistantMessage) -> None:
    usage = message.usage
    counts = (usage.input, usage.output, usage.cache_read, usage.cache_write, usage.total_tokens)
    assert all(type(count) is int and count >= 0 for count in counts)
    assert 0 <= usage.reasoning <= usage.output
    assert 0 <= usage.cache_write_1h <= usage.cache_write
    assert 0 <= usage.cost.total < float("inf")


def check_message(dialect: Dialect, events: list[StreamEvent]) -> AssistantMessage:
    *log, end = events
    assert isinstance(end, StreamDone | StreamError)
    model = Model("m", dialect.api, "local", cost=COST)
    message = build_message(log, end, model, 1).message
    assert message_from_json(json.loads(json.dumps(message_to_json(message)))) == message
    assert isinstance(PartialMessage(log, len(log)).text, str)
    assert all(source.title for source in message.sources)
    return message


def check_requests(message: AssistantMessage) -> None:
    """The message can be sent on, in each format."""
    results = [ToolResultMessage(call.id, call.name, "done") for call in message.tool_calls]
    history: list[Message] = [UserMessage("hi"), message, *results, UserMessage("go on")]
    for module, model in ENCODERS.values():
        body = module.build_request(model, AgentContext("", history), StreamOptions())
        json.dumps(body, allow_nan=False).encode()


@pytest.mark.parametrize("name", DIALECTS)
def test_the_streams_to_begin_with_are_whole(name: str) -> None:
    message = check_message(DIALECTS[name], DIALECTS[name].events(base(name), cost=COST))
    assert [call.arguments for call in message.tool_calls] == [{"path": "a", "n": [1, {"x": None}]}, {}]
    assert any(isinstance(block, TextContent) and "hé" in block.text for block in message.content)
    assert message.stop_reason == "toolUse"
    assert message.sources
    assert message.usage.output == 5


@pytest.mark.parametrize("name", DIALECTS)
def test_mutated_streams_end_once_and_make_messages_that_can_be_sent_on(name: str) -> None:
    dialect = DIALECTS[name]
    for seed in range(STREAMS):
        stream = mutated(random.Random(f"{name}-{seed}"), name)
        try:
            events = dialect.events(stream, cost=COST)
            check_events(events)
            message = check_message(dialect, events)
            check_usage(message)
            check_requests(message)
            for payload in stream:
                text = payload if isinstance(payload, str) else payload.decode("utf-8", "replace")
                assert isinstance(dialect.module.first_error(text), str | None)
        except Exception as error:
            error.add_note(f"seed {seed}: {[payload[:300] for payload in stream]}")
            raise


# Not completions: a doubled fragment of arguments looks like the next one.
@pytest.mark.parametrize("name", ["responses", "anthropic", "gemini"])
def test_a_call_in_a_doubled_event_stays_one_call(name: str) -> None:
    """Z14"""
    dialect = DIALECTS[name]
    stream = base(name)
    for position in range(len(stream) - 1):
        doubled = [*stream[: position + 1], *stream[position:]]
        calls = dialect.built(doubled).message.tool_calls
        assert len({call.id for call in calls}) == len(calls) == 2
