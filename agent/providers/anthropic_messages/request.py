"""Requests in Anthropic's Messages format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from agent.json_values import JsonMapping, JsonObject
from agent.models import Model
from agent.providers.anthropic_messages.compat import Compat, compat_for
from agent.providers.anthropic_messages.decode import decode, first_error
from agent.providers.anthropic_messages.messages import encode_messages, mark_cache
from agent.providers.anthropic_messages.server_tools import (
    COMPACTION_BETA,
    compaction,
    server_betas,
    server_tools,
)
from agent.providers.endpoint import endpoint
from agent.providers.exchange import EncodedRequest, WireFormat
from agent.providers.history_transform import clean, to_json, wire_name
from agent.providers.image_budget import within_budget
from agent.providers.output_schema import restrict_schema
from agent.providers.tool_schema import wire_schema
from agent.stream import AgentContext, StreamOptions
from agent.thinking import fit_thinking_budget

_VERSION = "2023-06-01"
_INTERLEAVED_BETA = "interleaved-thinking-2025-05-14"
_TOOL_STREAMING_BETA = "fine-grained-tool-streaming-2025-05-14"
_OAUTH_BETA = "oauth-2025-04-20"
# The prefix of the tokens of a subscription, and the only prompt with which the server accepts them.
_OAUTH_MARK = "sk-ant-oat"
_OAUTH_IDENTITY = "You are Claude Code, Anthropic's official CLI for Claude."
# The format requires a limit. A model's own may be so high that servers reserve capacity for it.
_DEFAULT_OUTPUT = 32_000
_MIN_BUDGET = 1024  # the server refuses less
_EFFORTS = {"off": "low", "minimal": "low"}
_CHOICES = {"auto": "auto", "none": "none", "any": "any", "required": "any"}


def encode_request(
    model: Model, context: AgentContext, options: StreamOptions, names: Mapping[str, str]
) -> EncodedRequest:
    """The request, its body joined from the encoded messages."""
    compat = compat_for(model)
    history = within_budget(context.messages, model, options.cancel)
    messages, compacted = encode_messages(history, model, compat, options.cancel)
    system = _system(context.system_prompt, options)
    tools = [_tool(tool, names, compat) for tool in context.tools]
    tools.sort(key=lambda tool: str(tool["name"]))  # the same prefix for the cache in any order
    of_server = server_tools(options.server_tools, compat.server_tools)
    betas = server_betas(of_server)
    if tools and compat.tool_streaming == "beta":
        betas.append(_TOOL_STREAMING_BETA)
    tools += of_server
    rest = _settings(model, options, compat, forced=bool(tools) and _is_forced(options.tool_choice))
    if rest.get("thinking", {}).get("type") == "enabled":
        betas.append(_INTERLEAVED_BETA)
    if (schema := output_schema(model, context, options)) is not None:
        json_schema = {"format": {"type": "json_schema", "schema": schema}}
        rest["output_config"] = rest.get("output_config", {}) | json_schema
    edits = compaction(options.server_compaction)
    if edits:
        rest["context_management"] = edits
    if edits or compacted:
        betas.append(COMPACTION_BETA)
    if options.cache_retention != "none":
        _mark_cache(system, tools, messages, _cache_mark(options, compat))
    if system:
        rest["system"] = system
    if tools:
        rest["tools"] = tools
        if options.tool_choice:
            rest["tool_choice"] = _tool_choice(options.tool_choice, names)
    head = b'{"model":' + to_json(model.id) + b',"messages":['
    body = head + b",".join(messages) + b"]," + to_json(rest)[1:]
    return EncodedRequest(body, partial(_headers, model, options, compat, betas), not messages)


def output_schema(model: Model, context: AgentContext, options: StreamOptions) -> JsonMapping | None:
    """The schema of the answer as the request carries it; None when it carries none."""
    # Not together with the server's tools: they cite, and citations and a schema exclude each other.
    if options.output_schema is None or options.server_tools or not compat_for(model).supports_json_schema:
        return None
    return restrict_schema(options.output_schema)


# --- headers and settings --------------------------------------------------------------------------------


def _headers(
    model: Model, options: StreamOptions, compat: Compat, betas: Sequence[str], key: str
) -> dict[str, str]:
    """The headers. Later ones win, whatever their case; betas of the caller are added."""
    headers = {"anthropic-version": _VERSION}
    oauth = _OAUTH_MARK in key
    if key and (compat.bearer_auth or oauth):
        headers["authorization"] = f"Bearer {key}"
    elif key:
        headers["x-api-key"] = key
    wanted = [*betas, *([_OAUTH_BETA] if oauth else [])] if compat.supports_betas else []
    for name, value in (*model.headers.items(), *(options.headers or {}).items()):
        if name.lower() == "anthropic-beta":
            wanted += map(str.strip, value.split(","))
        else:
            headers[name.lower()] = value
    if any(wanted):
        headers["anthropic-beta"] = ",".join(dict.fromkeys(filter(None, wanted)))
    return headers


def _system(prompt: str, options: StreamOptions) -> list[JsonObject]:
    texts = [_OAUTH_IDENTITY] if _OAUTH_MARK in options.api_key else []
    prompt = clean(prompt)
    if prompt.strip():
        texts.append(prompt)
    return [{"type": "text", "text": text} for text in texts]


def _settings(model: Model, options: StreamOptions, compat: Compat, forced: bool) -> JsonObject:
    """The output limit, thinking, and the temperature."""
    base = options.max_tokens or min(model.max_tokens, _DEFAULT_OUTPUT)
    body: JsonObject = {"stream": True, "max_tokens": base} | _thinking(model, options, compat, forced, base)
    enabled = body.get("thinking", {}).get("type", "disabled") != "disabled"
    thinks = enabled or compat.adaptive_thinking == "always"
    if options.temperature is not None and compat.supports_temperature and not thinks:
        body["temperature"] = options.temperature
    return body


def _thinking(model: Model, options: StreamOptions, compat: Compat, forced: bool, base: int) -> JsonObject:
    """The fields that ask for a thinking level; a model that is forced to call a tool can't think."""
    level = options.reasoning
    if not level or not (model.reasoning or compat.adaptive_thinking):
        return {}
    off = level == "off" or forced
    if compat.adaptive_thinking == "always" or (compat.adaptive_thinking and not off):
        return {"thinking": {"type": "adaptive"} | _display(compat)} | _effort(model, level)
    limit, budget = base, 0
    if not off:
        limit, budget = fit_thinking_budget(base, model.max_tokens, level, options.thinking_budgets)
    if budget < _MIN_BUDGET:
        return {"thinking": {"type": "disabled"}}
    thinking = {"type": "enabled", "budget_tokens": budget} | _display(compat)
    return {"max_tokens": limit, "thinking": thinking}


