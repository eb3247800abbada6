"""The contract finds the fault it is there for: each check against a deliberately bad tool."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_tools.contract import CHECKS, ContractError, NotApplicable, ToolCase, check_tool, run_check
from agent_tools.contract import processes as processes
from agent_tools.tool import ImageBlock, PathUse, Result, TextBlock, ToolFailure

BY_NAME = {check.__name__: check for check in CHECKS}


class Fake:
    """A good little tool to break: it answers with its text, backwards."""

    name = "reverse"
    description = "Reverses a text."

    def __init__(self, root: Path) -> None:
        self.root = root
        self.parameters: dict[str, Any] = {
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
        }

    def execute(self, arguments: dict[str, Any], context: Any) -> Any:
        text = arguments.get("text")
        if not isinstance(text, str) or not text:
            return Result("text is required", is_error=True)
        if context.cancel.is_set():
            return Result("aborted", is_error=True)
        return self.answer(text, context)

    def answer(self, text: str, context: Any) -> Any:
        return Result(text[::-1].encode("utf-8", "replace").decode()[:1000])


def case(make: Callable[[Path], Any], **more: Any) -> ToolCase:
    given: dict[str, Any] = {
        "arguments": lambda number: {"text": f"abc{number}"},
        "expected": lambda number: f"{number}cba",
    }
    return ToolCase(make, **{**given, **more})


def violation(check: str, make: Callable[[Path], Any], **more: Any) -> str:
    """The text of the violation that the check finds."""
    with pytest.raises(ContractError) as caught:
        run_check(BY_NAME[check], case(make, **more))
    return str(caught.value)


def test_a_good_tool_passes_every_check_that_applies() -> None:
    applied = check_tool(
        Fake, lambda number: {"text": f"abc{number}"}, expected=lambda number: f"{number}cba"
    )
    assert set(BY_NAME) - set(applied) == {"ends_when_cancelled", "bounds_its_output", "declares_its_paths"}


def test_a_tool_can_be_checked_without_good_arguments() -> None:
    assert set(check_tool(Fake)) == {
        "well_formed_schema",
        "stable_schema",
        "answers_missing_arguments",
        "answers_bad_arguments",
    }


def test_all_violations_are_reported_at_once() -> None:
    class Bad(Fake):
        name = "not a name"

        def execute(self, arguments: dict[str, Any], context: Any) -> Any:
            raise KeyError("text")

    with pytest.raises(ContractError) as caught:
        check_tool(Bad)
    assert "not a name" in str(caught.value)
    assert "KeyError instead of a result" in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ([], "must be a dict"),
        ({"type": "array", "properties": {}}, '"type": "object"'),
        ({"type": "object"}, '"properties"'),
        ({"type": "object", "properties": {"a": {"type": "text"}}}, "unknown type"),
        ({"type": "object", "properties": {"a": {"type": "array"}}}, "without items"),
        ({"type": "object", "properties": {"a": {"enum": []}}}, "empty enum"),
        ({"type": "object", "properties": {"a": "string"}}, "must be an object"),
        ({"type": "object", "properties": {}, "required": ["a"]}, "requires a"),
        ({"type": "object", "properties": {}, "anyOf": [{}]}, "at the top"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}}, "refers to"),
        ({"type": "object", "properties": {"a": {"anyOf": [{"type": "none"}]}}}, "anyOf[0]"),
        ({"type": "object", "properties": {"a": {"type": "string", "default": {1}}}}, "no JSON"),
        ({"type": "object", "properties": {"a": {"type": "number", "maximum": float("inf")}}}, "no JSON"),
    ],
)
def test_a_malformed_schema_is_found(schema: Any, message: str) -> None:
    class Bad(Fake):
        def __init__(self, root: Path) -> None:
            super().__init__(root)
            self.parameters = schema

    assert message in violation("well_formed_schema", Bad)


def test_a_missing_name_or_description_is_found() -> None:
    class NoName(Fake):
        name = ""

    class NoDescription(Fake):
        description = " "

    assert "name" in violation("well_formed_schema", NoName)
    assert "description" in violation("well_formed_schema", NoDescription)


def test_a_schema_that_differs_from_tool_to_tool_is_found() -> None:
    class Bad(Fake):
        def __init__(self, root: Path) -> None:
            super().__init__(root)
            self.description = f"Tool number {id(self)}"

    kept: list[Any] = []  # keeps the first alive, so that the second has another id

    def make(root: Path) -> Any:
        kept.append(Bad(root))
        return kept[-1]

    assert "a second tool" in violation("stable_schema", make)


def test_a_call_that_changes_the_schema_is_found() -> None:
    class Bad(Fake):
        def execute(self, arguments: dict[str, Any], context: Any) -> Any:
            self.parameters["properties"]["seen"] = {"type": "string"}
            return super().execute(arguments, context)

    assert "a call changed" in violation("stable_schema", Bad)


def test_a_valid_call_that_fails_or_returns_another_text_is_found() -> None:
    class Fails(Fake):
        def answer(self, text: str, context: Any) -> Any:
            return Result("no", is_error=True)

    class Mistaken(Fake):
        def answer(self, text: str, context: Any) -> Any:
            return Result("something else")

    assert "a valid call failed" in violation("answers_good_arguments", Fails)
    assert "does not hold '0cba'" in violation("answers_good_arguments", Mistaken)


def test_a_call_that_changes_its_arguments_is_found() -> None:
    class Bad(Fake):
        def execute(self, arguments: dict[str, Any], context: Any) -> Any:
            return super().execute({"text": arguments.pop("text", None)}, context)

    assert "changed its arguments" in violation("answers_good_arguments", Bad)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "neither text nor blocks"),
        (Result([]), "is empty"),
        (Result(""), "is empty"),
        (Result([ImageBlock("!", "image/png"), TextBlock("0cba")]), "no base64"),
        (Result([TextBlock("0cba"), ImageBlock("R0lGODlhAAAA", "image/png")]), "is image/gif"),
        (Result("0cba \ud800"), "UTF-8"),
        (Result("0cba", details={1, 2}), "details"),
        (Result("0cba", meta={"hash": 3}), "meta"),  # type: ignore[dict-item]
        (Result("0cba", is_error=1), "is_error"),  # type: ignore[arg-type]
        (["0cba"], "neither text nor image"),
    ],
)
def test_a_result_that_can_not_be_sent_or_stored_is_found(answer: Any, message: str) -> None:
    class Bad(Fake):
        def answer(self, text: str, context: Any) -> Any:
            return answer

    assert message in violation("answers_good_arguments", Bad)


def test_a_plain_string_and_bare_blocks_are_answers() -> None:
    class Plain(Fake):
        def answer(self, text: str, context: Any) -> Any:
            return text[::-1]

    class Blocks(Fake):
        def answer(self, text: str, context: Any) -> Any:
            return [TextBlock(text[::-1])]

    for make in (Plain, Blocks):
        run_check(BY_NAME["answers_good_arguments"], case(make))


def test_a_required_argument_that_is_not_required_is_found() -> None:
    class Bad(Fake):
        def execute(self, arguments: dict[str, Any], context: Any) -> Any:
            return Result("fine")

    assert "without the required text" in violation("answers_missing_arguments", Bad)


def test_an_error_that_does_not_name_the_missing_argument_is_found() -> None:
    class Bad(Fake):
        def execute(self, arguments: dict[str, Any], context: Any) -> Any:
            return Result("bad input", is_error=True) if "text" not in arguments else Result("fine")

    assert "does not name it" in violation("answers_missing_arguments", Bad)


def test_an_exception_for_a_bad_argument_is_found() -> None:
    class Bad(Fake):
        def execute(self, arguments: dict[str, Any], context: Any) -> Any:
            return Result(arguments["text"].upper() or "empty")

    assert "AttributeError instead of a result" in violation("answers_bad_arguments", Bad)
    assert "KeyError instead of a result" in violation("answers_missing_arguments", Bad)


def test_an_exception_that_the_framework_takes_as_a_failure_is_none() -> None:
    class Refusal(Exception):
        pass

    class Strict(Fake):
        def execute(self, arguments: dict[str, Any], context: Any) -> Any:
            result = super().execute(arguments, context)
            if result.is_error:
                raise Refusal(result.text)
            return result

    check_tool(Strict, {"text": "abc"}, expected="cba", failures=(Refusal,))
    assert "Refusal instead" in violation("answers_bad_arguments", Strict)


def test_an_error_that_echoes_a_giant_argument_is_found() -> None:
    class Bad(Fake):
        def answer(self, text: str, context: Any) -> Any:
            return Result(f"no such text: {text}".encode("utf-8", "replace").decode(), is_error=True)

    assert "more than 65536" in violation("answers_bad_arguments", Bad)


def test_a_tool_that_mixes_up_its_callers_is_found() -> None:
    class Bad(Fake):
        def __init__(self, root: Path) -> None:
            super().__init__(root)
            self.everyone = threading.Barrier(8)

        def answer(self, text: str, context: Any) -> Any:
            self.text = text
            self.everyone.wait(10)
            return Result(self.text[::-1])

    assert "does not hold" in violation("answers_eight_threads", Bad)


def test_a_thread_left_running_is_found() -> None:
    over = threading.Event()

    class Bad(Fake):
        def answer(self, text: str, context: Any) -> Any:
            threading.Thread(target=over.wait, args=(30,), name="forgotten", daemon=True).start()
            return Result(text[::-1])

    try:
        assert "forgotten" in violation("leaves_nothing_running", Bad, grace=0.2)
    finally:
        over.set()


class Sleeper(Fake):
    """Runs a child for as long as the text lives, unless it is cancelled."""

    kills = True

    def answer(self, text: str, context: Any) -> Any:
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        started.append(child)
        context.cancel.wait(30)
        if self.kills:
            child.kill()
            child.communicate()
        return Result("aborted", is_error=True)


started: list[subprocess.Popen[bytes]] = []


@pytest.fixture
def no_children() -> Any:
    """Ends what a bad tool left."""
    yield
    for child in started:
        child.kill()
        child.communicate()
    started.clear()


@pytest.mark.usefixtures("no_children")
def test_a_child_left_running_is_found() -> None:
    class Bad(Fake):
        def answer(self, text: str, context: Any) -> Any:
            started.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))
            return Result(text[::-1])

    assert "child processes are left" in violation("leaves_nothing_running", Bad, grace=0.2)


def test_a_cancelled_call_that_writes_all_the_same_is_found() -> None:
    class Bad(Fake):
        def execute(self, arguments: dict[str, Any], context: Any) -> Any:
            (self.root / "done").write_text("x")
            return super().execute(arguments, context)

    assert "changed files" in violation("starts_nothing_when_cancelled", Bad)


@pytest.mark.usefixtures("no_children")
def test_a_tool_that_stops_when_cancelled_passes() -> None:
    run_check(BY_NAME["ends_when_cancelled"], case(Sleeper, slow={"text": "x"}))


@pytest.mark.usefixtures("no_children")
def test_a_child_that_outlives_the_cancelled_call_is_found() -> None:
    class Bad(Sleeper):
        kills = False

    assert "outlived" in violation("ends_when_cancelled", Bad, slow={"text": "x"}, grace=0.3)


def test_a_call_that_ignores_cancellation_is_found() -> None:
    over = threading.Event()

    class Bad(Fake):
        def answer(self, text: str, context: Any) -> Any:
            over.wait(30)
            return Result(text)

    try:
        assert "no result within 0.3 s" in violation(
            "ends_when_cancelled", Bad, slow={"text": "x"}, grace=0.3
        )
    finally:
        over.set()


def test_a_cancelled_call_that_claims_success_is_found() -> None:
    class Bad(Fake):
        def answer(self, text: str, context: Any) -> Any:
            context.cancel.wait(30)
            return Result("no matches")

    assert "returned success" in violation("ends_when_cancelled", Bad, slow={"text": "x"})


def test_a_slow_call_that_is_not_slow_proves_nothing() -> None:
    assert "proves nothing" in violation("ends_when_cancelled", Fake, slow={"text": "x"})


def test_a_tool_may_register_a_cancel_callback() -> None:
    class Listening(Fake):
        def answer(self, text: str, context: Any) -> Any:
            cancelled = threading.Event()
            context.cancel.on_cancel(cancelled.set)
            cancelled.wait(30)
            return Result(f"aborted: {context.cancel.reason}", is_error=True)

    run_check(BY_NAME["ends_when_cancelled"], case(Listening, slow={"text": "x"}))


def test_output_past_the_limit_is_found() -> None:
    class Bad(Fake):
        def answer(self, text: str, context: Any) -> Any:
            return Result("word " * 100_000)

    assert "500000 bytes, more than 65536" in violation("bounds_its_output", Bad, large={"text": "x"})


def test_a_large_call_with_a_small_output_proves_nothing() -> None:
    assert "proves nothing" in violation("bounds_its_output", Fake, large={"text": "x"})


class Writer(Fake):
    """Writes its text into the file `named`, and declares what `declared` returns."""

    named = "a.txt"

    def declared(self, arguments: dict[str, Any]) -> Any:
        return (PathUse(str(self.root / "a.txt"), str(self.root / "a.txt"), True),)

    def paths(self, arguments: dict[str, Any]) -> Any:
        if not isinstance(arguments.get("text"), str):
            raise ToolFailure("text must be a string")
        return self.declared(arguments)

    def answer(self, text: str, context: Any) -> Any:
        path = self.root / self.named
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
        return super().answer(text, context)


def test_a_tool_that_declares_what_it_writes_passes() -> None:
    class Undeclared(Writer):
        def declared(self, arguments: dict[str, Any]) -> Any:
            return None

    class InFolder(Writer):
        named = "new/a.txt"

        def declared(self, arguments: dict[str, Any]) -> Any:
            return (PathUse(str(self.root / "new/a.txt"), str(self.root / "new/a.txt"), True),)

    for make in (Writer, Undeclared, InFolder):
        run_check(BY_NAME["declares_its_paths"], case(make))


def test_a_file_that_is_written_and_not_declared_is_found() -> None:
    class Other(Writer):
        named = "b.txt"

    class ReadOnly(Writer):
        def declared(self, arguments: dict[str, Any]) -> Any:
            return (PathUse(str(self.root / "a.txt"), str(self.root / "a.txt")),)

    class Nothing(Writer):
        def declared(self, arguments: dict[str, Any]) -> Any:
            return ()

    for make in (Other, ReadOnly, Nothing):
        assert "which paths does not name as written" in violation("declares_its_paths", make)


def test_paths_that_are_relative_or_change_files_are_found() -> None:
    class Relative(Writer):
        def declared(self, arguments: dict[str, Any]) -> Any:
            return (PathUse("a.txt", "a.txt", True),)

    class Eager(Writer):
        def declared(self, arguments: dict[str, Any]) -> Any:
            (self.root / "a.txt").write_text("x")
            return super().declared(arguments)

    assert "not absolute" in violation("declares_its_paths", Relative)
    assert "paths changed files" in violation("declares_its_paths", Eager)


@pytest.mark.parametrize("check", ["ends_when_cancelled", "bounds_its_output", "answers_eight_threads"])
def test_a_check_names_the_field_that_it_lacks(check: str) -> None:
    with pytest.raises(NotApplicable, match="give "):
        run_check(BY_NAME[check], ToolCase(Fake))


def test_the_plug_in_runs_one_test_for_each_case_and_check(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        """
import pytest
from agent_tools import Result
from agent_tools.contract import ToolCase

