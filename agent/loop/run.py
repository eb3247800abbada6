"""The agent loop, as a function of (context, config, emit): ask the model, run its tools, ask again.

    agent_start
      turn_start   [queued messages]   one answer   its tools   turn_end      again while there is work
    agent_end

A turn is one answer of the model plus its tools. Steering messages enter at the start of a turn, follow-ups
when the run would end. An answer that breaks off is mended in one of three ways before the run gives up:
asked again when it broke inside a tool call or came back empty (`stream_retry`), or taken up where it broke
when the connection failed (`auto_resume`). When that does not help, the next of the fallback models goes on.

After a turn, in this order: a paused call ends the run; `prepare_turn` may change what comes; a stop that was
asked for ends it; so does an answer with nothing left to do; then come the limits, `stop_when`, the queues.

Nothing here reads a file, the environment or a global; time comes from the config. Everything runs on the
calling thread but the tools, which have threads of their own. `emit` gets every event, in order.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

from agent.block_summary import with_calls_as_text
from agent.cancel import CancelToken
from agent.errors import NothingToContinueError
from agent.events import (
    AgentEnd,
    AgentParked,
    AgentStart,
    AutoResume,
    CandidateDiscarded,
    MaxTurnsReached,
    ModelFallback,
    TurnEnd,
    TurnStart,
)
from agent.hook_types import InputInfo, OutputInfo, RequestUpdate, TurnUpdate, tool_set
from agent.hooks import Hooks, RunInfo, merge_hooks
from agent.limits import TIME_IS_UP, Limits, Stopwatch
from agent.loop.config import Emit, LoopConfig, Poll
from agent.loop.fallback import Fallbacks
from agent.loop.history import History
from agent.loop.hook_calls import (
    RunFailed,
    check_input,
    park_payload,
    polled,
    prepared_turn,
    review,
    says_stop,
)
from agent.loop.model_call import Answer, Asker
from agent.loop.recorder import RunRecorder
from agent.loop.tool_runner import Outcome, ToolRunner
from agent.messages import (
    AssistantMessage,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from agent.models import resolve_model
from agent.retry import is_resumable
from agent.runs import Stop
from agent.stream import AgentContext, StreamError, StreamFn
from agent.tools import JoinedTools, ToolSet

__all__ = [
    "AUTO_RESUME_MARKER",
    "Emit",
    "LoopConfig",
    "Poll",
    "agent_loop",
    "agent_loop_continue",
    "ask_once",
]

logger = logging.getLogger("agent")

AUTO_RESUME_MARKER = "▶"
"""What the model is told when a broken answer is taken up: the text of a user message."""

# A model that is cut off inside its tool calls this often in a row will be cut off for ever.
_CUT_TURNS_IN_A_ROW = 3

_AT_THE_LIMIT = (
    "The limit of this run is reached: no further work is possible. "
    "Answer now, with what you have found out so far."
)


def agent_loop(
    prompts: Sequence[Message], context: AgentContext, config: LoopConfig, stream_fn: StreamFn, emit: Emit
) -> list[Message]:
    """Run the prompts on a copy of the context's messages; the new messages, prompts included.

    No prompts is allowed: the context is answered as it is. Raises ConfigurationError, before any event, for
    limits that can't be kept.
    """
    return run_on_history(History(context.messages), prompts, context, config, stream_fn, emit)


def agent_loop_continue(
    context: AgentContext, config: LoopConfig, stream_fn: StreamFn, emit: Emit
) -> list[Message]:
    """Go on from the context as it stands; the new messages.

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


def ask_once(context: AgentContext, config: LoopConfig, stream_fn: StreamFn, emit: Emit) -> AssistantMessage:
    """One answer to the context, as it ended, with no tools, retries or resumes; events of the message only.

    The level goes out as `off` where the loop would send nothing: a side question means it.
    """
    recorder = RunRecorder(History(context.messages), config, emit)
    hooks = config.hooks or Hooks(transform_context=config.transform_context)
    asker = Asker(config, hooks, stream_fn, recorder, config.cancel or CancelToken(), off_level="off")
    return asker.ask(context.system_prompt, ToolSet(context.tools), None, may_be_empty=True).message


