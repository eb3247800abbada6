"""Tools: made of functions, gathered in sets, and the results of any of them."""

from __future__ import annotations

import asyncio
import copy
import enum
import functools
import inspect
import json
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

import pytest
from pydantic import BaseModel, Field

from agent import Agent
from agent.errors import ConfigurationError, ToolError
from agent.messages import ImageContent, TextContent, ToolResultMessage
from agent.stream import StreamDone, StreamStart, ToolCallDelta, ToolCallEnd, ToolCallStart
from agent.testing import ScriptedModel, tool_call
from agent.tools import (
    AgentTool,
    FunctionTool,
    TitleArg,
    ToolContext,
    ToolDisplayHint,
    ToolResult,
    ToolSet,
    to_result,
    tool,
)
from agent_tools import all_tools

if TYPE_CHECKING:
    from somewhere import Unknown  # type: ignore[import-not-found]


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


class Person(BaseModel):
    """Somebody."""

    name: str
    title: str = Field("", description="Dr. or such")
    home: Point | None = None


def raw_tool(name: str, description: str = "", execute: Callable[..., Any] = lambda a, c: "ok") -> AgentTool:
    return AgentTool(name, description, {"type": "object"}, execute)


def run(function: Callable[..., Any], **arguments: Any) -> str:
    return tool(function).execute(arguments, None).text


# -- @tool: the schema -------------------------------------------------------------------------------------


def test_the_example_of_the_manual() -> None:
    @tool
    def add(a: int, b: int) -> str:
        """Add two integers."""
        return str(a + b)

    assert (add.name, add.description, add.parallel, add.timeout) == ("add", "Add two integers.", False, None)
    assert add.parameters == {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    }
    assert add.execute({"a": 2, "b": 3}, ToolContext()).text == "5"
    assert add(2, b=3) == "5"


def test_settings_are_given_by_name() -> None:
    hint = ToolDisplayHint((TitleArg("path", "path"),))

    @tool(name="other", description="Told.", label="Other", display_hint=hint, parallel=True, timeout=30)
    def something() -> None:
        """Not told."""

    assert isinstance(something, FunctionTool)
    assert something.name == "other"
    assert something.description == "Told."
    assert something.label == "Other"
    assert something.display_hint is hint
    assert (something.parallel, something.timeout) == (True, 30)


def test_the_schema_follows_the_annotations() -> None:
    @tool
    def search(
        pattern: str,
        kind: Literal["file", "folder"],
        colour: Colour,
        limit: int = 10,
        ratio: float = 0.5,
        names: list[str] | None = None,
        counts: dict[str, int] = {},  # noqa: B006
        maybe: Optional[bool] = None,  # noqa: UP045
        anything=None,  # type: ignore[no-untyped-def]
        *,
        near: Point,
        options: dict[str, Any],
    ) -> None: ...

    properties = search.parameters["properties"]
    assert list(properties) == (
        "pattern kind colour limit ratio names counts maybe anything near options".split()
    )
    assert search.parameters["required"] == ["pattern", "kind", "colour", "near", "options"]
    assert properties["pattern"] == {"type": "string"}
    assert properties["kind"] == {"enum": ["file", "folder"], "type": "string"}
    assert properties["limit"] == {"type": "integer", "default": 10}
    assert properties["ratio"] == {"type": "number", "default": 0.5}
    assert properties["counts"] == {
        "type": "object",
        "additionalProperties": {"type": "integer"},
        "default": {},
    }
    assert properties["names"]["anyOf"] == [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]
    assert properties["maybe"]["anyOf"] == [{"type": "boolean"}, {"type": "null"}]
    assert "type" not in properties["anything"]
    assert search.parameters["$defs"]["Colour"] == {"enum": ["red", "blue"], "type": "string"}
    assert search.parameters["$defs"]["Point"]["required"] == ["x"]
    json.dumps(search.parameters)