pytest_plugins = ["agent_tools.contract"]


class Bad:
    name, description = "bad", "Never answers."
    parameters = {"type": "object", "properties": {}, "required": []}

    def execute(self, arguments, context):
        raise ValueError("oops")


@pytest.mark.parametrize("case", [ToolCase(lambda root: Bad(), {}, name="bad")], ids=str)
def test_mine(case, tool_check):
    tool_check(case)
""",
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "test_mine.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "PASSED test_mine.py::test_mine[well_formed_schema-bad]" in done.stdout, done.stdout
    assert "ValueError instead of a result" in done.stdout
    assert "3 skipped" in done.stdout
    assert done.returncode == 1


@pytest.mark.usefixtures("no_children")
def test_ps_lists_the_same_children_as_proc() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    started.append(child)
    assert child.pid in processes.children()
    assert processes.from_ps()[child.pid] == os.getpid()


def test_a_child_that_ended_is_seen_as_gone() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    assert processes.wait_gone({child.pid}, 20) == set()  # a zombie by now: it was not waited for
    child.wait()


def test_the_cases_name_shows_in_reports() -> None:
    def wave_tool(root: Path) -> Any:
        return Fake(root)

    assert str(ToolCase(wave_tool)) == "wave"
    assert json.dumps(str(ToolCase(wave_tool, name="x"))) == '"x"'
