"""The agent loop, as a function of (context, config, emit): call the model, run its tools, repeat.

    agent_start
      turn_start   [queued messages]   one answer   its tools   turn_end      again while there is work
    agent_end

A turn is one answer of the model plus its tool calls. Steering messages enter at the start of a turn,
follow-ups when the run would end. `recovery.py` handles answers that fail. `_after_turn` lists what decides
after a turn, in order.

Nothing here reads a file, the environment or a global; time comes from the config. Everything runs on the
calling thread but the tools, which have threads of their own. `emit` receives every event, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

from agent.block_summary import with_calls_as_text
from agent.cancel import CancelToken
from agent.errors import NothingToContinueError, contain, typed_error_text
from agent.events import (
    AgentEnd,
    AgentParked,
    AgentStart,
    CandidateDiscarded,
    MaxTurnsReached,
    TurnEnd,
    TurnStart,
)
from agent.hook_types import InputInfo, OutputInfo, RequestUpdate, TruncationInfo, TurnUpdate
from agent.hooks import Hooks, RunInfo, merge_hooks
from agent.limits import TIME_IS_UP, Limits, Stopwatch
from agent.loop.config import Emit, LoopConfig, Poll
from agent.loop.history import History
from agent.loop.hook_calls import (
    RunFailed,
    call_on_truncated,
    call_prepare_turn,
    check_input,
    park_payload,
    review,
    should_stop,
    sorted_truncation,
)
from agent.loop.message_queues import MessageQueues
from agent.loop.model_call import Answer, ModelCaller
from agent.loop.recorder import RunRecorder
from agent.loop.recovery import AUTO_RESUME_MARKER, Recovery
from agent.loop.tool_call import FAULT, Batch, result_message
from agent.loop.tool_scheduler import ToolOutcome, run_calls
from agent.loop.turn import Continue, Decision, End, Turn
from agent.messages import Message, checked_messages
from agent.models import resolve_model
from agent.runs import Stop, cancel_with, restore_cancel
from agent.stream import AgentContext, StreamError, StreamFn
from agent.tools import JoinedTools, ToolResult, ToolSet, unique_tools

__all__ = [
    "AUTO_RESUME_MARKER",
    "Emit",
    "LoopConfig",
    "Poll",
    "agent_loop",
    "agent_loop_continue",
]

# Claude's `pause_turn`: a turn of the provider's own tools that takes long.
_MAX_PAUSED_TURNS = 10

# Answers in a row that `candidate_answer` may discard. A model that fails this often will not do better.
_MAX_DISCARDED = 10

# A model whose answers are cut inside their tool calls this often in a row will not do better.
_MAX_TRUNCATED_TURNS = 3

_AT_THE_LIMIT = (
    "The limit of this run is reached: no further work is possible. "
    "Answer now, with what you have found out so far."
)


def agent_loop(
    prompts: Sequence[Message], context: AgentContext, config: LoopConfig, stream_fn: StreamFn, emit: Emit
) -> list[Message]:
    """Run the prompts on a copy of the context's messages; returns the new messages, prompts included.

    Without prompts, the model answers the context as it is. Raises ConfigurationError, before any event, for
    limits that cannot be kept.
    """
    return run_on_history(History(context.messages), prompts, context, config, stream_fn, emit)


def agent_loop_continue(
    context: AgentContext, config: LoopConfig, stream_fn: StreamFn, emit: Emit
) -> list[Message]:
    """Go on from the context as it is; returns the new messages.

    Raises NothingToContinueError, before any event, when the context has no messages.
    """
    if not context.messages:
        raise NothingToContinueError("cannot continue: no messages in context")
    return run_on_history(History(context.messages), (), context, config, stream_fn, emit)


def run_on_history(
    history: History,
    prompts: Sequence[Message],
    context: AgentContext,
    config: LoopConfig,
    stream_fn: StreamFn,
    emit: Emit,
) -> list[Message]:
    """Run the prompts on a history that the caller keeps; the messages of `context` are not used."""
    return _Loop(history, context, config, stream_fn, emit).run(prompts)


class _Loop:
    """The state of one run. Used by one thread, once."""

    def __init__(
        self, history: History, context: AgentContext, config: LoopConfig, stream_fn: StreamFn, emit: Emit
    ) -> None:
        self.config = config
        self.limits = config.limits or Limits()
        for model in (config.model, *config.fallbacks):
            self.limits.check_model(model)
        self.hooks = merge_hooks(
            Hooks(
                transform_context=config.transform_context,
                should_stop_after_turn=config.should_stop_after_turn,
            ),
            config.hooks,
        )
        self.caller_cancel = config.cancel or CancelToken()
        # Cancels the run's work: with the caller's token, and when the run's time is up.
        self.cancel = self.caller_cancel if self.limits.max_seconds is None else self.caller_cancel.child()
        self.stopwatch = Stopwatch(self.limits.max_seconds, self.cancel)
        self.wait = config.wait or self.cancel.wait
        self.recorder = RunRecorder(history, config, emit)
        self.caller = ModelCaller(config, self.hooks, stream_fn, self.recorder, self.cancel)
        self.queues = MessageQueues(config, self.hooks, self.cancel)
        self.recovery = Recovery(config, self.recorder, self.caller, self.queues, self.cancel, self.wait)
        self.system_prompt = context.system_prompt
        tools = context.tools
        self.tools = tools if isinstance(tools, ToolSet) else unique_tools(tools or ())
        self.request: RequestUpdate | None = None  # the constraint of the next request
        self.turns = 0
        self.turns_at_input = 0
        self.truncated_turns = 0  # answers that were cut inside their tool calls, in a row
        self.paused_turns = 0  # answers that the provider paused, in a row
        self.discarded = 0  # answers that `candidate_answer` discarded, in a row
        self.last_stop: Stop | None = None  # set when the next answer is the last one
        self.has_ended = False

    # -- the run ---------------------------------------------------------------------------------------

    def run(self, prompts: Sequence[Message]) -> list[Message]:
        self.recorder.emit(AgentStart())
        before = cancel_with(self.cancel)
        try:
            end = self._run(prompts)
            return self._end(end)
        except BaseException as error:  # a fault of the runtime, of `emit`, or a Ctrl-C in `agent_loop`
            self._end_after_fault(error)
            raise
        finally:
            self.stopwatch.stop()
            restore_cancel(before)
            if self.cancel is not self.caller_cancel:
                self.cancel.cancel("the run has ended")  # else it stays registered with the caller's

    def _end(self, end: End) -> list[Message]:
        self.stopwatch.stop()
        error, cause = (end.error, end.cause) if end.stop == "error" else ("", None)
        new = self.recorder.history.new
        self.has_ended = True
        self.recorder.emit(AgentEnd(new, end.stop, error, end.pending, cause))
        return list(new)

    def _end_after_fault(self, fault: BaseException) -> None:
        """Answer the calls that have no result and end the run: the conversation stays usable."""
        if self.has_ended:
            return
        for call in self.recorder.history.pending().calls:
            with suppress(BaseException):
                self.recorder.add_whole(result_message(call, FAULT, self.recorder.now_ms()))
        with suppress(BaseException):
            self._end(End("error", f"internal error: {typed_error_text(fault)}"))

    def _run(self, prompts: Sequence[Message]) -> End:
        try:
            self._start_stopwatch()
            self._check_input(prompts)
            self.recorder.emit(TurnStart())
            for prompt in prompts:
                self.recorder.add_whole(prompt)
            end = self._turns(self.queues.poll_steering())
        except RunFailed as failure:
            end = End("error", str(failure), failure.cause)
        if self.caller_cancel.is_set() and not end.pending:
            return End("aborted")
        return End("budget") if end.stop == "aborted" and self.cancel.reason == TIME_IS_UP else end

    def _start_stopwatch(self) -> None:
        try:
            self.stopwatch.start()
        except RuntimeError as error:  # the system gives out no more threads
            raise RunFailed(f"the time limit (max_seconds) can't be kept: {error}") from error

    def _check_input(self, prompts: Sequence[Message]) -> None:
        if prompts and self.hooks.input_guardrails:
            info = InputInfo(self.recorder.history.to_send(), list(prompts), self.config.run, self.cancel)
            check_input(self.hooks, info)

    def _turns(self, entering: Sequence[Message]) -> End:
        """Turn after turn while there is work."""
        while True:
            for message in entering:
                self.recorder.add_whole(message)
            decision = self._turn()
            if isinstance(decision, End):
                return decision
            self.recorder.emit(TurnStart())
            entering = decision.messages

    def _turn(self) -> Decision:
        """One answer and its tool calls, and what follows."""
        tools = self._tools_of_turn()
        answer = self.caller.call_until_usable(self.system_prompt, tools, self.request, self.wait)
        message = answer.message
        if answer.has_truncated_call:
            return self._failed(self.recovery.after_truncated_call(message))
        if message.stop_reason in ("error", "aborted"):
            return self._failed(self.recovery.after_failure(answer))
        self.request = None
        self.recovery.reset()
        self.turns += 1
        if answer.awaiting_review:
            retry = self._review(answer)
            if retry is not None:
                self._discard()
                return self._after_turn(Turn(None, retry=retry))
        outcome = self._run_calls(answer, tools)
        self.recorder.emit(TurnEnd(message, outcome.results, self.recorder.usage))
        return self._after_turn(Turn(message, outcome, None, answer.is_paused, self._sends_back(answer)))

    def _sends_back(self, answer: Answer) -> bool:
        """True for an answer that the provider paused: it is sent back, at most ten times in a row."""
        self.paused_turns = self.paused_turns + 1 if answer.is_paused else 0
        return 0 < self.paused_turns <= _MAX_PAUSED_TURNS and not answer.message.tool_calls

    def _failed(self, decision: Decision) -> Decision:
        """The decision of the recovery; the constraint of a request ends with its turn."""
        if isinstance(decision, Continue) and not decision.same_request:
            self.request = None
        return decision

    # -- an answer that hooks review before it becomes part of the conversation ------------------------

    def _review(self, answer: Answer) -> RequestUpdate | None:
        """Record an accepted answer; for another, the constraint to ask again with."""
        message = with_calls_as_text(answer.message)
        info = OutputInfo(message, self.config.run, self.turns, self.recorder.usage, self.cancel)
        try:
            retry = review(self.hooks, info, self.recorder.history.to_send())
        except RunFailed:
            self._discard()
            raise
        if retry is None:
            self.discarded = 0
            self.caller.record(answer)
            return None
        self.discarded += 1
        if self.discarded >= _MAX_DISCARDED:
            self._discard()
            raise RunFailed(f"candidate_answer discarded {self.discarded} answers in a row")
        return retry

    def _discard(self) -> None:
        self.recorder.emit(CandidateDiscarded(self.turns))
        self.recorder.emit(TurnEnd(None, (), self.recorder.usage))

    # -- tool calls ------------------------------------------------------------------------------------

    def _tools_of_turn(self) -> ToolSet:
        """The tools that the model is shown and may call in the next turn."""
        given = None if self.request is None else self.request.tools
        return self._with_answer_tools(self.tools if given is None else unique_tools(given))

    def _with_answer_tools(self, tools: ToolSet) -> ToolSet:
        return JoinedTools(tools, self.config.answer_tools) if self.config.answer_tools else tools

    def _run_calls(self, answer: Answer, tools: ToolSet) -> ToolOutcome:
        """Run the calls of an answer; those of one cut by the output limit are answered and not run."""
        message, calls = answer.message, answer.message.tool_calls
        batch = Batch(
            calls,
            self.turns,
            tools,
            self.hooks,
            self.limits,
            self.cancel,
            self.config.run,
            self.caller.answer_tools,
        )

        def run(given: dict[int, ToolResult] | None = None) -> ToolOutcome:
            return run_calls(batch, message, answer.argument_errors, self.recorder, self.caller_cancel, given)

        if message.stop_reason != "length":
            self.truncated_turns = 0
            return run()
        try:
            info = TruncationInfo(message, calls, self.config.run, self.cancel)
            truncation = call_on_truncated(self.hooks, info)
        except RunFailed:
            self.recorder.emit(TurnEnd(message, run().results, self.recorder.usage))
            raise
        if truncation is None:
            self.truncated_turns = self.truncated_turns + 1 if calls else 0
            return run()
        self.truncated_turns = 0
        given, others = sorted_truncation(calls, truncation.messages)
        outcome = run(given)
        for other in others:
            self.recorder.add_whole(other)
        return ToolOutcome(outcome.results, None if truncation.retry else "truncated")

    # -- after a turn ----------------------------------------------------------------------------------

    def _after_turn(self, turn: Turn) -> Decision:
        """What follows a turn: the first of these, in this order, that decides."""
        return (
            self._pause(turn)
            or self._prepare(turn)
            or self._stop(turn)
            or self._cut(turn)
            or self._limit(turn)
            or self._stop_when(turn)
            or self._queued(turn)
            or self._park(turn)
        )

    def _pause(self, turn: Turn) -> Decision | None:
        """A gate left calls pending."""
        return End("paused", pending=turn.outcome.pending) if turn.outcome.pending else None

    def _prepare(self, turn: Turn) -> Decision | None:
        """Apply what `prepare_turn` changes; a retry's constraint wins over its own. Raises RunFailed."""
        if self.hooks.prepare_turn is None and turn.retry is None:
            return None
        update = call_prepare_turn(self.hooks, lambda: self._info(turn))
        try:
            if update is not None:
                self._apply(update)
            request = turn.retry or (update.next_request if update is not None else None)
            if request is not None:
                self.request = request.checked(self._with_answer_tools(self.tools))
        except BaseException as error:
            contain(error)
            raise RunFailed(error) from error
        return None

    def _stop(self, turn: Turn) -> Decision | None:
        """`should_stop_after_turn` is true, or the run was aborted where nothing more would notice it."""
        hook = self.hooks.should_stop_after_turn
        if hook is not None and should_stop(hook, lambda: self._info(turn)):
            return End("stopped")
        is_last = turn.outcome.ending is not None or turn.message is None
        return End("aborted") if is_last and self.caller_cancel.is_set() else None

    def _cut(self, turn: Turn) -> Decision | None:
        """The answer was cut, and it is no use to ask again; or it was the last one allowed."""
        if self.truncated_turns >= _MAX_TRUNCATED_TURNS:
            return self._end_truncated()
        if self.last_stop is not None:
            return End(self.last_stop)
        return End("truncated") if turn.outcome.ending == "truncated" else None

    def _limit(self, turn: Turn) -> Decision | None:
        """A limit is reached with work left to do."""
        limit = self._reached_limit()
        if limit is None or not self._has_work(turn):
            return None
        if limit == "max_turns":
            self.recorder.emit(MaxTurnsReached(self.turns))
        if not self.limits.final_answer or turn.outcome.ending is not None or self.cancel.is_set():
            return End(limit)
        answer_tools = [tool.name for tool in self.config.answer_tools]
        choice = answer_tools[0] if answer_tools else None
        self.request = RequestUpdate((), choice, _AT_THE_LIMIT)
        self.last_stop, self.queues.closed = limit, True
        return Continue()

    def _stop_when(self, turn: Turn) -> Decision | None:
        """`stop_when` is true with work left to do."""
        hook = self.hooks.stop_when
        if hook is None or not self._has_work(turn):
            return None
        return End("stop_when") if should_stop(hook, lambda: self._info(turn)) else None

    def _queued(self, turn: Turn) -> Decision | None:
        """Messages wait, or the turn's results do. At a limit the queues keep what they hold."""
        if turn.is_sent_back:
            return Continue()
        has_work = turn.outcome.ending is None
        if not has_work and self._reached_limit() is not None:
            return None
        entering = self.queues.poll_steering()
        if entering or has_work:
            return Continue(entering)
        entering = self.queues.poll_follow_ups()
        return Continue(entering) if entering else None

    def _park(self, turn: Turn) -> Decision:
        """The end, unless the run parks, a limit leaves a turn for a reply, and one comes."""
        ending = turn.natural_ending
        park = self.config.park
        if park is None or ending not in ("end_turn", "truncated") or self._limit_after_reply() is not None:
            return End(ending)
        self.recorder.emit(AgentParked(park_payload(self.hooks, lambda: self._info(turn))))
        self.stopwatch.stop()  # time in which nothing works does not count
        entering = park(self.cancel)
        self._start_stopwatch()
        if not entering:
            return End("aborted" if self.caller_cancel.is_set() else ending)
        if self.limits.turns_since_input:
            self.turns_at_input = self.turns
        return Continue(tuple(entering))

    # -- parts of these decisions ----------------------------------------------------------------------

    def _has_work(self, turn: Turn) -> bool:
        return turn.outcome.ending is None or turn.is_sent_back or self.queues.has_messages()

    def _reached_limit(self) -> Literal["max_turns", "budget"] | None:
        """The limit that is reached; in the order turns, tokens, money, time."""
        limit = self.limits.reached(self.turns - self.turns_at_input, self.recorder.usage)
        if limit is None and self.limits.max_seconds is not None and self.cancel.reason == TIME_IS_UP:
            return "budget"
        return limit

    def _limit_after_reply(self) -> str | None:
        turns = 0 if self.limits.turns_since_input else self.turns
        return self.limits.reached(turns, self.recorder.usage)

    def _apply(self, update: TurnUpdate) -> None:
        """Change what the rest of the run works with."""
        model = resolve_model(update.model)
        if model is not None:
            self.limits.check_model(model)
            self.caller.model = model
        if update.messages is not None:
            self.recorder.history.restart(checked_messages(update.messages))
        if update.tools is not None:
            self.tools = unique_tools(update.tools)

    def _info(self, turn: Turn) -> RunInfo:
        history = self.recorder.history
        context = AgentContext(self.system_prompt, tuple(history.to_send()), self.tools)
        return RunInfo(
            self.config.run,
            self.turns,
            self.recorder.usage,
            turn.message,
            turn.outcome.results,
            context,
            history.new,
            self.cancel,
        )

    def _end_truncated(self) -> End:
        """End a run whose answers were cut inside their calls several times in a row."""
        error = (
            "the answer was cut off by the output limit inside its tool calls "
            f"{self.truncated_turns} times running; raise max_tokens or ask for smaller steps"
        )
        self.recorder.emit(TurnStart())
        answer = self.caller.build([], StreamError(error), self.recorder.now_ms(), may_be_empty=True)
        self.recorder.emit(TurnEnd(answer.message, (), self.recorder.usage))
        return End("error", error)