def test_descriptions_come_from_the_docstring_and_from_the_annotations() -> None:
    @tool
    def move(
        source: str,
        target: Annotated[str, "Where it goes."],
        times: Annotated[int, Field(description="How often.", ge=1)],
        speed: int = Field(3, description="How fast.", le=9),
        gap: Annotated[int, Field(ge=0)] = 1,
    ) -> str:
        """Move a thing.

        Args:
            source: Where it is.
            gap: How far apart.

        Returns:
            Nothing of interest.
        """
        return f"{source} {target} {times} {speed} {gap}"

    assert move.description == "Move a thing."
    properties = move.parameters["properties"]
    assert [properties[name]["description"] for name in properties] == [
        "Where it is.",
        "Where it goes.",
        "How often.",
        "How fast.",
        "How far apart.",
    ]
    assert (properties["times"]["minimum"], properties["speed"]["maximum"], properties["gap"]["minimum"]) == (
        1,
        9,
        0,
    )
    assert properties["speed"]["default"] == 3
    assert move.parameters["required"] == ["source", "target", "times"]
    assert move.execute({"source": "a", "target": "b", "times": 2}, None).text == "a b 2 3 1"
    with pytest.raises(ToolError, match="times: expected greater than or equal to 1"):
        move.execute({"source": "a", "target": "b", "times": 0}, None)


def test_nested_models_arrive_as_objects() -> None:
    def invite(person: Person, friends: list[Person], at: Point) -> str:
        assert isinstance(person, Person)
        assert isinstance(at, Point)
        return f"{person.name} {person.home} {[friend.title for friend in friends]} {at.x}"

    text = run(
        invite,
        person={"name": "A", "home": {"x": "1"}, "extra": 1},
        friends=[{"name": "B", "title": "Dr."}],
        at={"x": 3},
    )
    assert text == "A Point(x=1, y=0) ['Dr.'] 3"
    schema = tool(invite).parameters
    assert schema["$defs"]["Person"]["properties"]["title"]["description"] == "Dr. or such"
    assert schema["$defs"]["Person"]["description"] == "Somebody."
    assert '"title": "' not in json.dumps(schema)


def test_a_default_that_holds_a_title_keeps_it() -> None:
    def show(what: dict[str, str] = {"title": "x"}) -> str:  # noqa: B006
        return what["title"]

    assert tool(show).parameters["properties"]["what"]["default"] == {"title": "x"}
    assert run(show) == "x"


def test_a_default_that_json_can_not_hold_is_not_shown_and_warns_nobody() -> None:
    missing = object()

    def find(path: Path = Path("/tmp"), what: Any = missing) -> str:
        return f"{path} {what is missing}"

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = tool(find)
    assert made.parameters["properties"]["what"] == {}
    assert made.execute({}, None).text == "/tmp True"


@pytest.mark.parametrize(
    "name", ["json", "schema", "_x", "model_config", "copy", "dict", "validate", "class_", "größe", "fields"]
)
def test_a_parameter_may_have_any_name(name: str) -> None:
    namespace: dict[str, Any] = {}
    exec(f"def odd({name}: int, argument_0: str = 'z'): return [{name}, argument_0]", namespace)
    made = tool(namespace["odd"])
    assert list(made.parameters["properties"]) == [name, "argument_0"]
    assert made.execute({name: "5"}, None).text == '[5,"z"]'


def test_a_parameter_called_context_gets_the_context_and_is_not_told_to_the_model() -> None:
    seen: list[Any] = []

    @tool
    def spy(n: int, context: ToolContext) -> None:
        seen.append(context)

    context = ToolContext("call_1")
    assert list(spy.parameters["properties"]) == ["n"]
    spy.execute({"n": 1, "context": "from the model"}, context)
    assert seen == [context]

    @tool
    def keyword_only(*, context: object, n: int = 0) -> None:
        seen.append(context)

    keyword_only.execute({}, context)
    assert seen == [context, context]


def test_a_function_without_parameters_ignores_what_it_gets() -> None:
    assert run(lambda_free, anything=1) == "fine"
    assert tool(lambda_free).parameters == {"type": "object", "properties": {}, "required": []}


def lambda_free() -> str:
    return "fine"


def test_types_that_are_local_to_the_definition_are_found() -> None:
    class Local(BaseModel):
        n: int

    @tool
    def one(value: Local, more: list[Local] | None = None) -> int:
        return value.n

    @tool(name="two")
    def another(value: Local) -> int:
        return value.n

    assert one.execute({"value": {"n": 3}}, None).text == "3"
    assert another.execute({"value": {"n": 4}}, None).text == "4"


def test_types_that_only_a_type_checker_knows_are_no_obstacle_where_no_model_is_told_of_them() -> None:
    @tool
    def spy(n: int, context: Unknown) -> Unknown:
        return n

    assert spy.execute({"n": "1"}, None).text == "1"


