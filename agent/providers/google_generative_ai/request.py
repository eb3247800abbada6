"""Requests in Google's format.

Gemini signs parts of its answers and expects the signatures back in their places. Server tools are not
requested; parts that only the server understands come back as server blocks and are sent again unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.json_values import JsonMapping, JsonObject
from agent.models import Model
from agent.providers.exchange import EncodedRequest, WireFormat
from agent.providers.google_generative_ai.compat import compat_for
from agent.providers.google_generative_ai.decode import decode, first_error
from agent.providers.google_generative_ai.endpoint import gemini_credentials, gemini_url
from agent.providers.google_generative_ai.messages import encode_messages, wire_tool_name
from agent.providers.google_generative_ai.thinking import generation_limits
from agent.providers.history_transform import clean, to_json
from agent.providers.image_budget import within_budget
from agent.providers.output_schema import allows_schema, restrict_schema
from agent.providers.tool_schema import NO_PARAMETERS
from agent.stream import AgentContext, StreamOptions

_MODES: Mapping[str, str] = {"auto": "AUTO", "none": "NONE", "required": "ANY"}


def encode_request(
    model: Model, context: AgentContext, options: StreamOptions, names: Mapping[str, str]
) -> EncodedRequest:
    """The request, its body joined from the encoded messages."""
    compat = compat_for(model)
    history = within_budget(context.messages, model, options.cancel)
    contents = encode_messages(history, model, compat, options.cancel)
    rest: JsonObject = {}
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
    if (schema := output_schema(model, context, options)) is not None:
        generation |= {"responseMimeType": "application/json", "responseJsonSchema": schema}
    if generation:
        rest["generationConfig"] = generation
    head = b'{"contents":[' + b",".join(contents) + b"]"

    def headers(key: str) -> dict[str, str]:  # later ones win
        return gemini_credentials(model, key) | dict(model.headers) | dict(options.headers or {})

    return EncodedRequest(head + (b"," + to_json(rest)[1:] if rest else b"}"), headers, not contents)


def output_schema(model: Model, context: AgentContext, options: StreamOptions) -> JsonMapping | None:
    """The schema of the answer as the request carries it; None when it carries none."""
    if options.output_schema is None or not allows_schema(compat_for(model), context.tools):
        return None
    return restrict_schema(options.output_schema)


def _function(tool: Any, names: Mapping[str, str]) -> JsonObject:
    return {
        "name": names[tool.name],
        "description": tool.description,
        "parametersJsonSchema": tool.parameters or NO_PARAMETERS,
    }


def _calling(choice: str, names: Mapping[str, str]) -> JsonObject:
    """Whether the model may or must call a tool; a tool's name forces that tool."""
    if choice in _MODES:
        return {"mode": _MODES[choice]}
    return {"mode": "ANY", "allowedFunctionNames": [names.get(choice) or wire_tool_name(choice)]}


FORMAT = WireFormat(
    encode=encode_request,
    url=lambda model, options: gemini_url(model, options.api_key),
    output_schema=output_schema,
    decode=decode,
    first_error=first_error,
    tool_name=wire_tool_name,
)
