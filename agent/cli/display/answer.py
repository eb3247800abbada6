"""Shows a run whose output is piped: the last answer on standard output, the rest on standard error."""

from __future__ import annotations

from collections.abc import Callable
from typing import TextIO

from agent.cli.display.clean_text import OutputError, clean
from agent.cli.display.plain import PlainRenderer
from agent.events import (
    AgentEnd,
    AgentStart,
    CandidateDiscarded,
    Event,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    StreamRetry,
    ToolExecutionStart,
)
from agent.loop.recovery import AUTO_RESUME_MARKER
from agent.messages import AssistantMessage, UserMessage

# A run that ends in one of these has no answer that another program could use.
_WITHOUT_ANSWER = ("error", "aborted")


class AnswerRenderer:
    """A subscriber that writes the last answer to `out` when the run ends, and all else to `err` as it comes.

    An answer is held back until it is known whether tool calls or further messages follow it: then it is
    part of the trace. A run that failed or was aborted writes nothing to `out`. With `quiet` there is no
    trace. When `out` can't be written, `on_closed` is called. Called on the worker thread only.
    """

    shows_errors = False

    def __init__(
        self,
        out: TextIO,
        err: TextIO,
        *,
        quiet: bool = False,
        on_closed: Callable[[], object],
        cwd: str = "",
    ) -> None:
        self._out = out
        self._trace = None if quiet else PlainRenderer(err, err=err, on_closed=lambda: None, cwd=cwd)
        self._on_closed = on_closed
        self._run_id = ""
        self._answer: list[AssistantMessage] = []  # several when a broken connection was resumed
        self.closed = False
        self.problem: BaseException | None = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, AgentStart) and not self._run_id:
            self._run_id = event.run_id
        if event.run_id == self._run_id:
            self._follow(event)
        if self._trace is not None and not isinstance(event, MessageUpdate | MessageEnd):
            self._trace(event)

    def on_retry(self, attempt: int, delay: float, error: str) -> None:
        """Report on standard error that a failed request is sent again after `delay` seconds."""
        if self._trace is not None:
            self._trace.on_retry(attempt, delay, error)

    def _follow(self, event: Event) -> None:
        match event:
            case MessageEnd(message=AssistantMessage() as message):
                self._answer.append(message)
            case StreamRetry() | CandidateDiscarded():
                del self._answer[-1:]
            case ToolExecutionStart():
                self._to_trace()
            case MessageStart(message=UserMessage(content=content)) if content != AUTO_RESUME_MARKER:
                self._to_trace()
            case AgentEnd(stop=stop):
                self._end(has_answer=stop not in _WITHOUT_ANSWER)

    def _to_trace(self) -> None:
        answer, self._answer = self._answer, []
        if self._trace is not None:
            for message in answer:
                self._trace.show_message(message)

    def _end(self, has_answer: bool) -> None:
        self._run_id = ""
        if not has_answer:
            self._to_trace()
            return
        answer, self._answer = self._answer, []
        text = clean("".join(message.text for message in answer))
        if self._trace is not None:
            for message in answer:
                self._trace.show_sources(message)
        if not text:
            return
        try:
            self._out.write(text if text.endswith("\n") else f"{text}\n")
            self._out.flush()
        except (OSError, ValueError) as error:  # ValueError: the stream object itself was closed
            self.closed, self.problem = True, error.__cause__ if isinstance(error, OutputError) else error
            self._on_closed()
