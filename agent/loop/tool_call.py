"""One tool call in three stages: prepare, execute, settle.

`prepare` checks the arguments and asks the gate; it is called for all calls of an answer before the first one
runs. `execute` starts the tool; the `RunningCall` ends with its result, its time limit or the cancel token.
`settle` lets `after_tool` change the result. Every call that is not left pending gets exactly one result.
`tool_scheduler.py` decides which calls run side by side.
"""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import Any, Literal, NamedTuple

from agent.cancel import CancelToken
from agent.errors import ToolError, contain, error_text, typed_error_text
from agent.hooks import Hooks, ToolCallInfo, ToolResultInfo
from agent.json_values import JsonObject
from agent.limits import Limits
from agent.messages import AssistantMessage, ToolCall, ToolResultMessage
from agent.runs import RunMetadata
from agent.tools import ToolDisplayHint, ToolResult, ToolSet
from agent.tools.execution import MessageKind, start_execution

logger = logging.getLogger("agent")

# Seconds for a cancelled tool to end. Then the call is settled without it; its thread is a daemon.
GRACE = 1.0

ABORTED = ToolResult("aborted", is_error=True)
TRUNCATED = ToolResult(
    "This call was not run: the answer reached the output limit, so its arguments may be cut off. "
    "Send the call again, with shorter arguments or in several smaller steps.",
    is_error=True,
)
FAULT = ToolResult(
    "The run ended because of an internal error. The outcome of this call is unknown.", is_error=True
)
_DENIED = "tool call denied"


@dataclass(slots=True)
class Batch:
    """The calls of one answer, and what the stages need to know of the run."""

    calls: tuple[ToolCall, ...]
    turn: int
    tools: ToolSet
    hooks: Hooks
    limits: Limits
    cancel: CancelToken
    run: RunMetadata | None = None
    ungated: frozenset[str] = frozenset()


@dataclass(slots=True)
class PreparedCall:
    """A call as it will run, or with the result that settles it without running."""

    call: ToolCall
    arguments: JsonObject
    index: int
    tool: Any = None
    refusal: ToolResult | None = None
    denied: bool = False
    paused: bool = False
    # Read once, when the tool is looked up.
    display_hint: ToolDisplayHint | None = None
    label: str = ""  # the readable name of the tool; the name of the call when there is none
    may_run_beside_others: bool = False
    timeout: float | None = None

    def __post_init__(self) -> None:
        self.label = self.label or self.call.name

    @property
    def as_gated(self) -> ToolCall:
        """The call with the arguments that the gate gave it."""
        if self.arguments is self.call.arguments:
            return self.call
        return replace(self.call, arguments=self.arguments)


def result_message(call: ToolCall, result: ToolResult, timestamp: int) -> ToolResultMessage:
    """The message that answers a call."""
    return ToolResultMessage(
        call.id, call.name, result.content, result.is_error, result.details, result.meta, timestamp
    )


# -- prepare -----------------------------------------------------------------------------------------------


def prepare(batch: Batch, index: int, message: AssistantMessage, argument_error: str = "") -> PreparedCall:
    """The call at that index of the batch, checked and gated; with a refusal when it must not run.

    `argument_error` says what is wrong with the JSON of the arguments. A call of an answer that was cut by
    the output limit is refused without asking the gate.
    """
    call = batch.calls[index]
    item = PreparedCall(call, call.arguments, index)
    if message.stop_reason == "length":
        item.refusal = TRUNCATED
    elif batch.cancel.is_set():
        item.refusal = ABORTED
    elif argument_error:
        item.refusal = ToolResult(f"{argument_error}. The call was not run; send it again.", is_error=True)
    elif not isinstance(call.arguments, dict):
        kind = type(call.arguments).__name__
        item.refusal = ToolResult(f"the arguments must be a JSON object, got {kind}", is_error=True)
    else:
        _ask_gate(batch, item)
    return item


