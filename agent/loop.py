"""The agent loop, as a function of (context, config, emit): ask the model, run its tools, ask again.

    agent_start
      turn_start   [queued messages]   one answer   its tools   turn_end      again while there is work
    agent_end

A turn is one answer of the model plus its tools. Steering messages enter at the start of a turn, follow-ups
when the run would end. An answer that breaks off is mended in one of three ways before the run gives up:
asked again when it broke inside a tool call or came back empty (`stream_retry`), or taken up where it broke
when the connection failed (`auto_resume`).

Nothing here reads a file, the environment or a global; time comes from the config. Everything runs on the
calling thread but the tools, which have threads of their own. `emit` gets every event, in order.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agent.cancel import CancelToken
from agent.errors import ConfigurationError, NothingToContinueError
from agent.events import (
    AgentEnd,
    AgentStart,
    AutoResume,
    Event,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    StreamRetry,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
    TurnStart,
)
from agent.hooks import Hooks, RunInfo, merge_hooks
from agent.limits import Limits
from agent.messages import (
    AssistantMessage,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    default_convert_to_llm,
)
from agent.models import Model
from agent.retry import ABORTED_TEXT, RetryPolicy, is_resumable
from agent.runs import RunMetadata, Stop
from agent.stream import (
    STREAM_EVENTS,
    AgentContext,
    PartialMessage,
    StreamDone,
    StreamError,
    StreamEvent,
    StreamFn,
    StreamOptions,
    StreamStart,
    build_message,
)
from agent.summaries import with_error_text
from agent.thinking import clamp_thinking_level
from agent.toolcalls import Batch, PreparedCall
from agent.tools import ToolResult, ToolSet
from agent.usage import ZERO_USAGE

logger = logging.getLogger("agent")

AUTO_RESUME_MARKER = "▶"
"""What the model is told when a broken answer is taken up: the text of a user message."""

# An empty answer is asked again twice: models that return one usually do better at once, or never.
_EMPTY_ANSWER_RETRIES = 2

# A model that is cut off inside its tool calls this often in a row will be cut off for ever.
_CUT_TURNS_IN_A_ROW = 3

_CLOSED = "stream ended unexpectedly"

Emit = Callable[[Event], object]
Poll = Callable[[], Sequence[Message]]
Mirror = Callable[[Message | None, Message | None], object]


@dataclass(slots=True)
class LoopConfig:
    """Everything the loop needs to know besides the context. Durations are in seconds.

    `get_api_key(provider)` gives the key for each request; `get_steering_messages` and
    `get_follow_up_messages` are polled as the module says, `has_queued_messages` tells without taking.
    `clock()` is the Unix time and `wait(seconds)` waits and tells whether it was cancelled (by default on
    `cancel`). `mirror(old, new)` hears of every change of the run's messages: one was added (None, new),
    dropped (old, None) or mended (old, new).
    """

    model: Model
    reasoning: str = field(default="", kw_only=True)
    convert_to_llm: Callable[[list[Message]], Sequence[Message]] | None = field(
        default=default_convert_to_llm, kw_only=True
    )
    transform_context: Callable[[list[Message]], Sequence[Message] | None] | None = field(
        default=None, kw_only=True
    )
    get_api_key: Callable[[str], str | None] | None = field(default=None, kw_only=True)
    get_steering_messages: Poll | None = field(default=None, kw_only=True)
    get_follow_up_messages: Poll | None = field(default=None, kw_only=True)
    has_queued_messages: Callable[[], bool] | None = field(default=None, kw_only=True)
    should_stop_after_turn: Callable[[RunInfo], bool] | None = field(default=None, kw_only=True)
    hooks: Hooks | None = field(default=None, kw_only=True)
    limits: Limits | None = field(default=None, kw_only=True)
    retry: RetryPolicy = field(default_factory=RetryPolicy, kw_only=True)
    cancel: CancelToken | None = field(default=None, kw_only=True)
    clock: Callable[[], float] = field(default=time.time, kw_only=True)
    wait: Callable[[float], bool] | None = field(default=None, kw_only=True)
    run: RunMetadata | None = field(default=None, kw_only=True)
    mirror: Mirror | None = field(default=None, kw_only=True)
    api_key: str = field(default="", kw_only=True)
    session_id: str = field(default="", kw_only=True)
    thinking_budgets: Mapping[str, int] | None = field(default=None, kw_only=True)
    transport: str = field(default="auto", kw_only=True)
    max_retry_delay: float | None = field(default=60.0, kw_only=True)
    server_tools: Sequence[Any] = field(default=(), kw_only=True)
    server_compaction: Any = field(default=None, kw_only=True)
    cache_retention: str = field(default="", kw_only=True)
    headers: Mapping[str, str] | None = field(default=None, kw_only=True)
    temperature: float | None = field(default=None, kw_only=True)
    max_tokens: int | None = field(default=None, kw_only=True)
    timeout: float | None = field(default=None, kw_only=True)
    on_payload: Callable[[dict[str, Any], Model], dict[str, Any] | None] | None = field(
        default=None, kw_only=True
    )
    on_retry: Callable[[int, float, str], object] | None = field(default=None, kw_only=True)


def agent_loop(
    prompts: Sequence[Message], context: AgentContext, config: LoopConfig, stream_fn: StreamFn, emit: Emit
) -> list[Message]:
    """Run the prompts on a copy of the context's messages; the new messages, prompts included.

    No prompts is allowed: the context is answered as it is.
    """
    return _Loop(context, config, stream_fn, emit).run(prompts)


def agent_loop_continue(
    context: AgentContext, config: LoopConfig, stream_fn: StreamFn, emit: Emit
) -> list[Message]:
    """Go on from the context as it stands; the new messages.

    Raises NothingToContinueError, before any event, when the context has no messages.
    """
    if not context.messages:
        raise NothingToContinueError("cannot continue: no messages in context")
    return _Loop(context, config, stream_fn, emit).run(())


def ask_once(context: AgentContext, config: LoopConfig, stream_fn: StreamFn, emit: Emit) -> AssistantMessage:
    """One answer to the context, as it ended, with no tools, retries or resumes; events of the message only.

    The level goes out as `off` where the loop would send nothing: a side question means it.
    """
    return _Loop(context, config, stream_fn, emit, off_level="off").ask()


@dataclass(slots=True)
class _Answer:
    """An answer as it ended. `recorded`: it was announced and is part of the messages."""

    message: AssistantMessage
    argument_errors: Mapping[int, str] = field(default_factory=dict)
    recorded: bool = True


class _Loop:
    """The state of one run. Used by one thread, once."""

    def __init__(
        self, context: AgentContext, config: LoopConfig, stream_fn: StreamFn, emit: Emit, off_level: str = ""
    ) -> None:
        self.config = config
        self.stream_fn = stream_fn
        self.emit = emit
        self.off_level = off_level
        self.cancel = config.cancel or CancelToken()
        self.wait = config.wait or self.cancel.wait
        self.hooks = merge_hooks(
            Hooks(
                transform_context=config.transform_context,
                should_stop_after_turn=config.should_stop_after_turn,
            ),
            config.hooks,
        )
        self.max_turns = (config.limits or Limits()).max_turns
        self.system_prompt = context.system_prompt
        self.tools = context.tools if isinstance(context.tools, ToolSet) else ToolSet(context.tools or ())
        self.messages: list[Message] = list(context.messages)
        self.new: list[Message] = []
        self.usage = ZERO_USAGE
        self.turns = 0
        self.resumes = 0
        self.cut_turns = 0
        self.error = ""

    # -- the run ---------------------------------------------------------------------------------------

    def run(self, prompts: Sequence[Message]) -> list[Message]:
        self._emit(AgentStart())
        self._emit(TurnStart())
        for prompt in prompts:
            self._announce(prompt)
        stop = self._turns(self._poll_steering())
        if self.cancel.is_set():
            stop = "aborted"
        self._emit(AgentEnd(tuple(self.new), stop, self.error if stop == "error" else ""))
        return self.new

    def ask(self) -> AssistantMessage:
        return self._stream(may_be_empty=True).message

    def _turns(self, pending: Sequence[Message]) -> Stop:
        """One turn after the other while there is work; why it stopped."""
        while True:
            for message in pending:
                self._announce(message)
            step = self._turn()
            if isinstance(step, str):
                return step
            self._emit(TurnStart())
            pending = step

    def _turn(self) -> Sequence[Message] | Stop:
        """One answer and its tools; what the next turn begins with, or why there is none."""
        answer = self._answer()
        message = answer.message
        if _broke_inside_a_call(answer):
            return self._give_up_call(message)
        if message.stop_reason in ("error", "aborted"):
            return self._failed(answer)
        self.resumes = 0
        self.turns += 1
        results, terminate = self._run_tools(answer)
        self._emit(TurnEnd(message, results, self.usage))
        return self._next(message, results, terminate)

    def _next(
        self, message: AssistantMessage, results: tuple[ToolResultMessage, ...], terminate: bool
    ) -> Sequence[Message] | Stop:
        """After a successful turn: why the run stops, or what the next turn begins with."""
        natural = not results or terminate
        if self._should_stop(message, results):
            return "stopped"
        if self.cut_turns >= _CUT_TURNS_IN_A_ROW:
            return self._end_cut_off()
        finished: Stop = "terminated" if terminate else "end_turn"
        if self.max_turns is not None and self.turns >= self.max_turns:
            # The queues are not polled any more: what they hold stays there for the next run.
            return finished if natural and not self._has_queued() else "max_turns"
        pending = self._poll_steering()
        if pending or not natural:
            return pending
        return self._poll_follow_ups() or finished

    def _should_stop(self, message: AssistantMessage, results: tuple[ToolResultMessage, ...]) -> bool:
        test = self.hooks.should_stop_after_turn
        if test is None:
            return False
        context = AgentContext(self.system_prompt, tuple(self.messages), self.tools)
        new = tuple(self.new)
        info = RunInfo(self.config.run, self.turns, self.usage, message, results, context, new, self.cancel)
        try:
            return bool(test(info))
        except Exception:
            logger.exception("should_stop_after_turn failed; the run goes on")
            return False

    # -- an answer that failed -------------------------------------------------------------------------

    def _failed(self, answer: _Answer) -> Sequence[Message] | Stop:
        """Take a broken stream up again where that can help; else end the turn."""
        message = answer.message
        waits = self.config.retry.auto_resume
        may_resume = message.stop_reason == "error" and is_resumable(message.error_message)
        if may_resume and self.resumes < len(waits):
            self.resumes += 1
            self._emit(AutoResume(self.resumes, message.error_message))
            if not self.wait(waits[self.resumes - 1]):
                return self._resume(answer)
        if not answer.recorded:
            self._add(message, to_context=False)
        self._emit(TurnEnd(message, (), self.usage))
        follow_ups = self._poll_follow_ups()
        if follow_ups:
            return follow_ups
        self.error = message.error_message
        return "aborted" if message.stop_reason == "aborted" else "error"

    def _resume(self, answer: _Answer) -> Sequence[Message]:
        """Keep what came through and tell the model to go on, or ask again from the start."""
        if not answer.recorded:
            return ()
        kept = tuple(block for block in answer.message.content if not isinstance(block, ToolCall))
        if not _is_replayable(kept):
            self._drop(answer.message)
            return ()
        # Its calls never ran; without them the transcript needs no results that do not exist.
        clean = replace(answer.message, content=kept, stop_reason="stop", error_message="")
        self._swap(answer.message, clean)
        return (UserMessage(AUTO_RESUME_MARKER, self._now_ms()),)

    def _give_up_call(self, message: AssistantMessage) -> Sequence[Message] | Stop:
        """The answer kept breaking inside a tool call: tell the model, with a follow-up if one waits."""
        note = _cut_note(message.error_message)
        follow_ups = self._poll_follow_ups()
        first = follow_ups[0] if follow_ups else None
        if isinstance(first, UserMessage) and isinstance(first.content, str):
            folded = UserMessage(f"{note}\n\n{first.content}", first.timestamp)
            return (folded, *follow_ups[1:])
        told = UserMessage(note, self._now_ms())
        self._announce(told)
        self._emit(TurnEnd(told, (), self.usage))
        if follow_ups:
            return follow_ups
        self.error = message.error_message or "the stream broke inside a tool call"
        return "error"

    def _end_cut_off(self) -> Stop:
        """End a run whose model is cut off inside its calls again and again."""
        self.error = (
            "the answer was cut off by the output limit inside its tool calls "
            f"{self.cut_turns} times running; raise max_tokens or ask for smaller steps"
        )
        self._emit(TurnStart())
        answer = self._finish([], StreamError(self.error), self._now_ms(), may_be_empty=True)
        self._emit(TurnEnd(answer.message, (), self.usage))
        return "error"

    # -- one answer ------------------------------------------------------------------------------------

    def _answer(self) -> _Answer:
        """The next answer. One that breaks inside a tool call, or is empty, is dropped and asked again.

        One that stays broken inside a call comes back as it broke, already dropped; one that stays empty
        comes back as an error.
        """
        broken_waits = iter(enumerate(self.config.retry.mid_tool_call, 1))
        empty_waits = iter(enumerate((*self.config.retry.mid_tool_call, 0.0, 0.0)[:_EMPTY_ANSWER_RETRIES], 1))
        empty_left = _EMPTY_ANSWER_RETRIES
        while True:
            answer = self._stream(may_be_empty=empty_left > 0)
            broken = _broke_inside_a_call(answer)
            if not broken and not _is_empty(answer.message):
                return answer
            self._drop(answer.message)
            attempt, delay = next(broken_waits if broken else empty_waits, (0, 0.0))
            if not attempt:
                return answer
            empty_left -= not broken
            self._emit(StreamRetry(attempt, answer.message.error_message or _EMPTY))
            if self.wait(delay) and broken:
                return answer

    def _stream(self, may_be_empty: bool) -> _Answer:
        """Ask the model once; the answer as it ended, announced and recorded."""
        timestamp = self._now_ms()
        if self.cancel.is_set():
            return self._finish([], StreamError(ABORTED_TEXT, "aborted"), timestamp, may_be_empty)
        try:
            context = self._context()
        except Exception as error:
            logger.exception("the request could not be prepared")
            end = StreamError(str(error) or type(error).__name__)
            return _Answer(
                with_error_text(build_message([], end, self.config.model, timestamp).message), {}, False
            )
        log: list[StreamEvent] = []
        events = self._guarded(context, self._options())
        try:
            end_event = self._consume(events, log)
            return self._finish(log, end_event, timestamp, may_be_empty)
        finally:
            # Only now: a provider may use the close to read its connection to the end, and nobody waits
            # for that.
            _close(events)

    def _guarded(self, context: AgentContext, options: StreamOptions) -> Iterator[StreamEvent]:
        """The events of the stream function; whatever it raises becomes its error event."""
        try:
            yield from self.stream_fn(self.config.model, context, options)
        except Exception as error:
            logger.debug("the stream function raised", exc_info=True)
            yield StreamError(str(error) or type(error).__name__)

    def _consume(
        self, events: Iterable[StreamEvent], log: list[StreamEvent]
    ) -> StreamDone | StreamError | None:
        """Tell the events and keep them in the log; the terminal one, or None when the stream just ended."""
        emit, clock, run, is_cancelled = self.emit, self.config.clock, self.config.run, self.cancel.is_set
        for event in events:
            kind = type(event)
            if is_cancelled():
                return StreamError(ABORTED_TEXT, "aborted", getattr(event, "usage", None))
            if kind is StreamDone or kind is StreamError:
                return event  # type: ignore[return-value]
            if kind not in STREAM_EVENTS:
                return StreamError(f"the stream function yielded {event!r:.80}, which is no stream event")
            log.append(event)
            length = len(log)
            if length == 1:
                emit(MessageStart(PartialMessage(log, 0), time=clock(), run=run))
            if kind is not StreamStart:
                emit(MessageUpdate(PartialMessage(log, length), event, time=clock(), run=run))
        return StreamError(ABORTED_TEXT, "aborted") if is_cancelled() else None

    def _finish(
        self, log: list[StreamEvent], end: StreamDone | StreamError | None, timestamp: int, may_be_empty: bool
    ) -> _Answer:
        """Build the message, count its usage, announce and record it.

        A stream that just ended is an error that is not announced: its listeners saw no end because there
        was none.
        """
        built = build_message(log, end or StreamError(_CLOSED), self.config.model, timestamp)
        message = with_error_text(built.message)
        if _is_empty(message) and not may_be_empty:
            message = replace(message, stop_reason="error", error_message=f"{_EMPTY} again and again")
        self.usage += message.usage
        if end is None:
            return _Answer(message, built.argument_errors, recorded=False)
        if not log:
            self._emit(MessageStart(PartialMessage(log, 0)))
        self._add(message)
        self._emit(MessageEnd(message))
        return _Answer(message, built.argument_errors)

    def _context(self) -> AgentContext:
        """What is sent: the messages as the hooks see and change them, and the tools as they are now."""
        messages: Sequence[Message] = self.messages
        if self.hooks.transform_context is not None:
            changed = self.hooks.transform_context(list(messages))
            messages = messages if changed is None else changed
        if self.config.convert_to_llm is None:
            raise ConfigurationError("no ConvertToLLM function configured: set convert_to_llm")
        converted = list(self.config.convert_to_llm(list(messages)))
        return AgentContext(self.system_prompt, converted, tuple(self.tools))

    def _options(self) -> StreamOptions:
        config = self.config
        key, key_error = config.api_key, ""
        if config.get_api_key is not None:
            try:
                key = config.get_api_key(config.model.provider) or key
            except Exception as error:
                key_error = str(error) or type(error).__name__
        level = clamp_thinking_level(config.reasoning, config.model.available_thinking_levels)
        return StreamOptions(
            cancel=self.cancel,
            api_key=key,
            api_key_error=key_error,
            refresh_api_key=_refresher(config.get_api_key),
            reasoning=self.off_level if level == "off" else level,
            thinking_budgets=config.thinking_budgets,
            session_id=config.session_id,
            transport=config.transport,
            max_tokens=config.max_tokens,
            temperature=config.temperature,
            headers=config.headers,
            server_tools=config.server_tools,
            server_compaction=config.server_compaction,
            cache_retention=config.cache_retention,
            retry=config.retry,
            max_retry_delay=config.max_retry_delay,
            on_retry=_logged(config.on_retry),
            on_payload=config.on_payload,
            timeout=config.timeout,
        )

    # -- tools -----------------------------------------------------------------------------------------

    def _run_tools(self, answer: _Answer) -> tuple[tuple[ToolResultMessage, ...], bool]:
        """Run the calls of an answer one after the other; their results, and whether all ask to stop."""
        message = answer.message
        calls = message.tool_calls
        self.cut_turns = self.cut_turns + 1 if calls and message.stop_reason == "length" else 0
        if not calls:
            return (), False
        batch = Batch(calls, self.turns, self.tools, self.hooks, self.cancel, self.config.run)
        results: list[ToolResultMessage] = []
        terminate = True
        for item in batch.prepare(message, answer.argument_errors):
            batch.find_tool(item)
            call, hint = item.call, item.display_hint
            self._emit(ToolExecutionStart(call.id, call.name, item.arguments, hint))
            result = batch.settle(item, batch.execute(item, self._reporter(item)))
            self._emit(ToolExecutionEnd(call.id, call.name, result, result.is_error, hint))
            told = ToolResultMessage(
                call.id,
                call.name,
                result.content,
                result.is_error,
                result.details,
                result.meta,
                self._now_ms(),
            )
            self._announce(told)
            results.append(told)
            terminate = terminate and result.terminate and not result.is_error
        return tuple(results), terminate

    def _reporter(self, item: PreparedCall) -> Callable[[ToolResult], None]:
        call, arguments, hint = item.call, item.arguments, item.display_hint

        def report(partial: ToolResult) -> None:
            status = partial.status_message
            self._emit(ToolExecutionUpdate(call.id, call.name, arguments, hint, partial, status))

        return report

    # -- queues, messages, events ----------------------------------------------------------------------

    def _poll_steering(self) -> Sequence[Message]:
        return self._poll(self.config.get_steering_messages)

    def _poll_follow_ups(self) -> Sequence[Message]:
        return self._poll(self.config.get_follow_up_messages)

    def _poll(self, poll: Poll | None) -> Sequence[Message]:
        # Once the run is aborted its queues are left alone: what waits there is neither lost nor sent.
        if poll is None or self.cancel.is_set():
            return ()
        try:
            return tuple(poll())
        except Exception:
            logger.exception("polling for queued messages failed; counted as none")
            return ()

    def _has_queued(self) -> bool:
        try:
            return self.config.has_queued_messages is not None and self.config.has_queued_messages()
        except Exception:
            logger.exception("looking for queued messages failed; counted as none")
            return False

    def _announce(self, message: Message) -> None:
        """Tell and record a message that is whole from the start."""
        self._emit(MessageStart(message))
        self._add(message)
        self._emit(MessageEnd(message))

    def _add(self, message: Message, to_context: bool = True) -> None:
        if to_context:
            self.messages.append(message)
        self.new.append(message)
        self._mirror(None, message)

    def _drop(self, message: Message) -> None:
        _replace_last(self.messages, message, ())
        _replace_last(self.new, message, ())
        self._mirror(message, None)

    def _swap(self, old: Message, new: Message) -> None:
        _replace_last(self.messages, old, (new,))
        _replace_last(self.new, old, (new,))
        self._mirror(old, new)

    def _mirror(self, old: Message | None, new: Message | None) -> None:
        if self.config.mirror is not None:
            self.config.mirror(old, new)

    def _emit(self, event: Event) -> None:
        event.time = self.config.clock()
        event.run = self.config.run
        self.emit(event)

    def _now_ms(self) -> int:
        return int(self.config.clock() * 1000)


_EMPTY = "the model returned an empty answer"


def _broke_inside_a_call(answer: _Answer) -> bool:
    """True for an errored answer with a call whose arguments never came."""
    message = answer.message
    return (
        answer.recorded
        and message.stop_reason == "error"
        and any(not c.arguments for c in message.tool_calls)
    )


def _is_empty(message: AssistantMessage) -> bool:
    """True for an answer that ended well and says nothing."""
    return message.stop_reason == "stop" and all(
        isinstance(block, TextContent) and not block.text.strip() for block in message.content
    )


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


def _logged(on_retry: Callable[[int, float, str], object] | None) -> Callable[[int, float, str], None] | None:
    """The callback as a stream function calls it: one that raises stops no retry."""
    if on_retry is None:
        return None

    def told(attempt: int, delay: float, error_text: str) -> None:
        try:
            on_retry(attempt, delay, error_text)
        except Exception:
            logger.exception("on_retry failed")

    return told


def _refresher(get_api_key: Callable[[str], str | None] | None) -> Callable[[str], str] | None:
    """The key callback as a provider uses it after a rejection: empty when it fails."""
    if get_api_key is None:
        return None

    def refresh(provider: str) -> str:
        try:
            return get_api_key(provider) or ""
        except Exception:
            logger.exception("getting a fresh API key failed")
            return ""

    return refresh


def _replace_last(messages: list[Message], old: Message, new: Sequence[Message]) -> None:
    for position in range(len(messages) - 1, -1, -1):
        if messages[position] is old:
            messages[position : position + 1] = new
            return


def _close(events: Iterator[StreamEvent]) -> None:
    try:
        events.close()  # type: ignore[attr-defined]
    except Exception:
        logger.exception("closing the stream failed")
