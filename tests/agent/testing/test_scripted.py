"""ScriptedModel: plays a script, one entry per request."""

from __future__ import annotations

import threading

import pytest
from support.streams import answer, events

from agent.cancel import CancelToken
from agent.messages import (
    AssistantMessage,
    ServerContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    UserMessage,
)
from agent.stream import AgentContext, StreamError, StreamOptions, StreamStart, TextDelta
from agent.testing import ScriptedModel, done, error, text, thinking, tool_call
from agent.usage import Usage


def test_a_text_comes_word_by_word_and_whole() -> None:
    received = events(ScriptedModel("one two  three\n").stream)
    deltas = [e.delta for e in received if isinstance(e, TextDelta)]
    assert deltas == ["one ", "two  ", "three\n"]
    assert answer(received).text == "one two  three\n"


def test_blocks_come_as_they_are_written() -> None:
    blocks = [
        thinking("let me see", "sig"),
        ThinkingContent("", "blob", redacted=True),
        text("now"),
        tool_call("add", {"a": 2, "b": [1, {"c": "é"}]}),
        ServerContent("search", "{}"),
    ]
    message = answer(events(ScriptedModel(blocks).stream))
    assert [b.type for b in message.content] == ["thinking", "thinking", "text", "toolCall", "server"]
    assert message.content[0] == ThinkingContent("let me see", "sig")
    assert message.content[3] == ToolCall("call_1", "add", {"a": 2, "b": [1, {"c": "é"}]})
    assert message.stop_reason == "toolUse"


def test_calls_without_ids_are_numbered_through_the_script() -> None:
    model = ScriptedModel([tool_call("a"), tool_call("b", id="mine")], [tool_call("c")])
    ids = [c.id for _ in range(2) for c in answer(events(model.stream)).tool_calls]
    assert ids == ["call_1", "mine", "call_2"]


def test_a_list_may_end_in_an_error_or_another_stop_reason() -> None:
    usage = Usage(input=3, total_tokens=3)
    failed = answer(events(ScriptedModel([text("half"), error("no", usage=usage)]).stream))
    assert (failed.text, failed.stop_reason, failed.error_message, failed.usage) == (
        "half",
        "error",
        "no",
        usage,
    )
    cut = answer(events(ScriptedModel([text("half"), done("length", usage)]).stream))
    assert (cut.stop_reason, cut.usage) == ("length", usage)


@pytest.mark.parametrize(
    "message",
    [
        AssistantMessage("whole", usage=Usage(output=1, total_tokens=1)),
        AssistantMessage([TextContent("x")], stop_reason="error", error_message="no"),
        AssistantMessage([ToolCall("1", "t", {"a": 1})], stop_reason="toolUse"),
    ],
)
def test_a_message_is_played_block_by_block(message: AssistantMessage) -> None:
    played = answer(events(ScriptedModel(message).stream))
    assert (played.content, played.stop_reason, played.error_message, played.usage) == (
        message.content,
        message.stop_reason,
        message.error_message,
        message.usage,
    )


def test_an_exception_is_raised() -> None:
    with pytest.raises(LookupError):
        events(ScriptedModel(LookupError("x")).stream)


def test_a_function_answers_from_the_context() -> None:
    model = ScriptedModel(lambda context: f"{len(context.messages)} messages")
    assert answer(events(model.stream, context=AgentContext("", [UserMessage("a")]))).text == "1 messages"


def test_raw_events_are_played_with_nothing_added() -> None:
    raw = [StreamStart(), TextDelta(0, "cut")]
    assert events(ScriptedModel(raw).stream) == raw


def test_what_each_request_came_with_is_kept() -> None:
    model = ScriptedModel("a", "b")
    messages = [UserMessage("x")]
    options = StreamOptions(session_id="s")
    events(model.stream, options, AgentContext("p", messages))
    messages.append(UserMessage("later"))
    assert [len(c.messages) for c in model.contexts] == [1]
    assert model.options == [options]
    assert model.calls == 1


def test_turns_that_were_not_used_fail_the_assertion() -> None:
    model = ScriptedModel("a", "b")
    events(model.stream)
    with pytest.raises(AssertionError, match="1 of 2"):
        model.assert_finished()
    events(model.stream)
    model.assert_finished()


def test_past_its_end_the_script_answers_with_an_error() -> None:
    model = ScriptedModel("a")
    events(model.stream)
    (only,) = events(model.stream)
    assert isinstance(only, StreamError)
    assert "no turn 2" in only.error_message


def test_a_cancelled_script_stops() -> None:
    token = CancelToken()
    stream = ScriptedModel("one two three").stream(
        ScriptedModel().model, AgentContext(), StreamOptions(cancel=token)
    )
    next(stream)
    token.cancel()
    rest = list(stream)
    assert [e.type for e in rest] == ["error"]
    assert rest[0].stop_reason == "aborted"  # type: ignore[union-attr]


def test_what_is_no_block_is_refused() -> None:
    with pytest.raises(TypeError, match="int"):
        events(ScriptedModel([7]).stream)


def test_a_script_serves_many_threads_each_turn_once() -> None:
    model = ScriptedModel(*[str(n) for n in range(40)])
    texts: list[str] = []

    def ask() -> None:
        for _ in range(10):
            texts.append(answer(events(model.stream)).text)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(texts, key=int) == [str(n) for n in range(40)]
