"""The clients of the wire formats, each imported when a model first needs it.

`classify_error(status=None, headers=None, text="") -> ErrorClass`: what a failed request is, and whether the
same request may succeed later.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent.retry import ErrorClass, classify_error

__all__ = ["ErrorClass", "classify_error"]

_HOMES = {"ErrorClass": "agent.retry", "classify_error": "agent.retry"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value