def _ask_gate(batch: Batch, item: PreparedCall) -> None:
    gate, call = batch.hooks.before_tool, item.call
    if gate is None or call.name in batch.ungated:
        return
    try:
        info = ToolCallInfo(
            call.id,
            call.name,
            copy.deepcopy(item.arguments),
            batch.turn,
            item.index,
            len(batch.calls),
            batch.run,
            batch.cancel,
        )
        decision = gate(info)
        if decision is None:
            return
        if decision.updated_input is not None:
            item.arguments = copy.deepcopy(decision.updated_input)
        if decision.action == "pause":
            item.paused = True
        elif decision.action != "allow":
            item.denied, item.refusal = True, ToolResult(decision.reason or _DENIED, is_error=True)
    except BaseException as error:
        contain(error)
        logger.exception("the before_tool hook failed for %s", call.name)
        item.paused, item.denied = False, True
        item.refusal = ToolResult(f"{_DENIED}: {typed_error_text(error)}", is_error=True)


# -- execute -----------------------------------------------------------------------------------------------


class ToolMessage(NamedTuple):
    """A message from a running call to the worker. `cancelled` only wakes the worker up."""

    call: RunningCall
    kind: MessageKind | Literal["cancelled"]
    value: Any = None


Inbox = SimpleQueue[ToolMessage | None]
"""What the worker reads while tools run; None: events from other threads wait to be emitted."""


def look_up(batch: Batch, item: PreparedCall) -> None:
    """Find the tool, at the last moment: a call before this one may have added or removed it.

    Refuses the call when the attributes of the tool cannot be read or used.
    """
    if item.refusal is not None:
        return
    item.tool = batch.tools.get(item.call.name)
    try:
        item.display_hint = getattr(item.tool, "display_hint", None)
        item.label = str(getattr(item.tool, "label", "") or item.call.name)
        # Never an unknown tool, nor one with another truthy value.
        item.may_run_beside_others = getattr(item.tool, "parallel", False) is True
        item.timeout = _checked_timeout(getattr(item.tool, "timeout", None))
    except BaseException as error:
        contain(error)
        logger.exception("the attributes of tool %s can't be used", item.call.name)
        item.refusal = ToolResult(f"the tool can't be used: {typed_error_text(error)}", is_error=True)


def _checked_timeout(timeout: Any) -> float | None:
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool) and timeout == timeout
    if timeout is None or is_number:
        return timeout  # type: ignore[no-any-return]
    raise TypeError(f"its timeout must be a number of seconds or None, not {timeout!r:.80}")


def execute(batch: Batch, item: PreparedCall, inbox: Inbox) -> RunningCall | ToolResult:
    """Start the tool that was looked up; a result when the call is refused or cannot be started."""
    if item.refusal is not None:
        return item.refusal
    if batch.cancel.is_set():
        return ABORTED
    if item.tool is None:
        available = ", ".join(batch.tools.names()) or "none"
        text = f"Tool {item.call.name} not found. Available: {available}"
        item.refusal = ToolResult(text, is_error=True)
        return item.refusal
    try:
        return RunningCall(item, batch.limits.timeout_of(item.timeout), batch.cancel, batch.run, inbox)
    except RuntimeError as error:  # the system gives out no more threads
        return ToolResult(f"the tool could not be started: {error}", is_error=True)