def _display(compat: Compat) -> dict[str, str]:
    return {"display": compat.thinking_display} if compat.thinking_display else {}


def _effort(model: Model, level: str) -> JsonObject:
    effort = _EFFORTS.get(level, level)
    if effort == "xhigh" and effort not in model.available_thinking_levels:
        effort = "high"
    return {"output_config": {"effort": effort}}


# --- tools -----------------------------------------------------------------------------------------------


def _tool(tool: Any, names: Mapping[str, str], compat: Compat) -> JsonObject:
    schema = {"type": "object", "properties": {}, "required": []} | dict(wire_schema(tool.parameters))
    body = {"name": names[tool.name], "description": tool.description, "input_schema": schema}
    if compat.tool_streaming == "eager":
        body["eager_input_streaming"] = True
    return body


def _is_forced(choice: str) -> bool:
    return choice not in ("", "auto", "none")


def _tool_choice(choice: str, names: Mapping[str, str]) -> dict[str, str]:
    if choice in _CHOICES:
        return {"type": _CHOICES[choice]}
    return {"type": "tool", "name": names.get(choice) or wire_name(choice)}


# --- cache marks -----------------------------------------------------------------------------------------


def _cache_mark(options: StreamOptions, compat: Compat) -> dict[str, str]:
    mark = {"type": "ephemeral"}
    if options.cache_retention == "long" and compat.supports_long_cache_retention:
        mark["ttl"] = "1h"
    return mark


def _mark_cache(
    system: list[JsonObject], tools: list[JsonObject], messages: list[bytes], mark: dict[str, str]
) -> None:
    """Put marks, four at most, on the prompt, the last tool and the last messages."""
    if system and system[-1]["text"] != _OAUTH_IDENTITY:
        system[-1]["cache_control"] = mark
    if tools:
        tools[-1]["cache_control"] = mark
    mark_cache(messages, to_json(mark))


FORMAT = WireFormat(
    encode=encode_request,
    url=lambda model, options: endpoint(model, "/messages"),
    output_schema=output_schema,
    decode=decode,
    first_error=first_error,
)
