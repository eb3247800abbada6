"""Applies the flags of `Model.compat` over those known for its server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from typing import Any, TypeVar

from agent.errors import ConfigurationError
from agent.json_values import JsonMapping, JsonObject

Flags = TypeVar("Flags")


def with_overrides(
    detected: Flags, compat: JsonMapping | None, api: str, choices: Mapping[str, tuple[str, ...]]
) -> Flags:
    """The detected flags (a dataclass), replaced by those of `compat`, which are in snake_case or camelCase.

    Raises ConfigurationError for an unknown flag, naming similar ones, and for a value that `choices` does
    not list for a flag.
    """
    if not compat:
        return detected
    known: Any = detected
    names = [flag.name for flag in fields(known)]
    given: JsonObject = {}
    for written, value in compat.items():
        name = _snake_case(written)
        if name not in names:
            raise ConfigurationError(_unknown(written, name, names, api))
        allowed = choices.get(name)
        if allowed is not None and value not in allowed:
            raise ConfigurationError(
                f"compat flag {written!r} must be one of {', '.join(map(repr, allowed))}, got {value!r}"
            )
        given[name] = value
    changed: Flags = replace(known, **given)
    return changed


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _unknown(written: str, name: str, names: list[str], api: str) -> str:
    near = get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known flags: {', '.join(names)}"
    return f"unknown compat flag {written!r} for {api}: {hint}"
