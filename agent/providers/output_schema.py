"""Schemas of answers for the servers that compile them: these refuse much that JSON Schema knows.

What is only a bound on a value (a minimum, a pattern) moves into the description: the answer is validated by
whoever asked anyway. A schema whose form the server can't express is not sent at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

OUTPUT_NAME = "final_answer"  # a label; OpenAI's formats want one

# Models of OpenAI that answer 400 to a schema: those before GPT-4o of August 2024, the first of o1, and the
# `pro` ones from GPT-5.2 on.
_NO_SCHEMAS = re.compile(
    r"gpt-3|gpt-4(?:-|\Z)|gpt-4o-2024-05-13|chatgpt-4o|o1-(?:mini|preview)|gpt-\d+\.\d+-pro"
)

_FORM = frozenset(("type", "properties", "required", "items", "anyOf", "enum", "$ref", "$defs"))
_OF_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_OF_OTHERS = ("minLength", "maxLength", "pattern", "format", "minItems", "maxItems", "uniqueItems")
_BOUNDS = frozenset((*_OF_NUMBERS, *_OF_OTHERS, "default", "examples", "deprecated"))
_SAID_OTHERWISE = frozenset(
    ("title", "description", "discriminator", "const", "oneOf", "additionalProperties")
)
# What Anthropic compiles at most in one request.
_MOST_OPTIONAL, _MOST_UNIONS = 24, 16


def openai_knows_schemas(id: str) -> bool:
    """False for the models of OpenAI that refuse a schema of the answer."""
    return not _NO_SCHEMAS.match(id)


def narrowed(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The schema in the words that Gemini and Claude both compile; None when it can't be said in these.

    Every object is closed; recursion, objects of any keys, tuples and values of any type can't be said.
    """
    counts = [0, 0]
    try:
        if _is_recursive(schema.get("$defs", {})):
            return None
        told = _narrowed(schema, counts)
    except _CantSay:
        return None
    return told if counts[0] <= _MOST_OPTIONAL and counts[1] <= _MOST_UNIONS else None


class _CantSay(Exception):
    """The server has no words for a part of the schema."""


def _narrowed(node: Any, counts: list[int]) -> dict[str, Any]:
    if not isinstance(node, Mapping) or node.keys() - _FORM - _BOUNDS - _SAID_OTHERWISE:
        raise _CantSay
    told = _form(node, counts)
    if not told.keys() & {"type", "anyOf", "enum", "$ref"}:
        raise _CantSay
    if "$ref" in told:  # Gemini allows nothing beside it
        return told
    bounds = [f"{key}: {json.dumps(node[key])}" for key in node if key in _BOUNDS]
    text = " ".join(filter(None, (node.get("description", ""), f"({', '.join(bounds)})" if bounds else "")))
    return told | ({"description": text} if text else {})


def _form(node: Mapping[str, Any], counts: list[int]) -> dict[str, Any]:
    told: dict[str, Any] = {key: node[key] for key in ("type", "enum", "$ref", "required") if key in node}
    if "const" in node:
        told["enum"] = [node["const"]]
    for choices in ("anyOf", "oneOf"):
        if choices in node:
            counts[1] += 1
            told["anyOf"] = [_narrowed(choice, counts) for choice in node[choices]]
    if "$defs" in node:
        told["$defs"] = {name: _narrowed(part, counts) for name, part in node["$defs"].items()}
    if node.get("type") == "array":
        told["items"] = _narrowed(node.get("items"), counts)
    if node.get("type") == "object":
        if node.get("additionalProperties") or "properties" not in node:
            raise _CantSay
        properties = node["properties"]
        counts[0] += len(properties.keys() - set(node.get("required", ())))
        told["properties"] = {name: _narrowed(part, counts) for name, part in properties.items()}
        told["additionalProperties"] = False
    return told


def _is_recursive(definitions: Mapping[str, Any]) -> bool:
    """True when a definition holds itself, be it through others."""
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