def test_a_type_named_inside_of_another_is_found() -> None:
    @tool
    def paint(points: list["Point"], ways: dict[str, "Colour | None"]) -> str:  # noqa: UP037
        return f"{points[0].x} {ways['a']}"

    assert paint.execute({"points": [{"x": 1}], "ways": {"a": "red"}}, None).text == "1 Colour.RED"


def test_a_local_name_of_the_caller_does_not_change_what_a_function_means() -> None:
    Colour = int
    assert Colour
    assert tool(global_colour).execute({"colour": "red"}, None).text == "RED"


def global_colour(colour: Colour) -> str:
    return colour.name


# -- @tool: what can be a tool -------------------------------------------------------------------------------


class Greeter:
    greeting = "hello"

    def greet(self, name: str) -> str:
        """Greet somebody."""
        return f"{self.greeting} {name}"

    @staticmethod
    def shout(text: str) -> str:
        return text.upper()

    @classmethod
    def word(cls) -> str:
        return cls.greeting

    @tool
    @staticmethod
    def inside(n: int) -> int:
        return n + 1

    def __call__(self, n: int) -> int:
        return n * 2


def test_bound_static_and_class_methods_partials_and_callables_are_tools() -> None:
    greeter = Greeter()
    assert tool(greeter.greet).execute({"name": "you"}, None).text == "hello you"
    assert tool(greeter.greet).description == "Greet somebody."
    assert run(Greeter.shout, text="a") == "A"
    assert run(Greeter.word) == "hello"
    assert Greeter.inside.execute({"n": 1}, None).text == "2"
    assert tool(name="double")(greeter).execute({"n": 4}, None).text == "8"
    polite = tool(functools.partial(greeter.greet, name="me"))
    assert (polite.name, polite.execute({}, None).text) == ("greet", "hello me")


def test_a_wrapped_function_keeps_its_signature() -> None:
    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    @tool
    @logged
    def double(n: int) -> int:
        """Twice as much."""
        return 2 * n

    assert (double.name, double.description) == ("double", "Twice as much.")
    assert double.execute({"n": "4"}, None).text == "8"


def test_an_async_function_is_run_to_its_end() -> None:
    @tool
    async def fetch(n: int) -> int:
        return n + 1

    assert fetch.execute({"n": 1}, None).text == "2"


def test_an_async_function_is_cancelled_where_it_waits() -> None:
    waiting, cleaned = threading.Event(), threading.Event()

    @tool
    async def wait_for_ever() -> str:
        waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()
        return "never"

    model = ScriptedModel([tool_call("wait_for_ever", {})], "not asked")
    with Agent(model.model, stream_fn=model.stream, tools=[wait_for_ever]) as agent:
        run = agent.prompt("go")
        assert waiting.wait(5)
        agent.abort()
        result = run.result(5)
    assert cleaned.wait(0)
    assert result.stop == "aborted"
    assert model.calls == 1


def test_an_async_function_that_takes_too_long_is_told_so() -> None:
    @tool(timeout=0.05)
    async def slow() -> str:
        await asyncio.Event().wait()
        return "never"

    model = ScriptedModel([tool_call("slow", {})], "done")
    with Agent(model.model, stream_fn=model.stream, tools=[slow]) as agent:
        result = agent.run("go")
    (answer,) = [m for m in result.messages if isinstance(m, ToolResultMessage)]
    assert answer.is_error
    assert "slow timed out after 0.05 seconds" in answer.text


def test_an_async_function_works_with_any_stop_signal_and_with_none() -> None:
    @tool
    async def again(n: int) -> int:
        await asyncio.sleep(0)
        return n

    assert again.execute({"n": 1}, None).text == "1"
    assert again.execute({"n": 2}, ToolContext("c", threading.Event())).text == "2"  # type: ignore[arg-type]
    cancelled = ToolContext()
    cancelled.cancel.cancel()
    with pytest.raises(ToolError, match="cancelled"):
        again.execute({"n": 3}, cancelled)


