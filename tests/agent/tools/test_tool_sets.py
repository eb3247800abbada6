"""Sets of tools by name."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from support.tools import ForeignTool, plain_function, raw_tool

from agent.errors import ConfigurationError
from agent.tools import (
    ToolSet,
    tool,
)


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


def test_tools_are_distinguished_by_origin() -> None:
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


def test_any_object_of_the_right_shape_is_a_tool() -> None:
    foreign = ForeignTool()
    tools = ToolSet([foreign, tool(plain_function), raw_tool("raw")])
    assert tools.names() == ["foreign", "plain_function", "raw"]
    assert tools.get("foreign") is foreign


@pytest.mark.parametrize(
    ("item", "says"),
    [
        (plain_function, "decorate it with @tool"),
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
