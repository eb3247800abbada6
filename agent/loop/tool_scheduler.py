"""Runs the calls of one answer, side by side where that is safe; results are in call order in any case.

A tool with `parallel=True` starts as soon as a slot is free. Any other is a barrier: it waits for all running
calls and then runs alone. A refused call runs nothing and is settled at once. Each call has its end event
when it ends; its result enters the conversation after the results of all calls before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty

from agent.cancel import CancelToken
from agent.events import ToolExecutionEnd, ToolExecutionStart, ToolExecutionUpdate
from agent.loop.recorder import RunRecorder
from agent.loop.tool_call import (
    FAULT,
    Batch,
    Inbox,
    PreparedCall,
    RunningCall,
    ToolMessage,
    execute,
    look_up,
    prepare,
    result_message,
    settle,
)
from agent.messages import AssistantMessage, ToolCall, ToolResultMessage
from agent.runs import Stop
from agent.tools import ToolResult


@dataclass(slots=True)
class ToolOutcome:
    """The results of an answer's calls. `ending`: how the run ends if no message waits; None: it goes on."""

    results: tuple[ToolResultMessage, ...] = ()
    ending: Stop | None = None
    pending: tuple[ToolCall, ...] = ()


def run_calls(
    batch: Batch,
    message: AssistantMessage,
    argument_errors: Mapping[int, str],
    recorder: RunRecorder,
    caller_cancel: CancelToken,
    given: Mapping[int, ToolResult] | None = None,
) -> ToolOutcome:
    """Gate all calls of the answer, run them, and say what follows.

    `given` are results, by position, that settle calls without running them. A paused call and those after it
    are pending; if the caller has cancelled the run, they are answered, since it ends as aborted.
    """
    if not batch.calls:
        return ToolOutcome((), "end_turn")
    prepared, pending = _prepare_all(batch, message, argument_errors)
    for index, result in (given or {}).items():
        prepared[index].refusal = result
    results, terminate = _run(batch, prepared, recorder)
    if pending and caller_cancel.is_set():
        more, _ = _run(batch, pending, recorder)
        return ToolOutcome((*results, *more))
    if pending:
        return ToolOutcome(tuple(results), None, tuple(item.as_gated for item in pending))
    if not terminate:
        return ToolOutcome(tuple(results))
    only_answers = all(call.name in batch.ungated for call in batch.calls)
    return ToolOutcome(tuple(results), "end_turn" if only_answers else "terminated")


def _prepare_all(
    batch: Batch, message: AssistantMessage, argument_errors: Mapping[int, str]
) -> tuple[list[PreparedCall], list[PreparedCall]]:
    """The calls to run, and those that a gate left pending: the paused one and all after it."""
    prepared: list[PreparedCall] = []
    for index in range(len(batch.calls)):
        item = prepare(batch, index, message, argument_errors.get(index, ""))
        if item.paused:
            behind = range(index + 1, len(batch.calls))
            return prepared, [
                item,
                *(PreparedCall(batch.calls[i], batch.calls[i].arguments, i) for i in behind),
            ]
        prepared.append(item)
    return prepared, []


def _run(
    batch: Batch, prepared: Sequence[PreparedCall], recorder: RunRecorder
) -> tuple[list[ToolResultMessage], bool]:
    """Run the prepared calls; their results in call order, and whether all of them ask to end the run."""
    scheduler = _Scheduler(batch, recorder, prepared[0].index if prepared else 0)
    if recorder.relay is not None:
        recorder.relay.on_pending(scheduler.wake)
    try:
        for item in prepared:
            scheduler.start(item)
        while scheduler.running:
            scheduler.finish_next()
    except BaseException:
        scheduler.abandon(prepared)
        raise
    finally:
        if recorder.relay is not None:
            recorder.relay.on_pending(None)
    return scheduler.results, bool(scheduler.results) and scheduler.terminate