class RunningCall:
    """A call whose tool runs.

    Threads: the tool's threads and the cancel token put messages into the inbox; the worker alone reads it
    and calls the methods. Messages that arrive after the call has its result are dropped.
    """

    def __init__(
        self,
        item: PreparedCall,
        timeout: float | None,
        parent: CancelToken,
        run: RunMetadata | None,
        inbox: Inbox,
    ) -> None:
        self.item = item
        self._timeout = timeout
        self._cancel = parent.child()
        self._inbox = inbox
        self._ended = False  # the tool has ended: its outcome is in the inbox, or about to be
        self._settled = False  # the call has its result
        self._stopping: Literal["", "timeout", "aborted"] = ""
        self._cancel.on_cancel(lambda: inbox.put(ToolMessage(self, "cancelled")))
        try:
            start_execution(item.tool, item.call.id, item.arguments, self._cancel, run, self._post)
        except RuntimeError:
            self._cancel.cancel("not started")
            raise
        self._deadline = None if timeout is None else time.monotonic() + timeout

    def remaining(self) -> float | None:
        """Seconds until `poll` must be called again; None when only a message can change anything."""
        if self._deadline is None or self._ended:
            return None
        return max(0.0, self._deadline - time.monotonic())

    def poll(self) -> ToolResult | None:
        """Check the cancel token and the time limit; a result when the tool did not end within the grace."""
        self._check_cancel()
        if self.remaining() != 0.0:
            return None
        if self._stopping:
            return self._time_out()
        self._stop("timeout")
        self._cancel.cancel("timeout")
        return None

    def handle(
        self, message: ToolMessage, report: Callable[[PreparedCall, ToolMessage], object]
    ) -> ToolResult | None:
        """Handle a message: report progress, or return the result when it is the outcome."""
        if self._settled or message.kind == "cancelled":
            return None
        self._check_cancel()
        if message.kind in ("update", "event", "usage"):
            if message.kind != "update" or not self._stopping:
                report(self.item, message)
            return None
        self._settled = True
        self._cancel.cancel("settled")
        return self._outcome(message)

    def detach(self) -> None:
        """Cancel the tool without waiting for it."""
        self._settled = True
        self._cancel.cancel("detached")

    def _check_cancel(self) -> None:
        # The token itself counts, not the place of its message in the inbox: a tool that noticed it first may
        # have put its outcome before that message, or have filled the inbox.
        if not self._stopping and self._cancel.is_set():
            self._stop("aborted")

    def _stop(self, reason: Literal["timeout", "aborted"]) -> None:
        self._stopping, self._deadline = reason, time.monotonic() + GRACE

    def _post(self, kind: MessageKind, value: Any) -> None:
        if kind in ("done", "failed"):
            self._ended = True
        elif self._settled:
            return
        self._inbox.put(ToolMessage(self, kind, value))

    def _time_out(self) -> ToolResult:
        self._settled = True
        logger.warning(
            "tool %s did not stop within %s s of its cancellation; its late result will be dropped",
            self.item.call.name,
            GRACE,
        )
        return self._timeout_result("") if self._stopping == "timeout" else ABORTED

    def _outcome(self, message: ToolMessage) -> ToolResult:
        result = message.value if message.kind == "done" else self._failure(message.value)
        return self._timeout_result(result.text) if self._stopping == "timeout" else result

    def _timeout_result(self, output: str) -> ToolResult:
        text = f"Tool {self.item.call.name} timed out after {self._timeout:g} seconds"
        return ToolResult(f"{output}\n\n{text}" if output else text, is_error=True)

    def _failure(self, error: BaseException) -> ToolResult:
        if self._stopping == "aborted":
            return ABORTED
        if isinstance(error, ToolError):
            return ToolResult(error_text(error), is_error=True)
        logger.info("tool %s failed", self.item.call.name, exc_info=error)
        return ToolResult(typed_error_text(error), is_error=True)


# -- settle ------------------------------------------------------------------------------------------------


def settle(batch: Batch, item: PreparedCall, result: ToolResult) -> ToolResult:
    """The result as `after_tool` changes it; refused calls are not shown to it, denied ones on request."""
    hook = batch.hooks.after_tool
    is_shown = item.refusal is None or (item.denied and batch.hooks.after_tool_sees_denied)
    if hook is None or not is_shown or result is ABORTED:
        return result
    try:
        info = ToolResultInfo(
            item.call.id,
            item.call.name,
            copy.deepcopy(item.arguments),  # the hook may change them; the events keep these
            batch.turn,
            item.index,
            len(batch.calls),
            batch.run,
            result,
            batch.cancel,
            item.denied,
        )
        override = hook(info)
        return result if override is None else override.apply(result)
    except BaseException as error:
        contain(error)
        logger.exception("the after_tool hook failed for %s", item.call.name)
        return ToolResult(f"the after_tool hook failed: {typed_error_text(error)}", is_error=True)
