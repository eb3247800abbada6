"""One model call: the request that is sent, and the answer built from the stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from support.runs import NO_WAITS
from support.tools import raw_tool

from agent.cancel import CancelToken
from agent.events import Event, MessageEnd, MessageStart, StreamRetry
from agent.hook_types import RequestUpdate
from agent.hooks import Hooks
from agent.limits import TIME_IS_UP
from agent.loop import LoopConfig
from agent.loop.history import History
from agent.loop.model_call import Answer, ModelCaller, call_once
from agent.loop.recorder import RunRecorder
from agent.messages import UserMessage
from agent.models import Model
from agent.stream import (
    AgentContext,
    StreamDone,
    StreamError,
    StreamEvent,
    StreamOptions,
    StreamStart,
    TextDelta,
    TextStart,
    ToolCallDelta,
    ToolCallStart,
)
from agent.tools import ToolSet

MODEL = Model("m", "scripted", "scripted")
TEXT: list[StreamEvent] = [StreamStart(), TextStart(0), TextDelta(0, "hello"), StreamDone("stop")]
EMPTY: list[StreamEvent] = [StreamStart(), StreamDone("stop")]
BROKEN_CALL: list[StreamEvent] = [
    StreamStart(),
    ToolCallStart(0, "c1", "read"),
    ToolCallDelta(0, '{"pa'),
    StreamError("connection lost"),
]
TOOLS = ToolSet([raw_tool("read"), raw_tool("write")])


class Calls:
    """A caller with a stream function that plays one row of events per request and keeps the requests."""

    def __init__(self, *streams: Sequence[Any], hooks: Hooks | None = None, **config: Any) -> None:
        self.streams = list(streams)
        self.requests: list[tuple[AgentContext, StreamOptions]] = []
        self.events: list[Event] = []
        self.cancel = CancelToken()
        settings = LoopConfig(MODEL, **({"retry": NO_WAITS} | config))
        self.recorder = RunRecorder(History([UserMessage("hi")]), settings, self.events.append)
        self.caller = ModelCaller(settings, hooks or Hooks(), self.stream, self.recorder, self.cancel)

    def stream(self, model: Model, context: AgentContext, options: StreamOptions) -> Iterator[StreamEvent]:
        self.requests.append((context, options))
        yield from self.streams.pop(0)

    def once(self, request: RequestUpdate | None = None) -> Answer:
        return self.caller.call("system", TOOLS, request, may_be_empty=True)

    def until_usable(self, wait: Callable[[float], bool] = lambda seconds: False) -> Answer:
        return self.caller.call_until_usable("system", TOOLS, None, wait)

    @property
    def roles(self) -> list[str]:
        return [message.role for message in self.recorder.history.to_send()]

    @property
    def retries(self) -> list[int]:
        return [event.attempt for event in self.events if isinstance(event, StreamRetry)]


def test_an_answer_is_recorded_between_its_start_and_its_end() -> None:
    calls = Calls(TEXT)
    answer = calls.once()
    assert (answer.message.text, answer.recorded, answer.awaiting_review) == ("hello", True, False)
    assert isinstance(calls.events[0], MessageStart)
    assert isinstance(calls.events[-1], MessageEnd)
    assert calls.roles == ["user", "assistant"]


def test_a_stream_without_a_terminal_event_is_an_unrecorded_error() -> None:
    calls = Calls(TEXT[:-1])
    answer = calls.once()
    assert (answer.message.stop_reason, answer.recorded) == ("error", False)
    assert answer.message.error_message == "stream ended unexpectedly"
    assert not any(isinstance(event, MessageEnd) for event in calls.events)
    assert calls.roles == ["user"]


@pytest.mark.parametrize("foreign", [None, "text", 3, UserMessage("hi")])
def test_an_object_that_is_no_stream_event_ends_the_answer_with_an_error(foreign: Any) -> None:
    answer = Calls([*TEXT[:-1], foreign, TEXT[-1]]).once()
    assert answer.message.stop_reason == "error"
    assert "is no stream event" in answer.message.error_message
    assert answer.message.text == "hello"


def test_no_request_is_sent_after_a_cancellation() -> None:
    calls = Calls(TEXT)
    calls.cancel.cancel(TIME_IS_UP)
    answer = calls.once()
    assert answer.message.stop_reason == "aborted"
    assert "max_seconds" in answer.message.error_message
    assert calls.requests == []


def test_an_empty_answer_is_requested_again_and_is_an_error_after_two_retries() -> None:
    calls = Calls(EMPTY, EMPTY, EMPTY)
    answer = calls.until_usable()
    assert answer.message.stop_reason == "error"
    assert answer.message.error_message == "the model returned an empty answer again and again"
    assert len(calls.requests) == 3
    assert calls.retries == [1, 2]


def test_empty_answers_and_broken_calls_are_dropped_before_the_next_request() -> None:
    calls = Calls(EMPTY, BROKEN_CALL, TEXT)
    answer = calls.until_usable()
    assert answer.message.text == "hello"
    assert [len(context.messages) for context, _ in calls.requests] == [1, 1, 1]
    assert calls.roles == ["user", "assistant"]


def test_a_call_that_keeps_breaking_is_returned_dropped_after_the_last_attempt() -> None:
    attempts = len(NO_WAITS.mid_tool_call)
    calls = Calls(*[BROKEN_CALL] * (attempts + 1))
    answer = calls.until_usable()
    assert answer.has_truncated_call
    assert calls.retries == list(range(1, attempts + 1))
    assert calls.roles == ["user"]


def test_a_wait_that_is_cancelled_ends_the_attempts_at_a_broken_call() -> None:
    calls = Calls(BROKEN_CALL, TEXT)
    answer = calls.until_usable(wait=lambda seconds: True)
    assert answer.has_truncated_call
    assert len(calls.requests) == 1


def test_a_final_answer_waits_for_its_review_before_it_is_recorded() -> None:
    calls = Calls(TEXT, hooks=Hooks(candidate_answer=lambda info: None))
    answer = calls.once()
    assert (answer.awaiting_review, answer.recorded) == (True, False)
    assert calls.roles == ["user"]
    calls.caller.record(answer)
    assert (answer.awaiting_review, answer.recorded) == (False, True)
    assert calls.roles == ["user", "assistant"]


def test_an_answer_that_the_provider_paused_is_recorded_without_a_review() -> None:
    paused = [*TEXT[:-1], StreamDone("stop", paused=True)]
    answer = Calls(paused, hooks=Hooks(candidate_answer=lambda info: None)).once()
    assert (answer.is_paused, answer.awaiting_review, answer.recorded) == (True, False, True)


def test_a_constraint_holds_for_its_request_alone() -> None:
    calls = Calls(TEXT, TEXT)
    calls.once(RequestUpdate(tool_choice="none", system_suffix="Be brief."))
    calls.once()
    (constrained, first), (free, second) = calls.requests
    assert (constrained.system_prompt, first.tool_choice) == ("system\nBe brief.", "none")
    assert (free.system_prompt, second.tool_choice) == ("system", LoopConfig(MODEL).tool_choice)


def test_the_constraint_is_applied_after_the_request_hook() -> None:
    def on_request(context: AgentContext, options: StreamOptions) -> tuple[AgentContext, StreamOptions]:
        options.tool_choice, options.cancel = "required", CancelToken()
        return AgentContext("replaced", context.messages, ()), options

    calls = Calls(TEXT, hooks=Hooks(on_request=on_request))
    calls.once(RequestUpdate(tools=list(TOOLS), tool_choice="none", system_suffix="suffix"))
    context, options = calls.requests[0]
    assert context.system_prompt == "replaced\nsuffix"
    assert [tool.name for tool in context.tools] == ["read", "write"]
    assert options.tool_choice == "none"
    assert options.cancel is calls.cancel


def test_a_request_without_tools_has_no_server_tools_either() -> None:
    calls = Calls(TEXT, server_tools=("web_search",))
    calls.caller.call("", ToolSet(), RequestUpdate(tools=[]), may_be_empty=True)
    context, options = calls.requests[0]
    assert (tuple(context.tools), tuple(options.server_tools)) == ((), ())


def test_a_request_that_cannot_be_built_is_not_sent_and_names_its_cause() -> None:
    error = ValueError("broken transform")

    def transform(messages: Any) -> Any:
        raise error

    calls = Calls(TEXT, hooks=Hooks(transform_context=transform))
    answer = calls.once()
    assert (answer.message.error_message, answer.recorded) == ("broken transform", False)
    assert answer.cause is error
    assert calls.requests == []


def test_a_failing_key_callback_leaves_its_error_without_the_key_to_the_provider() -> None:
    def get_api_key(provider: str) -> str:
        raise RuntimeError("no access with sk-secret-key-1234")

    calls = Calls(TEXT, api_key="sk-secret-key-1234", get_api_key=get_api_key)
    calls.once()
    options = calls.requests[0][1]
    assert "no access" in options.api_key_error
    assert "sk-secret-key-1234" not in options.api_key_error
    assert options.refresh_api_key is not None
    assert options.refresh_api_key("scripted") == ""


def test_one_call_without_a_run_emits_its_message_only_and_leaves_the_context_alone() -> None:
    calls, events = Calls(TEXT), list[Event]()
    context = AgentContext("system", [UserMessage("hi")], ())
    message = call_once(context, LoopConfig(MODEL), calls.stream, events.append)
    assert message.text == "hello"
    assert {event.type for event in events} == {"message_start", "message_update", "message_end"}
    assert len(context.messages) == 1
