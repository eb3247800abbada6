"""The wire format of OpenAI's Responses, spoken without state on the server: each request brings it all.

Nothing is stored there (`store: false`); reasoning goes back encrypted, as the server gave it. Tools of the
server itself (`server_tools`) are sent as they are written, and what they did comes back as server blocks.

Azure OpenAI is the provider `azure`: `agent.providers._openai` tells how its addresses are written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from agent.models import Model
from agent.providers.exchange import Exchange, exchange
from agent.providers.history_transform import (
    NO_PARAMETERS,
    clean,
    stated_limit,
    to_json,
    tool_names,
    wire_name,
)
from agent.providers.http.client import SseResponse
from agent.providers.image_budget import within_budget
from agent.providers.openai_endpoint import RESPONSES_PATH, openai_credentials, openai_url, prompt_cache_key
from agent.providers.openai_responses.compat import Compat, compat_for
from agent.providers.openai_responses.decode import decode, first_error
from agent.providers.openai_responses.messages import encode_messages
from agent.providers.output_schema import OUTPUT_NAME
from agent.stream import AgentContext, StreamEvent, StreamOptions

__all__ = ["build_request", "decode", "stream", "takes_schema"]

_ANTHROPIC_TOOL = re.compile(r"_\d{8}\Z")  # their types end in a date, such as web_search_20250305


def stream(model: Model, context: AgentContext, options: StreamOptions) -> Iterator[StreamEvent]:
    """The model's answer, event by event. Never raises: whatever fails is the `StreamError` at the end."""
    return exchange(model, context, options, partial(_prepare, model))


def build_request(model: Model, context: AgentContext, options: StreamOptions) -> dict[str, Any]:
    """The body of the request as JSON data: exactly what `stream` sends, before `options.on_payload`.

    Raises ConfigurationError for compat flags the format does not know.
    """
    request: dict[str, Any] = json.loads(_body(model, context, options, tool_names(context.tools)))
    return request


def takes_schema(model: Model, context: AgentContext, options: StreamOptions) -> bool:
    """True when this request brings the schema of the answer."""
    return options.output_schema is not None and compat_for(model).supports_json_schema


def _prepare(model: Model, context: AgentContext, options: StreamOptions) -> Exchange:
    names = tool_names(context.tools)
    own_names = {wire: name for name, wire in names.items()}

    def headers(key: str) -> dict[str, str]:  # later ones win
        return openai_credentials(model, key) | dict(model.headers) | dict(options.headers or {})

    def read(events: SseResponse) -> Iterator[StreamEvent]:
        return decode(events, model.cost, own_names)

    body = _body(model, context, options, names)
    return Exchange(openai_url(model, RESPONSES_PATH), headers, body, first_error, read)


def _body(model: Model, context: AgentContext, options: StreamOptions, names: Mapping[str, str]) -> bytes:
    """The encoded request, put together from the messages' encoded pieces."""
    compat = compat_for(model)
    items = encode_messages(within_budget(context.messages, model), model)
    system_prompt = clean(context.system_prompt)
    if system_prompt.strip():
        role = "developer" if model.reasoning and compat.supports_developer_role else "system"
        items.insert(0, to_json({"role": role, "content": system_prompt}))
    tools = [_tool(tool, names, compat) for tool in context.tools]
    tools += [dict(tool) for tool in options.server_tools if _is_ours(tool)]
    rest = _settings(model, options, compat)
    if tools:
        rest["tools"] = tools
        if options.tool_choice:
            rest["tool_choice"] = _tool_choice(options.tool_choice, names)
    head = b'{"model":' + to_json(model.id) + b',"input":['
    return head + b",".join(items) + b"]," + to_json(rest)[1:]


def _settings(model: Model, options: StreamOptions, compat: Compat) -> dict[str, Any]:
    """All of the body but the model, the input and the tools."""
    body: dict[str, Any] = {"stream": True, "store": False}
    limit = stated_limit(model) if options.max_tokens is None else options.max_tokens
    if limit:
        body["max_output_tokens"] = limit
    if options.temperature is not None:
        body["temperature"] = options.temperature
    if options.output_schema is not None and compat.supports_json_schema:
        wanted = {"name": OUTPUT_NAME, "schema": options.output_schema, "strict": False}
        body["text"] = {"format": {"type": "json_schema"} | wanted}
    if model.reasoning:
        body |= _reasoning(model, options.reasoning, compat)
    if compat.service_tier:
        body["service_tier"] = compat.service_tier
    if options.session_id and options.cache_retention != "none":
        body["prompt_cache_key"] = prompt_cache_key(options)
    if options.cache_retention == "long" and compat.supports_long_cache_retention:
        body["prompt_cache_retention"] = "24h"
    return body


def _reasoning(model: Model, level: str, compat: Compat) -> dict[str, Any]:
    """How hard the model is to think; empty and `off` are the same to a server."""
    # A model thinks by default: without its encrypted thoughts the next request would be refused.
    body: dict[str, Any] = (
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
    """The least a model can think, where it is known what it takes; else nothing, which is its default."""
    levels = model.thinking_levels or ()
    if "off" in levels:
        return "none"
    return "minimal" if "minimal" in levels else ""


def _tool(tool: Any, names: Mapping[str, str], compat: Compat) -> dict[str, Any]:
    function = {
        "type": "function",
        "name": names[tool.name],
        "description": tool.description,
        "parameters": tool.parameters or NO_PARAMETERS,
    }
    return function | ({"strict": False} if compat.supports_strict_mode else {})


def _is_ours(tool: Any) -> bool:
    """False for tools of Anthropic's server, which a run may bring along when it changes its model."""
    return isinstance(tool, Mapping) and not _ANTHROPIC_TOOL.search(str(tool.get("type")))


def _tool_choice(choice: str, names: Mapping[str, str]) -> Any:
    if choice in ("auto", "none", "required"):
        return choice
    return {"type": "function", "name": names.get(choice) or wire_name(choice)}
