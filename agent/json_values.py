"""Any value as JSON data, for what must be written though nobody promised that it can be: tools' details."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

# Deeper than any data made to be read; a value that contains itself ends here as text.
_DEEPEST = 60
_SCALARS = frozenset((str, int, bool, type(None)))


def json_value(value: Any, depth: int = 0) -> Any:
    """The value as JSON data, in containers of its own; never raises.

    Dataclasses and pydantic models become objects, sets and tuples arrays, enums their values, numbers that
    are not finite null; keys and everything else become text.
    """
    if type(value) in _SCALARS:  # nearly all there is, and one is looked at per delta
        return value
    if isinstance(value, (int, str)):
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth == _DEEPEST:
        return _text(value)
    try:
        return _container(value, depth + 1)
    except Exception:
        return _text(value)


def _container(value: Any, depth: int) -> Any:
    if isinstance(value, (dict, Mapping)):
        return {_key(key): json_value(item, depth) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [json_value(item, depth) for item in value]
    if isinstance(value, Enum):
        return json_value(value.value, depth)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: json_value(getattr(value, field.name), depth) for field in fields(value)}
    if hasattr(value, "model_dump") and not isinstance(value, type):
        return json_value(value.model_dump(), depth)
    return _text(value)


def _key(key: Any) -> str:
    return key if type(key) is str else str(json_value(key))


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__}>"
