"""What an answer and a schema must look like so that no provider refuses the request they end up in."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from agent_tools.images import MAX_BASE64, sniff_mime

# The strictest rule among the providers (OpenAI, Anthropic).
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_KINDS = {"string", "number", "integer", "boolean", "object", "array", "null"}
_NOT_AT_THE_TOP = ("anyOf", "oneOf", "allOf", "not", "enum")


class Broken(Exception):
    """One broken promise, in words."""


def check_schema(tool: Any) -> None:
    """Name, description and parameters of a tool; raises `Broken`."""
    if not isinstance(tool.name, str) or not _NAME.fullmatch(tool.name):
        raise Broken(f"the name {tool.name!r} is not 1 to 64 letters, digits, _ or -")
    if not isinstance(tool.description, str) or not tool.description.strip():
        raise Broken("the description is empty")
    schema = tool.parameters
    if not isinstance(schema, dict):
        raise Broken(f"parameters must be a dict, not {type(schema).__name__}")
    try:
        json.dumps([tool.description, schema], allow_nan=False).encode()
        json.dumps(schema, ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:
        raise Broken(f"the schema is no JSON: {error}") from None
    if schema.get("type") != "object":
        raise Broken('the schema must have "type": "object"')
    for key in _NOT_AT_THE_TOP:
        if key in schema:
            raise Broken(f"providers refuse {key} at the top of a schema")
    if not isinstance(schema.get("properties"), dict):
        raise Broken('the schema must have "properties"')
    _check_node(schema, schema, "the schema")


def _check_node(node: Any, top: Mapping[str, Any], where: str) -> None:
    if isinstance(node, bool):
        return
    if not isinstance(node, dict):
        raise Broken(f"{where} must be an object, not {node!r}")
    if "$ref" in node:
        _check_reference(node["$ref"], top, where)
    kinds = node.get("type", [])
    for kind in [kinds] if isinstance(kinds, str) else kinds:
        if kind not in _KINDS:
            raise Broken(f"{where} has the unknown type {kind!r}")
    if "enum" in node and (not isinstance(node["enum"], list) or not node["enum"]):
        raise Broken(f"{where} has an empty enum")
    properties = node.get("properties", {})
    if missing := [name for name in node.get("required", []) if name not in properties]:
        raise Broken(f"{where} requires {missing[0]}, which is no property")
    for name, child in properties.items():
        _check_node(child, top, f"{where}.{name}")
    if kinds == "array" and "items" not in node and "prefixItems" not in node:
        raise Broken(f"{where} is an array without items, which Google refuses")
    for key in ("items", "additionalProperties"):
        if key in node:
            _check_node(node[key], top, f"{where}.{key}")
    for key in ("anyOf", "oneOf", "allOf"):
        for number, child in enumerate(node.get(key, ())):
            _check_node(child, top, f"{where}.{key}[{number}]")


def _check_reference(reference: Any, top: Mapping[str, Any], where: str) -> None:
    target: Any = top
    for part in str(reference).removeprefix("#/").split("/"):
        target = target.get(part) if isinstance(target, dict) else None
    if not str(reference).startswith("#/") or target is None:
        raise Broken(f"{where} refers to {reference!r}, which the schema does not hold")


def check_answer(answer: Any, max_bytes: int) -> tuple[str, bool]:
    """The text of an answer and whether it is an error; raises `Broken` when it can't be sent or stored."""
    content = answer if isinstance(answer, (str, list, tuple)) else getattr(answer, "content", None)
    if isinstance(content, str):
        texts = [content]
    elif isinstance(content, Sequence):
        texts = [text for block in content if (text := _check_block(block)) is not None]
    else:
        raise Broken(f"the answer is no text, no blocks and has no content: {type(answer).__name__}")
    if not content or "" in texts:
        raise Broken("the answer says nothing: an empty text makes some providers refuse the request")
    text = "".join(texts)
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise Broken(f"the text can't be sent as UTF-8: {error}") from None
    if size > max_bytes:
        raise Broken(f"the text has {size} bytes, more than {max_bytes}")
    is_error = getattr(answer, "is_error", False)
    if not isinstance(is_error, bool):
        raise Broken(f"is_error must be True or False, not {is_error!r}")
    _check_extras(answer)
    return text, is_error


def _check_block(block: Any) -> str | None:
    """The text of a text block; None for a sound image."""
    kind = getattr(block, "type", None)
    if kind == "text" and isinstance(block.text, str):
        text: str = block.text
        return text
    if kind != "image":
        raise Broken(f"a block is neither text nor image: {block!r:.200}")
    if len(block.data) > MAX_BASE64:
        raise Broken(f"an image has {len(block.data)} characters of base64, more than {MAX_BASE64}")
    try:
        data = base64.b64decode(block.data, validate=True)
    except ValueError as error:
        raise Broken(f"an image is no base64: {error}") from None
    if sniff_mime(data) != block.mime_type:
        raise Broken(f"an image is called {block.mime_type} and is {sniff_mime(data)}")
    return None


def _check_extras(answer: Any) -> None:
    try:
        json.dumps(getattr(answer, "details", None))
    except (TypeError, ValueError) as error:
        raise Broken(f"details can't be stored as JSON: {error}") from None
    meta = getattr(answer, "meta", None) or {}
    if not all(isinstance(key, str) and isinstance(value, str) for key, value in meta.items()):
        raise Broken(f"meta must map texts to texts: {meta!r:.200}")
