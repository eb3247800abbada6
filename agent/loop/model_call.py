"""One model call: builds the request, consumes the stream, returns the finished message."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent.block_summary import with_error_text
from agent.cancel import CancelToken
from agent.errors import ConfigurationError, contain, error_text, typed_error_text
from agent.events import MessageEnd, MessageStart, MessageUpdate, StreamRetry
from agent.hook_types import RequestUpdate
from agent.hooks import Hooks
from agent.limits import TIME_IS_UP
from agent.loop.config import Emit, LoopConfig
from agent.loop.history import History
from agent.loop.hook_calls import detached
from agent.loop.recorder import RunRecorder
from agent.messages import AssistantMessage, Message, TextContent, ThinkingContent
from agent.redaction import without_keys
from agent.retry import ABORTED_TEXT
from agent.stream import (
    STREAM_EVENTS,
    AgentContext,
    EventLog,
    PartialMessage,
    StreamDone,
    StreamError,
    StreamEvent,
    StreamFn,
    StreamOptions,
    StreamStart,
    build_message,
)
from agent.thinking import clamp_thinking_level
from agent.tools import ToolSet

logger = logging.getLogger("agent")

# An empty answer is asked for again twice: most models that return one do better at once, or never.
_EMPTY_ANSWER_RETRIES = 2

_EMPTY = "the model returned an empty answer"
_CLOSED = "stream ended unexpectedly"


@dataclass(slots=True)
class Answer:
    """A finished answer. `recorded`: its end was emitted and it is part of the messages.

    One that is `awaiting_review` ended well and is recorded once the hooks accept it. `has_broken_call`: a
    call of a failed stream is incomplete. `is_paused`: the provider goes on when it gets the message back.
    `cause` is the exception that prevented the request.
    """

    message: AssistantMessage
    argument_errors: Mapping[int, str] = field(default_factory=dict)
    recorded: bool = True
    awaiting_review: bool = False
    has_broken_call: bool = False
    is_paused: bool = False
    cause: BaseException | None = None

    @property
    def has_truncated_call(self) -> bool:
        """True for a failed answer with an incomplete call."""
        return self.recorded and self.message.stop_reason == "error" and self.has_broken_call

    @property
    def is_empty(self) -> bool:
        """True for an answer that ended well and has no content."""
        return _is_empty(self.message)


class ModelCaller:
    """Calls the model and records its answers. Used by the run's thread alone."""

    __slots__ = (
        "_cancel",
        "_config",
        "_hooks",
        "_off_level",
        "_recorder",
        "_reviewed",
        "_stream_fn",
        "answer_tools",
        "model",
    )

    def __init__(
        self,
        config: LoopConfig,
        hooks: Hooks,
        stream_fn: StreamFn,
        recorder: RunRecorder,
        cancel: CancelToken,
        off_level: str = "",
    ) -> None:
        self.model = config.model
        self._config = config
        self._hooks = hooks
        self._stream_fn = stream_fn
        self._recorder = recorder
        self._cancel = cancel
        self._off_level = off_level
        self._reviewed = bool(hooks.output_guardrails) or hooks.candidate_answer is not None
        self.answer_tools = frozenset(tool.name for tool in config.answer_tools)

    def call_until_usable(
        self,
        system_prompt: str,
        tools: ToolSet,
        request: RequestUpdate | None,
        wait: Callable[[float], bool],
    ) -> Answer:
        """The next answer. One that breaks inside a tool call, or is empty, is dropped and asked for again.

        After the last attempt, an answer broken inside a call is returned as it is, already dropped; an empty
        one is returned as an error.
        """
        broken_waits = iter(enumerate(self._config.retry.mid_tool_call, 1))
        empty_waits = iter(
            enumerate((*self._config.retry.mid_tool_call, 0.0, 0.0)[:_EMPTY_ANSWER_RETRIES], 1)
        )
        empty_left = _EMPTY_ANSWER_RETRIES
        while True:
            answer = self.call(system_prompt, tools, request, may_be_empty=empty_left > 0)
            broken = answer.has_truncated_call
            if not broken and not answer.is_empty:
                return answer
            self._recorder.history.drop(answer.message)
            attempt, delay = next(broken_waits if broken else empty_waits, (0, 0.0))
            if not attempt:
                return answer
            empty_left -= not broken
            self._recorder.emit(StreamRetry(attempt, answer.message.error_message or _EMPTY))
            if wait(delay) and broken:
                return answer

    def call(
        self, system_prompt: str, tools: ToolSet, request: RequestUpdate | None, may_be_empty: bool
    ) -> Answer:
        """The model's answer to the recorded messages; `request` constrains this one call."""
        timestamp = self._recorder.now_ms()
        if self._cancel.is_set():
            return self.build([], StreamError(ABORTED_TEXT, "aborted"), timestamp, may_be_empty)
        try:
            context, options = self._request(system_prompt, tools, request)
        except BaseException as error:
            contain(error)
            logger.exception("the request could not be prepared")
            end = StreamError(error_text(error))
            message = build_message([], end, self.model, timestamp).message
            return Answer(with_error_text(message), recorded=False, cause=detached(error))
        log = EventLog()
        events = self._open(context, options)
        try:
            end_event = self._consume(events, log)
            return self.build(log, end_event, timestamp, may_be_empty)
        finally:
            # Last, after the answer was emitted: a provider may read its connection to the end in `close`.
            _close(events)

    def build(
        self, log: list[StreamEvent], end: StreamDone | StreamError | None, timestamp: int, may_be_empty: bool
    ) -> Answer:
        """Build the message, count its usage, emit its end and record it.

        For a stream without a terminal event (`end=None`) the message is an error, and no end is emitted.
        """
        built = build_message(log, end or StreamError(_CLOSED), self.model, timestamp)
        message = with_error_text(built.message)
        if _is_empty(message) and not may_be_empty:
            message = replace(message, stop_reason="error", error_message=f"{_EMPTY} again and again")
        if message.stop_reason == "aborted" and self._cancel.reason == TIME_IS_UP:
            message = replace(message, error_message="the time limit of the run (max_seconds) was reached")
        self._recorder.usage += message.usage
        if end is None:
            return Answer(message, built.argument_errors, recorded=False)
        if not log:
            self._recorder.emit(MessageStart(PartialMessage(log, 0)))
        answer = Answer(
            message,
            built.argument_errors,
            recorded=False,
            has_broken_call=built.has_broken_call,
            is_paused=isinstance(end, StreamDone) and end.paused and message.stop_reason == "stop",
        )
        if self._reviewed and not answer.is_paused and self.is_final(message):
            answer.awaiting_review = True
        else:
            self.record(answer)
        return answer

    def is_final(self, message: AssistantMessage) -> bool:
        """True for an answer that ended well, has content and calls no tool but one that takes the answer."""
        ended_well = message.stop_reason not in ("error", "aborted")
        return ended_well and not _is_empty(message) and self.only_answers(message)

    def only_answers(self, message: AssistantMessage) -> bool:
        """True when each call of the message, if any, is to a tool that takes the answer."""
        return all(call.name in self.answer_tools for call in message.tool_calls)

    def record(self, answer: Answer) -> None:
        """Make the answer part of the conversation."""
        answer.recorded, answer.awaiting_review = True, False
        self._recorder.history.add(answer.message)
        self._recorder.emit(MessageEnd(answer.message))

    def _open(self, context: AgentContext, options: StreamOptions) -> Iterator[StreamEvent]:
        """Call the stream function; an exception becomes an error event, also in `_consume`."""
        try:
            return iter(self._stream_fn(self.model, context, options))
        except BaseException as error:
            return iter((_stream_error(error),))

    def _consume(
        self, events: Iterator[StreamEvent], log: list[StreamEvent]
    ) -> StreamDone | StreamError | None:
        """Emit the events and append them to the log; returns the terminal one, None if there was none."""
        emit, is_cancelled = self._recorder.forward, self._cancel.is_set
        clock, run = self._config.clock, self._config.run
        while True:
            try:
                event = next(events)
            except StopIteration:
                break
            except BaseException as error:
                event = _stream_error(error)
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

    # -- the request -----------------------------------------------------------------------------------

    def _request(
        self, system_prompt: str, tools: ToolSet, request: RequestUpdate | None
    ) -> tuple[AgentContext, StreamOptions]:
        """The request, after the hooks have changed it; `request`, its constraint, is applied last."""
        context = AgentContext(system_prompt, self._messages(), tuple(tools))
        options = self._options()
        on_request = self._hooks.on_request
        if on_request is not None:
            context = replace(context, tools=list(context.tools))
            options = replace(options, headers=dict(options.headers or {}))
            context, options = on_request(context, options) or (context, options)
            options.cancel = self._cancel  # or an abort could not reach the request
        if request is not None:
            _constrain(context, options, request, tools)
        if self._config.prepare_answer is not None:
            context, options = self._config.prepare_answer(self.model, context, options)
        return context, options

    def _messages(self) -> Sequence[Message]:
        messages = self._recorder.history.to_send()
        if self._hooks.transform_context is not None:
            changed = self._hooks.transform_context(list(messages))
            messages = messages if changed is None else list(changed)
        if self._config.convert_to_llm is None:
            raise ConfigurationError("no ConvertToLLM function configured: set convert_to_llm")
        return list(self._config.convert_to_llm(messages))

    def _options(self) -> StreamOptions:
        config = self._config
        key, key_error = config.api_key, ""
        if self.model.provider != config.model.provider:
            key = ""  # the key of one provider is never sent to another
        if config.get_api_key is not None:
            try:
                key = config.get_api_key(self.model.provider) or key
            except BaseException as error:
                contain(error)
                key_error = without_keys(error_text(error), (key,))
        level = clamp_thinking_level(config.reasoning, self.model.available_thinking_levels)
        options = config.stream_options()
        options.cancel = self._cancel
        options.api_key, options.api_key_error = key, key_error
        options.refresh_api_key = _refresher(config.get_api_key)
        options.reasoning = self._off_level if level == "off" else level
        options.on_retry = _logging_errors(config.on_retry)
        return options


