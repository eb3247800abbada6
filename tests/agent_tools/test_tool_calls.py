"""Tools: arguments as models send them, failures as results, and results that can be sent."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import Field, field_validator

from agent_tools import Context, ImageBlock, Result, TextBlock, Tool, ToolFailure
from agent_tools.tool import Arguments, CallContext, PathUse, describe


class Inner(Arguments):
    name: str


class Sample(Arguments):
    """This text is not part of the schema."""

    text: str = Field(description="A text")
    count: int | None = None
    new_text: str = Field("x", alias="newText")
    kind: Literal["a", "b"] = "a"
    parts: list[Inner] = Field([])

    @field_validator("count")
    @classmethod
    def _check(cls, count: int | None) -> int | None:
        if count == 13:
            raise ValueError("13 is not allowed")
        return count


def sample(function: Any = None, **options: Any) -> Tool[Sample]:
    def answer(arguments: Sample, context: CallContext) -> Result:
        return Result(f"{arguments.text} {arguments.count} {arguments.new_text}")

    return Tool("sample", "A sample.", Sample, function or answer, **options)


def failing(error: BaseException) -> Tool[Sample]:
    def fail(arguments: Sample, context: CallContext) -> Result:
        raise error

    return sample(fail)


# Arguments


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"text": "a", "count": 3, "newText": "b"}, "a 3 b"),
        ({"text": "a", "count": "3"}, "a 3 x"),
        ({"text": "a", "count": 3.0}, "a 3 x"),
        ({"text": "a", "count": None, "unknown": 1}, "a None x"),
        ('{"text": "a\nb"}', "a\nb None x"),
    ],
)
def test_arguments_are_taken_as_models_send_them(arguments: Any, text: str) -> None:
    assert sample().execute(arguments).text == text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "text is required"),
        ("", "text is required"),
        ({"text": None}, "text is required"),
        ({"text": 5}, "text: expected a string, got an integer (5)"),
        ({"text": "a", "count": "three"}, "count: expected a whole number, got a string ('three')"),
        ({"text": "a", "count": 1.5}, "count: expected a whole number, got a number (1.5)"),
        ({"text": "a", "count": 13}, "count: 13 is not allowed"),
        ({"text": "a", "kind": "c"}, "kind: Input should be 'a' or 'b'"),
        (
            {"text": "a", "parts": [{"name": 1}, {}]},
            "parts.0.name: expected a string, got an integer (1)\nparts.1.name",
        ),
        ({"text": "a", "parts": "x" * 100}, "parts: expected an array, got a string"),
        ([], "the arguments of sample must be a JSON object, got an array ([])"),
        ("{", "the arguments of sample must be a JSON object, got a string ('{')"),
        ("[1]", "must be a JSON object, got an array ([1])"),
    ],
)
def test_wrong_arguments_are_an_error_that_names_the_field(arguments: Any, message: str) -> None:
    result = sample().execute(arguments)
    assert result.is_error
    assert message in result.text


def test_a_script_calls_a_tool_with_keywords() -> None:
    assert sample()(text="a").text == sample().run(text="a").text == "a None x"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "a boolean (True)"),
        ("a", "a string ('a')"),
        ({"a": 1}, "an object ({'a': 1})"),
        ((1,), "an array ((1,))"),
        ([0] * 100, "an array"),
        (b"", "a bytes (b'')"),
    ],
)
def test_a_value_is_described_by_its_type_and_if_short_itself(value: object, text: str) -> None:
    assert describe(value) == text


# Results


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ToolFailure("no such thing"), "no such thing"),
        (FileNotFoundError(2, "No such file", "a.txt"), "sample failed: No such file: a.txt"),
        (OSError("odd"), "sample failed: OSError"),
        (RecursionError(), "sample failed: its arguments, or the links of a path, are nested too deeply"),
        (KeyError("x"), "sample failed: KeyError: 'x'"),
    ],
)
def test_an_exception_becomes_an_error(error: Exception, text: str) -> None:
    result = failing(error).execute({"text": "a"})
    assert (result.is_error, result.text) == (True, text)


def test_a_long_failure_is_cut_in_the_middle() -> None:
    text = failing(ToolFailure("a" * 50_000 + "b" * 50_000)).execute({"text": "a"}).text
    assert text == "a" * 8000 + "\n[90000 characters left out]\n" + "b" * 2000


@pytest.mark.parametrize("failed", [False, True])
def test_texts_are_valid_utf8(failed: bool) -> None:
    def answer(arguments: Sample, context: CallContext) -> Result:
        if failed:
            raise ToolFailure("name \udcff")
        return Result([TextBlock("name \udcff"), ImageBlock("", "image/png"), TextBlock("é")])

    result = sample(answer).execute({"text": "a"})
    assert result.text == ("name \\udcff" if failed else "name \\udcffé")
    result.text.encode()


def test_a_call_that_is_cancelled_before_it_starts_does_nothing() -> None:
    cancel = threading.Event()
    cancel.set()
    result = failing(AssertionError()).execute({"text": "a"}, Context(cancel=cancel))
    assert (result.is_error, result.text) == (True, "sample was aborted before it started")


def test_progress_is_passed_on_or_dropped() -> None:
    def answer(arguments: Sample, context: CallContext) -> Result:
        context.update(Result("half"))
        return Result("whole")

    seen: list[Result] = []
    tool = sample(answer)
    assert tool.execute({"text": "a"}, Context(on_update=seen.append)).text == "whole"
    assert [partial.text for partial in seen] == ["half"]
    assert tool.execute({"text": "a"}).text == "whole"


# Definition


def test_the_schema_is_self_contained_and_plain() -> None:
    schema = sample().parameters
    assert schema == {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "A text"},
            "count": {"type": "integer"},
            "newText": {"type": "string", "default": "x"},
            "kind": {"type": "string", "enum": ["a", "b"], "default": "a"},
            "parts": {
                "type": "array",
                "default": [],
                "items": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
            },
        },
        "required": ["text"],
    }


def test_a_tool_without_options_is_exclusive_and_may_change_things() -> None:
    tool = sample()
    assert (tool.label, tool.parallel, tool.read_only, tool.display_hint) == ("sample", False, False, None)
    assert repr(tool) == "<Tool sample>"
    assert tool.paths({"text": "a"}) is None


def test_declared_paths_are_those_of_the_parsed_arguments(tmp_path: Path) -> None:
    def paths(arguments: Sample) -> tuple[PathUse, ...]:
        return (PathUse(arguments.text, arguments.text),)

    tool = sample(paths=paths, read_only=True)
    assert tool.read_only
    assert tool.paths('{"text": "/a"}') == (PathUse("/a", "/a"),)
    with pytest.raises(ToolFailure, match="text is required"):
        tool.paths({})


def test_the_tools_that_change_nothing_say_so() -> None:
    from agent_tools import all_tools

    assert {tool.name for tool in all_tools(".") if tool.read_only} == {"read", "grep", "find", "ls", "plan"}
