"""One batch of tool calls in three stages: prepare all, execute each on a thread of its own, settle in call
order.

Prepare checks the arguments and asks the gate, for the whole batch before anything runs. Execute finds the
tool, runs it and waits for its result, its time limit or the stop signal. Settle lets `after_tool` change the
result. Whatever happens, every call gets exactly one result.
"""

from __future__ import annotations

import contextvars
import copy
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Literal

from agent.cancel import CancelToken
from agent.errors import ToolError
from agent.hooks import Hooks, ToolCallInfo, ToolResultInfo
from agent.messages import AssistantMessage, ToolCall
from agent.runs import RunMetadata
from agent.tools import ToolContext, ToolDisplayHint, ToolResult, ToolSet, to_result

logger = logging.getLogger("agent")

# How long a tool that was told to stop may take to answer before it is given up; its thread is a daemon.
GRACE = 1.0

ABORTED = ToolResult("aborted", is_error=True)
CUT = ToolResult(
    "This call was not run: the answer reached the output limit, so its arguments may be cut off. "
    "Send the call again, with shorter arguments or in several smaller steps.",
    is_error=True,
)
_DENIED = "tool call denied"


@dataclass(slots=True)
class PreparedCall:
    """A call as it will run, or the result that settles it without running."""

    call: ToolCall
    arguments: dict[str, Any]
    index: int
    tool: Any = None
    refused: ToolResult | None = None

    @property
    def display_hint(self) -> ToolDisplayHint | None:
        return getattr(self.tool, "display_hint", None)


@dataclass(frozen=True, slots=True)
class Batch:
    """The calls of one answer, and what each stage needs to know."""

    calls: tuple[ToolCall, ...]
    turn: int
    tools: ToolSet
    hooks: Hooks
    cancel: CancelToken
    run: RunMetadata | None

    def prepare(self, message: AssistantMessage, argument_errors: Mapping[int, str]) -> list[PreparedCall]:
        """All calls, checked and gated. Calls of an answer cut by its length are refused ungated."""
        prepared = []
        for index, call in enumerate(self.calls):
            item = PreparedCall(call, call.arguments, index)
            if message.stop_reason == "length":
                item.refused = CUT
            elif self.cancel.is_set():
                item.refused = ABORTED
            else:
                self._check(item, argument_errors.get(index, ""))
            prepared.append(item)
        return prepared

    def find_tool(self, item: PreparedCall) -> None:
        """Look the tool up, at the last moment: a call before this one may have added or removed it."""
        item.tool = self.tools.get(item.call.name)
        if item.tool is None and item.refused is None:
            available = ", ".join(self.tools.names()) or "none"
            item.refused = ToolResult(
                f"Tool {item.call.name} not found. Available: {available}", is_error=True
            )

    def execute(self, item: PreparedCall, report: Callable[[ToolResult], object]) -> ToolResult:
        """The result of one call; partial results go to `report`, on this thread."""
        if item.refused is not None:
            return item.refused
        if self.cancel.is_set():
            return ABORTED
        try:
            execution = _Execution(item, self.cancel, self.run)
        except RuntimeError as error:  # the system gives out no more threads
            return ToolResult(f"the tool could not be started: {error}", is_error=True)
        return execution.wait(report)

    def settle(self, item: PreparedCall, result: ToolResult) -> ToolResult:
        """The result as `after_tool` leaves it; refused calls are not shown to it."""
        hook = self.hooks.after_tool
        if hook is None or item.refused is not None or result is ABORTED:
            return result
        info = ToolResultInfo(
            item.call.id,
            item.call.name,
            copy.deepcopy(item.arguments),  # theirs to change: the events keep these
            self.turn,
            item.index,
            len(self.calls),
            self.run,
            result,
            self.cancel,
        )
        try:
            override = hook(info)
            return result if override is None else override.apply(result)
        except Exception as error:
            logger.exception("the after_tool hook failed for %s", item.call.name)
            return ToolResult(f"the after_tool hook failed: {_text(error)}", is_error=True)

    def _check(self, item: PreparedCall, argument_error: str) -> None:
        if argument_error:
            item.refused = ToolResult(
                f"{argument_error}. The call was not run; send it again.", is_error=True
            )
            return
        if not isinstance(item.arguments, dict):
            kind = type(item.arguments).__name__
            item.refused = ToolResult(f"the arguments must be a JSON object, got {kind}", is_error=True)
            return
        self._gate(item)

    def _gate(self, item: PreparedCall) -> None:
        gate = self.hooks.before_tool
        if gate is None:
            return
        call = item.call
        try:
            info = ToolCallInfo(
                call.id,
                call.name,
                copy.deepcopy(item.arguments),
                self.turn,
                item.index,
                len(self.calls),
                self.run,
                self.cancel,
            )
            decision = gate(info)
            if decision is None:
                return
            if decision.updated_input is not None:
                item.arguments = copy.deepcopy(decision.updated_input)
            if decision.action != "allow":
                item.refused = ToolResult(decision.reason or _DENIED, is_error=True)
        except Exception as error:
            logger.exception("the before_tool hook failed for %s", call.name)
            item.refused = ToolResult(f"{_DENIED}: {_text(error)}", is_error=True)


