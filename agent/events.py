"""The closed set of events of a run, in the order in which the loop emits them, each with a JSON form.

Every event has `.type`, `.time` (Unix seconds), `.run` and, from it, `.run_id`, `.parent_run_id` and
`.agent_name`. Events are never changed once they are emitted, so they are safe to keep and to pass to
other threads. They are not frozen because a frozen dataclass costs three times as much to make, and one is
made per delta.
"""

from __future__ import annotations

import time as _time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from agent.json_values import JsonMapping, JsonObject, json_value
from agent.messages import (
    Message,
    ToolCall,
    ToolResultMessage,
    block_to_json,
    message_to_json,
    usage_to_json,
)
from agent.models import Model
from agent.runs import RunMetadata, Stop
from agent.stream import PartialMessage, StreamEvent, stream_event_to_json
from agent.usage import ZERO_USAGE, Usage

if TYPE_CHECKING:
    from agent.tools import ToolDisplayHint, ToolResult


@dataclass(slots=True)
class Event:
    """The base of all events."""

    time: float = field(default_factory=_time.time, kw_only=True)
    run: RunMetadata | None = field(default=None, kw_only=True)
    type: ClassVar[str] = ""

    @property
    def run_id(self) -> str:
        """The id of the run that the event belongs to."""
        return self.run.run_id if self.run else ""

    @property
    def parent_run_id(self) -> str:
        """The id of the run in which that run was started, or empty."""
        return self.run.parent_run_id if self.run else ""

    @property
    def agent_name(self) -> str:
        """The name given to the agent."""
        return self.run.agent_name if self.run else ""


@dataclass(slots=True)
class AgentStart(Event):
    """A run begins."""

    type: ClassVar[str] = "agent_start"


@dataclass(slots=True)
class AgentEnd(Event):
    """A run is over: its messages, why it stopped and, for `error`, the text.

    `pending_calls` wait for a resolution, with the arguments that a gate gave them. `cause` is the exception
    that ended the run, if it was a hook's; it is not part of the JSON form.
    """

    messages: tuple[Message, ...]
    stop: Stop = "end_turn"
    error: str = ""
    pending_calls: tuple[ToolCall, ...] = ()
    cause: BaseException | None = None
    type: ClassVar[str] = "agent_end"


@dataclass(slots=True)
class TurnStart(Event):
    """A turn begins: queued messages, one answer, its tools."""

    type: ClassVar[str] = "turn_start"


@dataclass(slots=True)
class TurnEnd(Event):
    """A turn is over. `usage` is the run's so far, this turn included.

    `message` is None when the turn's answer was discarded.
    """

    message: Message | None
    tool_results: tuple[ToolResultMessage, ...] = ()
    usage: Usage = ZERO_USAGE
    type: ClassVar[str] = "turn_end"


@dataclass(slots=True)
class MessageStart(Event):
    """A message begins; one of the assistant is an empty view yet, any other is complete."""

    message: Message | PartialMessage
    type: ClassVar[str] = "message_start"


@dataclass(slots=True)
class MessageUpdate(Event):
    """An assistant message grows: the view so far, and the stream event with the delta."""

    message: PartialMessage
    stream_event: StreamEvent
    type: ClassVar[str] = "message_update"


@dataclass(slots=True)
class MessageEnd(Event):
    """A message is complete and part of the transcript."""

    message: Message
    type: ClassVar[str] = "message_end"


@dataclass(slots=True)
class ToolExecutionStart(Event):
    """A tool call begins."""

    tool_call_id: str
    tool_name: str
    arguments: JsonMapping
    display_hint: ToolDisplayHint | None = None
    label: str = ""  # the readable name of the tool
    type: ClassVar[str] = "tool_execution_start"


@dataclass(slots=True)
class ToolExecutionUpdate(Event):
    """A running tool reports progress; partial results are shown, never stored."""

    tool_call_id: str
    tool_name: str
    arguments: JsonMapping
    display_hint: ToolDisplayHint | None
    partial_result: ToolResult
    status_message: str = ""
    label: str = ""  # the readable name of the tool
    type: ClassVar[str] = "tool_execution_update"


@dataclass(slots=True)
class ToolExecutionEnd(Event):
    """A tool call has its result."""

    tool_call_id: str
    tool_name: str
    result: ToolResult
    is_error: bool
    display_hint: ToolDisplayHint | None = None
    label: str = ""  # the readable name of the tool
    type: ClassVar[str] = "tool_execution_end"


@dataclass(slots=True)
class StreamRetry(Event):
    """An answer broke inside a tool call, or was empty; it is dropped and requested again.

    Attempts count from 1.
    """

    attempt: int
    error_message: str
    type: ClassVar[str] = "stream_retry"


@dataclass(slots=True)
class AutoResume(Event):
    """The connection broke; the run resumes from the partial answer. Attempts count from 1."""

    attempt: int
    error_message: str
    type: ClassVar[str] = "auto_resume"


@dataclass(slots=True)
class ModelFallback(Event):
    """A model could not be reached or used; another takes over. The JSON form names both."""

    from_model: Model
    to_model: Model
    error_message: str
    type: ClassVar[str] = "model_fallback"


