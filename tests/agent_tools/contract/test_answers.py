"""The forms of schemas and results that every provider accepts."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from agent_tools import ImageBlock, Result, TextBlock
from agent_tools.contract.answers import ContractViolation, check_result, check_schema

PIXEL = base64.b64encode(b"GIF89a\x01\x00\x01\x00\x00\x00\x00;").decode()


class Definition:
    description = "Does it."

    def __init__(self, properties: dict[str, Any], name: str = "tool", **schema: Any) -> None:
        self.name = name
        self.parameters = {"type": "object", "properties": properties, **schema}

    def execute(self, arguments: Any, context: Any = None, /) -> Any:
        """Not called here."""


@pytest.mark.parametrize(
    "definition",
    [
        Definition({}),
        Definition({"a": {"type": ["string", "null"]}}, required=["a"]),
        Definition(
            {"a": {"type": "array", "items": {"$ref": "#/$defs/B"}}}, **{"$defs": {"B": {"type": "string"}}}
        ),
        Definition({"a": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}, additionalProperties=False),
        Definition({"a": {"enum": ["x"]}}, name="A_b-1"),
    ],
)
def test_a_schema_that_all_providers_accept_passes(definition: Definition) -> None:
    check_schema(definition)


@pytest.mark.parametrize("name", ["", "a b", "ä", "a.b", "x" * 65, None])
def test_a_name_that_a_provider_refuses_is_found(name: Any) -> None:
    with pytest.raises(ContractViolation, match="64 letters"):
        check_schema(Definition({}, name=name))


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("text", "text"),
        ([TextBlock("a"), TextBlock("b")], "ab"),
        (Result([TextBlock("a"), ImageBlock(PIXEL, "image/gif")]), "a"),
        (Result("a", details={"x": [1, None]}, meta={"hash": "h"}), "a"),
    ],
)
def test_a_result_that_can_be_sent_and_stored_passes(result: Any, text: str) -> None:
    assert check_result(result, 100) == (text, False)


def test_an_error_is_distinguished_from_a_success() -> None:
    assert check_result(Result("no", is_error=True), 100) == ("no", True)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (Result("x" * 101), "more than 100"),
        (Result("é" * 51), "102 bytes"),
        (Result([ImageBlock(PIXEL, "image/png")]), "is image/gif"),
        (Result([ImageBlock("A" * 6_000_000, "image/png")]), "characters of base64"),
    ],
)
def test_a_result_over_its_limits_is_found(result: Result, message: str) -> None:
    with pytest.raises(ContractViolation, match=message):
        check_result(result, 100)
