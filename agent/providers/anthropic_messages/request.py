"""The wire format of Anthropic's Messages, which Claude and some other servers speak."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from agent.models import Model
from agent.providers.anthropic_messages.compat import Compat, compat_for
from agent.providers.anthropic_messages.decode import decode, first_error
from agent.providers.anthropic_messages.messages import encode_history, mark_cache
from agent.providers.anthropic_messages.server_tools import (
    COMPACTION_BETA,
    compaction,
    server_betas,
    server_tools,
)
from agent.providers.endpoint import endpoint
from agent.providers.exchange import Exchange, exchange
from agent.providers.history_transform import clean, to_json, tool_names, wire_name
from agent.providers.http.client import SseResponse
from agent.providers.image_budget import within_budget
from agent.providers.output_schema import narrowed
from agent.stream import AgentContext, StreamEvent, StreamOptions
from agent.thinking import fit_thinking_budget

__all__ = ["build_request", "decode", "stream", "takes_schema"]

_VERSION = "2023-06-01"
_INTERLEAVED_BETA = "interleaved-thinking-2025-05-14"
_TOOL_STREAMING_BETA = "fine-grained-tool-streaming-2025-05-14"
_OAUTH_BETA = "oauth-2025-04-20"
# How tokens of a subscription begin, and the only prompt with which they are accepted.
_OAUTH_MARK = "sk-ant-oat"
_OAUTH_IDENTITY = "You are Claude Code, Anthropic's official CLI for Claude."
# The format wants a limit; a model's own may be so high that servers demand streaming and reserve for it.
_MOST_OUTPUT = 32_000
_LEAST_BUDGET = 1024  # the server refuses less
_EFFORTS = {"off": "low", "minimal": "low"}
_CHOICES = {"auto": "auto", "none": "none", "any": "any", "required": "any"}


def stream(model: Model, context: AgentContext, options: StreamOptions) -> Iterator[StreamEvent]:
    """The model's answer, event by event. Never raises: whatever fails is the `StreamError` at the end."""
    return exchange(model, context, options, partial(_prepare, model))


def _prepare(model: Model, context: AgentContext, options: StreamOptions) -> Exchange:
    compat = compat_for(model)
    names = tool_names(context.tools)
    own_names = {wire: name for name, wire in names.items()}

    def read(events: SseResponse) -> Iterator[StreamEvent]:
        return decode(events, model.cost, own_names, events.expect_end)

    body, betas = _body(model, context, options, compat, names)
    headers = partial(_headers, model, options, compat, betas)
    return Exchange(endpoint(model, "/messages"), headers, body, first_error, read)


def build_request(model: Model, context: AgentContext, options: StreamOptions) -> dict[str, Any]:
    """The body of the request as JSON data: exactly what `stream` sends, before `options.on_payload`.

    Raises ConfigurationError for compat flags the format does not know and server tools that make no sense.
    """
    body, _ = _body(model, context, options, compat_for(model), tool_names(context.tools))
    request: dict[str, Any] = json.loads(body)
    return request


def takes_schema(model: Model, context: AgentContext, options: StreamOptions) -> bool:
    """True when this request brings the schema of the answer."""
    return _schema(options, compat_for(model)) is not None


def _schema(options: StreamOptions, compat: Compat) -> dict[str, Any] | None:
    """The schema of the answer as it is sent, if it is; not beside the server's tools, which make it cite."""
    takes = compat.supports_json_schema and not options.server_tools
    return narrowed(options.output_schema) if takes and options.output_schema is not None else None


# --- head and tail of the request ------------------------------------------------------------------------


def _headers(
    model: Model, options: StreamOptions, compat: Compat, betas: Sequence[str], key: str
) -> dict[str, str]:
    """The headers. Later ones win, whatever their case; betas that are asked for are added to ours."""
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


