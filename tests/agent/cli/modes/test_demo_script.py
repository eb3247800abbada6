"""The scripted model of the demo: what it does follows from the results alone."""

from __future__ import annotations

from typing import Any

from agent.cli.modes.demo_script import next_step
from agent.messages import AssistantMessage, TextContent, ToolCall, ToolResultMessage
from agent.stream import AgentContext

FAILURE = """File "test_area.py", line 4, in test_area
    self.assertEqual(area(2), 12.0)
AssertionError: 6.0 != 12.0"""
TEST = "from shapes.area import area\n"
SOURCE = "FACTOR = 3\ndef area(side):\n    return FACTOR * side\n"


def _answer(*results: tuple[ToolCall, str, bool]) -> list[Any]:
    messages: list[Any] = []
    for call, text, is_error in results:
        messages.append(AssistantMessage([call], "scripted", "scripted", "scripted"))
        messages.append(ToolResultMessage(call.id, call.name, [TextContent(text)], is_error))
    return next_step("run tests")(AgentContext("", messages))


RUN = ToolCall("1", "bash", {"command": "run tests"})
READ_TEST = ToolCall("2", "read", {"path": "test_area.py"})
READ_SOURCE = ToolCall("3", "read", {"path": "shapes/area.py"})


def test_it_runs_the_tests_reads_what_failed_and_repairs_the_constant() -> None:
    assert _answer()[-1].arguments == {"command": "run tests"}
    failed = (RUN, FAILURE, True)
    assert _answer(failed)[-1].arguments == {"path": "test_area.py"}
    assert _answer(failed, (READ_TEST, TEST, False))[-1].arguments == {"path": "shapes/area.py"}
    edit = _answer(failed, (READ_TEST, TEST, False), (READ_SOURCE, SOURCE, False))[-1]
    assert edit.arguments == {"path": "shapes/area.py", "oldText": "FACTOR = 3", "newText": "FACTOR = 6"}


def test_it_gives_up_when_a_result_is_missing() -> None:
    assert isinstance(_answer((RUN, "no output", True))[-1], str)
    assert isinstance(_answer((RUN, FAILURE, True), (READ_TEST, "denied", True))[-1], str)
    assert isinstance(_answer((RUN, FAILURE, True), (READ_TEST, "nothing", False))[-1], str)


def test_it_ends_when_the_tests_pass() -> None:
    (text,) = _answer((RUN, "OK", False))
    assert text.startswith("All tests pass")
