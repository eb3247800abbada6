"""Shows a run as plain lines: answers while they stream, a line per tool call, a few lines of its result."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from agent.cli.display.amounts import duration
from agent.cli.display.clean_text import OutputError, clean, one_line
from agent.events import (
    AutoResume,
    Event,
    MessageEnd,
    MessageUpdate,
    ModelFallback,
    StreamRetry,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from agent.messages import AssistantMessage, ImageContent
from agent.stream import TextDelta, TextEnd
from agent.tools import ToolResult

_RESULT_LINES = 5


class PlainRenderer:
    """A subscriber that writes to a text stream. Called on the worker thread only.

    `quiet` shows only the answers, and no retries. When the stream can't be written any more, `on_closed` is
    called once and nothing more is written.
    """

    shows_errors = False

    def __init__(
        self, out: TextIO, *, quiet: bool = False, err: TextIO | None = None, on_closed: Callable[[], object]
    ) -> None:
        self._out = out
        self._err = err or sys.stderr
        self._quiet = quiet
        self._on_closed = on_closed
        self._at_line_start = True
        self.closed = False
        self.problem: BaseException | None = None

    def __call__(self, event: Event) -> None:
        if self.closed:
            return
        try:
            self._show(event)
        except (OSError, ValueError) as error:  # ValueError: the stream object itself was closed
            self.closed, self.problem = True, error.__cause__ if isinstance(error, OutputError) else error
            self._on_closed()

    def on_retry(self, attempt: int, delay: float, error: str) -> None:
        """Report on standard error that a failed request is sent again after `delay` seconds."""
        if not self._quiet:
            print(f"retry {attempt} in {duration(delay)}: {one_line(error)}", file=self._err, flush=True)

    def _show(self, event: Event) -> None:
        match event:
            case MessageUpdate(stream_event=TextDelta(delta=delta)):
                self._write(delta)
                self._out.flush()
            case MessageUpdate(stream_event=TextEnd()):
                self._end_line()
            case MessageEnd(message=AssistantMessage()):
                self._end_line()
                self._out.flush()
            case StreamRetry() | AutoResume() | ModelFallback():
                self._end_line()
                print(f"[{one_line(event.error_message)}; trying again]", file=self._err, flush=True)
            case ToolExecutionStart() if not self._quiet:
                self._end_line()
                self._line(f"[{event.tool_name}] {title(event.arguments, event.display_hint)}".rstrip())
                self._out.flush()
            case ToolExecutionEnd() if not self._quiet:
                self._result(event.result, event.is_error)

    def _result(self, result: ToolResult, is_error: bool) -> None:
        lines = result.text.rstrip().split("\n")
        mark = "!" if is_error else "|"
        more = [f"... {len(lines) - _RESULT_LINES} more lines"] if len(lines) > _RESULT_LINES else []
        # The end of an error says what went wrong.
        shown = [*more, *lines[-_RESULT_LINES:]] if is_error else [*lines[:_RESULT_LINES], *more]
        for line in shown:
            self._line(f"  {mark} {one_line(line)}".rstrip())
        images = [block for block in result.content if isinstance(block, ImageContent)]
        for image in images:
            self._line(f"  {mark} ({image.mime_type} image)")
        self._out.flush()

    def _write(self, text: str) -> None:
        text = clean(text)
        if text:
            self._out.write(text)
            self._at_line_start = text.endswith("\n")

    def _line(self, text: str) -> None:
        self._write(text + "\n")

    def _end_line(self) -> None:
        if not self._at_line_start:
            self._write("\n")


def title(arguments: Mapping[str, Any], hint: Any) -> str:
    """The header of a call on one line: the arguments that its display hint names, else all of them."""
    shown = getattr(hint, "title_args", None)
    if shown:
        parts = [
            _title_part(arg, arguments[arg.name]) for arg in shown if arguments.get(arg.name) is not None
        ]
    else:
        parts = [f"{name}={value}" for name, value in arguments.items()]
    return one_line(" ".join(parts))


def _title_part(arg: Any, value: Any) -> str:
    text = f"/{value}/" if arg.style == "pattern" else str(value)
    return f"{arg.label} {text}" if arg.label else text
