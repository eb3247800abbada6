"""Tools that Anthropic's server runs, and its compaction of the history."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agent.errors import ConfigurationError
from agent.json_values import JsonMapping, JsonObject

# A tool's type ends in the date of its version: web_search_20250305.
_VERSION = re.compile(r"_\d{8}\Z")
# By the name of a tool the beta that enables it.
_BETAS: Mapping[str, str] = {
    "web_search": "web-search-2025-03-05",
    "web_fetch": "web-fetch-2025-09-10",
    "code_execution": "code-execution-2025-08-25",
}
_DOMAIN_LIMITS = (("allowed_domains", 10), ("blocked_domains", 25))
_TOOL_FIELDS = ("name", "max_uses", "allowed_domains", "blocked_domains", "user_location")
_LOCATION_FIELDS = ("city", "region", "country", "timezone")

COMPACTION_BETA = "compact-2026-01-12"
_COMPACTION_TYPE = "compact_20260112"
_MIN_TRIGGER = 50_000  # the server refuses less


def server_tools(tools: Iterable[Any], known: Sequence[str] | None) -> list[JsonObject]:
    """The definitions of tools that the server runs: those in `known`, or all when that is None.

    A tool is its type (`web_search_20250305`), a mapping, or an object with these fields as attributes. Other
    keys of a mapping are passed on. Raises ConfigurationError for a tool without a type and for more domains
    than the server accepts.
    """
    found = [_server_tool(tool) for tool in tools]
    return [tool for tool in found if known is None or base_name(tool) in known]


def server_betas(tools: Iterable[JsonMapping]) -> list[str]:
    """The betas that these tools require."""
    return [_BETAS[name] for tool in tools if (name := base_name(tool)) in _BETAS]


def base_name(tool: JsonMapping) -> str:
    """The tool's type without its version."""
    return _VERSION.sub("", tool["type"])


def _server_tool(tool: Any) -> JsonObject:
    if isinstance(tool, str):
        tool = {"type": tool}
    given = dict(tool) if isinstance(tool, Mapping) else _attributes(tool, ("type", *_TOOL_FIELDS))
    kind = given.get("type")
    if not isinstance(kind, str) or not kind:
        raise ConfigurationError(f"a server tool needs a type such as 'web_search_20250305', got {tool!r}")
    body = {"type": kind, "name": given.get("name") or _VERSION.sub("", kind)}
    body |= {
        key: value for key, value in given.items() if key not in body and value not in (None, 0, "", (), [])
    }
    for field, limit in _DOMAIN_LIMITS:
        if field in body:
            body[field] = list(body[field])
            if len(body[field]) > limit:
                raise ConfigurationError(f"{kind}: {field} takes at most {limit}, got {len(body[field])}")
    if "user_location" in body:
        body["user_location"] = _location(body["user_location"])
    return body


def _location(place: Any) -> JsonObject:
    given = dict(place) if isinstance(place, Mapping) else _attributes(place, _LOCATION_FIELDS)
    return {"type": "approximate"} | {key: value for key, value in given.items() if value}


def _attributes(thing: Any, names: Iterable[str]) -> JsonObject:
    return {name: getattr(thing, name, None) for name in names}


def compaction(settings: Any) -> JsonObject | None:
    """The `context_management` that lets the server summarise a long history; None when it is off.

    `settings` is True, a mapping, or an object: `enabled`, `trigger_tokens` (0: the server's default),
    `instructions` (in place of the server's own). Raises ConfigurationError for a trigger below 50,000.
    """
    if settings is True:
        settings = {"enabled": True}
    if not settings:
        return None
    names = ("enabled", "trigger_tokens", "triggerTokens", "instructions")
    given = settings if isinstance(settings, Mapping) else _attributes(settings, names)
    if not given.get("enabled", True):
        return None
    edit: JsonObject = {"type": _COMPACTION_TYPE}
    trigger = given.get("trigger_tokens") or given.get("triggerTokens") or 0
    if trigger:
        if trigger < _MIN_TRIGGER:
            raise ConfigurationError(f"server_compaction: trigger_tokens is at least 50000, got {trigger}")
        edit["trigger"] = {"type": "input_tokens", "value": trigger}
    if given.get("instructions"):
        edit["instructions"] = given["instructions"]
    return {"edits": [edit]}