def _body(
    model: Model, context: AgentContext, options: StreamOptions, compat: Compat, names: Mapping[str, str]
) -> tuple[bytes, list[str]]:
    """The encoded request, put together from the messages' encoded pieces, and the betas it needs."""
    history = encode_history(within_budget(context.messages, model), model, compat)
    system = _system(context.system_prompt, options)
    tools = [_tool(tool, names, compat) for tool in context.tools]
    tools.sort(key=lambda tool: str(tool["name"]))  # the same prefix for the cache, whoever put them together
    of_server = server_tools(options.server_tools, compat.server_tools)
    betas = server_betas(of_server)
    if tools and compat.tool_streaming == "beta":
        betas.append(_TOOL_STREAMING_BETA)
    tools += of_server
    rest = _settings(model, options, compat, forced=bool(tools) and _is_forced(options.tool_choice))
    if rest.get("thinking", {}).get("type") == "enabled":
        betas.append(_INTERLEAVED_BETA)
    schema = _schema(options, compat)
    if schema is not None:
        wanted = {"format": {"type": "json_schema", "schema": schema}}
        rest["output_config"] = rest.get("output_config", {}) | wanted
    edits = compaction(options.server_compaction)
    if edits:
        rest["context_management"] = edits
    if edits or history.compacted:
        betas.append(COMPACTION_BETA)
    if options.cache_retention != "none":
        _mark_cache(system, tools, history.messages, _cache_mark(options, compat))
    if system:
        rest["system"] = system
    if tools:
        rest["tools"] = tools
        if options.tool_choice:
            rest["tool_choice"] = _tool_choice(options.tool_choice, names)
    head = b'{"model":' + to_json(model.id) + b',"messages":['
    return head + b",".join(history.messages) + b"]," + to_json(rest)[1:], betas


def _system(prompt: str, options: StreamOptions) -> list[dict[str, Any]]:
    texts = [_OAUTH_IDENTITY] if _OAUTH_MARK in options.api_key else []
    prompt = clean(prompt)
    if prompt.strip():
        texts.append(prompt)
    return [{"type": "text", "text": text} for text in texts]


def _settings(model: Model, options: StreamOptions, compat: Compat, forced: bool) -> dict[str, Any]:
    """The limit, how to think, and the temperature."""
    base = options.max_tokens or min(model.max_tokens, _MOST_OUTPUT)
    body = {"stream": True, "max_tokens": base} | _thinking(model, options, compat, forced, base)
    asked = body.get("thinking", {}).get("type", "disabled") != "disabled"
    thinks = asked or compat.adaptive_thinking == "always"
    if options.temperature is not None and compat.supports_temperature and not thinks:
        body["temperature"] = options.temperature
    return body


def _thinking(
    model: Model, options: StreamOptions, compat: Compat, forced: bool, base: int
) -> dict[str, Any]:
    """How the model is asked to think at a level. One that is made to call a tool can't think before it."""
    level = options.reasoning
    if not level or not (model.reasoning or compat.adaptive_thinking):
        return {}
    off = level == "off" or forced
    if compat.adaptive_thinking == "always" or (compat.adaptive_thinking and not off):
        return {"thinking": {"type": "adaptive"} | _display(compat)} | _effort(model, level)
    limit, budget = base, 0
    if not off:
        limit, budget = fit_thinking_budget(base, model.max_tokens, level, options.thinking_budgets)
    if budget < _LEAST_BUDGET:
        return {"thinking": {"type": "disabled"}}
    thinking = {"type": "enabled", "budget_tokens": budget} | _display(compat)
    return {"max_tokens": limit, "thinking": thinking}


def _display(compat: Compat) -> dict[str, str]:
    return {"display": compat.thinking_display} if compat.thinking_display else {}


def _effort(model: Model, level: str) -> dict[str, Any]:
    effort = _EFFORTS.get(level, level)
    if effort == "xhigh" and effort not in model.available_thinking_levels:
        effort = "high"
    return {"output_config": {"effort": effort}}


# --- tools -----------------------------------------------------------------------------------------------


def _tool(tool: Any, names: Mapping[str, str], compat: Compat) -> dict[str, Any]:
    schema = {"type": "object", "properties": {}, "required": []} | dict(tool.parameters or {})
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
    system: list[dict[str, Any]], tools: list[dict[str, Any]], messages: list[bytes], mark: dict[str, str]
) -> None:
    """Put marks, four at most, on the prompt, the last tool and the last messages."""
    if system and system[-1]["text"] != _OAUTH_IDENTITY:
        system[-1]["cache_control"] = mark
    if tools:
        tools[-1]["cache_control"] = mark
    mark_cache(messages, to_json(mark))
