"""The frame around each wire format's stream function: key, payload hook, request, failures as events."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from agent.errors import AgentError
from agent.models import Model
from agent.providers.bedrock import signed
from agent.providers.endpoint import api_key
from agent.providers.history_transform import to_json
from agent.providers.http.client import ProviderError, SseResponse, post_sse
from agent.providers.refused_content import Remedy, remedy_for, remember, without_refused
from agent.stream import AgentContext, StreamError, StreamEvent, StreamOptions

logger = logging.getLogger("agent")


@dataclass(slots=True)
class Exchange:
    """One request and how its answer is read; `headers` and `first_error` are as `post_sse` takes them."""

    url: str
    headers: Callable[[str], Mapping[str, str]]
    body: bytes
    first_error: Callable[[str], str | None]
    decode: Callable[[SseResponse], Iterator[StreamEvent]]


Prepare = Callable[[AgentContext, StreamOptions], Exchange]


def exchange(
    model: Model, context: AgentContext, options: StreamOptions, prepare: Prepare
) -> Iterator[StreamEvent]:
    """The events of an answer. Never raises: whatever fails is the `StreamError` at the end.

    `prepare` gets the options with the key in them. What the server refuses for ever, an image say, is left
    out of a second request (see `agent.providers._refused`); `on_retry` and a warning in the log tell of it.
    """
    try:
        options = replace(options, api_key=api_key(model, options))
        context = replace(context, messages=without_refused(context.messages, model))
        request = prepare(context, options)
        try:
            yield from _answer(request, model, options)
        except ProviderError as failure:
            remedy = remedy_for(failure, context.messages, model, len(request.body))
            if remedy is None:
                raise
            _tell(options, model, f"{failure}; asked again without the {remedy.lacks}")
            request = prepare(replace(context, messages=remedy.messages), options)
            yield from _remembered(_answer(request, model, options), remedy, model)
    except ProviderError as failure:
        yield StreamError(str(failure), "aborted" if failure.aborted else "error")
    except Exception as error:
        if not isinstance(error, AgentError):
            logger.exception("a request to %s/%s could not be made", model.provider, model.id)
        yield StreamError(str(error) or type(error).__name__)


def _answer(request: Exchange, model: Model, options: StreamOptions) -> Iterator[StreamEvent]:
    """The events of one request; a ProviderError if it is refused before the first."""
    body = _after_hook(request.body, model, options)
    with post_sse(
        request.url,
        signed(model, request.url, request.headers, body),
        body,
        options=options,
        provider=model.provider,
        first_error=request.first_error,
    ) as events:
        for event in request.decode(events):
            if isinstance(event, StreamError):
                event.error_message = events.clean(event.error_message)
            yield event


def _remembered(events: Iterator[StreamEvent], remedy: Remedy, model: Model) -> Iterator[StreamEvent]:
    """The events; once the first shows that the remedy helped, it is kept for later requests."""
    for number, event in enumerate(events):
        if number == 0 and not isinstance(event, StreamError):
            remember(remedy, model)
        yield event


def _tell(options: StreamOptions, model: Model, text: str) -> None:
    logger.warning("%s/%s: %s", model.provider, model.id, text)
    if options.on_retry is not None:
        try:
            options.on_retry(1, 0.0, text)
        except Exception:
            logger.exception("on_retry failed")


def _after_hook(body: bytes, model: Model, options: StreamOptions) -> bytes:
    """The body as `on_payload` leaves it."""
    if options.on_payload is None:
        return body
    payload = json.loads(body)
    replacement = options.on_payload(payload, model)
    return to_json(payload if replacement is None else replacement)
