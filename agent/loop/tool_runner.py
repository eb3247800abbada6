"""The calls of one answer, from the gate to the results: run, paused, or refused when it was cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent.cancel import CancelToken
from agent.events import TurnEnd
from agent.hook_types import TruncationInfo
from agent.hooks import Hooks
from agent.limits import Limits
from agent.loop.config import LoopConfig
from agent.loop.hook_calls import RunFailed, sorted_truncation, truncation
from agent.loop.model_call import Answer
from agent.loop.recorder import RunRecorder
from agent.loop.tool_call import Batch, PreparedCall
from agent.loop.tool_scheduler import run_batch
from agent.messages import ToolCall, ToolResultMessage
from agent.runs import Stop
from agent.tools import ToolResult, ToolSet


@dataclass(slots=True)
class Outcome:
    """What came of an answer's calls. `ending` is how the run ends if nothing waits; None: it goes on."""

    results: tuple[ToolResultMessage, ...] = ()
    ending: Stop | None = None
    pending: tuple[ToolCall, ...] = ()


class ToolRunner:
    """Runs the calls of a run's answers, one answer after the other. Used by the run's thread alone.

    `cut_turns` counts the answers that were cut inside their calls, in a row.
    """

    def __init__(
        self,
        config: LoopConfig,
        hooks: Hooks,
        limits: Limits,
        recorder: RunRecorder,
        cancel: CancelToken,
        aborted: CancelToken,
        answer_tools: frozenset[str],
    ) -> None:
        self.cut_turns = 0
        self._run = config.run
        self._hooks = hooks
        self._limits = limits
        self._recorder = recorder
        self._cancel = cancel
        self._aborted = aborted
        self._answer_tools = answer_tools

    def run(self, answer: Answer, tools: ToolSet, turn: int) -> Outcome:
        """Run the calls of an answer, unless it was cut."""
        message = answer.message
        if message.stop_reason == "length":
            return self._run_cut(answer, tools, turn)
        self.cut_turns = 0
        return self._run_calls(answer, tools, turn)

    def _run_cut(self, answer: Answer, tools: ToolSet, turn: int) -> Outcome:
        """Answer the calls of an answer that was cut, by the hook's word or our own; none of them runs."""
        message, calls = answer.message, answer.message.tool_calls
        try:
            decision = truncation(self._hooks, TruncationInfo(message, calls, self._run, self._cancel))
        except RunFailed:
            outcome = self._run_calls(answer, tools, turn)
            self._recorder.emit(TurnEnd(message, outcome.results, self._recorder.usage))
            raise
        if decision is None:
            self.cut_turns = self.cut_turns + 1 if calls else 0
            return self._run_calls(answer, tools, turn)
        self.cut_turns = 0
        given, others = sorted_truncation(calls, decision.messages)
        outcome = self._run_calls(answer, tools, turn, given)
        for other in others:
            self._recorder.add_whole(other)
        return Outcome(outcome.results, None if decision.retry else "truncated")

    def _run_calls(
        self, answer: Answer, tools: ToolSet, turn: int, given: Mapping[int, ToolResult] | None = None
    ) -> Outcome:
        calls = answer.message.tool_calls
        if not calls:
            return Outcome((), "end_turn")
        batch = Batch(calls, turn, tools, self._hooks, self._cancel, self._run, self._answer_tools)
        prepared = batch.prepare(answer.message, answer.argument_errors)
        if given is not None:
            for index, result in given.items():
                prepared[index].refused = result
        paused = _take_paused(prepared, calls)
        results, terminate = run_batch(batch, prepared, self._recorder, self._limits)
        if paused:
            if self._aborted.is_set():  # nobody will resolve them: the next prompt must not wait for it
                results += run_batch(batch, paused, self._recorder, self._limits)[0]
                return Outcome(tuple(results))
            return Outcome(tuple(results), None, tuple(item.as_gated for item in paused))
        if not terminate:
            return Outcome(tuple(results))
        answers = all(call.name in self._answer_tools for call in calls)
        ending: Stop = "end_turn" if answers else "terminated"
        return Outcome(tuple(results), ending)


def _take_paused(prepared: list[PreparedCall], calls: Sequence[ToolCall]) -> list[PreparedCall]:
    """Take the paused call from the end of those prepared; it and those behind it, or nothing."""
    if not prepared[-1].paused:
        return []
    paused = prepared.pop()
    behind = range(paused.index + 1, len(calls))
    return [paused, *(PreparedCall(calls[i], calls[i].arguments, i) for i in behind)]
