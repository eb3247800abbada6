"""The work of a run grows with its length and not with its square; nothing is kept twice."""

from __future__ import annotations

import gc
import json
import sys
import threading
import time
import tracemalloc
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest
from support.runs import NO_WAITS, play, text_of

from agent import Agent, AgentTool, tool
from agent.events import (
    Event,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
    event_to_json,
)
from agent.messages import (
    AssistantMessage,
    Message,
    TextContent,
    ToolResultMessage,
    UserMessage,
    message_to_json,
)
from agent.stream import (
    PartialMessage,
    StreamDone,
    StreamEvent,
    StreamStart,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from agent.testing import ScriptedModel, text, thinking, tool_call
from agent.tools import ToolResult

WRITE = AgentTool("write", "", {"type": "object"}, lambda arguments, context: str(len(arguments["content"])))


def arguments_one_by_one(count: int) -> list[StreamEvent]:
    """A call whose arguments hold `count` characters of content, a character per delta."""
    encoded = json.dumps({"path": "f", "content": "x" * count})
    deltas = [ToolCallDelta(0, character) for character in encoded]
    return [StreamStart(), ToolCallStart(0, "c1", "write"), *deltas, ToolCallEnd(0), StreamDone("toolUse")]


def text_one_by_one(count: int) -> list[StreamEvent]:
    return [StreamStart(), *[ThinkingDelta(0, "t")] * count, *[TextDelta(1, "x")] * count, StreamDone()]


def calls_made(work: Callable[[], object]) -> Counter[str]:
    """How often each function, of ours or built in, was called on this thread."""
    counts: Counter[str] = Counter()

    def count(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            counts[frame.f_code.co_qualname] += 1
        elif event == "c_call":
            counts[argument.__qualname__] += 1

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return counts


@pytest.mark.parametrize("script", [text_one_by_one, arguments_one_by_one])
def test_n_deltas_cost_n_steps_and_one_reading_of_their_text(
    script: Callable[[int], list[StreamEvent]],
) -> None:
    """J01, as counted work: what touches whole texts is called as often for many deltas as for few."""

    def work(count: int) -> Counter[str]:
        return calls_made(lambda: play(script(count), "ok", tools=[WRITE]))

    few, many = work(200), work(2000)
    assert sum(many.values()) <= 10 * sum(few.values())
    for name in (
        "str.join",
        "_fold",
        "build_message",
        "parse_arguments",
        "parse_partial_object",
        "list.copy",
    ):
        assert many[name] == few[name], name
    assert many["_fold"] <= 2  # once per answer
    assert not [name for name in many if "loads" in name and many[name] != few[name]]


def test_a_view_copies_nothing() -> None:
    played = play(text_one_by_one(300))
    views = [e.message for e in played.events if isinstance(e, MessageUpdate)]
    assert len({id(view._log) for view in views}) == 1
    assert [view._length for view in views] == list(range(2, 602))
    assert all(view._content is None for view in views)


def test_the_memory_of_kept_events_grows_with_their_number() -> None:
    def kept(count: int) -> int:
        script = text_one_by_one(count)
        gc.collect()
        tracemalloc.start()
        played = play(script)
        size, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(played.events) > 2 * count
        return size

    kept(10)
    assert kept(4000) < 5 * kept(1000)


def test_one_hundred_thousand_deltas_of_arguments_take_no_two_seconds() -> None:
    """J01"""
    script = arguments_one_by_one(100_000)
    began = time.process_time()
    played = play(script, "ok", tools=[WRITE])
    assert time.process_time() - began < 4.0  # twice the bound, for a slow machine
    assert text_of(played.new[2]) == "100000"


def test_four_times_the_deltas_take_no_six_times_as_long() -> None:
    """J01"""

    def took(count: int) -> float:
        script = arguments_one_by_one(count)
        began = time.process_time()
        play(script, "ok", tools=[WRITE])
        return time.process_time() - began

    took(1000)
    assert any(took(16_000) / took(4_000) < 6 for _ in range(3))


def test_the_json_of_a_runs_events_grows_with_its_length() -> None:
    def size(count: int) -> int:
        return sum(len(json.dumps(event_to_json(e))) for e in play(text_one_by_one(count)).events)

    assert size(1600) < 4.5 * size(400)


# --- views -----------------------------------------------------------------------------------------


def test_views_that_are_kept_stay_right() -> None:
    played = play([thinking("hmm so"), text("one two three"), text("four")])
    updates = [e for e in played.events if isinstance(e, MessageUpdate)]
    so_far = ""
    expected = []
    for update in updates:
        so_far += update.stream_event.delta if isinstance(update.stream_event, TextDelta) else ""
        expected.append(so_far)
    # Read after the end, the last first.
    assert [update.message.text for update in reversed(updates)] == expected[::-1]
    assert (updates[0].message.thinking, updates[-1].message.thinking) == ("", "hmm so")


def test_a_view_of_arguments_never_shrinks_where_a_delta_ends_in_a_backslash() -> None:
    """J06"""
    deltas = ['{"a":"x', "\\", 'n"}']
    script = [
        StreamStart(),
        ToolCallStart(0, "c", "t"),
        *(ToolCallDelta(0, d) for d in deltas),
        StreamDone("toolUse"),
    ]
    played = play(script, "ok")
    views = [e.message for e in played.events if isinstance(e, MessageUpdate)]
    assert [view.tool_calls[0].arguments for view in views[1:4]] == [{"a": "x"}, {"a": "x"}, {"a": "x\n"}]


def test_a_started_message_is_a_view_of_nothing() -> None:
    starts = [e.message for e in play("hello").events if isinstance(e, MessageStart)]
    assert isinstance(starts[-1], PartialMessage)
    assert starts[-1].content == ()


# --- nothing twice ---------------------------------------------------------------------------------


def test_the_output_of_a_tool_exists_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """B15: every event, the transcript and the next request share one text."""
    output = "line of output\n" * 2000
    played = play([tool_call("t", id="c1")], "ok", tools=[AgentTool("t", "", {}, lambda a, c: output)])
    for event in played.events:
        match event:
            case (
                ToolExecutionEnd(result=result)
                | MessageStart(ToolResultMessage() as result)
                | MessageEnd(ToolResultMessage() as result)
            ):
                assert result.content[0].text is output  # type: ignore[union-attr]
            case TurnEnd(tool_results=(result,)):
                assert result.content[0].text is output  # type: ignore[union-attr]
    sent = played.model.contexts[1].messages[-1]
    assert text_of(sent) == output
    assert sent is played.new[2]
    assert len(json.dumps(message_to_json(sent))) < 1.5 * len(output)


class Output(str):
    """A text that can be watched."""

    __slots__ = ("__weakref__",)


def test_the_output_of_a_tool_goes_with_its_message() -> None:
    """B15: no thread, queue or frame of the run keeps it."""
    alive: list[weakref.ref[Output]] = []

    @tool
    def produce() -> ToolResult:
        """Make much."""
        output = Output("line of output\n" * 2000)
        alive.append(weakref.ref(output))
        return ToolResult([TextContent(output)])

    model = ScriptedModel([tool_call("produce")], "ok")
    with Agent(model.model, stream_fn=model.stream, tools=[produce]) as agent:
        agent.prompt("hi").wait(10)
        assert alive[0]() is not None
        agent.clear_messages()
        model.contexts.clear()
        gc.collect()
        assert alive[0]() is None


def test_a_long_history_is_not_copied_per_event() -> None:
    """Each request takes one copy for the hooks and one for the converter, however many events it has."""

    class Counted(UserMessage):
        __slots__ = ()

    history: list[Message] = [Counted("x") for _ in range(500)]

    def grown(deltas: int) -> int:
        script = text_one_by_one(deltas)
        return sum(calls_made(lambda: play(script, history=history)).values())

    per_delta = (grown(400) - grown(200)) / 400
    assert per_delta < 25


# --- two threads -----------------------------------------------------------------------------------


def test_a_view_may_be_read_by_another_thread_while_the_answer_grows() -> None:
    views: list[Any] = []
    wrong: list[str] = []
    ended = threading.Event()

    def deltas(*request: Any) -> Iterator[StreamEvent]:
        for number in range(3000):
            yield TextDelta(0, f"{number},")
        yield StreamDone()

    def read() -> None:
        while not ended.is_set():
            for view in views[-3:]:
                numbers = view.text.split(",")[:-1]
                if numbers != [str(n) for n in range(len(numbers))] or len(numbers) != view._length:
                    wrong.append(view.text)

    reader = threading.Thread(target=read)
    with Agent(ScriptedModel().model, stream_fn=deltas, retry=NO_WAITS) as agent:
        agent.subscribe(
            lambda event: views.append(event.message) if isinstance(event, MessageUpdate) else None
        )
        reader.start()
        answer = agent.run("hi").messages[-1]
        ended.set()
        reader.join(10)
    assert wrong == []
    assert isinstance(answer, AssistantMessage)
    assert views[-1].text == answer.text


def test_events_are_the_same_for_every_subscriber_and_for_ever() -> None:
    first: list[Event] = []
    second: list[Event] = []
    model = ScriptedModel([tool_call("write", {"content": "abc"})], "ok")
    with Agent(model.model, stream_fn=model.stream, tools=[WRITE]) as agent:
        agent.subscribe(first.append)
        agent.subscribe(second.append)
        agent.run("hi")
    assert all(a is b for a, b in zip(first, second, strict=True))
    started = next(e for e in first if isinstance(e, ToolExecutionStart))
    assert started.arguments == {"content": "abc"}