def call_once(context: AgentContext, config: LoopConfig, stream_fn: StreamFn, emit: Emit) -> AssistantMessage:
    """One answer to the context, with no tools, retries or resumes; emits events of the message only.

    The thinking level `off` is sent as a word here, where the loop sends nothing: a side query means it.
    """
    recorder = RunRecorder(History(context.messages), config, emit)
    hooks = config.hooks or Hooks(transform_context=config.transform_context)
    caller = ModelCaller(config, hooks, stream_fn, recorder, config.cancel or CancelToken(), off_level="off")
    return caller.call(context.system_prompt, ToolSet(context.tools), None, may_be_empty=True).message


def _constrain(context: AgentContext, options: StreamOptions, request: RequestUpdate, tools: ToolSet) -> None:
    if request.tools is not None:
        context.tools = tuple(tools)
        if not len(tools):
            options.server_tools = ()
    if request.tool_choice is not None:
        options.tool_choice = request.tool_choice
    if request.system_suffix:
        context.system_prompt = "\n".join(filter(None, (context.system_prompt, request.system_suffix)))


def _is_empty(message: AssistantMessage) -> bool:
    """True for an answer that ended well with nothing to read in it: no text, or thoughts alone."""
    return message.stop_reason == "stop" and all(
        isinstance(block, ThinkingContent) or (isinstance(block, TextContent) and not block.text.strip())
        for block in message.content
    )