def positional_only(a: int, /) -> None: ...
def any_positions(*args: int) -> None: ...
def any_names(**kwargs: int) -> None: ...
def strange_type(lock: threading.Thread) -> None: ...
def unknown_type(value: NoSuchType) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def method(self, n: int) -> None: ...  # type: ignore[no-untyped-def]


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (positional_only, "'a'.*passed by name"),
        (any_positions, "'args'.*passed by name"),
        (any_names, "'kwargs'.*passed by name"),
        (strange_type, "no schema can be made for tool 'strange_type'"),
        (unknown_type, "NoSuchType"),
        (method, r"tool\(object.method\)"),
        (lambda n: n, "give one: name="),
        (Greeter(), "give one: name="),
        ("add", "takes a function"),
        (None.__init__, "passed by name"),
    ],
)
def test_what_can_be_no_tool_is_refused_where_it_is_defined(function: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        tool(function)


def test_the_decorated_function_is_still_the_function() -> None:
    @tool(parallel=True)
    def scale(values: list[float], by: float = 2.0) -> list[float]:
        """Scale them."""
        return [value * by for value in values]

    assert scale([1.0], by=3.0) == [3.0]
    assert scale.__name__ == "scale"
    assert scale.__doc__ == "Scale them."
    assert scale.__module__ == __name__
    assert list(inspect.signature(scale).parameters) == ["values", "by"]
    renamed = replace(scale, name="other")
    assert (renamed.name, renamed([2.0]), renamed.parallel) == ("other", [4.0], True)
    assert copy.copy(scale)([2.0]) == [4.0]


# -- @tool: the arguments ------------------------------------------------------------------------------------


def show(
    n: int = 0,
    text: str = "",
    flag: bool = False,
    ratio: float = 0.0,
    items: list[int] = [],  # noqa: B006
    table: dict[str, int] | None = None,
    colour: Colour | None = None,
    point: Point | None = None,
) -> str:
    return repr((n, text, flag, ratio, items, table, colour and colour.name, point))


@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        ({}, {}),
        ({"n": "3"}, {0: 3}),
        ({"n": 3.0}, {0: 3}),
        ({"n": 12345678901234567890}, {0: 12345678901234567890}),
        ({"text": 5}, {1: "5"}),
        ({"text": "[1]"}, {1: "[1]"}),
        ({"flag": "true"}, {2: True}),
        ({"flag": 1}, {2: True}),
        ({"ratio": "1.5"}, {3: 1.5}),
        ({"ratio": 2}, {3: 2.0}),
        ({"items": ["1", 2]}, {4: [1, 2]}),
        ({"items": "[1, 2]"}, {4: [1, 2]}),
        ({"table": '{"a": 1}'}, {5: {"a": 1}}),
        ({"colour": "red"}, {6: "RED"}),
        ({"point": '{"x": 1}'}, {7: Point(1)}),
        ({"n": None, "text": None, "items": None}, {}),
        ({"extra": 1, "n": 2}, {0: 2}),
    ],
)
def test_arguments_are_coerced_where_nothing_is_lost(
    arguments: dict[str, Any], changed: dict[int, Any]
) -> None:
    expected = [0, "", False, 0.0, [], None, None, None]
    for position, value in changed.items():
        expected[position] = value
    assert run(show, **arguments) == repr(tuple(expected))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"n": 3.5}, "n: expected a valid integer, got 3.5"),
        ({"n": "three"}, 'n: expected a valid integer, got "three"'),
        ({"n": []}, "n: expected a valid integer, got []"),
        ({"flag": "perhaps"}, 'flag: expected a valid boolean, got "perhaps"'),
        ({"items": [1, "x"]}, 'items.1: expected a valid integer, got "x"'),
        ({"items": "[1, x]"}, 'items: expected a valid list, got "[1, x]"'),
        ({"colour": "green"}, "colour: expected 'red' or 'blue', got \"green\""),
        ({"n": "x", "flag": "maybe"}, "n: expected"),
        ({"n": "x", "flag": "maybe"}, "flag: expected"),
        ({"n": "x" * 500}, "..."),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_the_field_and_what_came(
    arguments: dict[str, Any], says: str
) -> None:
    with pytest.raises(ToolError) as caught:
        tool(show).execute(arguments, None)
    text = str(caught.value)
    assert text.startswith("invalid arguments for show: ")
    assert says in text
    assert len(text) < 300


def test_a_missing_argument_is_named() -> None:
    def needs(path: str, n: int) -> None: ...

    with pytest.raises(ToolError, match="path is required; n is required"):
        tool(needs).execute({}, None)
    with pytest.raises(ToolError, match="path is required"):
        tool(needs).execute({"path": None, "n": 1}, None)


