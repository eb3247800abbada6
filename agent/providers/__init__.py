"""Clients for model providers: one subpackage per wire format, imported when a model first needs it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol, cast

from agent.errors import ConfigurationError
from agent.models import Model
from agent.retry import ErrorClass, classify_error
from agent.stream import AgentContext, StreamError, StreamEvent, StreamOptions

if TYPE_CHECKING:
    import httpx

__all__ = ["ErrorClass", "classify_error", "default_stream_fn", "default_transport", "set_transport"]

# `Model.api` -> the package of the wire format.
_WIRE_FORMATS = {
    "anthropic-messages": "agent.providers.anthropic_messages",
    "google-generative-ai": "agent.providers.google_generative_ai",
    "openai-completions": "agent.providers.openai_completions",
    "openai-responses": "agent.providers.openai_responses",
}


class _WireFormat(Protocol):
    """The functions of a wire format's package."""

    def stream(
        self, model: Model, context: AgentContext, options: StreamOptions
    ) -> Iterator[StreamEvent]: ...
    def takes_schema(self, model: Model, context: AgentContext, options: StreamOptions) -> bool: ...


def default_stream_fn(model: Model, context: AgentContext, options: StreamOptions) -> Iterator[StreamEvent]:
    """Stream an answer in the wire format `model.api`; the stream function of an agent that has no other."""
    wire_format = _wire_format(model)
    if wire_format is None:
        known = ", ".join(sorted(_WIRE_FORMATS))
        text = f"the wire format {model.api!r} of model {model.id!r} is not supported; supported: {known}"
        return iter((StreamError(text),))
    return wire_format.stream(model, context, options)


def takes_schema(model: Model, context: AgentContext, options: StreamOptions) -> bool:
    """True when this request would carry `options.output_schema`, so that the answer is JSON of that form."""
    wire_format = _wire_format(model)
    try:
        return wire_format is not None and wire_format.takes_schema(model, context, options)
    except ConfigurationError:  # a fault of the model's flags; the request itself reports it
        return False


def set_transport(transport: httpx.BaseTransport | None) -> None:
    """Send all further requests of this process to providers through `transport`; None restores the default.

    The place to attach recorders, tracing, or TLS settings of a company. A transport that wraps
    `default_transport()` keeps its connection pool and its proxies. Aborting a run, timeouts and retries work
    with any transport: each request runs on a thread of its own, in a copy of the caller's context variables.
    """
    from agent.providers.http import transport as http_transport

    http_transport.set_transport(transport)


def default_transport() -> httpx.BaseTransport:
    """The transport that is used without `set_transport`: a connection pool that the whole process shares.

    Its `close()` closes the idle connections, and has the environment's proxies and certificates read again.
    """
    from agent.providers.http import transport as http_transport

    return http_transport.default_transport()


def _wire_format(model: Model) -> _WireFormat | None:
    package = _WIRE_FORMATS.get(model.api)
    return None if package is None else cast(_WireFormat, importlib.import_module(package))
