"""One tool call in three stages: prepare, execute on a thread of its own, settle.

Prepare checks the arguments and asks the gate, for the whole batch before anything runs. Execute runs the
tool until its result, its time limit or the stop signal. Settle lets `after_tool` change the result. Whatever
happens, every call that is not left pending gets exactly one result. Which calls run side by side is decided
in `batch.py`.
"""

from __future__ import annotations

import contextvars
import copy
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import Any, Literal

from agent.cancel import CancelToken
from agent.errors import ToolError
from agent.hooks import Hooks, ToolCallInfo, ToolResultInfo
from agent.messages import AssistantMessage, ToolCall
from agent.runs import RunMetadata, forward_events_to
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
    denied: bool = False
    paused: bool = False

    @property
    def display_hint(self) -> ToolDisplayHint | None:
        return getattr(self.tool, "display_hint", None)

    @property
    def may_run_beside_others(self) -> bool:
        """True for a tool marked so; never for an unknown one, nor for a truthy mark that is not a yes."""
        return getattr(self.tool, "parallel", False) is True

    @property
    def as_gated(self) -> ToolCall:
        """The call with the arguments that the gate gave it."""
        return (
            self.call
            if self.arguments is self.call.arguments
            else replace(self.call, arguments=self.arguments)
        )


@dataclass(slots=True)
class Batch:
    """The calls of one answer, and what each stage needs to know."""

    calls: tuple[ToolCall, ...]
    turn: int
    tools: ToolSet
    hooks: Hooks
    cancel: CancelToken
    run: RunMetadata | None
    ungated: frozenset[str] = frozenset()

    def prepare(self, message: AssistantMessage, argument_errors: Mapping[int, str]) -> list[PreparedCall]:
        """All calls, checked and gated. Calls of an answer cut by its length are refused ungated.

        Once a gate has paused a call the list is over: that call and those after it are pending.
        """
        prepared = []
        for index, call in enumerate(self.calls):
            item = PreparedCall(call, call.arguments, index)
            prepared.append(item)
            if message.stop_reason == "length":
                item.refused = CUT
            elif self.cancel.is_set():
                item.refused = ABORTED
            else:
                self._check(item, argument_errors.get(index, ""))
            if item.paused:
                break
        return prepared

    def find_tool(self, item: PreparedCall) -> None:
        """Look the tool up, at the last moment: a call before this one may have added or removed it."""
        item.tool = self.tools.get(item.call.name)

    def refusal(self, item: PreparedCall) -> ToolResult | None:
        """The result that settles a call without running it, or None."""
        if item.refused is None and self.cancel.is_set():
            return ABORTED
        if item.refused is None and item.tool is None:
            available = ", ".join(self.tools.names()) or "none"
            item.refused = ToolResult(
                f"Tool {item.call.name} not found. Available: {available}", is_error=True
            )
        return item.refused

    def settle(self, item: PreparedCall, result: ToolResult) -> ToolResult:
        """The result as `after_tool` leaves it; refused calls are not shown to it, denied ones on request."""
        hook = self.hooks.after_tool
        shown = item.refused is None or (item.denied and self.hooks.after_tool_sees_denied)
        if hook is None or not shown or result is ABORTED:
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
            item.denied,
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
        if gate is None or item.call.name in self.ungated:
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
            if decision.action == "pause":
                item.paused = True
            elif decision.action != "allow":
                item.denied, item.refused = True, ToolResult(decision.reason or _DENIED, is_error=True)
        except Exception as error:
            logger.exception("the before_tool hook failed for %s", call.name)
            item.denied = True
            item.refused = ToolResult(f"{_DENIED}: {_text(error)}", is_error=True)


Said = tuple["Execution", Literal["update", "event", "usage", "done", "failed", "cancelled"], Any] | None
"""Which call says what; None: there is something to tell that no call says."""


