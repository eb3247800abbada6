"""The clients of the wire formats, one module per `api` id, each imported when a model first needs it.

`classify_error(status=None, headers=None, text="") -> ErrorClass`: what a failed request is, and whether the
same request may succeed later.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from agent.errors import ConfigurationError
from agent.models import Model
from agent.stream import AgentContext, StreamError, StreamEvent, StreamOptions

if TYPE_CHECKING:
    from agent.retry import ErrorClass, classify_error

__all__ = ["ErrorClass", "classify_error", "default_stream_fn"]

_HOMES = {"ErrorClass": "agent.retry", "classify_error": "agent.retry"}

# `api` id -> the module whose `stream(model, context, options)` speaks it.
_MODULES = {
    "anthropic-messages": "agent.providers.anthropic_messages",
    "google-generative-ai": "agent.providers.google_generative_ai",
    "openai-completions": "agent.providers.openai_completions",
    "openai-responses": "agent.providers.openai_responses",
}


def is_supported(api: str) -> bool:
    """True when there is a client for that wire format."""
    return api in _MODULES


def default_stream_fn(model: Model, context: AgentContext, options: StreamOptions) -> Iterator[StreamEvent]:
    """Stream with the wire format that `model.api` names; what an agent without its own function uses."""
    home = _MODULES.get(model.api)
    if home is None:
        known = ", ".join(sorted(_MODULES))
        text = f"the wire format {model.api!r} of model {model.id!r} is not supported yet; supported: {known}"
        return iter((StreamError(text),))
    stream: Iterator[StreamEvent] = importlib.import_module(home).stream(model, context, options)
    return stream


def takes_schema(model: Model, context: AgentContext, options: StreamOptions) -> bool:
    """True when this very request would bring the model `options.output_schema`, to answer in such JSON.

    Imports the client of the wire format.
    """
    home = _MODULES.get(model.api)
    if home is None:
        return False
    try:
        return bool(importlib.import_module(home).takes_schema(model, context, options))
    except ConfigurationError:  # of the model's flags: the request itself will tell
        return False


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value
