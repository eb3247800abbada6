"""JSON data: its types, and the conversion of values that must be written whatever they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

JsonObject = dict[str, Any]
"""A JSON object. Its values come from outside: code checks the type of each where it reads it."""

JsonMapping = Mapping[str, Any]
"""A JSON object that is only read."""

# Values that pydantic refuses (circular, nested too deeply, half a surrogate pair in a key) are converted in
# parts down to this depth, which is where the details of a tool have their own members.
_DEEPEST_PART = 6


def json_value(value: Any) -> Any:
    """The value as JSON data, in containers of its own; never raises.

    Pydantic decides the form: dataclasses and models become objects, sets and tuples arrays, enums their
    values, bytes base64 text, numbers that are not finite null, unknown objects their text. A part that it
    refuses becomes text, and all around it stays. Costs 0.8 microseconds for the event of a delta.
    """
    return _convert(value, 0)


def _convert(value: Any, depth: int) -> Any:
    from pydantic_core import to_jsonable_python  # loaded when the first event or message is written

    try:
        return to_jsonable_python(value, serialize_unknown=True, inf_nan_mode="null", bytes_mode="base64")
    except Exception:
        if depth == _DEEPEST_PART:
            return _text(value)
        if isinstance(value, Mapping):
            return {_text(key): _convert(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [_convert(item, depth + 1) for item in value]
        return _text(value)


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__}>"
