"""The messages of a conversation: one list, which a run extends and an agent shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext

from agent.errors import ToolCallNotPendingError
from agent.messages import AssistantMessage, Message, ToolResultMessage
from agent.transcript import Pending, find_pending, insert_results


class History:
    """The messages of one conversation, and which of them the current run added.

    Owner: an Agent, or the call of `agent_loop` that made it. Threads: `lock` is the owner's and guards
    everything; every method takes it, so it must be reentrant if the owner calls with the lock held. The
    run's thread calls the methods of the second group, any thread those of the first.

    Requests send the same list, with two exceptions: a failed answer that is only recorded
    (`add(send=False)`), and a history that the application replaced while a run is active, which counts from
    the next run on. From then to the end of the run, the messages to send are a list of their own.
    """

    __slots__ = ("_held", "_is_running", "_lock", "_messages", "_open_calls", "_start", "_to_send")

    def __init__(
        self, messages: Iterable[Message] = (), lock: AbstractContextManager[object] | None = None
    ) -> None:
        self._lock = lock or nullcontext()
        self._messages = list(messages)
        self._to_send: list[Message] | None = None  # None: the same as `_messages`
        self._held: list[Message] = []  # appended between a tool call and its result
        self._open_calls = 0  # calls of the current run without a result
        self._start = len(self._messages)
        self._is_running = False

    # -- the application's side ------------------------------------------------------------------------

    @property
    def messages(self) -> list[Message]:
        """A copy of the conversation."""
        with self._lock:
            return [*self._messages, *self._held]

    @property
    def last(self) -> Message | None:
        """The newest message."""
        with self._lock:
            newest = self._held or self._messages
            return newest[-1] if newest else None

    def append(self, message: Message) -> None:
        """Add a message from outside. The current run sends it with its next request.

        While calls run it is held back until all of them have results, so that none comes in between.
        """
        with self._lock:
            if self._is_running and self._open_calls:
                self._held.append(message)
            else:
                self._append(message)

    def replace(self, messages: Iterable[Message]) -> None:
        """Set the conversation. The current run continues with the messages that it has."""
        copied = list(messages)
        with self._lock:
            if self._is_running and self._to_send is None:
                self._to_send = self._messages
            self._messages, self._held = copied, []
            self._start = len(copied)

    def pending(self) -> Pending:
        """The calls that no result answers yet."""
        with self._lock:
            return find_pending(self._messages)

    def answer(self, pending: Pending, results: Iterable[ToolResultMessage]) -> None:
        """Add the results of pending calls, in call order.

        Raises ToolCallNotPendingError if one has a result by now.
        """
        with self._lock:
            now = find_pending(self._messages)
            if now.message is not pending.message or now.positions != pending.positions:
                raise ToolCallNotPendingError("the calls were answered while they were being resolved")
            insert_results(self._messages, pending, results)

    # -- the run's side --------------------------------------------------------------------------------

    def begin_run(self) -> None:
        """Count what is added from here on as new."""
        with self._lock:
            self._start = len(self._messages)
            self._open_calls = len(find_pending(self._messages).positions)
            self._is_running = True

    def end_run(self) -> None:
        """End the run: what it sent is again the conversation itself."""
        with self._lock:
            self._flush()
            self._to_send = None
            self._is_running = False

    def to_send(self) -> list[Message]:
        """A copy of the messages that the next request sends."""
        with self._lock:
            self._flush()
            return list(self._sent_messages())

    @property
    def new(self) -> tuple[Message, ...]:
        """The messages since the run began, or since its history was replaced."""
        with self._lock:
            self._flush()
            return tuple(self._messages[self._start :])

    def add(self, message: Message, send: bool = True) -> None:
        """Add a message of the run. Without `send` this run never sends it."""
        with self._lock:
            if isinstance(message, ToolResultMessage):
                self._open_calls = max(0, self._open_calls - 1)
            else:
                self._flush()
            if isinstance(message, AssistantMessage):
                self._open_calls = len(find_pending((message,)).positions)
            if send:
                self._append(message)
                return
            if self._to_send is None:
                self._to_send = list(self._messages)
            self._messages.append(message)

    def drop(self, message: Message) -> None:
        """Remove a message that the run added."""
        self._substitute(message, ())

    def swap(self, old: Message, new: Message) -> None:
        """Put a repaired message in the place of another."""
        self._substitute(old, (new,))

    def restart(self, messages: Sequence[Message]) -> None:
        """Replace the conversation and what the run sends; `new` counts from here on."""
        with self._lock:
            self._messages, self._to_send = list(messages), None
            self._start = len(self._messages)
            self._open_calls = len(find_pending(self._messages).positions)

    # -- with the lock held ----------------------------------------------------------------------------

    def _sent_messages(self) -> list[Message]:
        return self._messages if self._to_send is None else self._to_send

    def _append(self, message: Message) -> None:
        self._messages.append(message)
        if self._to_send is not None:
            self._to_send.append(message)

    def _flush(self) -> None:
        held, self._held = self._held, []
        for message in held:
            self._append(message)

    def _substitute(self, old: Message, new: Sequence[Message]) -> None:
        with self._lock:
            _substitute_last(self._messages, old, new)
            if self._to_send is not None:
                _substitute_last(self._to_send, old, new)
            self._open_calls = len(find_pending(self._sent_messages()).positions)


def _substitute_last(messages: list[Message], old: Message, new: Sequence[Message]) -> None:
    for position in range(len(messages) - 1, -1, -1):
        if messages[position] is old:
            messages[position : position + 1] = new
            return
