"""What the decoders share: reading data in which any field may be missing, null or of another type."""

from __future__ import annotations

import math
from typing import Any

from agent.providers.history_transform import to_json_text


def text_of(value: Any) -> str:
    """The value when it is a string, else nothing."""
    return value if isinstance(value, str) else ""


def object_of(value: Any) -> dict[str, Any]:
    """The value when it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def count_of(value: Any) -> int:
    """The value when it is a positive number, else 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if 0 < value < math.inf else 0


def error_text(chunk: dict[str, Any]) -> str:
    """The error in a chunk, with its code and type so that it can be classified; empty when there is none."""
    error = chunk.get("error")
    if not error and chunk.get("object") == "error":
        error = chunk
    if not error:
        return ""
    if not isinstance(error, dict):
        return str(error)
    message = error.get("message")
    text = message if isinstance(message, str) and message.strip() else to_json_text(error)
    kinds = [kind for kind in (error.get("type"), error.get("code")) if _adds_to(text, kind)]
    named = [kind for kind in kinds if isinstance(kind, str) and not kind.isdigit()]
    if named:
        text = f"{text} ({', '.join(dict.fromkeys(named))})"
    status = next((kind for kind in kinds if kind not in named), None)
    if status is not None:
        text = f"{status} {text}"
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    return f"{text}\n{raw}" if isinstance(raw, str) and raw else text


def _adds_to(text: str, kind: Any) -> bool:
    return isinstance(kind, str | int) and not isinstance(kind, bool) and bool(kind) and str(kind) not in text