class _Execution:
    """One running call.

    Threads: the tool's own daemon thread puts its updates and its outcome on a queue, cancel callbacks put a
    wake-up there, the worker alone reads it. Once the worker has left, whatever still arrives is never read:
    a late result is dropped with the queue.
    """

    def __init__(self, item: PreparedCall, parent: CancelToken, run: RunMetadata | None) -> None:
        self._item = item
        self._timeout: float | None = getattr(item.tool, "timeout", None)
        self._cancel = parent.child()
        self._inbox: SimpleQueue[tuple[Literal["update", "done", "failed", "cancelled"], Any]] = SimpleQueue()
        self._ended = False  # by the tool: its outcome is on the queue, or about to be
        self._settled = False  # by the worker
        self._stopping = ""
        self._deadline: float | None = None
        context = ToolContext(item.call.id, self._cancel, self._report, run)
        thread = threading.Thread(
            target=contextvars.copy_context().run,
            args=(self._run, context),
            name=f"agent-tool-{item.call.name}",
            daemon=True,
        )
        self._cancel.on_cancel(lambda: self._inbox.put(("cancelled", None)))
        try:
            thread.start()
        except RuntimeError:
            self._cancel.cancel("not started")
            raise

    def wait(self, report: Callable[[ToolResult], object]) -> ToolResult:
        self._deadline = None if self._timeout is None else time.monotonic() + self._timeout
        while True:
            try:
                kind, value = self._next()
            except Empty:
                if self._ended:
                    continue
                if self._stopping:
                    return self._give_up()
                self._stop("timeout")
                self._cancel.cancel("timeout")
                continue
            # The signal itself, not the place of its wake-up in the queue: a tool that saw it first may have
            # answered before that, and one that floods the queue must not outrun it.
            if not self._stopping and self._cancel.is_set():
                self._stop("aborted")
            if kind == "update" and not self._stopping:
                report(value)
            elif kind in ("done", "failed"):
                self._settled = True
                self._cancel.cancel("settled")
                return self._outcome(kind, value)

    def _next(self) -> tuple[str, Any]:
        """What the tool says next; Empty when its time is over and it has not ended."""
        remaining = _remaining(self._deadline)
        if remaining == 0.0 and not self._ended:
            raise Empty
        return self._inbox.get(timeout=None if self._ended else remaining)

    def _stop(self, why: str) -> None:
        self._stopping, self._deadline = why, time.monotonic() + GRACE

    def _run(self, context: ToolContext) -> None:
        outcome: tuple[Literal["done", "failed"], Any]
        try:
            # A copy: what a tool does to its arguments must not change the history.
            value = self._item.tool.execute(copy.deepcopy(self._item.arguments), context)
            outcome = ("done", to_result(value))
        except BaseException as error:
            outcome = ("failed", error)
        self._ended = True
        self._inbox.put(outcome)

    def _report(self, partial: ToolResult) -> None:
        if not self._settled:
            self._inbox.put(("update", partial))

    def _give_up(self) -> ToolResult:
        self._settled = True
        logger.warning(
            "tool %s did not stop within %s s of being told to; its late result will be dropped",
            self._item.call.name,
            GRACE,
        )
        return self._timed_out("") if self._stopping == "timeout" else ABORTED

    def _outcome(self, kind: str, value: Any) -> ToolResult:
        result = value if kind == "done" else self._failure(value)
        return self._timed_out(result.text) if self._stopping == "timeout" else result

    def _timed_out(self, said: str) -> ToolResult:
        text = f"Tool {self._item.call.name} timed out after {self._timeout:g} seconds"
        return ToolResult(f"{said}\n\n{text}" if said else text, is_error=True)

    def _failure(self, error: BaseException) -> ToolResult:
        if self._stopping == "aborted":
            return ABORTED
        if isinstance(error, ToolError):
            return ToolResult(str(error), is_error=True)
        logger.info("tool %s failed", self._item.call.name, exc_info=error)
        return ToolResult(_text(error), is_error=True)


def _remaining(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _text(error: BaseException) -> str:
    """Type and text of an exception, for a model: no traceback."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
