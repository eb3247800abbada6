"""The calls of one answer, run side by side where that is safe; results in call order whatever happens.

A tool marked `parallel` starts as soon as a slot is free. Any other is a barrier: it waits for all that run
and runs alone. A refused call runs nothing and is settled at once. Each call has its end event when it ends;
its result enters the conversation once those of all calls before it have.
"""

from __future__ import annotations

from collections.abc import Sequence
from queue import Empty, SimpleQueue
from typing import Any

from agent.events import ToolExecutionEnd, ToolExecutionStart, ToolExecutionUpdate
from agent.limits import Limits
from agent.loop.recorder import RunRecorder
from agent.loop.tool_call import Batch, Execution, PreparedCall, Said
from agent.messages import ToolResultMessage
from agent.tools import ToolResult


def run_batch(
    batch: Batch, prepared: Sequence[PreparedCall], recorder: RunRecorder, limits: Limits
) -> tuple[list[ToolResultMessage], bool]:
    """Run the prepared calls; their results in call order, and whether all of them ask to stop."""
    crew = _Crew(batch, recorder, limits, prepared[0].index if prepared else 0)
    if recorder.relay is not None:
        recorder.relay.on_pending(crew.wake)
    try:
        for item in prepared:
            crew.begin(item)
        while crew.running:
            crew.settle_next()
    finally:
        if recorder.relay is not None:
            recorder.relay.on_pending(None)
        for execution in crew.running:  # only when a listener raised
            execution.abandon()
    return crew.told, bool(crew.told) and crew.terminate


class _Crew:
    """The calls that run now, and the results of those that have. Used by the run's thread alone."""

    def __init__(self, batch: Batch, recorder: RunRecorder, limits: Limits, first: int) -> None:
        self.running: list[Execution] = []
        self.told: list[ToolResultMessage] = []
        self.terminate = True
        self._batch = batch
        self._recorder = recorder
        self._limits = limits
        self._next_told = first
        self._slots = max(1, limits.parallel_tools or 1) if limits.parallel_tools is not None else None
        self._inbox: SimpleQueue[Said] = SimpleQueue()
        self._early: dict[int, ToolResultMessage] = {}  # settled before a call that comes first

    def begin(self, item: PreparedCall) -> None:
        """Start a call, once those that must end before it have; or settle it."""
        batch = self._batch
        batch.find_tool(item)
        if item.refused is None:
            while self.running and not self._has_room_for(item):
                self.settle_next()
                batch.find_tool(item)
        call = item.call
        self._recorder.emit(ToolExecutionStart(call.id, call.name, item.arguments, item.display_hint))
        refusal = batch.refusal(item)
        if refusal is not None:
            self._settle(item, refusal)
            return
        timeout = self._limits.timeout_of(getattr(item.tool, "timeout", None))
        try:
            execution = Execution(item, timeout, batch.cancel, batch.run, self._inbox)
        except RuntimeError as error:  # the system gives out no more threads
            self._settle(item, ToolResult(f"the tool could not be started: {error}", is_error=True))
            return
        self.running.append(execution)
        while self.running and not item.may_run_beside_others:
            self.settle_next()

    def settle_next(self) -> None:
        """Wait until one of the running calls has ended, and settle it."""
        execution, result = self._next()
        self.running.remove(execution)
        self._settle(execution.item, result)

    def wake(self) -> None:
        """There is something to tell; may be called from any thread."""
        self._inbox.put(None)

    def _tell_news(self) -> None:
        if self._recorder.relay is not None:
            self._recorder.relay.emit_pending()

    def _has_room_for(self, item: PreparedCall) -> bool:
        return item.may_run_beside_others and (self._slots is None or len(self.running) < self._slots)

    def _next(self) -> tuple[Execution, ToolResult]:
        while True:
            for execution in self.running:
                result = execution.look()
                if result is not None:
                    return execution, result
            waits = [wait for execution in self.running if (wait := execution.remaining()) is not None]
            try:
                said = self._inbox.get(timeout=min(waits, default=None))
            except Empty:
                continue
            if said is None:
                self._tell_news()
                continue
            execution, kind, value = said
            result = execution.hear(kind, value, self._report)
            if result is not None:
                return execution, result

    def _settle(self, item: PreparedCall, result: ToolResult) -> None:
        result = self._batch.settle(item, result)
        call = item.call
        self.terminate = self.terminate and result.terminate and not result.is_error
        self._recorder.emit(ToolExecutionEnd(call.id, call.name, result, result.is_error, item.display_hint))
        message = ToolResultMessage(
            call.id,
            call.name,
            result.content,
            result.is_error,
            result.details,
            result.meta,
            self._recorder.now_ms(),
        )
        if item.index != self._next_told:
            self._early[item.index] = message
            return
        self._announce(message)
        while self._early and (early := self._early.pop(self._next_told, None)) is not None:
            self._announce(early)

    def _announce(self, message: ToolResultMessage) -> None:
        self._recorder.add_whole(message)
        self.told.append(message)
        self._next_told += 1

    def _report(self, item: PreparedCall, kind: str, value: Any) -> None:
        """Pass on what a tool says while it runs."""
        if kind == "usage":
            self._recorder.usage += value
        elif kind == "event":  # of a run inside this one, stamped there
            self._recorder.forward(value)
        else:
            self._tell_update(item, value)

    def _tell_update(self, item: PreparedCall, partial: ToolResult) -> None:
        call, status = item.call, partial.status_message
        self._recorder.emit(
            ToolExecutionUpdate(call.id, call.name, item.arguments, item.display_hint, partial, status)
        )
