"""Calls the hooks that decide about a run; each function states what follows when its hook raises.

A hook that ends the run makes these functions raise `RunFailed`, which the loop turns into the run's ending.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from agent.errors import AgentError, GuardrailError, contain, error_text
from agent.hook_types import (
    Candidate,
    CandidateInfo,
    InputInfo,
    OutputInfo,
    RequestUpdate,
    RunInfo,
    Truncation,
    TruncationInfo,
    TurnUpdate,
)
from agent.hooks import Hooks
from agent.messages import Message, ToolCall, ToolResultMessage, checked_messages
from agent.tools import ToolResult

logger = logging.getLogger("agent")

_Returned = TypeVar("_Returned")


class RunFailed(Exception):
    """A hook ended the run in `error`; `cause` is the exception it raised or gave."""

    def __init__(self, cause: BaseException | str) -> None:
        self.cause = detached(cause) if isinstance(cause, BaseException) else AgentError(str(cause))
        super().__init__(error_text(self.cause))


def check_input(hooks: Hooks, info: InputInfo) -> None:
    """Call the input guardrails, in order. Raises RunFailed for the first that rejects."""
    for name, guardrail in hooks.input_guardrails:
        _guard("input", name, guardrail, info)


def review(hooks: Hooks, output: OutputInfo, messages: Sequence[Message]) -> RequestUpdate | None:
    """Call the output guardrails, then `candidate_answer`; the constraint to ask again with, or None.

    Raises RunFailed when one rejects or aborts.
    """
    for name, guardrail in hooks.output_guardrails:
        _guard("output", name, guardrail, output)
    if hooks.candidate_answer is None:
        return None
    info = CandidateInfo(
        output.message, list(messages), output.turns, output.usage, output.run, output.cancel
    )
    candidate = call_hook("candidate_answer", hooks.candidate_answer, info, Candidate)
    if candidate is None or candidate.action == "accept":
        return None
    if candidate.action == "abort":
        raise RunFailed(candidate.error or "the answer was not accepted")
    return candidate.request or RequestUpdate()


def call_prepare_turn(hooks: Hooks, info: Callable[[], RunInfo]) -> TurnUpdate | None:
    """The update that `prepare_turn` returns. Raises RunFailed when it raises or returns an error."""
    if hooks.prepare_turn is None:
        return None
    update = call_hook("prepare_turn", hooks.prepare_turn, info(), TurnUpdate)
    if update is not None and update.error is not None:
        raise RunFailed(update.error)
    return update


def call_on_truncated(hooks: Hooks, info: TruncationInfo) -> Truncation | None:
    """What `on_truncated` returns for an answer that was cut. Raises RunFailed when it raises."""
    if hooks.on_truncated is None:
        return None
    truncation = call_hook("on_truncated", hooks.on_truncated, info, Truncation)
    if truncation is None:
        return None
    try:
        return replace(truncation, messages=checked_messages(truncation.messages))
    except BaseException as error:
        contain(error)
        raise RunFailed(error) from error


def should_stop(test: Callable[[RunInfo], bool], info: Callable[[], RunInfo]) -> bool:
    """The result of a stop test; one that raises is logged and the run goes on."""
    try:
        return bool(test(info()))
    except BaseException as error:
        contain(error)
        logger.exception("%s failed; the run goes on", getattr(test, "__name__", "a stop test"))
        return False


def park_payload(hooks: Hooks, info: Callable[[], RunInfo]) -> Any:
    """The payload that `before_park` returns; None, and a log entry, when it raises."""
    if hooks.before_park is None:
        return None
    try:
        return hooks.before_park(info())
    except BaseException as error:
        contain(error)
        logger.exception("before_park failed; parked without its payload")
        return None


def poll_safely(poll: Callable[[], Sequence[Message]] | None) -> tuple[Message, ...]:
    """The messages a poll returns; none, and a log entry, when it raises. Text becomes a user message."""
    if poll is None:
        return ()
    try:
        return checked_messages(poll() or ())
    except BaseException as error:
        contain(error)
        logger.exception("polling for queued messages failed; counted as none")
        return ()


def sorted_truncation(
    calls: Sequence[ToolCall], messages: Sequence[Message]
) -> tuple[dict[int, ToolResult], list[Message]]:
    """A truncation's messages: the results by position among the calls, and all that are no results."""
    results: dict[int, ToolResult] = {}
    others: list[Message] = []
    for message in messages:
        if not isinstance(message, ToolResultMessage):
            others.append(message)
            continue
        ids = (i for i, call in enumerate(calls) if call.id == message.tool_call_id and i not in results)
        position = next(ids, None)
        if position is None:
            logger.warning(
                "on_truncated returned a result for a call that does not exist: %s", message.tool_call_id
            )
        else:
            results[position] = ToolResult(message.content, message.details, message.meta, message.is_error)
    return results, others


def _guard(phase: str, name: str, guardrail: Callable[[Any], object], info: Any) -> None:
    try:
        guardrail(info)
    except BaseException as error:
        contain(error)
        text = f'agent: {phase} guardrail "{name}": {error_text(error)}'
        rejection = GuardrailError(text, phase, name)
        rejection.__cause__ = error
        raise RunFailed(rejection) from error


def call_hook(name: str, hook: Callable[[Any], Any], info: Any, kind: type[_Returned]) -> _Returned | None:
    """What a hook returns. Raises RunFailed when it raises or returns an object of another kind."""
    try:
        returned = hook(info)
        if returned is not None and not isinstance(returned, kind):
            raise TypeError(f"{name} must return None or a {kind.__name__}, not {returned!r:.80}")
        return returned
    except BaseException as error:
        contain(error)
        logger.debug("a hook failed; the run ends", exc_info=True)
        raise RunFailed(error) from error


def detached(error: BaseException) -> BaseException:
    """The exception without its traceback, which becomes a note.

    The frames of a traceback hold those that called them, and so the agent; but the result of a run, which
    holds the exception, must not keep the agent alive.
    """
    where = error.__traceback__
    if where is not None:
        error.add_note("Raised in a hook:\n" + "".join(traceback.format_tb(where.tb_next or where)).rstrip())
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        part = left.pop()
        if part is not None and id(part) not in seen:
            seen.add(id(part))
            part.__traceback__ = None
            left += (part.__cause__, part.__context__)
    return error