@pytest.mark.parametrize("arguments", [[], "text", 5, None])
def test_arguments_that_are_no_object_are_refused(arguments: Any) -> None:
    """J09: arrays, strings and numbers."""
    with pytest.raises(ToolError, match="a JSON object was expected"):
        tool(show).execute(arguments, None)


def test_a_default_is_not_shared_between_calls() -> None:
    def grow(items: list[int] = []) -> int:  # noqa: B006
        items.append(1)
        return len(items)

    made = tool(grow)
    assert [made.execute({}, None).text for _ in range(3)] == ["1", "1", "1"]


# -- results -------------------------------------------------------------------------------------------------


class Answer(BaseModel):
    n: int
    where: Path


class Opaque:
    def __repr__(self) -> str:
        return "opaque"


@dataclass
class ForeignBlock:
    type: str
    text: str = ""
    data: str = ""
    mime_type: str = ""


@dataclass
class ForeignResult:
    content: Any
    is_error: bool = False
    details: Any = None
    meta: Any = None
    terminate: bool = False


def two_words() -> Iterator[str]:
    yield "a"
    yield "b"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("text", "text"),
        ("", ""),
        (5, "5"),
        (1.5, "1.5"),
        (True, "true"),
        (b"raw \xff", "raw \ufffd"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        (["a", "b"], '["a","b"]'),
        (("a", 1), '["a",1]'),
        ([], "[]"),
        ({}, "{}"),
        ({1}, "[1]"),
        (two_words(), '["a","b"]'),
        (Answer(n=1, where=Path("/a")), '{"n":1,"where":"/a"}'),
        ([Answer(n=1, where=Path("/a"))], '[{"n":1,"where":"/a"}]'),
        (Point(1), '{"x":1,"y":0}'),
        (Colour.RED, '"red"'),
        (Opaque(), "opaque"),
        ([Opaque()], "[opaque]"),
        ([{"type": "image", "url": "x"}], '[{"type":"image","url":"x"}]'),
        ("é\n", "é\n"),
    ],
)
def test_a_function_may_return_anything(value: Any, text: str) -> None:
    made = tool(name="returning")(lambda: value).execute({}, None)
    assert made == ToolResult(text)


def test_none_is_a_result_without_content() -> None:
    assert tool(name="nothing")(lambda: None).execute({}, None) == ToolResult(())


@pytest.mark.parametrize(
    "value",
    [
        TextContent("x"),
        [TextContent("x")],
        (TextContent("x"),),
        [{"type": "text", "text": "x"}],
        [ForeignBlock("text", "x")],
        ToolResult("x"),
        ForeignResult([ForeignBlock("text", "x")]),
        ForeignResult("x"),
    ],
)
def test_blocks_and_results_of_any_origin_are_taken_as_such(value: Any) -> None:
    assert tool(name="returning")(lambda: value).execute({}, None) == ToolResult("x")
    assert to_result(value) == ToolResult("x")


def test_text_between_blocks_is_text() -> None:
    image = ImageContent("aGk=", "image/png")
    made = tool(name="picture")(lambda: ["a picture:", image]).execute({}, None)
    assert made.content == (TextContent("a picture:"), image)
    wire = [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]
    assert to_result(wire).content == (image,)
    assert to_result([ForeignBlock("image", data="aGk=", mime_type="image/png")]).content == (image,)


def test_a_foreign_result_keeps_all_its_parts() -> None:
    foreign = ForeignResult("x", True, {"d": 1}, {"h": "1"}, True)
    assert to_result(foreign) == ToolResult("x", {"d": 1}, {"h": "1"}, True, True)


@pytest.mark.parametrize(
    "value", [5, {"a": 1}, b"x", object(), [object()], [{"type": "video"}], [{"type": "text"}]]
)
def test_a_raw_tool_must_return_text_blocks_or_a_result(value: Any) -> None:
    with pytest.raises(TypeError, match="must"):
        to_result(value)


