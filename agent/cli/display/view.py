"""Turns the events of a run into parts to print once and parts to redraw.

It writes nothing itself, so the printed run and the interactive mode share it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from agent.cli.display import amounts
from agent.cli.display.clean_text import clean, one_line
from agent.cli.display.markdown import Block
from agent.cli.display.markdown_blocks import MarkdownBlocks
from agent.cli.display.sources import source_lines
from agent.cli.display.tool_view import Call, finished_call, running_call
from agent.events import (
    AgentEnd,
    AgentStart,
    AutoResume,
    Event,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ModelFallback,
    StreamRetry,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
)
from agent.loop.run import AUTO_RESUME_MARKER
from agent.messages import AssistantMessage, UserMessage
from agent.stream import TextDelta, ThinkingDelta, ThinkingEnd, ToolCallDelta, ToolCallStart
from agent.usage import ZERO_USAGE, Usage

_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_SPINS_PER_SECOND = 10
_THINKING = "dim italic"
_PROMPT_LINES = 20
_STOP_WORDS = {"truncated": "cut off at the output limit"}
# Seconds without an event from the model after which the status says so.
_LONG_SILENCE = 20.0
# Arguments shorter than this arrive before a progress line could be read.
_LONG_ARGUMENTS = 200


class RunView:
    """The view of one run after another: `feed` returns parts to print once, `live` the parts to redraw.

    An event costs the length of its text; `live` costs the same however long the answer is. With `prompts`,
    the messages that begin a run are shown too; messages that enter during the run always are. `describe`
    returns a note to show beside such a message, or None to hide it. Paths in titles are shown relative to
    `cwd`. Not thread-safe: feed and draw under one lock.
    """

    def __init__(
        self,
        *,
        prompts: bool = False,
        describe: Callable[[UserMessage], str | None] = lambda message: "",
        clock: Callable[[], float] = time.monotonic,
        cwd: str = "",
    ) -> None:
        self._prompts = prompts
        self._describe = describe
        self._run_id = ""
        self._clock = clock
        self._cwd = cwd
        self._answer = MarkdownBlocks()
        self._thoughts = MarkdownBlocks()
        self._calls: dict[str, Call] = {}
        self._is_running = False
        self._is_first = True
        self._retrying = ""  # the wait before a retry, as a status
        self._begin()

    def _begin(self) -> None:
        self._started = self._last_event = self._clock()
        self._turns = 0
        self._usage: Usage = ZERO_USAGE
        self._has_answered = False
        self._has_streamed = False
        self._is_answering = False
        self._preparing = ("", 0)

    # -- printed once ----------------------------------------------------------------------------------

    def feed(self, event: Event) -> list[RenderableType]:
        """The parts that this event completes, each after an empty line."""
        if self._is_running and event.run_id != self._run_id:
            return []
        self._last_event = self._clock()
        parts = self._update(event.stream_event) if type(event) is MessageUpdate else self._parts(event)
        return self.spaced(parts) if parts else parts

    def is_foreign(self, event: Event) -> bool:
        """True for an event of a run nested in the one that is shown."""
        return self._is_running and event.run_id != self._run_id

    def spaced(self, parts: Sequence[RenderableType]) -> list[RenderableType]:
        """The parts, each after an empty line."""
        spaced: list[RenderableType] = []
        for part in parts:
            if not self._is_first:
                spaced.append(Text())
            self._is_first = False
            spaced.append(part)
        return spaced

    def retry(self, attempt: int, delay: float, error: str) -> list[RenderableType]:
        """The parts for a failed request that is sent again after `delay` seconds."""
        self._retrying = f"trying again in {amounts.duration(delay)}"
        self._last_event = self._clock() + delay  # silence counts from the next request on
        return [self._retry_line(f"retry {attempt} in {amounts.duration(delay)}", error)]

    def _parts(self, event: Event) -> list[RenderableType]:
        match event:
            case MessageStart():
                return self._message_start(event.message)
            case MessageEnd(message=AssistantMessage() as message):
                return self._message_end(message)
            case ToolExecutionStart():
                self._preparing = ("", 0)
                label = event.label or event.tool_name
                call = Call(label, event.arguments, event.display_hint, self._clock())
                self._calls[event.tool_call_id] = call
            case ToolExecutionUpdate():
                self._progress(event)
            case ToolExecutionEnd():
                return [self._tool_end(event)]
            case StreamRetry():
                self._drop_open_blocks()
                return [self._retry_line("asking again", event.error_message)]
            case AutoResume():
                return [*self._flush(), self._retry_line("going on", event.error_message)]
            case ModelFallback():
                self._drop_open_blocks()
                model = event.to_model
                return [self._retry_line(f"going on with {model.provider}/{model.id}", event.error_message)]
            case TurnEnd():
                self._usage = event.usage
                self._turns += event.message is not None
            case AgentStart():
                self._begin()
                self._run_id = event.run_id
                self._is_running = True
            case AgentEnd():
                return self._end(event)
        return []

    def _update(self, event: Any) -> list[RenderableType]:
        self._retrying = ""
        match event:
            case TextDelta():
                thoughts = [] if self._is_answering else self._begin_answer()
                return thoughts + [Block(block) for block in self._answer.add(clean(event.delta))]
            case ThinkingDelta():
                answer = self._flush_answer() if self._is_answering else []
                return answer + [_thought(block) for block in self._thoughts.add(clean(event.delta))]
            case ThinkingEnd():
                return self._flush_thoughts()
            case ToolCallStart():
                self._preparing = (event.name, 0)
                return self._flush()
            case ToolCallDelta():
                name, size = self._preparing
                self._preparing = (name, size + len(event.delta))
        return []

    def _begin_answer(self) -> list[RenderableType]:
        self._is_answering = self._has_streamed = True
        return self._flush_thoughts()

    def _message_start(self, message: Any) -> list[RenderableType]:
        if isinstance(message, UserMessage):
            if not (self._has_answered or self._prompts) or message.text == AUTO_RESUME_MARKER:
                return []
            note = self._describe(message)
            return [] if note is None else [prompt_text(message.text, note)]
        if message.role == "assistant":
            self._has_answered = True
            self._has_streamed = False
        return []

    def _message_end(self, message: AssistantMessage) -> list[RenderableType]:
        parts = self._flush()
        self._preparing = ("", 0)
        if not self._has_streamed and message.text:  # an answer without deltas
            blocks = MarkdownBlocks()
            complete = blocks.add(clean(message.text)) + blocks.end()
            parts += [Block(block) for block in complete]
        if lines := source_lines(message):
            parts.append(Text("\n".join(lines), "dim"))
        return parts

    def _progress(self, event: ToolExecutionUpdate) -> None:
        call = self._calls.get(event.tool_call_id)
        if call is not None:
            call.progress = event.status_message or event.partial_result.text[-_LONG_ARGUMENTS * 4 :]

    def _tool_end(self, event: ToolExecutionEnd) -> RenderableType:
        call = self._calls.pop(event.tool_call_id, None)
        call = call or Call(event.label or event.tool_name, {}, event.display_hint, self._clock())
        seconds = self._clock() - call.started
        return finished_call(call, event.result, event.is_error, seconds, self._cwd)

    def _end(self, event: AgentEnd) -> list[RenderableType]:
        parts = self._flush()
        self._is_running = False
        self._calls.clear()
        if event.stop == "error":
            parts.append(Text(clean(event.error or "the run failed"), "red"))
        parts.append(self._totals(event.stop))
        return parts

    def _totals(self, stop: str) -> Text:
        words = [] if stop in ("end_turn", "error") else [_STOP_WORDS.get(stop, stop.replace("_", " "))]
        words.append(f"{self._turns} turn{'' if self._turns == 1 else 's'}")
        if self._usage.total_tokens:
            words += [amounts.tokens(self._usage), amounts.cost(self._usage)]
        words.append(amounts.duration(self._clock() - self._started))
        return Text(" · ".join(words), "dim")

    def _retry_line(self, what: str, error: str) -> Text:
        return Text(f"↻ {what}: {one_line(error)}", "yellow")

    def _flush(self) -> list[RenderableType]:
        return self._flush_thoughts() + self._flush_answer()

    def _flush_answer(self) -> list[RenderableType]:
        self._is_answering = False
        return [Block(block) for block in self._answer.end()]

    def _flush_thoughts(self) -> list[RenderableType]:
        return [_thought(block) for block in self._thoughts.end()]

    def _drop_open_blocks(self) -> None:
        self._answer, self._thoughts = MarkdownBlocks(), MarkdownBlocks()
        self._is_answering = False
        self._preparing = ("", 0)

    # -- redrawn ---------------------------------------------------------------------------------------

    def live(self) -> list[RenderableType]:
        """The open blocks, the running calls, and the size of long arguments that are still arriving."""
        parts: list[RenderableType] = []
        if tail := self._thoughts.tail:
            parts.append(_thought(tail))
        if tail := self._answer.tail:
            parts.append(Block(tail))
        now = self._clock()
        for call in tuple(self._calls.values()):
            seconds = now - call.started
            mark = Text(self._spin(seconds), "yellow")
            parts.append(running_call(call, mark, seconds, self._cwd))
        name, size = self._preparing
        if size >= _LONG_ARGUMENTS:
            parts.append(Text(f"{self._spin(now)} {name}: {amounts.short_count(size)} characters", "dim"))
        return parts

    @property
    def usage(self) -> Usage:
        """The usage of the run so far."""
        return self._usage

    @property
    def is_running(self) -> bool:
        """True from the start of a run to its end."""
        return self._is_running

    def status(self) -> Text:
        """One line: a spinner, the current activity, the elapsed time, tokens and cost."""
        elapsed = self._clock() - self._started
        words = [self._activity(), amounts.duration(elapsed) if elapsed >= 10 else f"{elapsed:.0f}s"]
        if self._usage.total_tokens:
            words += [amounts.tokens(self._usage), amounts.cost(self._usage)]
        return Text(f"{self._spin(elapsed)} {' · '.join(words)}", "dim", no_wrap=True, overflow="ellipsis")

    def _activity(self) -> str:
        silence = self._clock() - self._last_event
        if self._retrying and silence <= 0:
            return self._retrying
        if self._calls:
            return f"running {', '.join(dict.fromkeys(call.label for call in self._calls.values()))}"
        note = f", no data for {amounts.duration(silence)}" if silence >= _LONG_SILENCE else ""
        return f"{self._model_activity()}{note}"

    def _model_activity(self) -> str:
        if self._preparing[0]:
            return f"preparing {self._preparing[0]}"
        if self._answer.tail:
            return "answering"
        return "thinking" if self._thoughts.tail else "waiting for the model"

    def _spin(self, seconds: float) -> str:
        return _SPINNER[int(seconds * _SPINS_PER_SECOND) % len(_SPINNER)]


def prompt_text(text: str, note: str = "") -> Text:
    """A user message, set off from the answers, with a note behind it."""
    lines: Sequence[str] = clean(text).rstrip().split("\n")
    left = len(lines) - _PROMPT_LINES
    if left > 1:
        lines = [*lines[:_PROMPT_LINES], f"... {left} more lines"]
    shown = Text.assemble(("❯ ", "bold cyan"), ("\n  ".join(lines), "bold"))
    return shown.append(f"  {note}", "dim") if note else shown


def _thought(text: str) -> Text:
    return Text(text, _THINKING)