class _Scheduler:
    """The calls that run now, and the results of those that have ended. Used by the run's thread alone."""

    def __init__(self, batch: Batch, recorder: RunRecorder, first: int) -> None:
        self.running: list[RunningCall] = []
        self.results: list[ToolResultMessage] = []
        self.terminate = True
        self._batch = batch
        self._recorder = recorder
        self._next_index = first
        slots = batch.limits.parallel_tools
        self._slots = None if slots is None else max(1, slots)
        self._inbox: Inbox = Inbox()
        self._out_of_order: dict[int, ToolResultMessage] = {}  # by index, behind a call that still runs

    def start(self, item: PreparedCall) -> None:
        """Start a call, after those that it has to wait for; or settle it."""
        batch = self._batch
        look_up(batch, item)
        if item.refusal is None:
            while self.running and not self._has_slot_for(item):
                self.finish_next()
                look_up(batch, item)
        call = item.call
        self._recorder.emit(
            ToolExecutionStart(call.id, call.name, item.arguments, item.display_hint, item.label)
        )
        started = execute(batch, item, self._inbox)
        if isinstance(started, ToolResult):
            self._finish(item, started)
            return
        self.running.append(started)
        while self.running and not item.may_run_beside_others:
            self.finish_next()

    def finish_next(self) -> None:
        """Wait until one of the running calls has ended, and settle it."""
        running, result = self._wait()
        self.running.remove(running)
        self._finish(running.item, result)

    def abandon(self, prepared: Sequence[PreparedCall]) -> None:
        """After a fault of the runtime: detach what runs, and answer each call that has no result."""
        for running in self.running:
            running.detach()
            with suppress(BaseException):
                self._emit_end(running.item, FAULT)
        for item in prepared:
            if item.index >= self._next_index and item.index not in self._out_of_order:
                self._out_of_order[item.index] = self._message(item, FAULT)
        with suppress(BaseException):
            self._add_in_order()

    def wake(self) -> None:
        """Emit the events that wait. May be called from any thread."""
        self._inbox.put(None)

    def _has_slot_for(self, item: PreparedCall) -> bool:
        return item.may_run_beside_others and (self._slots is None or len(self.running) < self._slots)

    def _wait(self) -> tuple[RunningCall, ToolResult]:
        while True:
            for running in self.running:
                result = running.poll()
                if result is not None:
                    return running, result
            waits = [wait for running in self.running if (wait := running.remaining()) is not None]
            try:
                message = self._inbox.get(timeout=min(waits, default=None))
            except Empty:
                continue
            if message is None:
                if self._recorder.relay is not None:
                    self._recorder.relay.emit_pending()
                continue
            result = message.call.handle(message, self._report)
            if result is not None:
                return message.call, result

    def _finish(self, item: PreparedCall, result: ToolResult) -> None:
        result = settle(self._batch, item, result)
        self.terminate = self.terminate and result.terminate and not result.is_error
        self._emit_end(item, result)
        self._out_of_order[item.index] = self._message(item, result)
        self._add_in_order()

    def _emit_end(self, item: PreparedCall, result: ToolResult) -> None:
        call = item.call
        self._recorder.emit(
            ToolExecutionEnd(call.id, call.name, result, result.is_error, item.display_hint, item.label)
        )

    def _message(self, item: PreparedCall, result: ToolResult) -> ToolResultMessage:
        return result_message(item.call, result, self._recorder.now_ms())

    def _add_in_order(self) -> None:
        while (message := self._out_of_order.pop(self._next_index, None)) is not None:
            self._recorder.add_whole(message)
            self.results.append(message)
            self._next_index += 1

    def _report(self, item: PreparedCall, message: ToolMessage) -> None:
        """Pass on what a tool reports while it runs."""
        match message.kind:
            case "usage":
                self._recorder.usage += message.value
            case "event":  # of a run inside this one, stamped there
                self._recorder.forward(message.value)
            case "update":
                call, partial = item.call, message.value
                self._recorder.emit(
                    ToolExecutionUpdate(
                        call.id,
                        call.name,
                        item.arguments,
                        item.display_hint,
                        partial,
                        partial.status_message,
                        item.label,
                    )
                )
