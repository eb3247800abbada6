"""Schemas of answers for servers that compile them and support a part of JSON Schema only.

A constraint on a value (a minimum, a pattern) moves into the description: the caller validates the answer
anyway. A schema whose structure the server does not support is not sent at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from agent.json_values import JsonMapping, JsonObject

OUTPUT_NAME = "final_answer"  # a label; OpenAI's formats want one

# Models of OpenAI that answer 400 to a schema: those before GPT-4o of August 2024, the first of o1, and `pro`
# from GPT-5.2 on.
_NO_SCHEMAS = re.compile(
    r"gpt-3|gpt-4(?:-|\Z)|gpt-4o-2024-05-13|chatgpt-4o|o1-(?:mini|preview)|gpt-\d+\.\d+-pro"
)

_STRUCTURE = frozenset(("type", "properties", "required", "items", "anyOf", "enum", "$ref", "$defs"))
_ON_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_ON_OTHERS = ("minLength", "maxLength", "pattern", "format", "minItems", "maxItems", "uniqueItems")
_CONSTRAINTS = frozenset((*_ON_NUMBERS, *_ON_OTHERS, "default", "examples", "deprecated"))
_REWRITTEN = frozenset(("title", "description", "discriminator", "const", "oneOf", "additionalProperties"))
# The most optional properties and unions that Anthropic compiles in one request.
_MAX_OPTIONAL, _MAX_UNIONS = 24, 16


class SchemaFlags(Protocol):
    """The compatibility flags about schemas of answers."""

    @property
    def supports_json_schema(self) -> bool: ...
    @property
    def supports_json_schema_with_tools(self) -> bool: ...


def allows_schema(compat: SchemaFlags, tools: Iterable[object]) -> bool:
    """True when a request with these tools may carry the schema of the answer."""
    if not compat.supports_json_schema:
        return False
    return compat.supports_json_schema_with_tools or not list(tools)


def openai_supports_schemas(id: str) -> bool:
    """False for the models of OpenAI that refuse a schema of the answer."""
    return not _NO_SCHEMAS.match(id)


def restrict_schema(schema: JsonMapping) -> JsonObject | None:
    """The schema in the part of JSON Schema that Gemini and Claude compile; None if that is impossible.

    Every object is closed. Not supported: recursion, objects with any keys, tuples, values of any type.
    """
    counts = [0, 0]
    try:
        if _is_recursive(schema.get("$defs", {})):
            return None
        restricted = _restricted(schema, counts)
    except _Unsupported:
        return None
    return restricted if counts[0] <= _MAX_OPTIONAL and counts[1] <= _MAX_UNIONS else None


class _Unsupported(Exception):
    """A part of the schema that the servers do not support."""


def _restricted(node: Any, counts: list[int]) -> JsonObject:
    if not isinstance(node, Mapping) or node.keys() - _STRUCTURE - _CONSTRAINTS - _REWRITTEN:
        raise _Unsupported
    restricted = _structure(node, counts)
    if not restricted.keys() & {"type", "anyOf", "enum", "$ref"}:
        raise _Unsupported
    if "$ref" in restricted:  # Gemini allows nothing beside it
        return restricted
    constraints = [f"{key}: {json.dumps(node[key])}" for key in node if key in _CONSTRAINTS]
    text = " ".join(
        filter(None, (node.get("description", ""), f"({', '.join(constraints)})" if constraints else ""))
    )
    return restricted | ({"description": text} if text else {})


def _structure(node: JsonMapping, counts: list[int]) -> JsonObject:
    restricted: JsonObject = {key: node[key] for key in ("type", "enum", "$ref", "required") if key in node}
    if "const" in node:
        restricted["enum"] = [node["const"]]
    for choices in ("anyOf", "oneOf"):
        if choices in node:
            counts[1] += 1
            restricted["anyOf"] = [_restricted(choice, counts) for choice in node[choices]]
    if "$defs" in node:
        restricted["$defs"] = {name: _restricted(part, counts) for name, part in node["$defs"].items()}
    if node.get("type") == "array":
        restricted["items"] = _restricted(node.get("items"), counts)
    if node.get("type") == "object":
        if node.get("additionalProperties") or "properties" not in node:
            raise _Unsupported
        properties = node["properties"]
        counts[0] += len(properties.keys() - set(node.get("required", ())))
        restricted["properties"] = {name: _restricted(part, counts) for name, part in properties.items()}
        restricted["additionalProperties"] = False
    return restricted


def _is_recursive(definitions: JsonMapping) -> bool:
    """True when a definition contains itself, directly or through others."""
    left = {name: _refs(part) for name, part in definitions.items()}
    while left:
        free = [name for name, refs in left.items() if not refs & left.keys()]
        if not free:
            return True
        for name in free:
            del left[name]
    return False


def _refs(node: Any) -> set[str]:
    if isinstance(node, Mapping):
        own = {node["$ref"].rpartition("/")[2]} if isinstance(node.get("$ref"), str) else set()
        return own.union(*map(_refs, node.values()))
    return set().union(*map(_refs, node)) if isinstance(node, list) else set()
