"""The smaller loop: rounds, tools all at once, callbacks, prompts and definitions, the double hours."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from support.runs import assert_well_formed, until

from agent import AgentTool, RunError, StreamDone, ToolExecutionEnd, ToolResult, UserMessage, tool
from agent.compat import (
    AgentLoop,
    ToolExecutor,
    build_system_message,
    convert_mcp_tools,
    result_text,
    stream_chat,
    this_moment,
)
from agent.messages import AssistantMessage, TextContent, ToolCall, ToolResultMessage
from agent.stream import StreamError, StreamStart, TextDelta, ToolCallDelta, ToolCallStart
from agent.testing import ScriptedModel, done, error, thinking, tool_call
from agent.usage import Usage

HI = [UserMessage("hi")]


@tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


@tool
def stop() -> ToolResult:
    """Ask for the end."""
    return ToolResult("stopping", terminate=True)


@tool
def fail() -> str:
    """Fail."""
    raise ValueError("it broke")


def loop_of(*turns: Any, tools: Any = (add, stop, fail), **options: Any) -> tuple[AgentLoop, ScriptedModel]:
    model = ScriptedModel(*turns)
    llm = functools.partial(model.stream, model.model)
    return AgentLoop(llm, ToolExecutor(tools), **options), model


SUM = [tool_call("add", {"a": 2, "b": 3}, "c1")]


def raw(name: str, result: Any) -> AgentTool:
    """A tool that returns what an MCP client would."""
    return AgentTool(name, "", {"type": "object"}, lambda arguments, context: result)


# --- the loop --------------------------------------------------------------------------------------


def test_rounds_end_with_an_answer_without_calls() -> None:
    loop, model = loop_of(SUM, "It is 5.")
    assert loop.run_non_streaming(HI) == "It is 5."
    model.assert_finished()
    last = model.contexts[1].messages
    assert [message.role for message in last] == ["user", "assistant", "toolResult"]
    assert last[2].text == "5"  # type: ignore[union-attr]
    assert len(HI) == 1


def test_the_events_of_the_model_come_as_they_are_then_one_per_result() -> None:
    loop, _ = loop_of(["Let me add.", tool_call("add", {"a": 1, "b": 1}), tool_call("stop")], "2")
    kinds = [event.type for event in loop.run(HI)]
    at = kinds.index("done")
    assert kinds[:3] == ["start", "text_start", "text_delta"]
    assert kinds[at + 1 : at + 4] == ["tool_execution_end", "tool_execution_end", "start"]
    assert kinds[-1] == "done"


def test_the_text_beside_calls_is_kept() -> None:
    loop, model = loop_of(["Let me add.", *SUM], "5")
    loop.run_non_streaming(HI)
    assert model.contexts[1].messages[1].text == "Let me add."  # type: ignore[union-attr]


@pytest.mark.parametrize(("given", "rounds"), [(5, 5), (0, 5), (-1, 5), (1, 1), (2, 2)])
def test_running_out_of_rounds_is_an_error(given: int, rounds: int) -> None:
    loop, model = loop_of(*[SUM] * 9, max_loop=given)
    with pytest.raises(RunError, match=rf"^max loop iterations \({rounds}\) exceeded$"):
        loop.run_non_streaming(HI)
    assert model.calls == rounds


def test_an_end_asked_for_in_the_last_round_is_no_error() -> None:
    loop, model = loop_of(["That is it.", tool_call("stop")], max_loop=1)
    assert loop.run_non_streaming(HI) == "That is it."
    model.assert_finished()


def test_all_results_of_a_round_must_ask_for_the_end() -> None:
    loop, model = loop_of([tool_call("stop"), *SUM], [tool_call("stop"), tool_call("fail")], "on")
    assert loop.run_non_streaming(HI) == "on"
    model.assert_finished()


def test_a_failed_stream_is_an_error_that_says_so() -> None:
    loop, _ = loop_of(error("529 overloaded"))
    with pytest.raises(RunError, match=r"^stream chat: 529 overloaded$"):
        list(loop.run(HI))
    loop, _ = loop_of(RuntimeError("boom"))
    with pytest.raises(RunError, match=r"^stream chat: boom$") as raised:
        list(loop.run(HI))
    assert isinstance(raised.value.__cause__, RuntimeError)
    loop, _ = loop_of([StreamStart(), TextDelta(0, "half")])
    with pytest.raises(RunError, match=r"^stream chat: stream ended unexpectedly$"):
        list(loop.run(HI))


def test_leaving_early_stops_the_request_and_the_tools() -> None:
    closed: list[bool] = []
    cancels: list[Any] = []

    def llm(context: Any, options: Any) -> Iterator[Any]:
        cancels.append(options.cancel)
        try:
            yield StreamStart()
            for _ in range(100):
                yield TextDelta(0, "x")
            yield StreamDone()
        finally:
            closed.append(options.cancel.is_set())

    events = AgentLoop(llm, ToolExecutor([])).run(HI)
    next(events)
    events.close()  # type: ignore[attr-defined]
    assert len(closed) == 1
    assert cancels[0].is_set()


def test_calls_of_an_answer_cut_by_its_length_are_not_run() -> None:
    ran: list[str] = []

    @tool
    def note() -> None:
        """Note it."""
        ran.append("x")

    loop, model = loop_of([tool_call("note"), done("length")], "sorry", tools=[note])
    assert loop.run_non_streaming(HI) == "sorry"
    assert ran == []
    assert "was not run" in model.contexts[1].messages[2].text  # type: ignore[union-attr]


def test_arguments_that_are_no_json_are_an_error_result() -> None:
    broken = [StreamStart(), ToolCallStart(0, "c1", "add"), ToolCallDelta(0, '{"a": '), StreamDone("toolUse")]
    loop, model = loop_of(broken, "sorry")
    assert loop.run_non_streaming(HI) == "sorry"
    result = model.contexts[1].messages[2]
    assert isinstance(result, ToolResultMessage)
    assert result.is_error


def test_the_model_is_sent_the_given_tools_or_those_of_the_executor() -> None:
    loop, model = loop_of("a", "b", "c")
    loop.run_non_streaming(HI)
    loop.run_non_streaming(HI, [add])
    loop.run_non_streaming(HI, build_system_message([stop])[1])
    assert [[item.name for item in context.tools] for context in model.contexts] == [
        ["add", "stop", "fail"],
        ["add"],
        ["stop"],
    ]


def test_a_system_message_in_front_becomes_the_system_prompt() -> None:
    loop, model = loop_of("a")
    loop.run_non_streaming([{"role": "system", "content": "Be brief."}, *HI])
    assert model.contexts[0].system_prompt == "Be brief."
    assert [message.role for message in model.contexts[0].messages] == ["user"]
    with pytest.raises(Exception, match="only system messages"):
        loop.run_non_streaming([{"role": "user", "content": "hi"}])


# --- the executor ----------------------------------------------------------------------------------


def call(name: str, id: str = "c1", **arguments: Any) -> ToolCall:
    return ToolCall(id, name, arguments)


def test_nothing_to_run_changes_nothing() -> None:
    assert ToolExecutor([add]).execute_tool_calls(HI, []) == ([], HI, False)


def test_all_calls_run_at_once_and_come_back_in_their_order() -> None:
    together = threading.Barrier(8, timeout=10)
    order: list[int] = []

    @tool
    def meet(n: int) -> str:
        """Wait for the others; the last call ends first."""
        together.wait()
        until(lambda: len(order) == 7 - n)
        order.append(n)
        return f"{n}"

    calls = [call("meet", f"c{n}", n=n) for n in range(8)]
    events, messages, ends = ToolExecutor([meet]).execute_tool_calls(HI, calls)
    assert order == [7, 6, 5, 4, 3, 2, 1, 0]
    assert [event.result.text for event in events] == [str(n) for n in range(8)]
    assert [message.text for message in messages[2:]] == [str(n) for n in range(8)]  # type: ignore[union-attr]
    assert not ends


def test_every_call_gets_a_result_whatever_happens() -> None:
    calls = [call("add", a=1, b=1), call("fail", "c2"), call("nope", "c3"), call("add", "c4", a="x", b=1)]
    events, messages, ends = ToolExecutor([add, fail]).execute_tool_calls([], calls)
    assert [(event.tool_call_id, event.is_error) for event in events] == [
        ("c1", False),
        ("c2", True),
        ("c3", True),
        ("c4", True),
    ]
    assert "it broke" in events[1].result.text
    assert "not found" in events[2].result.text
    assert len(messages) == 5
    assert not ends


def test_two_calls_under_one_id_keep_their_own_results() -> None:
    calls = [call("add", a=1, b=1), call("add", a=2, b=2)]
    events, _, _ = ToolExecutor([add]).execute_tool_calls([], calls)
    assert [event.result.text for event in events] == ["2", "4"]


def test_names_are_found_whatever_their_case() -> None:
    events, _, _ = ToolExecutor([add]).execute_tool_calls([], [call("ADD", a=1, b=1)])
    assert (events[0].tool_name, events[0].result.text) == ("add", "2")


def test_the_before_hook_blocks_with_its_reason_and_the_after_hook_is_not_called() -> None:
    after_calls: list[str] = []
    executor = ToolExecutor(
        [add, stop],
        before_tool_call=lambda c: (c.name == "stop", "not now"),
        after_tool_call=lambda c, result: after_calls.append(c.name),
    )
    events, _, ends = executor.execute_tool_calls([], [call("stop"), call("add", "c2", a=1, b=1)])
    assert [(event.result.text, event.is_error) for event in events] == [("not now", True), ("2", False)]
    assert after_calls == ["add"]
    assert not ends


def test_the_after_hook_may_replace_a_result() -> None:
    def shout(c: ToolCall, result: dict[str, Any]) -> dict[str, Any]:
        assert result["content"] == [{"type": "text", "text": "2"}]
        return {"content": [{"type": "text", "text": "two!"}], "terminate": True}

    executor = ToolExecutor([add], after_tool_call=shout)
    events, _, ends = executor.execute_tool_calls([], [call("add", a=1, b=1)])
    assert events[0].result.text == "two!"
    assert ends


def test_a_hook_that_raises_makes_an_error_result() -> None:
    def broken(*ignored: Any) -> Any:
        raise ValueError("no hook today")

    for hooks in ({"before_tool_call": broken}, {"after_tool_call": broken}):
        events, _, _ = ToolExecutor([add], **hooks).execute_tool_calls([], [call("add", a=1, b=1)])
        assert events[0].is_error
        assert "no hook today" in events[0].result.text


@pytest.mark.parametrize(("mark", "ends"), [(True, True), ("true", False), (1, False), (None, False)])
def test_only_true_asks_for_the_end(mark: Any, ends: bool) -> None:
    result = {"content": [{"type": "text", "text": "x"}], "terminate": mark}
    executor = ToolExecutor([raw("t", result)])
    assert executor.execute_tool_calls([], [call("t")])[2] is ends


def test_an_error_in_the_form_of_mcp_is_an_error_result() -> None:
    result = {"content": [{"type": "text", "text": "bad"}], "isError": True}
    events, _, _ = ToolExecutor([raw("t", result)]).execute_tool_calls([], [call("t")])
    assert (events[0].result.text, events[0].is_error) == ("bad", True)


def test_an_image_in_the_form_of_mcp_stays_one() -> None:
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    result = {"content": [{"type": "text", "text": "see"}, image]}
    events, _, _ = ToolExecutor([raw("t", result)]).execute_tool_calls([], [call("t")])
    assert [block.type for block in events[0].result.content] == ["text", "image"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        ("as it is", "as it is"),
        ({}, "{}"),
        ({"content": [{"type": "text", "text": ""}, {"type": "text", "text": "first"}]}, "first"),
        ({"content": "plain"}, "plain"),
        ({"content": [], "structuredContent": "structured"}, "structured"),
        ({"structuredContent": {"text": "inner"}}, "inner"),
        ({"structuredContent": {"a": "é"}}, '{"a": "é"}'),
        ({"answer": 5}, '{"answer": 5}'),
        ([1, 2], "[1, 2]"),
    ],
)
def test_the_text_of_a_result_in_the_form_of_mcp(value: Any, text: str) -> None:
    assert result_text(value) == text


def test_the_loop_of_the_executor_asks_until_there_are_no_calls() -> None:
    answers = [AssistantMessage([call("add", a=1, b=1)]), AssistantMessage("It is 2.")]
    seen: list[int] = []

    def chat(messages: list[Any]) -> AssistantMessage:
        seen.append(len(messages))
        return answers.pop(0)

    answer = ToolExecutor([add]).execute_tool_call_loop(HI, chat)
    assert answer == "It is 2."
    assert seen == [1, 3]
    assert [message.role for message in answer.messages] == ["user", "assistant", "toolResult", "assistant"]
    assert [each.name for each in answer.tool_calls] == ["add"]


def test_the_loop_of_the_executor_sums_the_usage() -> None:
    """FS-M7"""
    answers = [
        AssistantMessage([call("add", a=1, b=1)], usage=Usage(input=1)),
        AssistantMessage("It is 2.", usage=Usage(output=2)),
    ]
    answer = ToolExecutor([add]).execute_tool_call_loop(HI, lambda messages: answers.pop(0))
    assert (answer.usage.input, answer.usage.output) == (1, 2)


@pytest.mark.parametrize("given", [[], HI])
def test_the_messages_of_executed_calls_are_whole_by_themselves(given: list[Any]) -> None:
    """FS-M7"""
    calls = [call("add", a=1, b=1), call("add", "c2", a=2, b=2)]
    _, messages, _ = ToolExecutor([add]).execute_tool_calls(given, calls)
    assert_well_formed(messages)
    answer = messages[len(given)]
    assert isinstance(answer, AssistantMessage)
    assert answer.tool_calls == tuple(calls)
    _, again, _ = ToolExecutor([add]).execute_tool_calls([*given, answer], calls)
    assert len(again) == len(messages)


def test_the_loop_of_the_executor_ends_when_all_results_ask_for_it() -> None:
    answer = AssistantMessage([TextContent("Enough."), call("stop")])
    assert ToolExecutor([stop]).execute_tool_call_loop(HI, lambda messages: answer) == "Enough."


def test_the_threads_of_the_tools_end_with_the_round() -> None:
    ToolExecutor([add]).execute_tool_calls([], [call("add", f"c{n}", a=n, b=n) for n in range(50)])
    until(lambda: not any(t.name.startswith("agent-tool") for t in threading.enumerate()))


# --- streaming callbacks ---------------------------------------------------------------------------


def test_pieces_go_to_the_callbacks_and_the_whole_text_comes_back() -> None:
    loop, _ = loop_of([thinking("hm "), "Adding. ", *SUM], [thinking("so "), "It is 5."])
    text: list[str] = []
    thought: list[str] = []
    assert stream_chat(loop, HI, on_delta=text.append, on_think=thought.append) == "Adding. It is 5."
    assert "".join(text) == "Adding. It is 5."
    assert thought == ["hm ", "\n", "so "]


def test_callbacks_may_be_left_out() -> None:
    loop, _ = loop_of([thinking("hm"), *SUM], "5")
    assert stream_chat(loop, HI) == "5"


def test_empty_pieces_are_not_emitted() -> None:
    loop, _ = loop_of([StreamStart(), TextDelta(0, ""), TextDelta(0, "x"), StreamDone()])
    pieces: list[str] = []
    stream_chat(loop, HI, on_delta=pieces.append)
    assert pieces == ["x"]


def test_an_error_brings_the_text_so_far() -> None:
    broken = [StreamStart(), TextDelta(0, "one "), TextDelta(0, "two"), StreamError("reset")]
    loop, _ = loop_of(broken)
    with pytest.raises(RunError, match="stream chat: reset") as raised:
        stream_chat(loop, HI)
    assert raised.value.partial_result.text == "one two"


def test_what_a_callback_raises_ends_the_run() -> None:
    loop, model = loop_of("one two", "never")

    def broken(piece: str) -> None:
        raise ValueError("screen is gone")

    with pytest.raises(ValueError, match="screen is gone"):
        stream_chat(loop, HI, on_delta=broken)
    assert model.options[0].cancel.is_set()


# --- prompts and definitions -----------------------------------------------------------------------


def test_the_system_message_names_the_tools_only_when_there_are_some() -> None:
    text, definitions = build_system_message([], "Be brief.", "Use tools.")
    assert (text, definitions) == ("Be brief.", [])
    text, definitions = build_system_message([add], "Be brief.", "Use tools.")
    assert text == "Be brief.\nUse tools."
    assert definitions[0]["type"] == "function"
    assert definitions[0]["function"]["name"] == "add"
    assert definitions[0]["function"]["parameters"] == add.parameters


def test_empty_prompts_stand_for_ours() -> None:
    alone, _ = build_system_message([])
    with_tools, _ = build_system_message([add])
    assert alone
    assert with_tools.startswith(f"{alone}\n")


def test_mcp_tools_as_definitions() -> None:
    class Listed:
        name, description, inputSchema = "b", None, {"type": "object"}

    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    assert convert_mcp_tools([]) == []
    assert convert_mcp_tools([{"name": "a", "description": "A.", "inputSchema": schema}, Listed()]) == [
        {"type": "function", "function": {"name": "a", "description": "A.", "parameters": schema}},
        {"type": "function", "function": {"name": "b", "description": "", "parameters": {"type": "object"}}},
    ]


# --- the double hours ------------------------------------------------------------------------------


def test_every_hour_of_the_day() -> None:
    hours = "子丑丑寅寅卯卯辰辰巳巳午午未未申申酉酉戌戌亥亥子"
    moments = [this_moment(datetime(2025, 3, 1, hour, 30)) for hour in range(24)]
    assert moments == [f"当前时辰: 2025-03-01 {name}时" for name in hours]


@pytest.mark.parametrize(
    ("clock", "name"), [((22, 59), "亥"), ((23, 0), "子"), ((0, 59), "子"), ((1, 0), "丑")]
)
def test_a_double_hour_begins_on_the_odd_hour(clock: tuple[int, int], name: str) -> None:
    assert this_moment(datetime(2025, 3, 1, *clock)).endswith(f" {name}时")


def test_the_day_changes_at_midnight() -> None:
    assert this_moment(datetime(2025, 3, 1, 23, 30)) == "当前时辰: 2025-03-01 子时"
    assert this_moment(datetime(2025, 3, 2, 0, 30)) == "当前时辰: 2025-03-02 子时"


def test_a_moment_is_formatted_in_the_requested_time_zone() -> None:
    shanghai = timezone(timedelta(hours=8))
    assert this_moment(datetime(2025, 3, 1, 20, 0, tzinfo=UTC), shanghai) == "当前时辰: 2025-03-02 寅时"
    assert this_moment(0.0, shanghai) == "当前时辰: 1970-01-01 辰时"
    assert this_moment(datetime(2025, 3, 1, 20, 0), shanghai) == "当前时辰: 2025-03-01 戌时"


def test_without_a_moment_it_is_now() -> None:
    before, moment, after = this_moment(), this_moment(), this_moment()
    assert moment in (before, after)
    assert moment.startswith("当前时辰: ")


def test_end_events_are_those_of_the_package() -> None:
    events, _, _ = ToolExecutor([add]).execute_tool_calls([], [call("add", a=1, b=1)])
    assert isinstance(events[0], ToolExecutionEnd)
