"""Requests in OpenAI's Chat Completions format.

Azure OpenAI is the provider `azure`; `agent.providers.openai_endpoint` describes its URLs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from agent.json_values import JsonMapping, JsonObject
from agent.models import Model
from agent.providers.exchange import EncodedRequest, WireFormat
from agent.providers.history_transform import clean, stated_limit, to_json, wire_name
from agent.providers.image_budget import within_budget
from agent.providers.openai_completions.compat import Compat, compat_for
from agent.providers.openai_completions.decode import decode, first_error
from agent.providers.openai_completions.messages import encode_messages, mark_cache
from agent.providers.openai_endpoint import CHAT_PATH, openai_credentials, openai_url, prompt_cache_key
from agent.providers.output_schema import OUTPUT_NAME, allows_schema
from agent.providers.tool_schema import wire_schema
from agent.stream import AgentContext, StreamOptions


def encode_request(
    model: Model, context: AgentContext, options: StreamOptions, names: Mapping[str, str]
) -> EncodedRequest:
    """The request, its body joined from the encoded messages."""
    compat = compat_for(model)
    history = within_budget(context.messages, model, options.cancel)
    messages = encode_messages(history, model, compat, options.cancel)
    is_empty = not messages
    system_prompt = clean(context.system_prompt)
    if system_prompt.strip():
        developer = model.reasoning and compat.supports_developer_role
        role = "developer" if developer else "system"
        messages.insert(0, to_json({"role": role, "content": system_prompt}))
    tools = [_tool(tool, names, compat) for tool in context.tools]
    rest = _settings(model, options, compat)
    if compat.cache_control_format and options.cache_retention != "none":
        mark_cache(messages, tools, _cache_mark(options, compat))
    if tools:
        rest["tools"] = tools
        if options.tool_choice:
            rest["tool_choice"] = _tool_choice(options.tool_choice, names)
    elif compat.requires_tools_with_tool_history and any(m.startswith(b'{"role":"tool"') for m in messages):
        rest["tools"] = []
    if (schema := output_schema(model, context, options)) is not None:
        json_schema = {"name": OUTPUT_NAME, "schema": schema, "strict": False}
        rest["response_format"] = {"type": "json_schema", "json_schema": json_schema}
    head = b'{"model":' + to_json(model.id) + b',"messages":['
    body = head + b",".join(messages) + b"]," + to_json(rest)[1:]
    return EncodedRequest(body, partial(_headers, model, options, compat), is_empty)


def output_schema(model: Model, context: AgentContext, options: StreamOptions) -> JsonMapping | None:
    """The schema of the answer as the request carries it; None when it carries none."""
    if options.output_schema is None or not allows_schema(compat_for(model), context.tools):
        return None
    return options.output_schema


# --- headers and settings --------------------------------------------------------------------------------


def _headers(model: Model, options: StreamOptions, compat: Compat, key: str) -> dict[str, str]:
    headers = openai_credentials(model, key)
    session = options.session_id
    if compat.send_session_affinity_headers and session and options.cache_retention != "none":
        headers |= {"session_id": session, "x-client-request-id": session, "x-session-affinity": session}
    return headers | dict(model.headers) | dict(options.headers or {})  # later ones win, in any case


def _settings(model: Model, options: StreamOptions, compat: Compat) -> JsonObject:
    """The body without the model, the messages and the tools."""
    body: JsonObject = {"stream": True}
    if compat.supports_usage_in_streaming:
        body["stream_options"] = {"include_usage": True}
    if compat.supports_store:
        body["store"] = False
    limit = stated_limit(model) if options.max_tokens is None else options.max_tokens
    if limit:
        body[compat.max_tokens_field] = limit
    if options.temperature is not None:
        body["temperature"] = options.temperature
    if model.reasoning:
        body |= _thinking(options.reasoning, compat)
    if compat.zai_tool_stream:
        body["tool_stream"] = True
    if compat.open_router_routing:
        body["provider"] = dict(compat.open_router_routing)
    if compat.vercel_gateway_routing:
        body["providerOptions"] = {"gateway": dict(compat.vercel_gateway_routing)}
    return body | _prompt_cache(options, compat)


def _thinking(level: str, compat: Compat) -> JsonObject:
    """The fields that ask for a thinking level. An empty level is the same as `off`."""
    thinks = level not in ("", "off")
    effort = compat.reasoning_effort_map.get(level or "off", level if thinks else "")
    match compat.thinking_format:
        case "openrouter":
            return {"reasoning": {"effort": effort or "none"}}
        case "zai" | "qwen":
            return {"enable_thinking": thinks}
        case "qwen-chat-template":
            kept = {"preserve_thinking": True} if compat.preserve_thinking else {}
            return {"chat_template_kwargs": {"enable_thinking": thinks} | kept}
        case _:
            return {"reasoning_effort": effort} if effort and compat.supports_reasoning_effort else {}


def _prompt_cache(options: StreamOptions, compat: Compat) -> JsonObject:
    long = options.cache_retention == "long" and compat.supports_long_cache_retention
    body: JsonObject = {}
    wanted = compat.supports_prompt_cache_key and options.cache_retention != "none"
    if options.session_id and (wanted or long):
        body["prompt_cache_key"] = prompt_cache_key(options)
    if long and not compat.cache_control_format:
        body["prompt_cache_retention"] = "24h"
    return body


def _cache_mark(options: StreamOptions, compat: Compat) -> dict[str, str]:
    mark = {"type": "ephemeral"}
    if options.cache_retention == "long" and compat.supports_long_cache_retention:
        mark["ttl"] = "1h"
    return mark


# --- tools -----------------------------------------------------------------------------------------------


def _tool(tool: Any, names: Mapping[str, str], compat: Compat) -> JsonObject:
    parameters = wire_schema(tool.parameters)
    if compat.strip_additional_properties:
        parameters = _without_additional_properties(parameters)
    function = {"name": names[tool.name], "description": tool.description, "parameters": parameters}
    if compat.supports_strict_mode:
        function["strict"] = False
    return {"type": "function", "function": function}


def _tool_choice(choice: str, names: Mapping[str, str]) -> Any:
    if choice in ("auto", "none", "required"):
        return choice
    name = names.get(choice) or wire_name(choice)
    return {"type": "function", "function": {"name": name}}


def _without_additional_properties(schema: Any) -> Any:
    if isinstance(schema, Mapping):
        return {
            key: _without_additional_properties(value)
            for key, value in schema.items()
            if key != "additionalProperties" or not isinstance(value, bool | Mapping)
        }
    if isinstance(schema, list | tuple):
        return [_without_additional_properties(item) for item in schema]
    return schema


FORMAT = WireFormat(
    encode=encode_request,
    url=lambda model, options: openai_url(model, CHAT_PATH),
    output_schema=output_schema,
    decode=decode,
    first_error=first_error,
)
