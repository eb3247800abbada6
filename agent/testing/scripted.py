"""A model that answers from a script."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any, Literal

from agent.block_summary import arguments_json
from agent.json_values import JsonMapping
from agent.messages import AssistantMessage, ServerContent, TextContent, ThinkingContent, ToolCall
from agent.models import Model
from agent.retry import ABORTED_TEXT
from agent.stream import (
    STREAM_EVENTS,
    AgentContext,
    ServerBlock,
    StreamDone,
    StreamError,
    StreamEvent,
    StreamOptions,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from agent.usage import Usage

_WORDS = re.compile(r"\S+\s*|\s+")
_SLICE = 8  # characters of arguments per delta, so that typical arguments arrive in several


def tool_call(name: str, arguments: JsonMapping | None = None, id: str = "") -> ToolCall:
    """A tool call for a script; without an id it gets the next of `call_1`, `call_2`, ..."""
    return ToolCall(id, name, dict(arguments or {}))


def text(content: str) -> TextContent:
    """A text block for a script."""
    return TextContent(content)


def thinking(content: str, signature: str | None = None) -> ThinkingContent:
    """A thinking block for a script."""
    return ThinkingContent(content, signature)


def error(
    message: str, stop_reason: Literal["error", "aborted"] = "error", usage: Usage | None = None
) -> StreamError:
    """A failed answer, alone or at the end of a list of blocks."""
    return StreamError(message, stop_reason, usage)


def done(
    stop_reason: Literal["stop", "length", "toolUse"] = "stop", usage: Usage | None = None
) -> StreamDone:
    """The end of an answer, for a script that sets its stop reason or usage."""
    return StreamDone(stop_reason, usage)


class ScriptedModel:
    """A model that answers from a script, one entry per request.

    An entry is a text; a list of texts and blocks (`tool_call(...)`, `thinking(...)`), which may end with
    `error(...)` or `done(...)`; an `error(...)`; an `AssistantMessage`; an exception, which is raised; or a
    function of the context that returns one of these. A list of raw stream events is sent unchanged, so that
    a stream may also break off. After the last entry every request gets an error.

    `contexts` and `options` hold the arguments of each request, in order. Threads: may serve several at once;
    `_lock` guards the script.
    """

    def __init__(self, *turns: Any, model: Model | None = None) -> None:
        self.model = model or Model(
            "scripted", "scripted", "scripted", name="Scripted model", reasoning=True, input=("text", "image")
        )
        self.contexts: list[AgentContext] = []
        self.options: list[StreamOptions] = []
        self._turns = list(turns)
        self._next = 0
        self._ids = count(1)
        self._lock = threading.Lock()

    @property
    def calls(self) -> int:
        """The number of requests so far."""
        return len(self.contexts)

    def stream(self, model: Model, context: AgentContext, options: StreamOptions) -> Iterator[StreamEvent]:
        """The stream function to give to an agent."""
        with self._lock:
            self.contexts.append(replace(context, messages=list(context.messages)))
            self.options.append(options)
            number = self._next
            self._next += 1
        if number >= len(self._turns):
            yield StreamError(f"the script has no turn {number + 1}: it ends after {len(self._turns)}")
            return
        turn = self._turns[number]
        if callable(turn):
            turn = turn(context)
        for event in self._events(turn):
            if options.cancel.is_set():
                yield StreamError(ABORTED_TEXT, "aborted")
                return
            yield event

    def assert_finished(self) -> None:
        """Raise AssertionError when the script has unused turns."""
        left = len(self._turns) - self._next
        if left > 0:
            raise AssertionError(f"{left} of {len(self._turns)} scripted turns were not used")

    def _events(self, turn: Any) -> Iterator[StreamEvent]:
        if isinstance(turn, BaseException):
            raise turn
        if isinstance(turn, StreamError):
            yield turn
            return
        if isinstance(turn, AssistantMessage):
            turn = [*turn.content, _end_of(turn)]
        blocks: list[Any] = [turn] if isinstance(turn, (str, *_BLOCKS)) else list(turn)
        if any(type(block) in STREAM_EVENTS and not isinstance(block, _ENDS) for block in blocks):
            yield from blocks
            return
        yield StreamStart()
        for index, block in enumerate(blocks):
            yield from (block,) if isinstance(block, _ENDS) else self._block(index, block)
        if not blocks or not isinstance(blocks[-1], _ENDS):
            called = any(isinstance(block, ToolCall) for block in blocks)
            yield StreamDone("toolUse" if called else "stop")

    def _block(self, index: int, block: Any) -> Iterator[StreamEvent]:
        match block:
            case str():
                yield from self._block(index, TextContent(block))
            case TextContent():
                yield TextStart(index)
                yield from (TextDelta(index, word) for word in _WORDS.findall(block.text))
                yield TextEnd(index, block.signature)
            case ThinkingContent():
                yield ThinkingStart(index)
                yield from (ThinkingDelta(index, word) for word in _WORDS.findall(block.thinking))
                yield ThinkingEnd(index, block.signature, block.redacted)
            case ToolCall():
                yield ToolCallStart(index, block.id or f"call_{next(self._ids)}", block.name)
                encoded = arguments_json(block.arguments)
                yield from (
                    ToolCallDelta(index, encoded[i : i + _SLICE]) for i in range(0, len(encoded), _SLICE)
                )
                yield ToolCallEnd(index, None, block.signature)
            case ServerContent():
                yield ServerBlock(index, block)
            case _:
                raise TypeError(f"a script cannot hold a {type(block).__name__}")


def _end_of(message: AssistantMessage) -> StreamDone | StreamError:
    reason = message.stop_reason
    if reason == "error" or reason == "aborted":
        return StreamError(message.error_message, reason, message.usage)
    return StreamDone(reason, message.usage)


_BLOCKS = (TextContent, ThinkingContent, ToolCall, ServerContent)
_ENDS = (StreamDone, StreamError)