@dataclass(slots=True)
class CandidateDiscarded(Event):
    """The answer of that turn was rejected: it is not part of the conversation."""

    turn: int
    type: ClassVar[str] = "candidate_discarded"


@dataclass(slots=True)
class MaxTurnsReached(Event):
    """The run has used up its turns with work left to do."""

    turns: int
    type: ClassVar[str] = "max_turns_reached"


@dataclass(slots=True)
class AgentParked(Event):
    """The run has answered and waits for a reply."""

    payload: Any = None
    type: ClassVar[str] = "agent_parked"


@dataclass(slots=True)
class QueueUpdate(Event):
    """A queue of the agent has changed; both as they are now, oldest first.

    Emitted during runs: at once while tools run, else before the next event. A change between two runs is
    emitted at the beginning of the next.
    """

    steering: list[Message] = field(default_factory=list)
    follow_ups: list[Message] = field(default_factory=list)
    type: ClassVar[str] = "queue_update"


def event_to_json(event: Event) -> JsonObject:
    """The event as JSON data: `type`, `time`, `run_id` and its own fields in snake_case.

    Messages and results have the form of `message_to_json`. A `message_update` holds the stream event alone
    and not the text so far, so that the JSON of a whole run grows with its length and not with its square.
    `json.dumps` can write all of it, and changing it changes no event: details and arguments that JSON can't
    hold are given in the nearest form that it can (see `json_value`).
    """
    data: JsonObject = {"type": event.type, "time": event.time, "run_id": event.run_id}
    if event.parent_run_id:
        data["parent_run_id"] = event.parent_run_id
    if event.agent_name:
        data["agent_name"] = event.agent_name
    own_fields: JsonObject = json_value(_fields_to_json(event))
    return data | own_fields


def _fields_to_json(event: Event) -> JsonObject:
    match event:
        case MessageUpdate():
            return {"stream_event": stream_event_to_json(event.stream_event)}
        case MessageStart() | MessageEnd():
            return {"message": _message(event.message)}
        case AgentEnd():
            data: JsonObject = {
                "messages": [_message(m) for m in event.messages],
                "stop": event.stop,
            }
            if event.pending_calls:
                data["pending_calls"] = [block_to_json(call) for call in event.pending_calls]
            return data | {"error": event.error} if event.error else data
        case TurnEnd():
            return {
                "message": _message(event.message),
                "tool_results": [_message(m) for m in event.tool_results],
                "usage": usage_to_json(event.usage),
            }
        case ToolExecutionStart():
            return _call_to_json(event) | {"arguments": event.arguments}
        case ToolExecutionUpdate():
            return _call_to_json(event) | {
                "arguments": event.arguments,
                "partial_result": _result(event.partial_result),
                "status_message": event.status_message,
            }
        case ToolExecutionEnd():
            return _call_to_json(event) | {"result": _result(event.result), "is_error": event.is_error}
        case StreamRetry() | AutoResume():
            return {"attempt": event.attempt, "error_message": event.error_message}
        case ModelFallback():
            return {
                "from_model": _model_name(event.from_model),
                "to_model": _model_name(event.to_model),
                "error_message": event.error_message,
            }
        case QueueUpdate():
            return {
                "steering": [_message(m) for m in event.steering],
                "follow_ups": [_message(m) for m in event.follow_ups],
            }
        case CandidateDiscarded():
            return {"turn": event.turn}
        case MaxTurnsReached():
            return {"turns": event.turns}
        case AgentParked():
            return {"payload": event.payload}
    return {}


def _model_name(model: Model | str) -> str:
    return model if isinstance(model, str) else f"{model.provider}/{model.id}"


def _message(message: Message | PartialMessage | None) -> JsonObject | None:
    if message is None:
        return None
    if isinstance(message, PartialMessage):
        return {"role": "assistant", "content": []}
    return message_to_json(message)


def _call_to_json(event: ToolExecutionStart | ToolExecutionUpdate | ToolExecutionEnd) -> JsonObject:
    data: JsonObject = {"tool_call_id": event.tool_call_id, "tool_name": event.tool_name}
    if event.label and event.label != event.tool_name:
        data["label"] = event.label
    if event.display_hint is not None:
        data["display_hint"] = _hint(event.display_hint)
    return data


def _result(result: ToolResult) -> JsonObject:
    stored = message_to_json(
        ToolResultMessage("", "", result.content, result.is_error, result.details, result.meta)
    )
    data: JsonObject = {
        key: stored[key] for key in ("content", "details", "meta", "isError") if key in stored
    }
    return data | {"terminate": True} if result.terminate else data


def _hint(hint: Any) -> JsonObject:
    args: Sequence[Any] = hint.title_args
    titles = [
        {key: value for key in ("name", "style", "label") if (value := getattr(arg, key, ""))} for arg in args
    ]
    data: JsonObject = {"title_args": titles} if titles else {}
    data["result_max_lines"] = hint.result_max_lines or 10
    return data | {"use_box": True} if hint.use_box else data
