"""Shows a run as plain lines: answers while they stream, a line per tool call, a few lines of its result."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TextIO

from agent.cli.display.amounts import duration
from agent.cli.display.call_text import excerpt, title
from agent.cli.display.clean_text import OutputError, clean, one_line
from agent.cli.display.sources import source_lines
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
from agent.tools import ToolDisplayHint, ToolResult


class PlainRenderer:
    """A subscriber that writes to a text stream. Called on the worker thread only.

    `quiet` shows only the answers, and no retries. When the stream can't be written any more, `on_closed` is
    called once and nothing more is written.
    """

    shows_errors = False

    def __init__(
        self,
        out: TextIO,
        *,
        quiet: bool = False,
        err: TextIO | None = None,
        on_closed: Callable[[], object],
        cwd: str = "",
    ) -> None:
        self._out = out
        self._err = err or sys.stderr
        self._quiet = quiet
        self._on_closed = on_closed
        self._cwd = cwd
        self._at_line_start = True
        self._headers: dict[str, str] = {}  # the first lines of the running calls, by id
        self._last_header = ""  # the id of the call whose header was the last thing written
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

    def show_message(self, message: AssistantMessage) -> None:
        """Write the text of a finished answer and its sources."""
        self._write(message.text)
        self._end_line()
        self.show_sources(message)
        self._out.flush()

    def show_sources(self, message: AssistantMessage) -> None:
        """Write the sources that an answer cites, unless quiet."""
        for line in () if self._quiet else source_lines(message):
            self._line(line)

    def _show(self, event: Event) -> None:
        match event:
            case MessageUpdate(stream_event=TextDelta(delta=delta)):
                self._write(delta)
                self._out.flush()
            case MessageUpdate(stream_event=TextEnd()):
                self._end_line()
            case MessageEnd(message=AssistantMessage() as message):
                self._end_line()
                self.show_sources(message)
                self._out.flush()
            case StreamRetry() | AutoResume() | ModelFallback():
                self._end_line()
                print(f"[{one_line(event.error_message)}; trying again]", file=self._err, flush=True)
            case ToolExecutionStart() if not self._quiet:
                self._end_line()
                name = event.label or event.tool_name
                header = f"[{name}] {title(event.arguments, event.display_hint, self._cwd)}".rstrip()
                self._line(header)
                self._headers[event.tool_call_id] = header
                self._last_header = event.tool_call_id
                self._out.flush()
            case ToolExecutionEnd() if not self._quiet:
                header = self._headers.pop(event.tool_call_id, "")
                if header and self._last_header != event.tool_call_id:
                    self._line(header)  # other calls were written meanwhile: their results are told apart
                self._result(event.result, event.is_error, event.display_hint)

    def _result(self, result: ToolResult, is_error: bool, hint: ToolDisplayHint | None) -> None:
        lines, omitted, is_end = excerpt(result.text, is_error, hint)
        mark = "!" if is_error else "|"
        more = [f"... {omitted} more lines"] if omitted else []
        for line in [*more, *lines] if is_end else [*lines, *more]:
            self._line(f"  {mark} {one_line(line)}".rstrip())
        images = [block for block in result.content if isinstance(block, ImageContent)]
        for image in images:
            self._line(f"  {mark} ({image.mime_type} image)")
        self._out.flush()

    def _write(self, text: str) -> None:
        text = clean(text)
        if text:
            self._last_header = ""
            self._out.write(text)
            self._at_line_start = text.endswith("\n")

    def _line(self, text: str) -> None:
        self._write(text + "\n")

    def _end_line(self) -> None:
        if not self._at_line_start:
            self._write("\n")
