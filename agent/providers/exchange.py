"""One request and its answer, as far as all wire formats are the same.

A wire format is a `WireFormat`, made of the few functions in which formats differ.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

from agent.errors import AgentError
from agent.models import Model
from agent.providers.bedrock import with_signature
from agent.providers.credentials import api_key, rejected_key_text
from agent.providers.history_transform import to_json, tool_names, wire_name
from agent.providers.http.client import ProviderError, post_sse
from agent.providers.refused_content import (
    Retry,
    blames_content,
    remember,
    retries_without,
    without_refused,
)
from agent.providers.tool_schema import own_property_names, with_own_properties
from agent.retry import ErrorClass
from agent.stream import AgentContext, StreamError, StreamEvent, StreamOptions
from agent.usage import ModelCost

logger = logging.getLogger("agent")

_NOTHING_TO_SEND = "there is nothing to send: the conversation has no message with content for the model"

Headers: TypeAlias = Callable[[str], Mapping[str, str]]
"""The request headers for an API key."""


class EncodedRequest(NamedTuple):
    """A request in a wire format; `is_empty`: no message of the conversation is in it."""

    body: bytes
    headers: Headers
    is_empty: bool


@dataclass(frozen=True, slots=True)
class WireFormat:
    """The functions of one wire format, and what they make together.

    - `encode(model, context, options, names)`: the encoded request. `names` maps the tools' names
      to those on the wire. Raises ConfigurationError.
    - `url(model, options)`: where the request goes.
    - `output_schema(model, context, options)`: `options.output_schema` as the request carries it, or None.
    - `decode(payloads, cost, names, expect_end)`: see `agent.providers.decoder`.
    - `first_error(payload)`: see `agent.providers.http.client`.
    - `tool_name(name)`: a tool's name in the characters that the servers accept.
    """

    encode: Callable[[Model, AgentContext, StreamOptions, Mapping[str, str]], EncodedRequest]
    url: Callable[[Model, StreamOptions], str]
    output_schema: Callable[[Model, AgentContext, StreamOptions], Mapping[str, Any] | None]
    decode: Callable[
        [Iterable[str], ModelCost | None, Mapping[str, str], Callable[[float | None], object]],
        Iterator[StreamEvent],
    ]
    first_error: Callable[[str], str | None]
    tool_name: Callable[[str], str] = wire_name

    def stream(self, model: Model, context: AgentContext, options: StreamOptions) -> Iterator[StreamEvent]:
        """The model's answer, event by event. Never raises: a failure is the `StreamError` at the end.

        When the server refuses an image or a signed block for good, the request is sent again without it (see
        `agent.providers.refused_content`); `on_retry` is called and a warning logged each time.
        """
        given = bool(options.api_key)
        try:
            options = replace(options, api_key=api_key(model, options))
            context = replace(context, messages=without_refused(context.messages, model))
            yield from self._with_retries(model, context, options)
        except ProviderError as failure:
            text = str(failure)
            if failure.status == 401 and failure.kind == "auth":
                text += f" ({rejected_key_text(model, is_given=given, url=self.url(model, options))})"
            yield StreamError(text, "aborted" if failure.aborted else "error")
        except Exception as error:
            if not isinstance(error, AgentError):
                logger.exception("a request to %s/%s could not be made", model.provider, model.id)
            yield StreamError(str(error) or type(error).__name__)

    def build_request(self, model: Model, context: AgentContext, options: StreamOptions) -> dict[str, Any]:
        """The body of the request as JSON data: exactly what `stream` sends, before `options.on_payload`.

        Raises ConfigurationError for compat flags the format does not know and for wrong server tools.
        """
        names = tool_names(context.tools, self.tool_name)
        body: dict[str, Any] = json.loads(self.encode(model, context, options, names).body)
        return body

    def takes_schema(self, model: Model, context: AgentContext, options: StreamOptions) -> bool:
        """True when this request would carry the schema of the answer."""
        return self.output_schema(model, context, options) is not None

    def _with_retries(
        self, model: Model, context: AgentContext, options: StreamOptions
    ) -> Iterator[StreamEvent]:
        """The events of the request, or of a retry without content that the server refused."""
        names = tool_names(context.tools, self.tool_name)
        request = self.encode(model, context, options, names)
        if request.is_empty:
            raise ProviderError(_NOTHING_TO_SEND, ErrorClass("invalid"))
        try:
            yield from self._answer(model, context, options, names, request)
            return
        except ProviderError as failure:
            refusal = failure
        for retry in retries_without(refusal, context.messages, model, request.body):
            _report(options, model, f"{refusal}; asked again without the {retry.dropped}")
            request = self.encode(model, replace(context, messages=retry.messages), options, names)
            try:
                yield from _remembered(self._answer(model, context, options, names, request), retry, model)
                return
            except ProviderError as failure:
                refusal = failure
            if not blames_content(refusal):
                break
        raise refusal

    def _answer(
        self,
        model: Model,
        context: AgentContext,
        options: StreamOptions,
        names: Mapping[str, str],
        request: EncodedRequest,
    ) -> Iterator[StreamEvent]:
        """The events of one request; raises ProviderError when it is refused before the first event."""
        body = _after_hook(request.body, model, options)
        url = self.url(model, options)
        own_names = {wire: name for name, wire in names.items()}
        with post_sse(
            url,
            with_signature(model, url, request.headers, body),
            body,
            options=options,
            provider=model.provider,
            first_error=self.first_error,
        ) as response:
            events = self.decode(response, model.cost, own_names, response.expect_end)
            if renamed := _renamed_properties(context):
                events = with_own_properties(events, renamed)
            for event in events:
                if isinstance(event, StreamError):
                    event.error_message = response.clean(event.error_message)
                yield event


def _renamed_properties(context: AgentContext) -> dict[str, dict[str, str]]:
    """By tool the own names of those properties that have another name on the wire."""
    names = {tool.name: own_property_names(tool.parameters) for tool in context.tools}
    return {tool: own_names for tool, own_names in names.items() if own_names}


def _remembered(events: Iterator[StreamEvent], retry: Retry, model: Model) -> Iterator[StreamEvent]:
    """The events. When the first is no error, later requests leave the same content out at once."""
    for number, event in enumerate(events):
        if number == 0 and not isinstance(event, StreamError):
            remember(retry, model)
        yield event


def _report(options: StreamOptions, model: Model, text: str) -> None:
    logger.warning("%s/%s: %s", model.provider, model.id, text)
    if options.on_retry is not None:
        try:
            options.on_retry(1, 0.0, text)
        except Exception:
            logger.exception("on_retry failed")


def _after_hook(body: bytes, model: Model, options: StreamOptions) -> bytes:
    """The body after `options.on_payload`."""
    if options.on_payload is None:
        return body
    payload = json.loads(body)
    replacement = options.on_payload(payload, model)
    return to_json(payload if replacement is None else replacement)
