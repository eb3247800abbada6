"""What an agent shows of its current run and of those before it, apart from the messages."""

from __future__ import annotations

import threading
from typing import Any

from agent.errors import PendingToolCallsError
from agent.events import (
    AgentEnd,
    Event,
    MessageEnd,
    MessageStart,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
)
from agent.loop.history import History
from agent.messages import AssistantMessage, Message, ToolCall
from agent.stream import PartialMessage
from agent.usage import ZERO_USAGE, Usage


class RunState:
    """The streaming message, the running calls, the last error, the usage and the paused calls.

    Owner: an Agent, whose lock it shares, since whether a run may begin depends on it. Threads: the worker
    calls `note` for each event before any subscriber gets it; `note` takes the lock. For the update of a
    message it sets `stream_message` alone, without the lock. Everything else is called, read and set with the
    lock held.
    """

    def __init__(self, lock: threading.RLock, history: History, spent: Usage) -> None:
        self.stream_message: Message | PartialMessage | None = None
        self.running_calls: set[str] = set()
        self.error = ""
        self.open_output_type: Any = None  # of a typed run that has no value yet, for `resume()`
        self._lock = lock
        self._history = history
        self._spent = spent  # by all runs that have ended
        self._spending: Usage = ZERO_USAGE  # by the current one
        # The answer whose calls a gate paused, and these calls with the arguments that it gave them.
        self._gated: tuple[Message | None, tuple[ToolCall, ...]] = (None, ())

    @property
    def usage(self) -> Usage:
        """The usage of all runs so far."""
        return self._spent + self._spending

    def clear(self) -> None:
        """Reset usage, error and the type that a run left open."""
        self._spent = ZERO_USAGE
        self.open_output_type = None
        self.error = ""
        self.end_run()

    def end_run(self) -> None:
        """Reset what belongs to a run in progress."""
        self.stream_message = None
        self.running_calls = set()

    def pending_calls(self) -> list[ToolCall]:
        """The calls that no result answers yet, with the arguments of the gate where it was asked here."""
        pending = self._history.pending()
        answer, calls = self._gated
        return pending.as_gated(calls if answer is not None and answer is pending.message else ())

    def check_nothing_pending(self) -> None:
        """Raise PendingToolCallsError when a call waits."""
        calls = self._history.pending().calls
        if calls:
            names = ", ".join(f"{call.name} ({call.id})" for call in calls)
            raise PendingToolCallsError(
                f"tool calls wait for a resolution: {names}; use resolve_tool_calls() or resolve_pending(), "
                "then resume()"
            )

    def note(self, event: Event) -> None:
        """Bring the state up to an event. Called on the worker."""
        with self._lock:
            match event:
                case MessageStart():
                    self.stream_message = event.message
                case MessageEnd():
                    self.stream_message = None
                case ToolExecutionStart():
                    self.running_calls.add(event.tool_call_id)
                case ToolExecutionEnd():
                    self.running_calls.discard(event.tool_call_id)
                case TurnEnd():
                    self._spending = event.usage
                    self.stream_message = None  # of an answer that was discarded
                    if isinstance(event.message, AssistantMessage):
                        self.error = event.message.error_message or self.error
                case AgentEnd():
                    self.stream_message = None
                    self.error = event.error or self.error
                    self._spent, self._spending = self._spent + self._spending, ZERO_USAGE
                    self._gated = (self._history.pending().message, event.pending_calls)
