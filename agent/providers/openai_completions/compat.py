"""Compatibility flags of Chat Completions, detected from the provider or the host of the base URL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal as L
from typing import get_args
from urllib.parse import urlsplit

from agent.json_values import JsonMapping
from agent.models import Model
from agent.providers.compat_flags import with_overrides
from agent.providers.endpoint import base_url
from agent.providers.output_schema import openai_supports_schemas

ThinkingFormat = L["openai", "openrouter", "deepseek", "zai", "qwen", "qwen-chat-template"]
MaxTokensField = L["max_completion_tokens", "max_tokens"]
CacheControlFormat = L["", "anthropic"]


@dataclass(frozen=True, slots=True)
class Compat:
    """The features and requirements of a server. `Model.compat` sets any of these by name, also in camelCase.

    - `supports_store`, `supports_developer_role`: off unless the server is known to accept them.
    - `thinking_format`: the fields that ask for thinking; `reasoning_effort_map` renames the levels.
    - `requires_reasoning_content_on_assistant_messages`: True sends reasoning back with every answer (empty
      if it has none), False never, None only to models with `reasoning`, and only reasoning that they made.
    - `open_router_routing` is sent as `provider`, `vercel_gateway_routing` as `providerOptions.gateway`.
    - `supports_json_schema`: the request may carry the schema of the answer; `..._with_tools`: also with
      tools, which many servers refuse or then never call.
    """

    supports_store: bool = False
    supports_developer_role: bool = False
    supports_reasoning_effort: bool = True
    supports_usage_in_streaming: bool = True
    supports_strict_mode: bool = True
    supports_json_schema: bool = False
    supports_json_schema_with_tools: bool = False
    supports_prompt_cache_key: bool = False
    supports_long_cache_retention: bool = True
    max_tokens_field: MaxTokensField = "max_completion_tokens"
    thinking_format: ThinkingFormat = "openai"
    reasoning_effort_map: Mapping[str, str] = field(default_factory=dict)
    preserve_thinking: bool = False
    cache_control_format: CacheControlFormat = ""
    requires_tool_result_name: bool = False
    requires_assistant_after_tool_result: bool = False
    requires_thinking_as_text: bool = False
    requires_reasoning_content_on_assistant_messages: bool | None = None
    requires_mistral_tool_ids: bool = False
    requires_tools_with_tool_history: bool = False
    send_session_affinity_headers: bool = False
    zai_tool_stream: bool = False
    strip_additional_properties: bool = False
    open_router_routing: JsonMapping | None = None
    vercel_gateway_routing: JsonMapping | None = None


def compat_for(model: Model) -> Compat:
    """The flags detected for the model's server, with those of `model.compat` over them.

    Raises ConfigurationError for an unknown flag, naming similar ones, and for a wrong value.
    """
    detected = _detected(model.provider, base_url(model), model.id, model.reasoning)
    return with_overrides(detected, model.compat, "openai-completions", _CHOICES)


# By server its provider ids and parts of its host names.
_OPENAI = ("openai", "api.openai.com")
_AZURE = ("azure", ".openai.azure.com", ".cognitiveservices.azure.com")
_CLOUDFLARE_GATEWAY = ("cloudflare-ai-gateway", "gateway.ai.cloudflare.com")
_CLOUDFLARE = ("cloudflare", "cloudflare-workers-ai", "api.cloudflare.com", *_CLOUDFLARE_GATEWAY)
_MOONSHOT = ("moonshot", "moonshotai", "moonshotai-cn", "api.moonshot.")
_ZAI = ("zai", "api.z.ai", "open.bigmodel.cn")
_XAI = ("xai", "api.x.ai")
_DEEPSEEK = ("deepseek", "deepseek.com")
_CHUTES = ("chutes", "chutes.ai")
_MISTRAL = ("mistral", "api.mistral.ai")
_POE = ("poe", "api.poe.com")
_OPENROUTER = ("openrouter", "openrouter.ai")

_DEEPSEEK_EFFORTS = {
    "minimal": "high",
    "low": "high",
    "medium": "high",
    "high": "high",
    "xhigh": "max",
    "max": "max",
}
_ANY_EFFORT_IS_DEFAULT = dict.fromkeys(("minimal", "low", "medium", "high", "xhigh", "max"), "default")


@lru_cache(64)  # asked for each request
def _detected(provider: str, url: str, model_id: str, reasoning: bool) -> Compat:
    def at(names: tuple[str, ...]) -> bool:
        return provider in names or any("." in name and name in host for name in names)

    host = (urlsplit(url).hostname or "").lower()
    # The provider's name decides; the host of a provider called `openai` may be a proxy.
    standard = at((*_OPENAI, *_AZURE))
    thinking: ThinkingFormat = "openai"
    efforts: Mapping[str, str] = {}
    if at(_ZAI):
        thinking = "zai"
    elif at(_DEEPSEEK):
        thinking, efforts = "deepseek", _DEEPSEEK_EFFORTS
    elif at(_OPENROUTER):
        thinking = "openrouter"
    elif at(("groq", "api.groq.com")) and model_id == "qwen/qwen3-32b":
        efforts = _ANY_EFFORT_IS_DEFAULT
    # Servers that accept, or once accepted, the older name only.
    old_limit = at((*_CHUTES, *_MOONSHOT, *_CLOUDFLARE_GATEWAY, *_DEEPSEEK, *_MISTRAL, "ollama"))
    claude = at(_OPENROUTER) and model_id.startswith("anthropic/")
    return Compat(
        supports_store=standard,
        supports_developer_role=standard,
        supports_reasoning_effort=not at((*_XAI, *_ZAI, *_MOONSHOT, *_CLOUDFLARE_GATEWAY)),
        supports_strict_mode=not at((*_MOONSHOT, *_CLOUDFLARE_GATEWAY)),
        supports_json_schema=standard and openai_supports_schemas(model_id),
        supports_json_schema_with_tools=standard,
        supports_prompt_cache_key=at(_OPENAI),
        supports_long_cache_retention=not at(_CLOUDFLARE),
        max_tokens_field="max_tokens" if old_limit else "max_completion_tokens",
        thinking_format=thinking,
        reasoning_effort_map=efforts,
        cache_control_format="anthropic" if claude else "",
        requires_tool_result_name=at(_MISTRAL),
        requires_assistant_after_tool_result=at(_MISTRAL),
        requires_thinking_as_text=at(_MISTRAL),
        requires_reasoning_content_on_assistant_messages=True if at(_DEEPSEEK) and reasoning else None,
        requires_mistral_tool_ids=at(_MISTRAL),
        # Claude behind a proxy requires `tools`, even an empty list, when the history has calls; OpenAI,
        # DeepSeek, Qwen and vLLM answer 400 to an empty list.
        requires_tools_with_tool_history=at(("litellm",)) or "claude" in model_id.lower(),
        strip_additional_properties=at(_POE),
    )


_CHOICES: Mapping[str, tuple[str, ...]] = {
    "max_tokens_field": get_args(MaxTokensField),
    "thinking_format": get_args(ThinkingFormat),
    "cache_control_format": get_args(CacheControlFormat),
}
