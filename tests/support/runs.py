"""Compact notation for runs, and invariants that hold for every run.

`story(events)` is the whole sequence of a run as text, with one word per event and one `upd` for a row of
updates (what the queues hold is left out, it may change at any moment):
`agent_start turn_start ms:hi me:hi ms:A upd me:A turn_end[A] agent_end[hi,A]`. A user message is its text,
`A` an assistant's (`A!` failed, `A~` was aborted), `T` a tool result, `C` a custom entry.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from agent.events import (
    AgentEnd,
    AutoResume,
    Event,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    StreamRetry,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
)
from agent.loop import LoopConfig, agent_loop, agent_loop_continue
from agent.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from agent.retry import RetryPolicy
from agent.runtime.inbox import Inbox
from agent.stream import AgentContext, PartialMessage
from agent.testing import ScriptedModel
from agent.tools import ToolSet

NO_WAITS = RetryPolicy((0, 0, 0), (0, 0, 0), (0, 0), (0, 0))
"""The default number of retries on every layer, without waits."""

_NOTE = "Your last answer was cut off mid-tool-call"


def story(events: Iterable[Event]) -> str:
    """The events as one line of words."""
    words: list[str] = []
    for event in without_queue_updates(events):
        word = _word(event)
        if word != "upd" or words[-1] != "upd":
            words.append(word)
    return " ".join(words)


def without_queue_updates(events: Iterable[Event]) -> list[Event]:
    """The events without those about queues, which other threads may cause at any moment."""
    return [event for event in events if event.type != "queue_update"]


def _word(event: Event) -> str:
    match event:
        case MessageStart(message):
            return f"ms:{label(message)}"
        case MessageEnd(message):
            return f"me:{label(message)}"
        case MessageUpdate():
            return "upd"
        case TurnEnd(message, results):
            shown = label(message) if message else "-"
            return f"turn_end[{shown};{labels(results)}]" if results else f"turn_end[{shown}]"
        case AgentEnd(messages):
            return f"agent_end[{labels(messages)}]"
        case ToolExecutionStart():
            return f"tes:{event.tool_call_id}"
        case ToolExecutionUpdate():
            return f"teu:{event.tool_call_id}"
        case ToolExecutionEnd():
            return f"tee:{event.tool_call_id}" + ("!" if event.is_error else "")
        case StreamRetry() | AutoResume():
            return f"{event.type}({event.attempt})"
    return event.type


def labels(messages: Iterable[Message]) -> str:
    """The messages in one word each."""
    return ",".join(label(message) for message in messages)


def label(message: Message | PartialMessage) -> str:
    """A message in one word."""
    match message:
        case PartialMessage():
            return "A"
        case AssistantMessage():
            return "A" + {"error": "!", "aborted": "~"}.get(message.stop_reason, "")
        case ToolResultMessage():
            return "T"
        case UserMessage():
            text = text_of(message)
            if text.startswith(_NOTE):
                _, _, folded = text.partition("\n\n")
                return f"NOTE+{folded}" if folded else "NOTE"
            return text
    return "C"


def text_of(message: Any) -> str:
    """The text of any message that has one."""
    return message.content if isinstance(message.content, str) else str(message.text)


@dataclass
class Played:
    """A run of the bare loop: its events, what it returned, what the model was asked."""

    model: ScriptedModel
    events: list[Event] = field(default_factory=list)
    new: list[Message] = field(default_factory=list)

    @property
    def story(self) -> str:
        return story(self.events)

    @property
    def end(self) -> AgentEnd:
        return next(e for e in self.events if isinstance(e, AgentEnd))

    def sent(self) -> list[str]:
        """The messages of each request, in words."""
        return [labels(context.messages) for context in self.model.contexts]


def play(
    *turns: Any,
    prompts: Sequence[str | Message] = ("hi",),
    history: Sequence[Message] = (),
    tools: Iterable[Any] = (),
    on_event: Callable[[Event], object] | None = None,
    resume: bool = False,
    **config: Any,
) -> Played:
    """Run the loop on the calling thread with a scripted model, keeping everything."""
    played = Played(ScriptedModel(*turns))

    def emit(event: Event) -> None:
        played.events.append(event)
        if on_event is not None:
            on_event(event)

    context = AgentContext("", list(history), ToolSet(tools))
    given: dict[str, Any] = {"retry": NO_WAITS}
    settings = LoopConfig(played.model.model, **(given | config))
    if resume:
        played.new = agent_loop_continue(context, settings, played.model.stream, emit)
    else:
        messages = [UserMessage(p) if isinstance(p, str) else p for p in prompts]
        played.new = agent_loop(messages, context, settings, played.model.stream, emit)
    return played


def inbox(steering: str = "", follow_ups: str = "", mode: str = "one-at-a-time") -> Inbox:
    """Queues with one message per word."""
    made = Inbox(mode, mode)
    for word in steering.split():
        made.steer(UserMessage(word))
    for word in follow_ups.split():
        made.follow_up(UserMessage(word))
    return made


def queues(inbox: Inbox) -> dict[str, Any]:
    """The options of a bare loop that polls the queues of an agent."""
    return {
        "get_steering_messages": inbox.poll_steering,
        "get_follow_up_messages": inbox.poll_follow_ups,
        "has_queued_messages": inbox.has_messages,
    }


def until(condition: Callable[[], object], seconds: float = 5.0) -> None:
    """Poll until the condition holds; AssertionError when it does not in time."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        pause.wait(0.002)


def assert_well_formed(messages: Sequence[Message]) -> None:
    """Each call of an answer that stands has exactly one result, right behind it, in call order.

    The calls of an answer that failed or was aborted never ran; such answers are not sent again.
    """
    expected: list[str] = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            assert expected, f"a result without a call: {message.tool_call_id}"
            assert message.tool_call_id == expected.pop(0)
            continue
        assert not expected, f"calls without results: {expected}"
        if isinstance(message, AssistantMessage) and message.stop_reason not in ("error", "aborted"):
            expected = [call.id for call in message.tool_calls]
    assert not expected, f"calls without results at the end: {expected}"


def assert_events_balance(events: Sequence[Event]) -> None:
    """One start and one end of the run, one end per tool call that started, in order, usage never falling."""
    kinds = [event.type for event in events]
    assert kinds[0] == "agent_start"
    assert kinds[-1] == "agent_end"
    assert kinds.count("agent_start") == kinds.count("agent_end") == 1
    running: Counter[str] = Counter()
    spent = 0
    for event in events:
        match event:
            case ToolExecutionStart():
                running[event.tool_call_id] += 1
            case ToolExecutionEnd():
                running[event.tool_call_id] -= 1
                assert running[event.tool_call_id] >= 0
            case TurnEnd():
                assert event.usage.total_tokens >= spent
                spent = event.usage.total_tokens
    assert not +running


def frozen(value: Any) -> Any:
    """A deep copy of a value as plain tuples, to compare with what it is later."""
    if isinstance(value, PartialMessage):
        again = PartialMessage(value._log, value._length)  # a view reads once; this one has not
        return ("partial", frozen(again.content))
    if is_dataclass(value) and not isinstance(value, type):
        names = [f.name for f in fields(value) if f.compare]
        return (type(value).__name__, *((name, frozen(getattr(value, name))) for name in names))
    if isinstance(value, dict):
        return tuple((key, frozen(item)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(frozen(item) for item in value)
    return value
