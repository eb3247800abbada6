"""One call as rich draws it."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text
from support.terminal import recorded_console, written

from agent.cli.display.clean_console import Cleaned
from agent.cli.display.tool_view import DIFF_LINES, Call, finished_call, row, running_call
from agent.messages import TextContent
from agent.tools import ToolResult


def _lines(part: RenderableType) -> list[str]:
    console = recorded_console(40, terminal=False)
    console.print(Cleaned([part]), end="")
    return written(console).splitlines()


def test_a_running_call_shows_its_last_progress_and_its_time() -> None:
    call = Call("run", {}, None, 0.0, "\n".join("abcdef"))
    assert _lines(running_call(call, Text("*"), 3.0)) == ["* run  3.0s", "    d", "    e", "    f"]
    assert _lines(running_call(Call("run", {}, None, 0.0), Text("*"), 0.5)) == ["* run"]


def test_a_long_change_is_cut_with_a_notice() -> None:
    diff = "\n".join(f"+{number} line" for number in range(DIFF_LINES + 10))
    result = ToolResult([TextContent("changed")], details={"diff": diff})
    lines = _lines(finished_call(Call("edit", {}, None, 0.0), result, False, 0.0))
    assert len(lines) == DIFF_LINES + 2
    assert lines[-1] == "    ... 10 more lines"


def test_a_row_is_cut_at_the_edge_and_cleaned() -> None:
    assert _lines(row("a\tb\x1b[2J", "")) == ["    a   b[2J"]
    assert _lines(row("x" * 1_000_000, "")) == ["    " + "x" * 35 + "…"]
