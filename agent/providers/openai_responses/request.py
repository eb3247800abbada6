"""Requests in OpenAI's Responses format.

Nothing is stored on the server (`store: false`); reasoning goes back encrypted, as the server sent it. Tools
of the server (`server_tools`) are sent unchanged, and their results come back as server blocks.

Azure OpenAI is the provider `azure`; `agent.providers.openai_endpoint` describes its URLs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agent.json_values import JsonMapping, JsonObject
from agent.models import Model
from agent.providers.exchange import EncodedRequest, WireFormat
from agent.providers.history_transform import clean, stated_limit, to_json, wire_name
from agent.providers.image_budget import within_budget
from agent.providers.openai_endpoint import RESPONSES_PATH, openai_credentials, openai_url, prompt_cache_key
from agent.providers.openai_responses.compat import Compat, compat_for
from agent.providers.openai_responses.decode import decode, first_error
from agent.providers.openai_responses.messages import encode_messages
from agent.providers.output_schema import OUTPUT_NAME
from agent.providers.tool_schema import wire_schema
from agent.stream import AgentContext, StreamOptions

_ANTHROPIC_TOOL = re.compile(r"_\d{8}\Z")  # their types end in a date, such as web_search_20250305


def encode_request(
    model: Model, context: AgentContext, options: StreamOptions, names: Mapping[str, str]
) -> EncodedRequest:
    """The request, its body joined from the encoded messages."""
    compat = compat_for(model)
    history = within_budget(context.messages, model, options.cancel)
    items = encode_messages(history, model, options.cancel)
    is_empty = not items
    system_prompt = clean(context.system_prompt)
    if system_prompt.strip():
        role = "developer" if model.reasoning and compat.supports_developer_role else "system"
        items.insert(0, to_json({"role": role, "content": system_prompt}))
    tools = [_tool(tool, names, compat) for tool in context.tools]
    tools += [dict(tool) for tool in options.server_tools if _is_openai_tool(tool)]
    rest = _settings(model, options, compat)
    if (schema := output_schema(model, context, options)) is not None:
        json_schema = {"name": OUTPUT_NAME, "schema": schema, "strict": False}
        rest["text"] = {"format": {"type": "json_schema"} | json_schema}
    if tools:
        rest["tools"] = tools
        if options.tool_choice:
            rest["tool_choice"] = _tool_choice(options.tool_choice, names)
    head = b'{"model":' + to_json(model.id) + b',"input":['

    def headers(key: str) -> dict[str, str]:  # later ones win
        return openai_credentials(model, key) | dict(model.headers) | dict(options.headers or {})

    return EncodedRequest(head + b",".join(items) + b"]," + to_json(rest)[1:], headers, is_empty)


def output_schema(model: Model, context: AgentContext, options: StreamOptions) -> JsonMapping | None:
    """The schema of the answer as the request carries it; None when it carries none."""
    wanted = options.output_schema is not None and compat_for(model).supports_json_schema
    return options.output_schema if wanted else None


def _settings(model: Model, options: StreamOptions, compat: Compat) -> JsonObject:
    """The body without the model, the input and the tools."""
    body: JsonObject = {"stream": True, "store": False}
    limit = stated_limit(model) if options.max_tokens is None else options.max_tokens
    if limit:
        body["max_output_tokens"] = limit
    if options.temperature is not None:
        body["temperature"] = options.temperature
    if model.reasoning:
        body |= _reasoning(model, options.reasoning, compat)
    if compat.service_tier:
        body["service_tier"] = compat.service_tier
    if options.session_id and options.cache_retention != "none":
        body["prompt_cache_key"] = prompt_cache_key(options)
    if options.cache_retention == "long" and compat.supports_long_cache_retention:
        body["prompt_cache_retention"] = "24h"
    return body


def _reasoning(model: Model, level: str, compat: Compat) -> JsonObject:
    """The fields that ask for a thinking level. An empty level is the same as `off`."""
    # A model thinks by default, and without its encrypted reasoning the next request would be refused.
    body: JsonObject = (
        {"include": ["reasoning.encrypted_content"]} if compat.supports_encrypted_reasoning else {}
    )
    if level in ("", "off"):
        effort = compat.reasoning_effort_map.get("off", _least_effort(model))
        return body | ({"reasoning": {"effort": effort}} if effort else {})
    reasoning = {"effort": compat.reasoning_effort_map.get(level, level)}
    if compat.reasoning_summary:
        reasoning["summary"] = compat.reasoning_summary
    return body | {"reasoning": reasoning}


def _least_effort(model: Model) -> str:
    """The lowest effort, where the model's levels are known; empty (the default of the model) otherwise."""
    levels = model.thinking_levels or ()
    if "off" in levels:
        return "none"
    return "minimal" if "minimal" in levels else ""


def _tool(tool: Any, names: Mapping[str, str], compat: Compat) -> JsonObject:
    function = {
        "type": "function",
        "name": names[tool.name],
        "description": tool.description,
        "parameters": wire_schema(tool.parameters),
    }
    return function | ({"strict": False} if compat.supports_strict_mode else {})


def _is_openai_tool(tool: Any) -> bool:
    """False for tools of Anthropic's server, which remain in the options of a run that changes its model."""
    return isinstance(tool, Mapping) and not _ANTHROPIC_TOOL.search(str(tool.get("type")))


def _tool_choice(choice: str, names: Mapping[str, str]) -> Any:
    if choice in ("auto", "none", "required"):
        return choice
    return {"type": "function", "name": names.get(choice) or wire_name(choice)}


FORMAT = WireFormat(
    encode=encode_request,
    url=lambda model, options: openai_url(model, RESPONSES_PATH),
    output_schema=output_schema,
    decode=decode,
    first_error=first_error,
)
