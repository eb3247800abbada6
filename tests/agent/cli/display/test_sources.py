"""The sources of an answer, below it."""

from __future__ import annotations

import io
from typing import Any

from agent.cli.display.plain import PlainRenderer
from agent.cli.display.sources import source_lines
from agent.cli.display.view import RunView
from agent.events import MessageEnd
from agent.messages import AssistantMessage, TextContent


def answer(*citations: dict[str, Any]) -> AssistantMessage:
    return AssistantMessage([TextContent("It is so.", None, citations)])


A = {"type": "web_search_result_location", "title": "A", "url": "https://a.b"}


def test_each_source_is_a_line_with_its_title_and_address() -> None:
    """FR-11"""
    assert source_lines(answer(A, {"document_title": "d"}, A)) == ["Sources:", "  A  https://a.b", "  d"]
    assert source_lines(answer()) == []


def test_of_many_sources_the_first_are_shown_and_the_rest_counted() -> None:
    lines = source_lines(answer(*({"url": f"https://a.b/{n}"} for n in range(25))))
    assert (len(lines), lines[-1]) == (22, "  ... 5 more")


def test_a_source_commands_no_terminal() -> None:
    (_, line) = source_lines(answer({"title": "a\x1b[2Jb\nc", "url": "https://a.b/\x07"}))
    assert not {"\x1b", "\x07", "\n"} & set(line)


def test_plain_output_shows_the_sources_unless_it_is_quiet() -> None:
    """FR-11"""
    shown = []
    for quiet in (False, True):
        out = io.StringIO()
        PlainRenderer(out, quiet=quiet, on_closed=lambda: None)(MessageEnd(answer(A)))
        shown.append(out.getvalue())
    assert shown == ["Sources:\n  A  https://a.b\n", ""]


def test_the_view_shows_the_sources() -> None:
    """FR-11"""
    parts = RunView().feed(MessageEnd(answer(A)))
    assert any("https://a.b" in str(getattr(part, "plain", "")) for part in parts)