def _logging_errors(
    on_retry: Callable[[int, float, str], object] | None,
) -> Callable[[int, float, str], None] | None:
    """The callback for stream functions; an exception in it is logged and stops no retry."""
    if on_retry is None:
        return None

    def notify(attempt: int, delay: float, error_text: str) -> None:
        try:
            on_retry(attempt, delay, error_text)
        except BaseException as error:
            contain(error)
            logger.exception("on_retry failed")

    return notify


def _refresher(get_api_key: Callable[[str], str | None] | None) -> Callable[[str], str] | None:
    """The key callback that a provider uses after a rejection; it returns an empty key when it fails."""
    if get_api_key is None:
        return None

    def refresh(provider: str) -> str:
        try:
            return get_api_key(provider) or ""
        except BaseException as error:  # no traceback: its text may hold a key
            contain(error)
            logger.error("getting a fresh API key failed: %s", without_keys(typed_error_text(error)))
            return ""

    return refresh


def _stream_error(error: BaseException) -> StreamError:
    contain(error)
    logger.debug("the stream function raised", exc_info=error)
    return StreamError(error_text(error))


def _close(events: Iterator[StreamEvent]) -> None:
    """Close the iterator, if it is a generator."""
    try:
        close = getattr(events, "close", None)
        if close is not None:
            close()
    except BaseException as error:
        contain(error)
        logger.exception("closing the stream failed")
