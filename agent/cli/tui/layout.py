"""The layout of the interactive mode: live lines, status, queue and question above the input line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout import BufferControl, ConditionalContainer, HSplit, Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.styles import Style

from agent.cli.tui.frame import Frame

_INPUT_ROWS = 10
_QUEUE_ROWS = 4
_DIM = "fg:ansibrightblack"
STYLE = Style.from_dict(
    {
        "prompt": "fg:ansicyan bold",
        "dim": _DIM,
        "queue": "fg:ansiyellow",
        "warning": "fg:ansiyellow",
        "completion-menu": "bg:default fg:default",
        "completion-menu.completion": "bg:default",
        "completion-menu.completion.current": "reverse bg:default fg:default",
        "completion-menu.meta.completion": f"bg:default {_DIM}",
        "completion-menu.meta.completion.current": "reverse bg:default fg:default",
        "scrollbar.background": "bg:default",
        "scrollbar.button": "bg:ansibrightblack",
    }
)


def build_layout(
    buffer: Buffer,
    frame: Callable[[], Frame],
    columns: Callable[[], int],
    footer: Callable[[], StyleAndTextTuples],
) -> Layout:
    """The layout around an input buffer; `frame` and `footer` are read for each drawing."""
    return Layout(
        HSplit(
            [
                _lines_of(frame, "live"),
                ConditionalContainer(
                    Window(height=1, dont_extend_height=True),
                    Condition(lambda: bool(frame().live and frame().status)),
                ),
                _lines_of(frame, "status"),
                _queue(frame, columns),
                _question(frame),
                Window(char="─", height=1, style="class:dim"),
                _input_line(buffer),
                CompletionsMenu(max_height=8, scroll_offset=1),
                Window(FormattedTextControl(footer), height=1, dont_extend_height=True),
                Window(height=Dimension(min=0, preferred=0)),  # takes the remaining height
            ]
        )
    )


def _lines_of(frame: Callable[[], Frame], name: Literal["live", "status"]) -> ConditionalContainer:
    control = FormattedTextControl(lambda: getattr(frame(), name))
    window = Window(control, dont_extend_height=True, wrap_lines=False)
    return ConditionalContainer(window, Condition(lambda: bool(getattr(frame(), name))))


def _queue(frame: Callable[[], Frame], columns: Callable[[], int]) -> ConditionalContainer:
    def text() -> StyleAndTextTuples:
        width = max(10, columns() - 4)
        rows = [" ".join(text.split())[:width] for text in frame().queued[-_QUEUE_ROWS:]]
        lines = "\n".join(f"» {row}" for row in rows)
        return [("class:queue", lines), ("class:dim", "\n  Alt+Up takes the last one back")]

    window = Window(FormattedTextControl(text), dont_extend_height=True)
    return ConditionalContainer(window, Condition(lambda: bool(frame().queued)))


def _question(frame: Callable[[], Frame]) -> ConditionalContainer:
    control = FormattedTextControl(lambda: [("class:warning", frame().question)])
    window = Window(control, dont_extend_height=True, wrap_lines=True)
    return ConditionalContainer(window, Condition(lambda: bool(frame().question)))


def _input_line(buffer: Buffer) -> Window:
    def prefix(line: int, wrapped: int) -> StyleAndTextTuples:
        return [("class:prompt", "❯ " if line == 0 and wrapped == 0 else "  ")]

    return Window(
        BufferControl(buffer),
        height=lambda: Dimension(min=1, max=_INPUT_ROWS),
        dont_extend_height=True,
        wrap_lines=True,
        get_line_prefix=prefix,
    )