class _Loop:
    """The state of one run. Used by one thread, once."""

    def __init__(
        self, history: History, context: AgentContext, config: LoopConfig, stream_fn: StreamFn, emit: Emit
    ) -> None:
        self.config = config
        self.limits = config.limits or Limits()
        for model in (config.model, *config.fallbacks):
            self.limits.check_model(model)
        self.fallbacks = Fallbacks(config.fallbacks)
        self.hooks = merge_hooks(
            Hooks(
                transform_context=config.transform_context,
                should_stop_after_turn=config.should_stop_after_turn,
            ),
            config.hooks,
        )
        self.aborted = config.cancel or CancelToken()
        # What stops the work: the caller's signal, or the end of the run's time too.
        self.cancel = self.aborted if self.limits.max_seconds is None else self.aborted.child()
        self.stopwatch = Stopwatch(self.limits.max_seconds, self.cancel)
        self.wait = config.wait or self.cancel.wait
        self.recorder = RunRecorder(history, config, emit)
        self.asker = Asker(config, self.hooks, stream_fn, self.recorder, self.cancel)
        self.tool_runner = ToolRunner(
            config, self.hooks, self.limits, self.recorder, self.cancel, self.aborted, self.asker.answer_tools
        )
        self.system_prompt = context.system_prompt
        self.tools = context.tools if isinstance(context.tools, ToolSet) else ToolSet(context.tools or ())
        self.request: RequestUpdate | None = None  # the constraint of the next request
        self.turns = 0
        self.turns_at_input = 0
        self.resumes = 0
        self.last_stop: Stop | None = None  # set when the answer to come is the last, whatever it says
        self.pending: tuple[ToolCall, ...] = ()
        self.error = ""
        self.cause: BaseException | None = None

    # -- the run ---------------------------------------------------------------------------------------

    def run(self, prompts: Sequence[Message]) -> list[Message]:
        self.recorder.emit(AgentStart())
        self.stopwatch.start()
        try:
            stop = self._stop_of_run(prompts)
        finally:
            self.stopwatch.stop()
        error, cause = (self.error, self.cause) if stop == "error" else ("", None)
        new = self.recorder.history.new
        self.recorder.emit(AgentEnd(new, stop, error, self.pending, cause))
        if self.cancel is not self.aborted:
            self.cancel.cancel("the run has ended")  # or it stays registered with the caller's
        return list(new)

    def _stop_of_run(self, prompts: Sequence[Message]) -> Stop:
        try:
            self._check_input(prompts)
            self.recorder.emit(TurnStart())
            for prompt in prompts:
                self.recorder.add_whole(prompt)
            stop = self._turns(self._poll_steering())
        except RunFailed as failure:
            self.error, self.cause, stop = str(failure), failure.cause, "error"
        if self.aborted.is_set() and not self.pending:
            return "aborted"
        return "budget" if stop == "aborted" and self.cancel.reason == TIME_IS_UP else stop

    def _check_input(self, prompts: Sequence[Message]) -> None:
        if prompts and self.hooks.input_guardrails:
            info = InputInfo(self.recorder.history.to_send(), list(prompts), self.config.run, self.cancel)
            check_input(self.hooks, info)

    def _turns(self, entering: Sequence[Message]) -> Stop:
        """One turn after the other while there is work; why it stopped."""
        while True:
            for message in entering:
                self.recorder.add_whole(message)
            step = self._turn()
            if isinstance(step, str):
                return step
            self.recorder.emit(TurnStart())
            entering = step

    def _turn(self) -> Sequence[Message] | Stop:
        """One answer and its tools; what the next turn begins with, or why there is none."""
        tools = self._tools_of_turn()
        answer = self.asker.answer(self.system_prompt, tools, self.request, self.wait)
        message = answer.message
        if answer.broke_inside_a_call:
            return self._give_up_call(message)
        if message.stop_reason in ("error", "aborted"):
            return self._failed(answer)
        self.request = None
        self.resumes = 0
        self.turns += 1
        if answer.held:
            retry = self._review(answer)
            if retry is not None:
                self._discard()
                return self._next(None, Outcome(), retry)
        outcome = self.tool_runner.run(answer, tools, self.turns)
        self.recorder.emit(TurnEnd(message, outcome.results, self.recorder.usage))
        return self._next(message, outcome)

    # -- an answer without tool calls, before it counts ------------------------------------------------

    def _review(self, answer: Answer) -> RequestUpdate | None:
        """Record an answer that is accepted; else the constraint to ask again with."""
        message = with_calls_as_text(answer.message)
        info = OutputInfo(message, self.config.run, self.turns, self.recorder.usage, self.cancel)
        try:
            retry = review(self.hooks, info, self.recorder.history.to_send())
        except RunFailed:
            self._discard()
            raise
        if retry is None:
            self.asker.record(answer)
        return retry

    def _discard(self) -> None:
        self.recorder.emit(CandidateDiscarded(self.turns))
        self.recorder.emit(TurnEnd(None, (), self.recorder.usage))

    # -- after a turn ----------------------------------------------------------------------------------

    def _next(
        self, message: AssistantMessage | None, outcome: Outcome, retry: RequestUpdate | None = None
    ) -> Sequence[Message] | Stop:
        """Why the run stops, or what the next turn begins with."""
        if outcome.pending:
            self.pending = outcome.pending
            return "paused"

        def info() -> RunInfo:
            return self._info(message, outcome.results)

        hooks = self.hooks
        if hooks.prepare_turn is not None or retry is not None:
            self._apply(prepared_turn(hooks, info), retry)
        if hooks.should_stop_after_turn is not None and says_stop(hooks.should_stop_after_turn, info):
            return "stopped"
        if (outcome.ending or message is None) and self.aborted.is_set():
            return "aborted"
        if self.tool_runner.cut_turns >= _CUT_TURNS_IN_A_ROW:
            return self._end_cut_off()
        if self.last_stop is not None:
            return self.last_stop
        if outcome.ending == "truncated":
            return "truncated"
        return self._go_on(outcome.ending, info)

    def _go_on(self, ending: Stop | None, info: Callable[[], RunInfo]) -> Sequence[Message] | Stop:
        """What the next turn begins with; or the natural ending if nothing waits; or the limit if it does."""
        limit = self._limit()
        if ending is None or self._has_queued():
            if limit is not None:
                return self._at_limit(limit, ending)
            if self.hooks.stop_when is not None and says_stop(self.hooks.stop_when, info):
                return "stop_when"
        if limit is None:  # else the queues are left alone: what they hold stays there for the next run
            entering = self._poll_steering()
            if entering or ending is None:
                return entering
            entering = self._poll_follow_ups()
            if entering:
                return entering
        return self._park(ending or "end_turn", info)

    def _limit(self) -> Literal["max_turns", "budget"] | None:
        """The limit that is reached; in the order turns, tokens, money, time."""
        limit = self.limits.reached(self.turns - self.turns_at_input, self.recorder.usage)
        if limit is None and self.limits.max_seconds is not None and self.cancel.reason == TIME_IS_UP:
            return "budget"
        return limit

    def _at_limit(
        self, limit: Literal["max_turns", "budget"], ending: Stop | None
    ) -> Sequence[Message] | Stop:
        """End the run at a limit, or let the model say one last thing if it was in the midst of its work."""
        if limit == "max_turns":
            self.recorder.emit(MaxTurnsReached(self.turns))
        if not self.limits.final_answer or ending is not None or self.cancel.is_set():
            return limit
        takes_answer = [tool.name for tool in self.config.answer_tools]
        choice = takes_answer[0] if takes_answer else None
        self.last_stop, self.request = limit, RequestUpdate((), choice, _AT_THE_LIMIT)
        return ()

    def _park(self, ending: Stop, info: Callable[[], RunInfo]) -> Sequence[Message] | Stop:
        """Where the run would end with an answer: wait for a reply, if that is wanted and limits allow it."""
        park = self.config.park
        if park is None or ending != "end_turn" or self._limit_after_reply() is not None:
            return ending
        self.recorder.emit(AgentParked(park_payload(self.hooks, info)))
        self.stopwatch.stop()  # nobody works while it waits
        entering = park(self.cancel)
        self.stopwatch.start()
        if not entering:
            return "aborted" if self.aborted.is_set() else ending
        if self.limits.turns_since_input:
            self.turns_at_input = self.turns
        return tuple(entering)

    def _limit_after_reply(self) -> str | None:
        turns = 0 if self.limits.turns_since_input else self.turns
        return self.limits.reached(turns, self.recorder.usage)

    def _apply(self, update: TurnUpdate | None, retry: RequestUpdate | None) -> None:
        """Change what the rest of the run is made with; a retry's constraint wins over an update's."""
        try:
            if update is not None:
                self._apply_update(update)
            request = retry or (update.next_request if update is not None else None)
            if request is not None:
                self.request = request.checked(self._with_answer_tools(self.tools))
        except Exception as error:
            raise RunFailed(error) from error

    def _apply_update(self, update: TurnUpdate) -> None:
        model = resolve_model(update.model)
        if model is not None:
            self.limits.check_model(model)
            self.asker.model = model
        if update.messages is not None:
            self.recorder.history.restart(update.messages)
        if update.tools is not None:
            self.tools = tool_set(update.tools)

    def _info(self, message: AssistantMessage | None, results: tuple[ToolResultMessage, ...]) -> RunInfo:
        history, usage = self.recorder.history, self.recorder.usage
        context = AgentContext(self.system_prompt, tuple(history.to_send()), self.tools)
        run = self.config.run
        return RunInfo(run, self.turns, usage, message, results, context, history.new, self.cancel)

    # -- an answer that failed -------------------------------------------------------------------------

    def _failed(self, answer: Answer) -> Sequence[Message] | Stop:
        """Take a broken stream up again where that can help; else end the turn."""
        message = answer.message
        waits = self.config.retry.auto_resume
        may_resume = message.stop_reason == "error" and is_resumable(message.error_message)
        if may_resume and self.resumes < len(waits):
            self.resumes += 1
            self.recorder.emit(AutoResume(self.resumes, message.error_message))
            if not self.wait(waits[self.resumes - 1]):
                return self._resume(answer)
        if self._fell_back(message):
            return self._resume(answer)
        self.request = None
        if not answer.recorded:
            self.recorder.history.add(message, send=False)
        self.recorder.emit(TurnEnd(message, (), self.recorder.usage))
        follow_ups = self._poll_follow_ups()
        if follow_ups:
            return follow_ups
        self.error = message.error_message
        return "aborted" if message.stop_reason == "aborted" or self.cancel.is_set() else "error"

    def _fell_back(self, message: AssistantMessage) -> bool:
        """True when another model takes over, for the rest of the run, from the one that failed."""
        failed = self.asker.model
        model = None if self.cancel.is_set() else self.fallbacks.after(message, failed)
        if model is None:
            return False
        self.recorder.emit(ModelFallback(failed, model, message.error_message))
        self.asker.model, self.resumes = model, 0
        return True

    def _resume(self, answer: Answer) -> Sequence[Message]:
        """Keep what came through and tell the model to go on, or ask again from the start."""
        if not answer.recorded:
            return ()
        kept = tuple(block for block in answer.message.content if not isinstance(block, ToolCall))
        if not _is_replayable(kept):
            self.recorder.history.drop(answer.message)
            return ()
        # Its calls never ran; without them the transcript needs no results that do not exist.
        clean = replace(answer.message, content=kept, stop_reason="stop", error_message="")
        self.recorder.history.swap(answer.message, clean)
        return (UserMessage(AUTO_RESUME_MARKER, self.recorder.now_ms()),)

    def _give_up_call(self, message: AssistantMessage) -> Sequence[Message] | Stop:
        """The answer kept breaking inside a tool call: tell the model, with a follow-up if one waits."""
        if self._fell_back(message):
            return ()
        note = _cut_note(message.error_message)
        follow_ups = self._poll_follow_ups()
        first = follow_ups[0] if follow_ups else None
        if isinstance(first, UserMessage) and isinstance(first.content, str):
            folded = UserMessage(f"{note}\n\n{first.content}", first.timestamp)
            return (folded, *follow_ups[1:])
        told = UserMessage(note, self.recorder.now_ms())
        self.recorder.add_whole(told)
        self.recorder.emit(TurnEnd(told, (), self.recorder.usage))
        if follow_ups:
            return follow_ups
        self.error = message.error_message or "the stream broke inside a tool call"
        return "aborted" if self.cancel.is_set() else "error"

    def _end_cut_off(self) -> Stop:
        """End a run whose model is cut off inside its calls again and again."""
        self.error = (
            "the answer was cut off by the output limit inside its tool calls "
            f"{self.tool_runner.cut_turns} times running; raise max_tokens or ask for smaller steps"
        )
        self.recorder.emit(TurnStart())
        answer = self.asker.finish([], StreamError(self.error), self.recorder.now_ms(), may_be_empty=True)
        self.recorder.emit(TurnEnd(answer.message, (), self.recorder.usage))
        return "error"

    # -- tools and queues ------------------------------------------------------------------------------

    def _tools_of_turn(self) -> ToolSet:
        """What the model is told of and may call in the turn to come."""
        given = None if self.request is None else self.request.tools
        return self._with_answer_tools(self.tools if given is None else tool_set(given))

    def _with_answer_tools(self, tools: ToolSet) -> ToolSet:
        return JoinedTools(tools, self.config.answer_tools) if self.config.answer_tools else tools

    def _poll_steering(self) -> Sequence[Message]:
        return self._poll(self.config.get_steering_messages, self.hooks.steering_messages)

    def _poll_follow_ups(self) -> Sequence[Message]:
        return self._poll(self.config.get_follow_up_messages, self.hooks.follow_up_messages)

    def _poll(self, queue: Poll | None, hook: Poll | None) -> Sequence[Message]:
        # Once the run is aborted, or about to say its last word, its queues are left alone: what waits there
        # is neither lost nor sent.
        if self.cancel.is_set() or self.last_stop is not None:
            return ()
        messages = polled(queue)
        return messages if hook is None else messages + polled(hook)

    def _has_queued(self) -> bool:
        try:
            return self.config.has_queued_messages is not None and self.config.has_queued_messages()
        except Exception:
            logger.exception("looking for queued messages failed; counted as none")
            return False


def _is_replayable(content: Sequence[Any]) -> bool:
    """True when a broken answer holds something worth keeping."""
    for block in content:
        if isinstance(block, TextContent) and block.text.strip():
            return True
        if isinstance(block, ThinkingContent) and (block.signature or block.thinking.strip()):
            return True
    return False


def _cut_note(error: str) -> str:
    return (
        f"Your last answer was cut off mid-tool-call ({error.strip() or 'unknown stream error'}). "
        "The tool was not executed. Please acknowledge this and decide whether to try the call again."
    )
