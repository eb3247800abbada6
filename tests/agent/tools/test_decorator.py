"""The `@tool` decorator: what can be a tool."""

from __future__ import annotations

import copy
import functools
import inspect
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from support.tools import run_function

from agent.errors import ConfigurationError
from agent.tools import (
    tool,
)


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
    assert run_function(Greeter.shout, text="a") == "A"
    assert run_function(Greeter.word) == "hello"
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
