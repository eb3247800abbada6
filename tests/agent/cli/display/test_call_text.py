"""Titles and excerpts of tool calls, and that every way of showing a call uses them."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from support.terminal import recorded_console, written

from agent import Agent, tool
from agent.cli.display.call_text import excerpt, title
from agent.cli.display.json_lines import JsonRenderer
from agent.cli.display.plain import PlainRenderer
from agent.cli.display.view import RunView
from agent.cli.render import RichRenderer
from agent.testing import ScriptedModel, tool_call
from agent.tools import TitleArg, ToolDisplayHint


def test_a_title_holds_the_arguments_of_the_hint_in_its_order() -> None:
    hint = ToolDisplayHint((TitleArg("b", "pattern"), TitleArg("a", label="in"), TitleArg("none")))
    assert title({"a": 1, "b": "x\ny", "c": 3}, hint) == "/x y/ in 1"


def test_a_title_without_a_hint_holds_all_arguments() -> None:
    assert title({"a": 1, "b": "x\x1b"}, None) == "a=1 b=x"
    assert title({"a": 1}, ToolDisplayHint()) == "a=1"


def test_a_path_in_a_title_is_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    """FS-W2"""
    monkeypatch.setenv("HOME", "/home/me")
    hint = ToolDisplayHint((TitleArg("path", "path"),))
    paths = ["/work/a/b.py", "/home/me/c", "/home/me", "/home/mean/d", "/work/ab", "rel/e", 7]
    shown = [title({"path": path}, hint, "/work/a") for path in paths]
    assert shown == ["b.py", "~/c", "~", "/home/mean/d", "/work/ab", "rel/e", "7"]


@pytest.mark.parametrize(
    ("limit", "expected"), [(15, 15), (20, 20), (0, 10), (1, 1), (29, 30), (30, 30), (1000, 30)]
)
@pytest.mark.parametrize("use_box", [False, True])
def test_an_excerpt_is_as_long_as_the_hint_says(limit: int, expected: int, use_box: bool) -> None:
    """FS-W2"""
    text = "\n".join(str(number) for number in range(30))
    lines, omitted, is_end = excerpt(text, False, ToolDisplayHint((), limit, use_box))
    assert (len(lines), omitted, is_end) == (expected, 30 - expected, use_box)
    assert lines[-1 if use_box else 0] == ("29" if use_box else "0")


def test_an_excerpt_of_nothing_is_empty() -> None:
    assert excerpt(" \n ", True, None) == ((), 0, False)


@tool(label="Count the lines", display_hint=ToolDisplayHint((TitleArg("path", "path"),), 15, use_box=True))
def count(path: str) -> str:
    """Count."""
    return "\n".join(f"line {number}" for number in range(40))


def _run(subscribe: Any) -> None:
    model = ScriptedModel([tool_call("count", {"path": "/work/a.txt"})], "done")
    with Agent(model.model, stream_fn=model.stream, tools=[count]) as agent:
        agent.subscribe(subscribe(agent))
        agent.run("go")


def test_the_terminal_shows_the_label_the_short_path_and_the_lines_in_a_box() -> None:
    """FS-M2, FS-W2"""
    console = recorded_console(terminal=False)
    _run(lambda agent: RichRenderer(console, view=RunView(cwd="/work")))
    lines = written(console).splitlines()
    assert lines[:3] == ["● Count the lines a.txt", "  \u2502 ... 25 more lines", "  \u2502 line 25"]
    assert len([line for line in lines if "\u2502" in line]) == 16


def test_plain_lines_show_the_label_the_short_path_and_as_many_lines() -> None:
    out = io.StringIO()
    _run(lambda agent: PlainRenderer(out, on_closed=agent.abort, cwd="/work"))
    lines = out.getvalue().splitlines()
    assert lines[:3] == ["[Count the lines] a.txt", "  | ... 25 more lines", "  | line 25"]
    assert len([line for line in lines if line.startswith("  |")]) == 16


def test_json_lines_hold_the_label() -> None:
    """FS-M2; `--rpc` writes the same lines."""
    out = io.StringIO()
    _run(lambda agent: JsonRenderer(out, on_closed=agent.abort))
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    labels = [event.get("label") for event in events if event["type"].startswith("tool_execution")]
    assert labels == ["Count the lines"] * 2


def test_an_editor_gets_the_label() -> None:
    """FS-M2"""
    pytest.importorskip("acp")
    from agent.cli.modes.acp_updates import Updates

    shown: list[Any] = []
    updates = Updates("/work")
    _run(lambda agent: lambda event: shown.extend(updates.for_event(event)))
    assert [update.title for update in shown if getattr(update, "title", None)] == ["Count the lines a.txt"]
