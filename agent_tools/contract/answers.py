"""Checks of a tool's schema and of its results: the forms that every provider accepts."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from typing import Any

from agent_tools.images import MAX_BASE64, sniff_mime
from agent_tools.tool import AnyTool, JsonMapping

# The strictest rule among the providers (OpenAI, Anthropic).
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_KINDS = {"string", "number", "integer", "boolean", "object", "array", "null"}
_REFUSED_AT_TOP = ("anyOf", "oneOf", "allOf", "not", "enum")


class ContractViolation(Exception):
    """A tool breaks one rule of the contract; the text says which."""


def check_schema(tool: AnyTool) -> None:
    """Check name, description and parameters; raises `ContractViolation`."""
    if not isinstance(tool.name, str) or not _NAME.fullmatch(tool.name):
        raise ContractViolation(f"the name {tool.name!r} is not 1 to 64 letters, digits, _ or -")
    if not isinstance(tool.description, str) or not tool.description.strip():
        raise ContractViolation("the description is empty")
    schema = tool.parameters
    if not isinstance(schema, dict):
        raise ContractViolation(f"parameters must be a dict, not {type(schema).__name__}")
    try:
        json.dumps([tool.description, schema], allow_nan=False).encode()
        json.dumps(schema, ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:
        raise ContractViolation(f"the schema is no JSON: {error}") from None
    if schema.get("type") != "object":
        raise ContractViolation('the schema must have "type": "object"')
    for key in _REFUSED_AT_TOP:
        if key in schema:
            raise ContractViolation(f"providers refuse {key} at the top of a schema")
    if not isinstance(schema.get("properties"), dict):
        raise ContractViolation('the schema must have "properties"')
    _check_node(schema, schema, "the schema")


def _check_node(node: Any, top: JsonMapping, where: str) -> None:
    if isinstance(node, bool):
        return
    if not isinstance(node, dict):
        raise ContractViolation(f"{where} must be an object, not {node!r}")
    if "$ref" in node:
        _check_reference(node["$ref"], top, where)
    kinds = node.get("type", [])
    for kind in [kinds] if isinstance(kinds, str) else kinds:
        if kind not in _KINDS:
            raise ContractViolation(f"{where} has the unknown type {kind!r}")
    if "enum" in node and (not isinstance(node["enum"], list) or not node["enum"]):
        raise ContractViolation(f"{where} has an empty enum")
    properties = node.get("properties", {})
    if missing := [name for name in node.get("required", []) if name not in properties]:
        raise ContractViolation(f"{where} requires {missing[0]}, which is no property")
    for name, child in properties.items():
        _check_node(child, top, f"{where}.{name}")
    if kinds == "array" and "items" not in node and "prefixItems" not in node:
        raise ContractViolation(f"{where} is an array without items, which Google refuses")
    for key in ("items", "additionalProperties"):
        if key in node:
            _check_node(node[key], top, f"{where}.{key}")
    for key in ("anyOf", "oneOf", "allOf"):
        for number, child in enumerate(node.get(key, ())):
            _check_node(child, top, f"{where}.{key}[{number}]")


def _check_reference(reference: Any, top: JsonMapping, where: str) -> None:
    target: Any = top
    for part in str(reference).removeprefix("#/").split("/"):
        target = target.get(part) if isinstance(target, dict) else None
    if not str(reference).startswith("#/") or target is None:
        raise ContractViolation(f"{where} refers to {reference!r}, which the schema does not hold")


def check_result(result: Any, max_bytes: int) -> tuple[str, bool]:
    """Return the text of a result and whether it is an error.

    Raises `ContractViolation` when the result cannot be sent to a provider or stored.
    """
    content = result if isinstance(result, (str, list, tuple)) else getattr(result, "content", None)
    if isinstance(content, str):
        texts = [content]
    elif isinstance(content, Sequence):
        texts = [text for block in content if (text := _check_block(block)) is not None]
    else:
        raise ContractViolation(
            f"the result is neither text nor blocks and has no content: {type(result).__name__}"
        )
    if not content or "" in texts:
        raise ContractViolation("the result is empty: some providers refuse a request with an empty text")
    text = "".join(texts)
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise ContractViolation(f"the text can't be sent as UTF-8: {error}") from None
    if size > max_bytes:
        raise ContractViolation(f"the text has {size} bytes, more than {max_bytes}")
    is_error = getattr(result, "is_error", False)
    if not isinstance(is_error, bool):
        raise ContractViolation(f"is_error must be True or False, not {is_error!r}")
    _check_extras(result)
    return text, is_error


def _check_block(block: Any) -> str | None:
    """The text of a text block; None for a valid image."""
    kind = getattr(block, "type", None)
    if kind == "text" and isinstance(block.text, str):
        text: str = block.text
        return text
    if kind != "image":
        raise ContractViolation(f"a block is neither text nor image: {block!r:.200}")
    if len(block.data) > MAX_BASE64:
        raise ContractViolation(
            f"an image has {len(block.data)} characters of base64, more than {MAX_BASE64}"
        )
    try:
        data = base64.b64decode(block.data, validate=True)
    except ValueError as error:
        raise ContractViolation(f"an image is no base64: {error}") from None
    if sniff_mime(data) != block.mime_type:
        raise ContractViolation(f"an image declared as {block.mime_type} is {sniff_mime(data)}")
    return None


def _check_extras(result: Any) -> None:
    try:
        json.dumps(getattr(result, "details", None))
    except (TypeError, ValueError) as error:
        raise ContractViolation(f"details can't be stored as JSON: {error}") from None
    meta = getattr(result, "meta", None) or {}
    if not all(isinstance(key, str) and isinstance(value, str) for key, value in meta.items()):
        raise ContractViolation(f"meta must map texts to texts: {meta!r:.200}")
