"""The scripted model of the demo: reads the real tool results and acts on them.

It knows one kind of fault, a number that is off by a factor, and nothing about the project: the failing test,
the module, the name and the right value all come from the results of `bash` and `read`. Without a tool, or
without its result, it gives up as a model would.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent.messages import AssistantMessage, Message, ToolCall, ToolResultMessage
from agent.stream import AgentContext
from agent.testing import tool_call

# An answer of the scripted model: its text, and a tool call to go on with.
Answer = list[str | ToolCall]

_TEST_FRAME = re.compile(r'File "([^"]+)", line \d+, in test\w*\n\s*(.+)')
_MISMATCH = re.compile(r"AssertionError: (-?[\d.]+) != (-?[\d.]+)")
_IMPORT = re.compile(r"^from ([\w.]+) import (.+)$", re.MULTILINE)
_CONSTANT = re.compile(r"^(\w+)( *= *)(-?\d[\d_]*(?:\.\d+)?)(?=\s|$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Failure:
    """A failing test, as the test run reported it."""

    test_file: str
    line: str
    got: float
    expected: float


def next_step(test_command: str) -> Callable[[AgentContext], Answer]:
    """The next answer of the model, as a function of the request."""

    def step(context: AgentContext) -> Answer:
        history = _calls(context.messages)
        if not history:
            return ["I run the tests first.", tool_call("bash", {"command": test_command})]
        call, result = history[-1]
        if (result.is_error and call.name != "bash") or "not found. Available" in result.text:
            return [f"I can't go on: {result.text}"]
        match call.name:
            case "bash":
                return _after_tests(result)
            case "read":
                return _after_reading(call, result, _last_failure(history))
            case _:
                return ["Now the tests again.", tool_call("bash", {"command": test_command})]

    return step


def _after_tests(result: ToolResultMessage) -> Answer:
    if not result.is_error:
        return ["All tests pass now. The constant had the wrong value; nothing else was changed."]
    failure = _failure(result.text)
    if failure is None:
        return [f"The tests fail in a way I do not understand:\n{result.text}"]
    text = f"A test expected {failure.expected:g} and got {failure.got:g}. I look at the test."
    return [text, tool_call("read", {"path": failure.test_file})]


def _after_reading(call: ToolCall, result: ToolResultMessage, failure: _Failure | None) -> Answer:
    if failure is None:
        return ["I do not know which test failed."]
    path = str(call.arguments["path"])
    if path == failure.test_file:
        module = _module_under_test(result.text, failure)
        if module is None:
            return ["The test does not say what it tests."]
        return [f"It tests {module}. I look at that.", tool_call("read", {"path": module})]
    edit = _repair(result.text, failure)
    if edit is None:
        return [f"I find no number in {path} that explains it."]
    return [f"`{edit[0]}` should be `{edit[1]}`.", tool_call("edit", _edit_arguments(path, *edit))]


def _edit_arguments(path: str, old: str, new: str) -> dict[str, str]:
    return {"path": path, "oldText": old, "newText": new}


def _calls(messages: Sequence[Message]) -> list[tuple[ToolCall, ToolResultMessage]]:
    results = {m.tool_call_id: m for m in messages if isinstance(m, ToolResultMessage)}
    calls = (call for m in messages if isinstance(m, AssistantMessage) for call in m.tool_calls)
    return [(call, results[call.id]) for call in calls if call.id in results]


def _last_failure(history: Sequence[tuple[ToolCall, ToolResultMessage]]) -> _Failure | None:
    texts = [result.text for call, result in history if call.name == "bash"]
    return _failure(texts[-1]) if texts else None


def _failure(output: str) -> _Failure | None:
    frame, mismatch = _TEST_FRAME.search(output), _MISMATCH.search(output)
    if frame is None or mismatch is None:
        return None
    return _Failure(frame[1], frame[2].strip(), float(mismatch[1]), float(mismatch[2]))


def _module_under_test(test: str, failure: _Failure) -> str | None:
    """The file of the function that the failing line calls."""
    for imported in _IMPORT.finditer(test):
        if any(f"{name.strip()}(" in failure.line for name in imported[2].split(",")):
            return imported[1].replace(".", "/") + ".py"
    return None


def _repair(source: str, failure: _Failure) -> tuple[str, str] | None:
    """The line of the constant that the called function uses, as it is and repaired."""
    called = re.search(r"(\w+)\(", failure.line.partition("(")[2])
    body = re.search(rf"def {called[1]}\(.*?(?=\ndef |\Z)", source, re.DOTALL) if called else None
    if body is None or failure.got == 0:
        return None
    for constant in _CONSTANT.finditer(source):
        if re.search(rf"\b{constant[1]}\b", body[0]):
            right = float(constant[3]) * failure.expected / failure.got
            value = f"{right:.12g}"
            return constant[0], f"{constant[1]}{constant[2]}{value}"
    return None
