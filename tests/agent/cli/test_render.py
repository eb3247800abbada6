"""What a run looks like on a terminal, drawn on consoles that keep what was written."""

from __future__ import annotations

import errno
import io
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from support.terminal import recorded_console, screen, written

from agent import Agent, Model, Usage, tool
from agent.cli.display import markdown
from agent.cli.display.markdown_blocks import TAIL_CHARACTERS
from agent.cli.display.view import RunView
from agent.cli.render import RichRenderer
from agent.errors import ToolError
from agent.events import AgentEnd, AgentStart, Event, MessageStart, MessageUpdate, ModelFallback
from agent.messages import AssistantMessage, ImageContent, TextContent, UserMessage
from agent.retry import RetryPolicy
from agent.runs import RunMetadata
from agent.stream import PartialMessage, StreamDone, TextDelta
from agent.testing import ScriptedModel, done, error, thinking, tool_call
from agent.tools import TitleArg, ToolDisplayHint, ToolResult
from agent.usage import Cost
from agent_tools import coding_tools


def _shown(*turns: Any, tools: Any = (), console: Console | None = None, **options: Any) -> str:
    """What a run writes."""
    console = console or recorded_console(terminal=False)
    model = ScriptedModel(*turns)
    quick = RetryPolicy((0.0,), (0.0,), (0.0,), (0.0,))
    with Agent(model.model, stream_fn=model.stream, tools=tools, retry=quick) as agent:
        agent.subscribe(RichRenderer(console, **options))
        agent.prompt("do it").wait()
    return written(console)


def _lines(*turns: Any, **options: Any) -> list[str]:
    return [line for line in _shown(*turns, **options).splitlines() if line]


def test_an_answer_is_shown_as_markdown() -> None:
    assert _lines("# Head\n\nSome **bold** words.\n\n- item")[:3] == ["Head", "Some bold words.", " • item"]


def test_thinking_is_dim_and_the_answer_is_not() -> None:
    text = _shown([thinking("Hmm."), "Yes."], console=recorded_console())
    assert "\x1b[2;3mHmm." in text
    assert "\nYes.\n" in text


def test_without_a_terminal_no_escape_code_is_written() -> None:
    assert "\x1b" not in _shown("a **b** `c`\n```python\nx = 1\n```")


def test_a_program_keeps_its_lines_and_a_long_one_is_folded() -> None:
    source = "def f():\n\n\treturn '" + "界" * 40 + "'\n"
    lines = _shown(f"```python\n{source}```").splitlines()
    assert lines[:3] == ["  def f():", "", "      return '" + "界" * 33]
    assert lines[3] == "  " + "界" * 7 + "'"


@pytest.mark.parametrize("language", ["", "text", "no-such-language"])
def test_a_program_in_no_known_language_is_shown_as_it_is(language: str) -> None:
    assert _shown(f"```{language}\n  a = [b]\n\nc\n```").splitlines()[:3] == ["    a = [b]", "", "  c"]


def test_a_program_in_a_known_language_is_coloured() -> None:
    text = _shown("```python\nreturn 1\n```", console=recorded_console())
    assert re.search(r"\x1b\[[\d;]+mreturn\x1b\[0m", text)


def test_control_characters_of_a_model_are_not_drawn() -> None:
    text = _shown([thinking("\x1b]0;title\x07"), "a\x1b[2Jb"], console=recorded_console())
    assert "\x1b[2J" not in text
    assert "\x1b]" not in text
    assert "\x07" not in text


def test_a_call_is_one_header_line_from_its_hint_and_a_few_lines_of_its_result(tmp_path: Path) -> None:
    call = [tool_call("bash", {"command": "seq 1 30\n", "timeout": 9})]
    lines = _lines(call, "done", tools=coding_tools(str(tmp_path)))
    assert lines[0] == "● bash seq 1 30 timeout 9"
    assert lines[1] == "  \u2502 ... 20 more lines"
    assert lines[-3] == "  \u2502 30"


