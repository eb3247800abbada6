"""Schemas for the signatures of functions, and arguments checked by them."""

from __future__ import annotations

import enum
import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

import pytest
from pydantic import BaseModel, Field
from support.tools import run_function

from agent.errors import ToolError
from agent.tools import (
    FunctionTool,
    TitleArg,
    ToolContext,
    ToolDisplayHint,
    tool,
)

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

    @tool(name="other", description="Described.", label="Other", display_hint=hint, parallel=True, timeout=30)
    def something() -> None:
        """Not sent to the model."""

    assert isinstance(something, FunctionTool)
    assert something.name == "other"
    assert something.description == "Described."
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

    text = run_function(
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
    assert run_function(show) == "x"


def test_a_default_that_json_can_not_hold_is_left_out_without_a_warning() -> None:
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


def test_a_parameter_called_context_gets_the_context_and_is_not_in_the_schema() -> None:
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
    assert run_function(lambda_free, anything=1) == "fine"
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


def test_types_that_only_a_type_checker_knows_are_allowed_outside_the_schema() -> None:
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
    assert run_function(show, **arguments) == repr(tuple(expected))


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
