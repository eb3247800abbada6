"""Shows a run in a terminal with rich: a subscriber for any program.

from agent.cli.render import RichRenderer

agent.subscribe(RichRenderer())
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.live import Live
from rich.segment import Segment

from agent.cli.display.clean_console import Cleaned, clean_segments
from agent.cli.display.clean_text import unwrapped
from agent.cli.display.view import RunView
from agent.events import AgentEnd, AgentStart, Event

# Smooth enough for a spinner and for reading along. Each frame draws only the open block.
_FRAMES_PER_SECOND = 10


class RichRenderer:
    """Shows thinking dimmed, answers as Markdown while they stream, tool calls in a few lines, and totals.

    Finished parts are printed once and scroll away; only the last one is redrawn, ten times a second, so the
    cost per delta does not depend on the length or speed of the answer. On a console that is no terminal
    nothing is redrawn. With `prompts`, the messages that begin a run are shown as well.

    Threads: called on the agent's worker thread; a thread of its own redraws from `agent_start` to
    `agent_end`; `_lock` guards the view and the order of printed parts. When the terminal has gone,
    `on_closed` is called once and nothing more is printed. `on_retry` fits `Agent(on_retry=...)`.
    """

    shows_errors = True

    def __init__(
        self,
        console: Console | None = None,
        *,
        prompts: bool = False,
        on_closed: Callable[[], object] | None = None,
        view: RunView | None = None,
    ) -> None:
        self.console = console or _Console(file=unwrapped(sys.stdout), highlight=False)
        self.closed = False
        self.problem: BaseException | None = None
        self._view = view or RunView(prompts=prompts)
        self._on_closed = on_closed
        self._lock = threading.Lock()
        self._live: Live | None = None
        self._finished: list[RenderableType] = []
        self._painter: _Painter | None = None

    def __call__(self, event: Event) -> None:
        """Show an event."""
        if self._view.is_foreign(event):
            return
        is_last = isinstance(event, AgentEnd)
        if is_last:
            self._stop_painting()
        if self.closed:
            return
        if isinstance(event, AgentStart):
            self._guarded(self._start)
        self._guarded(lambda: self._show(self._view.feed(event), is_last))

    def on_retry(self, attempt: int, delay: float, error: str) -> None:
        """Report in one line that a failed request is sent again after `delay` seconds."""
        self._guarded(lambda: self._show(self._view.retry(attempt, delay, error)))

    def paint(self) -> None:
        """Redraw the part that still changes. Called by the renderer's own thread."""
        self._guarded(self._paint)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """While open, nothing is painted: the user types an answer below a question. From any thread."""
        self._guarded(self._pause)
        try:
            yield
        finally:
            self._guarded(self._resume)

    def _guarded(self, show: Callable[[], None]) -> None:
        try:
            with self._lock:
                if not self.closed:
                    show()
                return
        except (OSError, ValueError) as error:  # ValueError: the file object itself was closed
            self.closed, self.problem = True, error
        if self._on_closed is not None:
            self._on_closed()

    def _show(self, parts: list[RenderableType], is_last: bool = False) -> None:
        """Print finished parts; on a terminal with the next frame, as each print redraws the live part."""
        self._finished += parts
        if is_last:
            self._end_live()
        if self._live is None:
            self._print_finished()

    def _paint(self) -> None:
        if self._live is None:
            return
        self._live.update(self._frame(), refresh=not self._finished)
        self._print_finished()

    def _print_finished(self) -> None:
        finished, self._finished = self._finished, []
        if finished:
            self.console.print(Cleaned(finished), end="")

    def _frame(self) -> RenderableType:
        return Bottom([*self._view.live(), self._view.status()])

    def _start(self) -> None:
        if not self.console.is_terminal or self._painter is not None:
            return
        self._start_live()
        self._painter = _Painter(self.paint)
        self._painter.start()

    def _start_live(self) -> None:
        self._live = Live(
            console=self.console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            vertical_overflow="crop",
        )
        self._live.start()

    def _pause(self) -> None:
        self._end_live()
        self._print_finished()

    def _resume(self) -> None:
        if self._painter is not None and self._live is None:
            self._start_live()

    def _stop_painting(self) -> None:
        painter, self._painter = self._painter, None
        if painter is not None:
            painter.stop()

    def _end_live(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            live.update("")
            live.stop()


class _Console(Console):
    """A console that raises when the reader has gone; rich's own would end the program."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class _Painter(threading.Thread):
    """A thread that calls `paint` at a steady rate until stopped."""

    def __init__(self, paint: Callable[[], object]) -> None:
        super().__init__(name="agent-renderer", daemon=True)
        self._paint = paint
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(1 / _FRAMES_PER_SECOND):
            self._paint()

    def stop(self) -> None:
        """End the thread and wait for it."""
        self._stopped.set()
        if threading.current_thread() is not self:
            self.join()


class Bottom:
    """The last lines of renderables, each below an empty line: `rows` of them, 0 for all that fit."""

    def __init__(self, parts: Sequence[RenderableType], rows: int = 0) -> None:
        self._parts = parts
        self._rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines: list[list[Segment]] = []
        unbounded = options.update(height=None)
        for part in self._parts:
            lines += [[], *console.render_lines(part, unbounded, pad=False)]
        # One row stays free: a terminal that is full to its last cell scrolls.
        rows = self._rows or max(1, options.size.height - 1)
        for index, line in enumerate(lines[-rows:]):
            if index:
                yield Segment.line()
            yield from clean_segments(line)
