"""The public names of the package: looked up when first used, and known to type checkers."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

import agent


def imports_for_type_checkers() -> dict[str, str]:
    """Each name with its module, as the imports under `TYPE_CHECKING` have them."""
    tree = ast.parse(Path(agent.__file__).read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    found: dict[str, str] = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        assert node.module is not None
        for name in node.names:
            assert name.asname == name.name, f"{name.name} is not re-exported"
            found[name.name] = node.module
    return found


def test_type_checkers_and_the_running_program_see_the_same_names() -> None:
    assert imports_for_type_checkers() == agent._HOMES
    assert set(agent.__all__) == set(agent._HOMES)


@pytest.mark.parametrize("name", agent.__all__)
def test_a_name_is_that_of_its_module(name: str) -> None:
    assert getattr(agent, name) is getattr(importlib.import_module(agent._HOMES[name]), name)
    assert name in dir(agent)


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'agent' has no attribute 'nope'"):
        agent.nope  # noqa: B018
