"""The wire format of Google's Gemini models, there and on Vertex.

Gemini signs parts of its answers and wants the signatures back where they were. How Vertex is addressed is
told in `agent.providers._gemini_endpoint`. Tools that the server itself runs are not asked for; parts that
only the server understands come back as server blocks and are sent again as they came.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from agent.models import Model
from agent.providers.exchange import Exchange, exchange
from agent.providers.google_generative_ai.compat import Compat, compat_for
from agent.providers.google_generative_ai.decode import decode, first_error
from agent.providers.google_generative_ai.endpoint import gemini_credentials, gemini_url
from agent.providers.google_generative_ai.messages import encode_contents, wire_tool_name
from agent.providers.google_generative_ai.thinking import generation_limits
from agent.providers.history_transform import NO_PARAMETERS, clean, to_json, tool_names
from agent.providers.http.client import SseResponse
from agent.providers.image_budget import within_budget
from agent.providers.output_schema import narrowed
from agent.stream import AgentContext, StreamEvent, StreamOptions

__all__ = ["build_request", "decode", "stream", "takes_schema"]

_MODES: Mapping[str, str] = {"auto": "AUTO", "none": "NONE", "required": "ANY"}


def stream(model: Model, context: AgentContext, options: StreamOptions) -> Iterator[StreamEvent]:
    """The model's answer, event by event. Never raises: whatever fails is the `StreamError` at the end."""
    return exchange(model, context, options, partial(_prepare, model))


def build_request(model: Model, context: AgentContext, options: StreamOptions) -> dict[str, Any]:
    """The body of the request as JSON data: exactly what `stream` sends, before `options.on_payload`.

    Raises ConfigurationError for compat flags the format does not know.
    """
    names = tool_names(context.tools, wire_tool_name)
    request: dict[str, Any] = json.loads(_body(model, context, options, compat_for(model), names))
    return request


def takes_schema(model: Model, context: AgentContext, options: StreamOptions) -> bool:
    """True when this request brings the schema of the answer."""
    return _schema(options, compat_for(model), bool(list(context.tools))) is not None


def _schema(options: StreamOptions, compat: Compat, with_tools: bool) -> dict[str, Any] | None:
    """The schema of the answer as it is sent, if it is."""
    takes = compat.supports_json_schema and (compat.supports_json_schema_with_tools or not with_tools)
    return narrowed(options.output_schema) if takes and options.output_schema is not None else None


def _prepare(model: Model, context: AgentContext, options: StreamOptions) -> Exchange:
    compat = compat_for(model)
    names = tool_names(context.tools, wire_tool_name)
    own_names = {wire: name for name, wire in names.items()}

    def headers(key: str) -> dict[str, str]:  # later ones win
        return gemini_credentials(model, key) | dict(model.headers) | dict(options.headers or {})

    def read(events: SseResponse) -> Iterator[StreamEvent]:
        return decode(events, model.cost, own_names, events.expect_end)

    body = _body(model, context, options, compat, names)
    return Exchange(gemini_url(model, compat, options.api_key), headers, body, first_error, read)


def _body(
    model: Model, context: AgentContext, options: StreamOptions, compat: Compat, names: Mapping[str, str]
) -> bytes:
    """The encoded request, put together from the messages' encoded pieces."""
    contents = encode_contents(within_budget(context.messages, model), model, compat)
    rest: dict[str, Any] = {}
    system_prompt = clean(context.system_prompt)
    if system_prompt.strip():
        rest["systemInstruction"] = {"parts": [{"text": system_prompt}]}
    functions = [_function(tool, names) for tool in context.tools]
    if functions:
        rest["tools"] = [{"functionDeclarations": functions}]
        if options.tool_choice:
            rest["toolConfig"] = {"functionCallingConfig": _calling(options.tool_choice, names)}
    generation = generation_limits(model, options, compat)
    if options.temperature is not None:
        generation["temperature"] = options.temperature
    schema = _schema(options, compat, bool(functions))
    if schema is not None:
        generation |= {"responseMimeType": "application/json", "responseJsonSchema": schema}
    if generation:
        rest["generationConfig"] = generation
    head = b'{"contents":[' + b",".join(contents) + b"]"
    return head + (b"," + to_json(rest)[1:] if rest else b"}")


def _function(tool: Any, names: Mapping[str, str]) -> dict[str, Any]:
    return {
        "name": names[tool.name],
        "description": tool.description,
        "parametersJsonSchema": tool.parameters or NO_PARAMETERS,
    }


def _calling(choice: str, names: Mapping[str, str]) -> dict[str, Any]:
    """How freely the model may call; a tool's name means this tool and no other."""
    if choice in _MODES:
        return {"mode": _MODES[choice]}
    return {"mode": "ANY", "allowedFunctionNames": [names.get(choice) or wire_tool_name(choice)]}
