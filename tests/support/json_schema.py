"""The part of JSON Schema that our schemas use; a keyword that is not known here is an error, not ignored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_ABOUT = frozenset(("$schema", "$defs", "title", "description", "required"))
_TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def schema_errors(value: Any, schema: Mapping[str, Any]) -> list[str]:
    """What is wrong with the value, each with its place; empty when it fits."""
    return list(_errors(value, schema, schema["$defs"], "$"))


def _errors(value: Any, schema: Mapping[str, Any], definitions: Mapping[str, Any], at: str) -> Iterator[str]:
    if "type" in schema and not _is_a(value, schema["type"]):
        yield f"{at}: {value!r} is no {schema['type']}"
        return
    for keyword, wanted in schema.items():
        match keyword:
            case "$ref":
                yield from _errors(value, definitions[wanted.removeprefix("#/$defs/")], definitions, at)
            case "const":
                if value != wanted:
                    yield f"{at}: {value!r} is not {wanted!r}"
            case "enum":
                if value not in wanted:
                    yield f"{at}: {value!r} is none of {wanted}"
            case "properties":
                for name in schema.get("required", ()):
                    if name not in value:
                        yield f"{at}: {name} is missing"
                for name, part in wanted.items():
                    if name in value:
                        yield from _errors(value[name], part, definitions, f"{at}.{name}")
            case "items":
                for place, item in enumerate(value):
                    yield from _errors(item, wanted, definitions, f"{at}[{place}]")
            case "oneOf" | "anyOf":
                tried = [list(_errors(value, part, definitions, at)) for part in wanted]
                fitting = sum(not errors for errors in tried)
                if not fitting or (keyword == "oneOf" and fitting > 1):
                    nearest = min(tried, key=len)
                    yield f"{at}: {fitting} of the {keyword} fit; nearest: {nearest}"
            case "type":
                pass
            case _:
                if keyword not in _ABOUT:
                    raise AssertionError(f"the schema uses {keyword}, which this checker does not know")


def _is_a(value: Any, kind: str) -> bool:
    if kind in ("integer", "number"):
        right = int if kind == "integer" else int | float
        return isinstance(value, right) and not isinstance(value, bool)
    return isinstance(value, _TYPES[kind])
