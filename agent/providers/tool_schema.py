"""Adapts the JSON Schema of a tool's parameters to what Anthropic and OpenAI accept.

Both answer 400 to the whole request when a schema has `anyOf`, `oneOf` or `allOf` at its top, or not the type
`object`. Anthropic also refuses property names with other characters than letters, digits, `_`, `.` and
`-`, or with more than 64. The tool's own check still applies the whole schema to the arguments of a call.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from agent.json_values import JsonMapping, JsonObject
from agent.partial_json import parse_arguments
from agent.stream import StreamEvent, ToolCallDelta, ToolCallEnd, ToolCallStart

NO_PARAMETERS: JsonMapping = {"type": "object", "properties": {}}

# What OpenAI refuses at the top of a schema; Anthropic refuses the first three.
_REFUSED = frozenset(("anyOf", "oneOf", "allOf", "enum", "not"))
_COMBINED = ("allOf", "anyOf", "oneOf")
_LEGAL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_ILLEGAL = re.compile(r"[^A-Za-z0-9_.-]")
_NAME_LIMIT = 64
_MAX_DEPTH = 20  # of references and combinations; a schema may refer to itself


def wire_schema(parameters: JsonMapping | None) -> JsonMapping:
    """The schema as it is sent: an object without combinations at the top, its property names legal.

    The properties of the parts of a combination become properties of the object. Required are those that all
    parts of `anyOf` and `oneOf`, or one part of `allOf`, require. The same object when nothing has to change.
    """
    schema = _object_schema(parameters)
    names = _wire_names(schema)
    return _renamed(schema, names) if names else schema


def own_property_names(parameters: JsonMapping | None) -> dict[str, str]:
    """Maps the property names on the wire that are not the tool's own to those; empty for most schemas."""
    return {wire: name for name, wire in _wire_names(_object_schema(parameters)).items()}


def _object_schema(parameters: JsonMapping | None) -> JsonMapping:
    if not parameters:
        return NO_PARAMETERS
    if parameters.get("type") == "object" and "$ref" not in parameters and _REFUSED.isdisjoint(parameters):
        return parameters
    return _as_object(parameters)


def _wire_names(schema: JsonMapping) -> dict[str, str]:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or all(map(_is_legal, properties)):
        return {}
    taken = set(filter(_is_legal, properties))
    names: dict[str, str] = {}
    for name in properties:
        if _is_legal(name):
            continue
        wire = base = _ILLEGAL.sub("_", str(name))[:_NAME_LIMIT] or "_"
        number = 2
        while wire in taken:
            wire, number = f"{base[: _NAME_LIMIT - 8]}_{number}", number + 1
        taken.add(wire)
        names[name] = wire
    return names


def with_own_properties(
    events: Iterable[StreamEvent], own_names: Mapping[str, Mapping[str, str]]
) -> Iterator[StreamEvent]:
    """The events, the arguments of each finished call under the tool's own property names.

    `own_names` maps the name of a tool to the own names of its properties by those on the wire.
    """
    calls: dict[int, tuple[Mapping[str, str], list[str]]] = {}
    for event in events:
        match event:
            case ToolCallStart() if event.name in own_names:
                calls[event.index] = own_names[event.name], []
            case ToolCallDelta() if event.index in calls:
                calls[event.index][1].append(event.delta)
            case ToolCallEnd() if event.index in calls:
                names, pieces = calls.pop(event.index)
                arguments, problem = event.arguments, ""
                if arguments is None:
                    arguments, problem = parse_arguments("".join(pieces))
                if not problem:
                    event.arguments = {names.get(name, name): value for name, value in arguments.items()}
        yield event


@lru_cache(maxsize=4096)  # the same names come with every request
def _is_legal(name: Any) -> bool:
    return isinstance(name, str) and _LEGAL_NAME.fullmatch(name) is not None


def _renamed(schema: JsonMapping, names: Mapping[str, str]) -> JsonObject:
    properties = {names.get(name, name): value for name, value in schema["properties"].items()}
    required = [names.get(name, name) for name in schema.get("required", ())]
    return {**schema, "properties": properties, **({"required": required} if required else {})}


def _as_object(schema: JsonMapping) -> JsonObject:
    properties, names = _merged(schema, schema, _MAX_DEPTH)
    required = [name for name in names if name in properties]
    kept = {key: value for key, value in schema.items() if key not in _REFUSED and key != "$ref"}
    kept |= {"type": "object", "properties": properties}
    kept.pop("required", None)
    return kept | ({"required": required} if required else {})


def _merged(node: Any, root: JsonMapping, depth: int) -> tuple[JsonObject, list[str]]:
    """The properties of an object schema and of all its parts, and the names of the required ones."""
    if not isinstance(node, Mapping) or depth == 0:
        return {}, []
    found = node.get("properties")
    properties: JsonObject = dict(found) if isinstance(found, Mapping) else {}
    required = [name for name in node.get("required") or () if isinstance(name, str)]
    if "$ref" in node:
        more, names = _merged(_definition(node["$ref"], root), root, depth - 1)
        _add_properties(properties, more)
        required += names
    for keyword in _COMBINED:
        parts = node.get(keyword)
        if not isinstance(parts, list | tuple) or not parts:
            continue
        merged = [_merged(part, root, depth - 1) for part in parts]
        for more, _ in merged:
            _add_properties(properties, more)
        if keyword == "allOf":
            required += [name for _, names in merged for name in names]
        else:
            required += [name for name in merged[0][1] if all(name in names for _, names in merged)]
    return properties, list(dict.fromkeys(required))


def _add_properties(properties: JsonObject, more: JsonMapping) -> None:
    """Add properties; one that two parts describe differently may be either."""
    for name, schema in more.items():
        known = properties.setdefault(name, schema)
        if known == schema:
            continue
        choices = known["anyOf"] if isinstance(known, Mapping) and known.keys() == {"anyOf"} else [known]
        if schema not in choices:
            properties[name] = {"anyOf": [*choices, schema]}


def _definition(reference: Any, root: JsonMapping) -> Any:
    """The part of the root schema that a local reference (`#/$defs/Name`) names; None for any other."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    node: Any = root
    for step in reference[2:].split("/"):
        step = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(node, Mapping) or step not in node:
            return None
        node = node[step]
    return node