class Execution:
    """One running call.

    Threads: the tool's own daemon thread puts its updates and its outcome on the batch's queue, runs that it
    starts put their events there, cancel callbacks a wake-up; the worker alone reads it and calls the
    methods. What still arrives once the call is settled is dropped.
    """

    def __init__(
        self,
        item: PreparedCall,
        timeout: float | None,
        parent: CancelToken,
        run: RunMetadata | None,
        inbox: SimpleQueue[Said],
    ) -> None:
        self.item = item
        self._timeout = timeout
        self._cancel = parent.child()
        self._inbox = inbox
        self._ended = False  # by the tool: its outcome is on the queue, or about to be
        self._settled = False  # by the worker
        self._stopping = ""
        thread = threading.Thread(
            target=contextvars.copy_context().run,
            args=(self._run, run),
            name=f"agent-tool-{item.call.name}",
            daemon=True,
        )
        self._cancel.on_cancel(lambda: inbox.put((self, "cancelled", None)))
        try:
            thread.start()
        except RuntimeError:
            self._cancel.cancel("not started")
            raise
        self._deadline = None if timeout is None else time.monotonic() + timeout

    def remaining(self) -> float | None:
        """Seconds until this call must be looked at again; None when only the tool can bring news."""
        if self._deadline is None or self._ended:
            return None
        return max(0.0, self._deadline - time.monotonic())

    def look(self) -> ToolResult | None:
        """Mind the stop signal and the time limit; the result when the tool is given up."""
        self._mind_signal()
        if self.remaining() != 0.0:
            return None
        if self._stopping:
            return self._give_up()
        self._stop("timeout")
        self._cancel.cancel("timeout")
        return None

    def hear(
        self, kind: str, value: Any, report: Callable[[PreparedCall, str, Any], object]
    ) -> ToolResult | None:
        """Take in one thing that was said; the result when it is the outcome."""
        if self._settled or kind == "cancelled":
            return None
        self._mind_signal()
        if kind in ("update", "event", "usage"):
            if kind != "update" or not self._stopping:
                report(self.item, kind, value)
            return None
        self._settled = True
        self._cancel.cancel("settled")
        return self._outcome(kind, value)

    def abandon(self) -> None:
        """Tell the tool to stop, and wait for nothing."""
        self._settled = True
        self._cancel.cancel("abandoned")

    def _mind_signal(self) -> None:
        # The signal itself, not the place of its wake-up in the queue: a tool that saw it first may have
        # answered before that, and one that floods the queue must not outrun it.
        if not self._stopping and self._cancel.is_set():
            self._stop("aborted")

    def _stop(self, why: str) -> None:
        self._stopping, self._deadline = why, time.monotonic() + GRACE

    def _run(self, run: RunMetadata | None) -> None:
        forward_events_to(lambda event: self._say("event", event))
        context = ToolContext(
            self.item.call.id,
            self._cancel,
            lambda partial: self._say("update", partial),
            run,
            charge=lambda usage: self._say("usage", usage),
        )
        kind: Literal["done", "failed"] = "done"
        try:
            # A copy: what a tool does to its arguments must not change the history.
            value: Any = to_result(self.item.tool.execute(copy.deepcopy(self.item.arguments), context))
        except BaseException as error:
            kind, value = "failed", error
        self._ended = True
        self._inbox.put((self, kind, value))

    def _say(self, kind: Literal["update", "event", "usage"], value: Any) -> None:
        if not self._settled:
            self._inbox.put((self, kind, value))

    def _give_up(self) -> ToolResult:
        self._settled = True
        logger.warning(
            "tool %s did not stop within %s s of being told to; its late result will be dropped",
            self.item.call.name,
            GRACE,
        )
        return self._timed_out("") if self._stopping == "timeout" else ABORTED

    def _outcome(self, kind: str, value: Any) -> ToolResult:
        result = value if kind == "done" else self._failure(value)
        return self._timed_out(result.text) if self._stopping == "timeout" else result

    def _timed_out(self, said: str) -> ToolResult:
        text = f"Tool {self.item.call.name} timed out after {self._timeout:g} seconds"
        return ToolResult(f"{said}\n\n{text}" if said else text, is_error=True)

    def _failure(self, error: BaseException) -> ToolResult:
        if self._stopping == "aborted":
            return ABORTED
        if isinstance(error, ToolError):
            return ToolResult(str(error), is_error=True)
        logger.info("tool %s failed", self.item.call.name, exc_info=error)
        return ToolResult(_text(error), is_error=True)


def _text(error: BaseException) -> str:
    """Type and text of an exception, for a model: no traceback."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
