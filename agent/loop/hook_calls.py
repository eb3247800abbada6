"""What the hooks that judge a run say, with the rule for each that raises.

A judge that ends the run does it by `RunFailed`, which the loop turns into an ending and never lets out.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from agent.errors import AgentError, GuardrailError
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
from agent.messages import Message, ToolCall, ToolResultMessage, UserMessage
from agent.tools import ToolResult

logger = logging.getLogger("agent")

_Answer = TypeVar("_Answer")


class RunFailed(Exception):
    """A hook ended the run in `error`; `cause` is what it said or raised."""

    def __init__(self, cause: BaseException | str) -> None:
        self.cause = AgentError(cause) if isinstance(cause, str) else _detached(cause)
        super().__init__(str(self.cause) or type(self.cause).__name__)


def check_input(hooks: Hooks, info: InputInfo) -> None:
    """Ask the input guardrails, in order. Raises RunFailed for the first that rejects."""
    for name, guardrail in hooks.input_guardrails:
        _guard("input", name, guardrail, info)


def review(hooks: Hooks, output: OutputInfo, messages: Sequence[Message]) -> RequestUpdate | None:
    """Ask the output guardrails, then `candidate_answer`; the constraint to ask again with, or None.

    Raises RunFailed when one rejects or aborts.
    """
    for name, guardrail in hooks.output_guardrails:
        _guard("output", name, guardrail, output)
    if hooks.candidate_answer is None:
        return None
    info = CandidateInfo(
        output.message, list(messages), output.turns, output.usage, output.run, output.cancel
    )
    verdict = _asked("candidate_answer", hooks.candidate_answer, info, Candidate)
    if verdict is None or verdict.action == "accept":
        return None
    if verdict.action == "abort":
        raise RunFailed(verdict.error or "the answer was not accepted")
    return verdict.request or RequestUpdate()


def prepared_turn(hooks: Hooks, info: Callable[[], RunInfo]) -> TurnUpdate | None:
    """What `prepare_turn` wants changed. Raises RunFailed when it raises or says so."""
    if hooks.prepare_turn is None:
        return None
    update = _asked("prepare_turn", hooks.prepare_turn, info(), TurnUpdate)
    if update is not None and update.error is not None:
        raise RunFailed(update.error)
    return update


def truncation(hooks: Hooks, info: TruncationInfo) -> Truncation | None:
    """What `on_truncated` does with an answer that was cut. Raises RunFailed when it raises."""
    if hooks.on_truncated is None:
        return None
    return _asked("on_truncated", hooks.on_truncated, info, Truncation)


def says_stop(test: Callable[[RunInfo], bool], info: Callable[[], RunInfo]) -> bool:
    """The answer of a stop test; one that raises is logged and the run goes on."""
    try:
        return bool(test(info()))
    except Exception:
        logger.exception("%s failed; the run goes on", getattr(test, "__name__", "a stop test"))
        return False


def park_payload(hooks: Hooks, info: Callable[[], RunInfo]) -> Any:
    """What `before_park` gives; one that raises is logged and gives None."""
    if hooks.before_park is None:
        return None
    try:
        return hooks.before_park(info())
    except Exception:
        logger.exception("before_park failed; parked without its payload")
        return None


def polled(poll: Callable[[], Sequence[Message]] | None) -> tuple[Message, ...]:
    """The messages a poll gives; one that raises is logged and gives none. Text becomes a user message."""
    if poll is None:
        return ()
    try:
        found = poll()
        return tuple(UserMessage(item) if isinstance(item, str) else item for item in found) if found else ()
    except Exception:
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
            logger.warning("on_truncated answered a call that is not there: %s", message.tool_call_id)
        else:
            results[position] = ToolResult(message.content, message.details, message.meta, message.is_error)
    return results, others


def _guard(phase: str, name: str, guardrail: Callable[[Any], object], info: Any) -> None:
    try:
        guardrail(info)
    except Exception as error:
        text = f'agent: {phase} guardrail "{name}": {str(error) or type(error).__name__}'
        rejection = GuardrailError(text, phase, name)
        rejection.__cause__ = error
        raise RunFailed(rejection) from error


def _asked(name: str, hook: Callable[[Any], Any], info: Any, kind: type[_Answer]) -> _Answer | None:
    """What a hook says. Raises RunFailed when it raises, or says what nobody can understand."""
    try:
        said = hook(info)
        if said is not None and not isinstance(said, kind):
            raise TypeError(f"{name} must return None or a {kind.__name__}, not {said!r:.80}")
        return said
    except Exception as error:
        logger.debug("a hook failed; the run ends", exc_info=True)
        raise RunFailed(error) from error


def _detached(error: BaseException) -> BaseException:
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
