"""What an agent holds: the messages, what they cost, the calls that wait, and how far the current run is."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from agent.errors import PendingToolCallsError, ToolCallNotPendingError
from agent.events import (
    AgentEnd,
    Event,
    MessageEnd,
    MessageStart,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
)
from agent.messages import AssistantMessage, Message, ToolCall
from agent.stream import PartialMessage
from agent.transcript import Pending, ToolResolution, Transcript, find_pending
from agent.usage import ZERO_USAGE, Usage


class Conversation:
    """The messages of an agent and its state, brought up to each event before anybody hears of it.

    Threads: the lock is the agent's, since whether a run may begin depends on the messages. `note`,
    `mirror` and `replace_all` are the worker's and take it; all else is called, read and set with the lock
    held.
    """

    def __init__(self, lock: threading.RLock, messages: Iterable[Message], spent: Usage) -> None:
        self.messages = list(messages)
        self.stream_message: Message | PartialMessage | None = None
        self.running_calls: set[str] = set()
        self.error = ""
        self._lock = lock
        self._spent = spent  # by all runs that have ended
        self._spending: Usage = ZERO_USAGE  # by the current one
        # The answer whose calls a gate paused, and these calls with the arguments that it gave them.
        self._gated: tuple[Message | None, tuple[ToolCall, ...]] = (None, ())

    def clear(self) -> None:
        """Forget the messages, what they cost and the last error."""
        self.messages = []
        self._spent = ZERO_USAGE
        self.error = ""
        self.end_run()

    def end_run(self) -> None:
        """Nothing streams and no call runs any more."""
        self.stream_message = None
        self.running_calls = set()

    def transcript(self) -> Transcript:
        """The messages and what they have cost."""
        return Transcript(tuple(self.messages), self._spent + self._spending)

    # -- calls that wait for a resolution --------------------------------------------------------------

    def pending(self) -> Pending:
        """The calls that no result answers yet."""
        return find_pending(self.messages)

    def pending_calls(self) -> list[ToolCall]:
        """The same with the arguments that the gate gave them, where it was asked here."""
        pending = self.pending()
        answer, calls = self._gated
        return pending.as_gated(calls if answer is not None and answer is pending.message else ())

    def check_nothing_pending(self) -> None:
        """Raise PendingToolCallsError when a call waits."""
        calls = self.pending().calls
        if calls:
            names = ", ".join(f"{call.name} ({call.id})" for call in calls)
            raise PendingToolCallsError(
                f"tool calls wait for a resolution: {names}; use resolve_tool_calls() or resolve_pending(), "
                "then resume()"
            )

    def resolve(self, resolutions: Sequence[ToolResolution]) -> None:
        """Answer calls; all or, when one resolution is wrong, none."""
        self.messages.extend(self.pending().answered(resolutions))

    def answer(self, pending: Pending, results: Sequence[Message]) -> None:
        """Answer what was pending then, unless somebody else has since."""
        now = self.pending()
        if now.message is not pending.message or now.positions != pending.positions:
            raise ToolCallNotPendingError("the calls were answered while they were being resolved")
        self.messages.extend(results)

    # -- a run as it goes on: on the worker thread -----------------------------------------------------

    def note(self, event: Event) -> None:
        """Bring the state up to an event."""
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
                    self._gated = (self.pending().message, event.pending_calls)

    def mirror(self, old: Message | None, new: Message | None) -> None:
        """Do to the messages what the loop did to its own."""
        with self._lock:
            if old is None:
                if new is not None:
                    self.messages.append(new)
                return
            for position in range(len(self.messages) - 1, -1, -1):
                if self.messages[position] is old:
                    self.messages[position : position + 1] = [] if new is None else [new]
                    return

    def replace_all(self, messages: Sequence[Message]) -> None:
        """Begin anew with another history."""
        with self._lock:
            self.messages = list(messages)
