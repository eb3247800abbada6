"""Transcripts, and the tool calls in them that wait for a result.

A call is pending if it belongs to the last answer and no result follows for it, unless that answer failed or
was aborted. Other messages that follow change nothing. So pending calls are found again in messages that come
from a file or another process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agent.errors import (
    InvalidToolResolutionError,
    ToolCallNotPendingError,
    ToolError,
    contain,
    error_text,
    typed_error_text,
)
from agent.json_values import JsonMapping, JsonObject
from agent.messages import (
    AssistantMessage,
    CustomMessage,
    Message,
    ToolCall,
    ToolResultMessage,
    UserBlock,
    message_from_json,
    message_to_json,
    now_ms,
    usage_from_json,
    usage_to_json,
)
from agent.tools import ToolResult, to_result
from agent.usage import Usage


@dataclass(frozen=True, slots=True)
class ToolResolution:
    """The result of a pending call, from outside the run: text or blocks."""

    id: str
    content: str | Sequence[UserBlock] = ""
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Transcript:
    """A conversation and its usage over all runs: what an agent needs to continue elsewhere.

        data = json.dumps(agent.transcript.to_json())
        agent = Agent(..., transcript=Transcript.from_json(json.loads(data)))

    Calls that are pending stay so: they are part of the messages. Queues are not.
    """

    messages: tuple[Message, ...] = ()
    usage: Usage = field(default_factory=Usage)

    def __post_init__(self) -> None:
        object.__setattr__(self, "messages", tuple(self.messages))

    def to_json(self) -> JsonObject:
        """`{"messages": [...], "usage": {...}}`, as JSON data."""
        return {
            "messages": [message_to_json(message) for message in self.messages],
            "usage": usage_to_json(self.usage),
        }

    @classmethod
    def from_json(cls, data: JsonMapping) -> Transcript:
        """The transcript of such JSON data.

        Raises ValueError for anything else, also for a message of an unknown role: a conversation is
        loaded whole or not at all.
        """
        messages = data.get("messages") if isinstance(data, Mapping) else None
        if not isinstance(messages, list | tuple):
            raise ValueError("a transcript must be a JSON object with a list of messages")
        return cls(
            tuple(_known(message_from_json(message)) for message in messages),
            usage_from_json(data.get("usage", {})),
        )


@dataclass(frozen=True, slots=True)
class Pending:
    """An answer and the positions of its pending calls. False when there are none."""

    message: AssistantMessage | None = None
    positions: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.positions)

    @property
    def calls(self) -> list[ToolCall]:
        """The pending calls, in order."""
        return [] if self.message is None else [self.message.tool_calls[i] for i in self.positions]

    def as_gated(self, gated: Sequence[ToolCall]) -> list[ToolCall]:
        """The pending calls, with the arguments that a gate set."""
        remaining = list(gated)
        return [_take(remaining, call) for call in self.calls]

    def answered(self, resolutions: Sequence[ToolResolution]) -> list[ToolResultMessage]:
        """The results of some of the calls, in call order. Several calls of one id are answered one by one.

        Raises InvalidToolResolutionError for an empty or doubled id, ToolCallNotPendingError for another.
        """
        by_id: dict[str, ToolResolution] = {}
        for resolution in resolutions:
            if not resolution.id or resolution.id in by_id:
                problem = "is given twice" if resolution.id else "is empty"
                raise InvalidToolResolutionError(f"the id {resolution.id!r} of a resolution {problem}")
            by_id[resolution.id] = resolution
        results = []
        for call in self.calls:
            found = by_id.pop(call.id, None)
            if found is not None:
                results.append(_message(call, ToolResult(found.content, is_error=found.is_error)))
        if by_id:
            waiting = ", ".join(call.id for call in self.calls) or "none"
            raise ToolCallNotPendingError(f"no such call is pending: {', '.join(by_id)}; pending: {waiting}")
        return results


def find_pending(messages: Sequence[Message]) -> Pending:
    """The pending calls of a conversation. Costs as many steps as it has messages after its last answer."""
    answered: list[str] = []
    for message in reversed(messages):
        match message:
            case ToolResultMessage():
                answered.append(message.tool_call_id)
            case AssistantMessage():
                failed = message.stop_reason in ("error", "aborted")
                return Pending() if failed else Pending(message, _unanswered(message, answered))
    return Pending()


def insert_results(messages: list[Message], pending: Pending, results: Iterable[ToolResultMessage]) -> None:
    """Put results of pending calls behind their answer, in the order of its calls.

    Results that stand there keep their places; messages that are no results stay behind those.
    """
    answer = pending.message
    if answer is None:
        return
    start = next(i for i in range(len(messages) - 1, -1, -1) if messages[i] is answer) + 1
    stored = [(i, m) for i, m in enumerate(messages[start:], start) if isinstance(m, ToolResultMessage)]
    free = [position for position in range(len(answer.tool_calls)) if position not in pending.positions]
    places = [(_take_position(answer, free, message), index) for index, message in stored]
    free = list(pending.positions)
    for result in results:
        position = _take_position(answer, free, result)
        index = min((i for p, i in places if p > position), default=places[-1][1] + 1 if places else start)
        messages.insert(index, result)
        places = [(p, i + (i >= index)) for p, i in places] + [(position, index)]
        places.sort(key=lambda place: place[1])


def _take_position(answer: AssistantMessage, free: list[int], result: ToolResultMessage) -> int:
    """Take the first of the free positions whose call a result answers; -1 when it answers none."""
    for position in free:
        if answer.tool_calls[position].id == result.tool_call_id:
            free.remove(position)
            return position
    return -1


def resolved_by(calls: Sequence[ToolCall], resolve: Callable[[ToolCall], Any]) -> list[ToolResultMessage]:
    """One result per call; what `resolve` raises becomes an error result with its text."""
    return [_message(call, _resolved(call, resolve)) for call in calls]


def _known(message: Message) -> Message:
    if isinstance(message, CustomMessage) and message.kind == "unknown":
        raise ValueError(f"a message of an unknown role: {message.data!r:.80}")
    return message


def _unanswered(message: AssistantMessage, answered: list[str]) -> tuple[int, ...]:
    positions = []
    for position, call in enumerate(message.tool_calls):
        if call.id in answered:
            answered.remove(call.id)
        else:
            positions.append(position)
    return tuple(positions)


def _take(gated: list[ToolCall], call: ToolCall) -> ToolCall:
    for position, candidate in enumerate(gated):
        if candidate.id == call.id:
            return replace(call, arguments=gated.pop(position).arguments)
    return call


def _resolved(call: ToolCall, resolve: Callable[[ToolCall], Any]) -> ToolResult:
    try:
        return to_result(resolve(call))
    except ToolError as error:
        return ToolResult(error_text(error), is_error=True)
    except BaseException as error:
        contain(error)
        return ToolResult(typed_error_text(error), is_error=True)


def _message(call: ToolCall, result: ToolResult) -> ToolResultMessage:
    return ToolResultMessage(
        call.id, call.name, result.content, result.is_error, result.details, result.meta, now_ms()
    )