def test_the_positions_of_the_arguments_are_the_pinned_ones() -> None:
    pinned = {
        AgentTool: "name description parameters execute label display_hint parallel timeout read_only",
        ToolResult: "content details meta is_error terminate status_message",
        ToolDisplayHint: "title_args result_max_lines use_box",
        TitleArg: "name style label",
    }
    for kind, names in pinned.items():
        assert list(inspect.signature(kind).parameters) == names.split()
    assert ToolDisplayHint() == ToolDisplayHint((), 10, False)
    assert ToolDisplayHint([TitleArg("a")]).title_args == (TitleArg("a"),)  # type: ignore[arg-type]
    result = ToolResult("x", {"d": 1}, {"h": "1"}, True, True, "s")
    assert (result.text, result.details, result.meta) == ("x", {"d": 1}, {"h": "1"})
    assert (result.is_error, result.terminate, result.status_message) == (True, True, "s")


def test_tools_and_results_are_values() -> None:
    result = ToolResult("x", details={"a": 1}, meta={"b": "c"})
    assert result == copy.deepcopy(result)
    assert len({result, copy.deepcopy(result)}) == 1
    made = raw_tool("a")
    assert len({made, replace(made), replace(made, name="b")}) == 2
    with pytest.raises(AttributeError):
        result.is_error = True  # type: ignore[misc]
    assert replace(result, is_error=True).details == {"a": 1}


def test_a_context_without_a_callback_drops_updates_and_one_with_it_passes_results() -> None:
    ToolContext().update("dropped")
    heard: list[ToolResult] = []
    context = ToolContext("c", on_update=heard.append)
    context.update("half")
    context.update(ToolResult("more", status_message="50 %"))
    assert heard == [ToolResult("half"), ToolResult("more", status_message="50 %")]
    assert not context.cancel.is_set()
    assert not context.cancel.wait(0)


# -- ToolSet -------------------------------------------------------------------------------------------------


def named(*names: str) -> ToolSet:
    return ToolSet([raw_tool(name) for name in names])


def test_a_tool_of_a_taken_name_replaces_the_first_in_its_place() -> None:
    tools = named("a", "b")
    tools.add(raw_tool("a", "second"))
    assert tools.names() == ["a", "b"]
    assert tools.get("a").description == "second"
    both = ToolSet([raw_tool("a", "first"), raw_tool("b"), raw_tool("a", "second")])
    assert both.names() == ["a", "b"]
    assert both.get("a").description == "second"


def test_a_tool_that_was_removed_comes_back_at_the_end() -> None:
    tools = named("a", "b", "c")
    tools.remove("b")
    tools.remove("absent")
    assert tools.names() == ["a", "c"]
    tools.remove("a")
    tools.add(raw_tool("a"))
    assert tools.names() == ["c", "a"]


def test_names_are_exact_and_the_set_acts_as_a_collection() -> None:
    tools = named("a", "B")
    assert ("a" in tools, "A" in tools, "B" in tools, 5 in tools) == (True, False, True, False)
    assert (tools.get("A"), tools.get("")) == (None, None)
    assert (len(tools), [item.name for item in tools]) == (2, ["a", "B"])
    assert "a, B" in repr(tools)
    tools.names().append("c")
    assert len(tools) == 2


def test_a_copy_is_independent() -> None:
    tools = named("a")
    twin = tools.copy()
    twin.add(raw_tool("b"))
    tools.remove("a")
    assert (tools.names(), twin.names()) == ([], ["a", "b"])


def test_no_tools_are_an_empty_set() -> None:
    for tools in (ToolSet(), ToolSet(None), ToolSet(ToolSet())):
        assert (len(tools), tools.names(), list(tools), "a" in tools, tools.get("a")) == (
            0,
            [],
            [],
            False,
            None,
        )
        tools.remove("a")


def test_an_iteration_sees_the_set_as_it_was() -> None:
    tools = named("a", "b")
    seen = []
    for item in tools:
        tools.add(raw_tool(f"after {item.name}"))
        seen.append(item.name)
    assert seen == ["a", "b"]


def test_tools_are_told_apart_by_origin() -> None:
    tools = named("Read", "Bash", "Edit", "aside", "doctor_query", "doctor_summary", "mcp__demo__echo")
    groups = tools.classify(
        {
            "aside": ["aside"],
            "doctor": ["doctor_summary", "doctor_query", "absent"],
            "empty": ["mcp__demo__echo"],
        }
    )
    assert groups.builtin == ["Bash", "Edit", "Read"]
    assert groups.extensions == {"aside": ["aside"], "doctor": ["doctor_query", "doctor_summary"]}
    assert named("b", "a", "C").classify().builtin == ["C", "a", "b"]
    assert named("a").classify(None) == (["a"], {})
    assert ToolSet().classify({"x": ["a"]}) == ([], {})
    assert named("a").classify({"x": ["a"], "y": ["a"]}).extensions == {"y": ["a"]}


