"""Reads fields of a server's JSON, any of which may be missing, null or of another type."""

from __future__ import annotations

from typing import Any

from agent.json_values import JsonObject
from agent.providers.history_transform import to_json_text

_COUNT_LIMIT = 10**12
_DOLLAR_LIMIT = 10**9


def as_text(value: Any) -> str:
    """The value if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def as_object(value: Any) -> JsonObject:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def first_object(value: Any) -> JsonObject:
    """The first item of a list if it is an object, else an empty one."""
    item = value[0] if type(value) is list and value else None
    return item if type(item) is dict else {}


def as_index(value: Any) -> int | None:
    """The value if it is a whole number, also one written as a string, else None."""
    if type(value) is int:
        return value
    return int(value) if type(value) is str and value.isdecimal() and len(value) < 10 else None


def as_count(value: Any) -> int:
    """The value if it is a positive number below 10^12, rounded down, else 0. More tokens are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if 0 < value < _COUNT_LIMIT else 0


def as_dollars(value: Any) -> float:
    """The value if it is a positive number below 10^9, else 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if 0 < value < _DOLLAR_LIMIT else 0.0


def error_text(event: JsonObject) -> str:
    """The text of the error in an event; empty if it holds none.

    Contains the error's code and type, so that `agent.retry.classify_error` recognises its kind.
    """
    error = event.get("error")
    if not error and event.get("object") == "error":
        error = event
    if not error:
        return ""
    if not isinstance(error, dict):
        return str(error)
    message = error.get("message")
    text = message if isinstance(message, str) and message.strip() else to_json_text(error)
    codes = [code for code in (error.get("type"), error.get("code")) if _is_news(code, text)]
    names = [code for code in codes if isinstance(code, str) and not code.isdigit()]
    if names:
        text = f"{text} ({', '.join(dict.fromkeys(names))})"
    status = next((code for code in codes if code not in names), None)
    if status is not None:
        text = f"{status} {text}"
    raw = as_object(error.get("metadata")).get("raw")  # OpenRouter: what the provider behind it sent
    return f"{text}\n{raw}" if isinstance(raw, str) and raw else text


def _is_news(code: Any, text: str) -> bool:
    """True for a code or type that the text does not contain."""
    return isinstance(code, str | int) and not isinstance(code, bool) and bool(code) and str(code) not in text