def test_the_beginning_of_a_listing_is_shown(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("".join(f"line {n}\n" for n in range(40)))
    lines = _lines([tool_call("read", {"path": "f"})], "done", tools=coding_tools(str(tmp_path)))
    assert lines[:2] == ["● read f", "    line 0"]
    assert "more lines" in lines[11]


def test_a_change_is_shown_as_a_coloured_diff(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("one\ntwo\n")
    call = [tool_call("edit", {"path": "f", "oldText": "two", "newText": "three"})]
    text = _shown(call, "done", tools=coding_tools(str(tmp_path)), console=recorded_console())
    assert "\x1b[31m    -2 two" in text
    assert "\x1b[32m    +2 three" in text


def test_a_failed_call_is_marked_and_its_end_shown() -> None:
    @tool
    def fails() -> str:
        """Fail."""
        raise ToolError("\n".join(f"line {n}" for n in range(20)))

    lines = _lines([tool_call("fails")], "done", tools=[fails])
    assert lines[0] == "✗ fails"
    assert lines[1] == "    ... 10 more lines"
    assert lines[11] == "    line 19"


def test_an_image_is_named_and_not_printed() -> None:
    @tool
    def look() -> list[Any]:
        """Look."""
        return [TextContent("a picture"), ImageContent("QUJD" * 4000, "image/png")]

    lines = _lines([tool_call("look")], "done", tools=[look])
    assert "    image: image/png, 12 kB" in lines
    assert "QUJD" not in "".join(lines)


def test_an_argument_of_many_lines_stays_in_the_header_line() -> None:
    hint = ToolDisplayHint((TitleArg("what", "pattern"),))

    @tool(display_hint=hint)
    def say(what: str) -> str:
        """Say."""
        return "ok"

    lines = _lines([tool_call("say", {"what": "a\nb" * 500})], "x", tools=[say])
    assert lines[0].startswith("● say /a ba b")
    assert len(lines[0]) <= 80


def test_the_last_line_shows_turns_tokens_and_cost() -> None:
    usage = Usage(1000, 50, 4000, cost=Cost(0.01, 0.002))
    last = _lines(["hi", done("stop", usage)])[-1]
    assert last.startswith("1 turn · 5k in (4k cached), 50 out · $0.012 · ")
    assert _lines(["hi", done("stop", Usage(10, 5))])[-1].startswith("1 turn · 10 in, 5 out · cost unknown")


def test_an_error_is_shown() -> None:
    lines = _lines(error("401 no such key"))
    assert "401 no such key" in lines


def test_a_retry_and_a_resume_are_one_line_each() -> None:
    lines = _lines(["Half an", error("connection reset by peer")], "answer.")
    assert "↻ going on: connection reset by peer" in lines
    assert "Half an" in lines
    assert "answer." in lines
    assert "▶" not in "".join(lines)


def test_a_retry_is_shown_in_one_line() -> None:
    console = recorded_console(terminal=False)
    RichRenderer(console).on_retry(2, 4.0, "429 too\nmany")
    assert written(console) == "↻ retry 2 in 4.0s: 429 too many\n"


def test_a_fallback_and_its_reason_are_shown_in_one_line() -> None:
    console = recorded_console(terminal=False)
    renderer = RichRenderer(console)
    renderer(ModelFallback(Model("a", "x", "one"), Model("b", "x", "two"), "503 overloaded"))
    assert written(console) == "↻ going on with two/b: 503 overloaded\n"


def test_an_answer_without_deltas_is_shown() -> None:
    message = AssistantMessage([TextContent("All at once.")], "scripted", "scripted", "scripted")
    assert "All at once." in _lines([StreamDone(message=message)])


def test_messages_that_enter_a_run_are_shown_and_the_first_one_only_with_prompts() -> None:
    def steered(**options: Any) -> list[str]:
        console = recorded_console(terminal=False)
        model = ScriptedModel("one", "two")
        with Agent(model.model, stream_fn=model.stream) as agent:
            agent.subscribe(RichRenderer(console, **options))
            agent.follow_up("and then")
            agent.prompt("first").wait()
        return written(console).splitlines()

    assert "❯ and then" in steered()
    assert "❯ first" not in steered()
    assert steered(prompts=True)[0] == "❯ first"


def test_on_a_terminal_the_end_is_printed_as_without_one() -> None:
    """What was drawn while the answer came is gone, and every part is there once."""
    turns = ([thinking("Let me see."), "One.\n\n- a\n- b\n\nTwo."],)
    live = screen(_shown(*turns, console=recorded_console()))
    plain = _shown(*turns).splitlines()
    assert live[: len(plain) - 1] == plain[:-1]  # the last one contains the time


def _deltas(count: int, text: str) -> list[Event]:
    log: list[Any] = []
    events: list[Event] = [AgentStart(), MessageStart(PartialMessage(log, 0))]
    for _ in range(count):
        delta = TextDelta(0, text)
        log.append(delta)
        events.append(MessageUpdate(PartialMessage(log, len(log)), delta))
    return events


class _CountedMarkdown(markdown._Markdown):
    characters = 0

    def __init__(self, markup: str) -> None:
        type(self).characters += len(markup)
        super().__init__(markup)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> type[_CountedMarkdown]:
    """Counts the characters of Markdown that are parsed."""
    _CountedMarkdown.characters = 0
    monkeypatch.setattr(markdown, "_Markdown", _CountedMarkdown)
    return _CountedMarkdown


@pytest.mark.parametrize("text", ["word ", "a line of text\n\n"])
def test_the_work_is_proportional_to_the_text_and_the_frames(
    text: str, counted: type[_CountedMarkdown]
) -> None:
    """5,000 deltas, and a frame after every 500 of them: as many as come in a tenth of a second."""
    view = RunView()
    frames = 0
    for number, event in enumerate(_deltas(5000, text)):
        view.feed(event)
        if number % 500 == 0:
            view.live()
            frames += 1
    view.feed(AgentEnd(()))
    assert counted.characters <= 5000 * len(text) + frames * (TAIL_CHARACTERS + len(text))


def test_a_delta_draws_nothing() -> None:
    console = recorded_console()
    renderer = RichRenderer(console)
    start, opened, *deltas = _deltas(2000, "word ")
    renderer(opened)
    before = len(written(console))
    for event in deltas:
        renderer(event)
    assert len(written(console)) == before
    renderer(AgentEnd(()))
    assert "word word" in written(console)
    assert start.type == "agent_start"


def test_a_long_answer_leaves_no_more_on_the_screen_than_fits() -> None:
    console = recorded_console(40, 10)
    renderer = RichRenderer(console)
    renderer(AgentStart())
    for event in _deltas(100, "- a point\n")[1:]:
        renderer(event)
    renderer.paint()
    assert len(screen(written(console))) < 10
    renderer(AgentEnd(()))
    assert sum("a point" in line for line in screen(written(console))) == 100


def test_a_run_leaves_no_thread() -> None:
    _shown("hi", console=recorded_console())
    assert not [thread for thread in threading.enumerate() if thread.name == "agent-renderer"]


class _Gone(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(errno.EIO, "the terminal has gone")


def test_a_closed_terminal_is_reported_once() -> None:
    shown: list[int] = []
    renderer = RichRenderer(Console(file=_Gone(), force_terminal=True), on_closed=lambda: shown.append(1))
    for event in (MessageStart(UserMessage("x")), *_deltas(3, "one\n\n"), AgentEnd(())):
        renderer(event)
    assert renderer.closed
    assert shown == [1]


def test_a_subscriber_of_a_result_without_details_is_no_problem() -> None:
    @tool
    def odd() -> ToolResult:
        """Odd."""
        return ToolResult("", details=[1])

    assert _lines([tool_call("odd")], "x", tools=[odd])[0] == "● odd"


def test_a_nested_run_is_not_shown() -> None:
    console = recorded_console(terminal=False)
    renderer = RichRenderer(console)
    outer, inner = RunMetadata("r1"), RunMetadata("r2", "r1")
    for event in (AgentStart(run=outer), AgentStart(run=inner), AgentEnd((), run=inner)):
        renderer(event)
    assert written(console) == ""
    renderer(AgentEnd((), run=outer))
    assert written(console).startswith("0 turns · ")