@dataclass
class ForeignTool:
    name: Any = "foreign"
    description: Any = "Foreign."
    parameters: Any = field(default_factory=lambda: {"type": "object"})
    execute: Any = lambda arguments, context: ForeignResult("hello")


def test_any_object_of_the_right_shape_is_a_tool() -> None:
    foreign = ForeignTool()
    tools = ToolSet([foreign, tool(lambda_free), raw_tool("raw")])
    assert tools.names() == ["foreign", "lambda_free", "raw"]
    assert tools.get("foreign") is foreign


@pytest.mark.parametrize(
    ("item", "says"),
    [
        (lambda_free, "decorate it with @tool"),
        ("bash", "'bash' is not a tool"),
        (None, "None is not a tool"),
        ({"name": "x", "description": "", "parameters": {}}, "is not a tool"),
        (object(), "name, description, parameters, execute"),
        (ForeignTool(name=""), "non-empty string"),
        (ForeignTool(name=5), "non-empty string"),
        (ForeignTool(description=None), "description of tool 'foreign'"),
        (ForeignTool(parameters=None), "JSON Schema object"),
        (ForeignTool(parameters=[]), "JSON Schema object"),
        (ForeignTool(execute=None), "execute is not callable"),
    ],
)
def test_what_is_no_tool_is_refused(item: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        ToolSet([item])
    tools = named("a")
    with pytest.raises(ConfigurationError, match=says):
        tools.add(item)
    assert tools.names() == ["a"]


def test_readers_beside_a_writer_see_the_old_set_or_the_new() -> None:
    tools = named("a", "b", "c")
    stop = threading.Event()
    broken: list[Any] = []

    def read() -> None:
        while not stop.is_set():
            names = [item.name for item in tools]
            if names[:3] != ["a", "b", "c"]:
                broken.append(names)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(2000):
            tools.add(raw_tool("d"))
            tools.add(raw_tool("b", "again"))
            tools.remove("d")
    finally:
        stop.set()
        reader.join()
    assert not broken


# -- tools in an agent ------------------------------------------------------------------------------------

# Small real work for every tool of the toolbox.
CALLS: dict[str, dict[str, Any]] = {
    "read": {"path": "a.txt"},
    "write": {"path": "new.txt", "content": "hello\n"},
    "edit": {"path": "a.txt", "oldText": "one", "newText": "two"},
    "editdiff": {"path": "a.txt", "oldText": "two", "newText": "one"},
    "bash": {"command": "echo hi"},
    "grep": {"pattern": "two"},
    "find": {"pattern": "*.txt"},
    "ls": {},
    "imageresize": {"path": "absent.png"},
    "plan": {"entries": [{"content": "do it"}]},
}


def test_every_tool_of_the_toolbox_runs_through_an_agent(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    tools = ToolSet(all_tools(tmp_path))
    assert sorted(tools.names()) == sorted(CALLS)
    model = ScriptedModel(*([tool_call(name, arguments)] for name, arguments in CALLS.items()), "done")
    with Agent(model.model, stream_fn=model.stream, tools=tools) as agent:
        result = agent.run("go")
    model.assert_finished()
    assert result.stop == "end_turn"
    answers = {m.tool_name: m for m in result.messages if m.role == "toolResult"}
    assert set(answers) == set(CALLS)
    failed = {name: answer.text for name, answer in answers.items() if answer.is_error}
    assert set(failed) == {"imageresize"}
    assert (tmp_path / "a.txt").read_text() == "two\n"
    assert (tmp_path / "new.txt").read_text() == "hello\n"
    assert "hi" in answers["bash"].text
    assert all(isinstance(block, TextContent) for answer in answers.values() for block in answer.content)


def test_a_broken_call_to_any_tool_of_the_toolbox_is_an_error_result(tmp_path: Path) -> None:
    names = [name for name in CALLS if name != "ls"]
    model = ScriptedModel(*([tool_call(name, {"path": 5, "unknown": []})] for name in names), "done")
    with Agent(model.model, stream_fn=model.stream, tools=all_tools(tmp_path)) as agent:
        result = agent.run("go")
    answers = [m for m in result.messages if m.role == "toolResult"]
    assert [answer.tool_name for answer in answers] == names
    assert all(answer.is_error and answer.text for answer in answers)


def test_functions_foreign_tools_and_raw_tools_run_through_an_agent() -> None:
    @tool
    def add(a: int, b: int) -> int:
        return a + b

    def raw(arguments: dict[str, Any], context: Any) -> list[Any]:
        return [TextContent("raw "), TextContent(str(arguments["n"]))]

    model = ScriptedModel(
        [
            tool_call("add", {"a": "1", "b": 2}),
            tool_call("foreign", {}),
            tool_call("raw", {"n": 7}),
            tool_call("add", {}),
        ],
        "done",
    )
    tools = [add, ForeignTool(), raw_tool("raw", execute=raw)]
    with Agent(model.model, stream_fn=model.stream, tools=tools) as agent:
        result = agent.run("go")
    answers = [(m.text, m.is_error) for m in result.messages if m.role == "toolResult"]
    assert answers == [
        ("3", False),
        ("hello", False),
        ("raw 7", False),
        ("invalid arguments for add: a is required; b is required", True),
    ]


def test_an_integer_beyond_two_to_the_53_reaches_the_tool_and_the_next_request() -> None:
    """J10: every digit, in the tool and on replay."""
    seen: list[int] = []

    @tool
    def look(id: int) -> str:
        seen.append(id)
        return str(id)

    model = ScriptedModel([tool_call("look", {"id": 12345678901234567890})], "done")
    with Agent(model.model, stream_fn=model.stream, tools=[look]) as agent:
        agent.run("go")
    assert seen == [12345678901234567890]
    replayed = [m for m in model.contexts[1].messages if m.role == "assistant"]
    assert replayed[0].tool_calls[0].arguments == {"id": 12345678901234567890}


def answer_to(arguments: str, *tools: Any, name: str = "echo") -> ToolResultMessage:
    """What a call with that text of arguments, in deltas of three characters, is answered."""
    deltas = [ToolCallDelta(0, arguments[i : i + 3]) for i in range(0, len(arguments), 3)]
    call = [StreamStart(), ToolCallStart(0, "c1", name), *deltas, ToolCallEnd(0), StreamDone("toolUse")]
    model = ScriptedModel(call, "done")
    with Agent(model.model, stream_fn=model.stream, tools=tools) as agent:
        result = agent.run("go")
    model.assert_finished()
    assert result.stop == "end_turn"
    (answer,) = [m for m in result.messages if isinstance(m, ToolResultMessage)]
    return answer


def echo_tool(seen: list[Any]) -> AgentTool:
    def execute(arguments: dict[str, Any], context: Any) -> str:
        seen.append(arguments)
        return "ok"

    return raw_tool("echo", execute=execute)


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", {}),
        ("null", {}),
        ('{"path":"f","content":"l1\nl2\tx"}', {"path": "f", "content": "l1\nl2\tx"}),
        (json.dumps('{"path":"f","content":"l1\nl2\tx"}'), {"path": "f", "content": "l1\nl2\tx"}),
    ],
)
def test_odd_texts_of_arguments_still_reach_the_tool(text: str, arguments: dict[str, Any]) -> None:
    """J02: empty; J07: raw control characters; E23: the object encoded once more."""
    seen: list[Any] = []
    answer = answer_to(text, echo_tool(seen))
    assert (answer.text, answer.is_error) == ("ok", False)
    assert seen == [arguments]


@pytest.mark.parametrize("text", ["[1,2]", '"s"', "42", "true"])
def test_arguments_that_are_no_object_are_answered_with_what_was_expected(text: str) -> None:
    """J09: the tool does not run, the model is told that an object was expected."""
    seen: list[Any] = []
    answer = answer_to(text, echo_tool(seen))
    assert answer.is_error
    assert "object" in answer.text
    assert seen == []


def test_an_edit_whose_arguments_came_as_a_string_is_made(tmp_path: Path) -> None:
    """E23: with a real line feed and tab inside the inner string."""
    (tmp_path / "f").write_text("a")
    text = json.dumps('{"path":"f","oldText":"a","newText":"l1\nl\t2"}')
    answer = answer_to(text, *all_tools(tmp_path), name="edit")
    assert not answer.is_error
    assert (tmp_path / "f").read_text() == "l1\nl\t2"
