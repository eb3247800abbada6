"""The tools as plain functions, and what every integration shares."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from pathlib import Path
from typing import Any, Literal, Optional

import pytest
from PIL import Image

from agent_tools import adapters
from agent_tools.adapters import as_functions, blocks_for_model, call_tool, require, run_tool, text_for_model
from agent_tools.bash import bash_tool
from agent_tools.plan import plan_tool
from agent_tools.read import read_tool
from agent_tools.tool import Context, ImageBlock, Result, TextBlock, ToolFailure


class Foreign:
    """A foreign tool: returns what it was made with."""

    name, description = "foreign", "Says something."

    def __init__(self, answer: Any = "fine", **properties: Any) -> None:
        self.answer = answer
        self.parameters = {"type": "object", "properties": properties, "required": [*properties][:1]}
        self.got: list[Any] = []

    def execute(self, arguments: Any, context: Any = None, /) -> Any:
        self.got.append(arguments)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer(context) if callable(self.answer) else self.answer


def test_a_tool_becomes_a_function_that_returns_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    (read,) = as_functions([read_tool(tmp_path)])
    assert "two" in read("a.txt")
    assert "one" not in read(path="a.txt", offset=2, limit=1)


def test_a_function_has_the_documentation_of_the_tool(tmp_path: Path) -> None:
    tool = read_tool(tmp_path)
    (read,) = as_functions([tool])
    assert read.__name__ == "read"
    assert str(read.__doc__).startswith(tool.description)
    assert f"    path: {tool.parameters['properties']['path']['description'][:20]}" in str(read.__doc__)
    parameters = inspect.signature(read).parameters
    assert next(iter(parameters)) == "path"
    assert parameters["path"].annotation is str
    assert parameters["path"].default is inspect.Parameter.empty
    assert parameters["offset"].annotation == Optional[int]  # noqa: UP045
    assert read.__annotations__["return"] is str


def test_a_schema_becomes_annotations() -> None:
    tool = Foreign(
        choice={"type": "string", "enum": ["a", "b"]},
        numbers={"type": "array", "items": {"type": "number"}},
        table={"type": "object"},
        either={"anyOf": [{"type": "string"}, {"type": "integer"}]},
        flag={"type": "boolean", "default": True},
        anything={},
    )
    (function,) = as_functions([tool])
    kinds = function.__annotations__
    assert kinds["choice"] == Literal["a", "b"]
    assert kinds["numbers"] == Optional[list[float]]  # noqa: UP045
    assert kinds["table"] == Optional[dict[str, Any]]  # noqa: UP045
    assert kinds["either"] == Optional[str | int]  # noqa: UP045
    assert inspect.signature(function).parameters["flag"].default is True
    assert kinds["anything"] == Optional[Any]  # noqa: UP045


def test_only_given_arguments_reach_the_tool() -> None:
    tool = Foreign(text={"type": "string"}, count={"type": "integer"})
    (function,) = as_functions([tool])
    function("x")
    function("x", count=None)
    assert tool.got == [{"text": "x"}, {"text": "x"}]


def test_a_wrong_call_of_a_function_is_pythons_own_error() -> None:
    (function,) = as_functions([Foreign(text={"type": "string"})])
    with pytest.raises(TypeError):
        function()
    with pytest.raises(TypeError):
        function("x", nonsense=1)


def test_a_failure_is_returned_or_raised(tmp_path: Path) -> None:
    (telling,) = as_functions([read_tool(tmp_path)])
    (raising,) = as_functions([read_tool(tmp_path)], raise_errors=True)
    assert telling("nope.txt").startswith("Error: ")
    with pytest.raises(ToolFailure, match=r"nope\.txt"):
        raising("nope.txt")


def test_an_image_comes_back_as_blocks(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    (read,) = as_functions([read_tool(tmp_path)])
    answer = read("a.png")
    assert any(isinstance(block, ImageBlock) for block in answer)


def test_a_plan_keeps_its_arguments_as_a_function() -> None:
    got: list[Any] = []
    (plan,) = as_functions([plan_tool(lambda *given: got.append(given))])
    assert "1 entry" in plan([{"content": "a", "status": "pending", "priority": "low"}], title="T")
    assert got[0][0] == "T"


@pytest.mark.parametrize(
    ("answer", "blocks", "is_error"),
    [
        ("text", [TextBlock("text")], False),
        ([ImageBlock("Zg==", "image/png")], [ImageBlock("Zg==", "image/png")], False),
        (Result("bad", is_error=True), [TextBlock("bad")], True),
        (ValueError("oops"), [TextBlock("foreign failed: oops")], True),
        (42, [TextBlock("foreign failed: 'int' object has no attribute 'content'")], True),
    ],
)
def test_anything_that_a_foreign_tool_returns_becomes_a_result(
    answer: Any, blocks: Any, is_error: bool
) -> None:
    result = run_tool(Foreign(answer), {}, Context())
    assert list(result.content) == blocks
    assert result.is_error is is_error


def test_a_foreign_result_keeps_its_meta_and_error_mark() -> None:
    class Other:
        content, is_error, meta = "text", True, {"hash": "1"}

    result = run_tool(Foreign(Other()), "", Context())
    assert (result.text, result.is_error, result.meta) == ("text", True, {"hash": "1"})


def test_arguments_may_be_json_text() -> None:
    tool = Foreign()
    run_tool(tool, '{"a": "x\ny"}', Context())
    run_tool(tool, "", Context())
    assert tool.got == [{"a": "x\ny"}, {}]
    assert "are not a JSON object" in run_tool(tool, "{", Context()).text


def test_meta_follows_the_content_in_sorted_lines() -> None:
    result = Result("body", meta={"z": "1", "hash": "abc"})
    assert blocks_for_model(result) == [TextBlock("body"), TextBlock("[hash: abc]\n[z: 1]")]
    assert text_for_model(result) == "body\n[hash: abc]\n[z: 1]"


def test_an_awaited_call_runs_beside_the_loop_in_the_same_context() -> None:
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name")
    seen: list[Any] = []

    def answer(context: Context) -> str:
        seen.append((name.get(), threading.current_thread().daemon, threading.current_thread().name))
        return context.tool_call_id

    async def main() -> Result:
        name.set("outer")
        return await call_tool(Foreign(answer), {}, "call-3")

    assert asyncio.run(main()).text == "call-3"
    assert seen == [("outer", True, "tool-foreign")]


class Unprintable(BaseException):
    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize("error", [Unprintable(), SystemExit(3), KeyboardInterrupt()])
def test_an_awaited_call_gets_a_result_whatever_is_raised(error: BaseException) -> None:
    def answer(context: Any) -> Any:
        raise error

    result = asyncio.run(asyncio.wait_for(call_tool(Foreign(answer), {}), 10))
    assert result.is_error
    assert type(error).__name__ in result.text


def test_progress_reaches_the_listener() -> None:
    updates: list[str] = []

    def answer(context: Context) -> str:
        context.update(Result("half"))
        return "done"

    asyncio.run(call_tool(Foreign(answer), {}, on_update=lambda partial: updates.append(partial.text)))
    assert updates == ["half"]


def test_cancelling_the_task_stops_the_command(tmp_path: Path) -> None:
    tool = bash_tool(tmp_path)

    async def main() -> None:
        call = asyncio.create_task(call_tool(tool, {"command": "echo $$ > pid; sleep 60"}))
        while not (tmp_path / "pid").exists():
            await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(asyncio.wait_for(main(), 20))


def test_a_missing_framework_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ImportError, match="no_such_framework is not installed: pip install 'such-framework'"):
        require("no_such_framework.tools", "such-framework")


def test_a_framework_with_a_missing_dependency_raises_its_own_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "half_there.py").write_text("import what_it_needs\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="what_it_needs"):
        require("half_there", "half-there")


def test_the_module_loads_no_framework() -> None:
    import subprocess
    import sys

    code = "import sys, agent_tools.adapters, agent_tools.mcp; print([n for n in %r if n in sys.modules])"
    names = ("mcp", "agents", "pydantic_ai", "langchain_core", "httpx", "PIL")
    done = subprocess.run([sys.executable, "-c", code % (names,)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert adapters.__doc__
