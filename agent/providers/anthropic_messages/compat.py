"""Compatibility flags of Anthropic's Messages format, detected from the host of the base URL."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal as L
from typing import get_args
from urllib.parse import urlsplit

from agent.models import Model
from agent.providers.compat_flags import with_overrides
from agent.providers.endpoint import base_url

AdaptiveThinking = L["", "optional", "always"]
ToolStreaming = L["", "eager", "beta"]
ThinkingDisplay = L["", "summarized", "omitted"]


@dataclass(frozen=True, slots=True)
class Compat:
    """The features and requirements of a server and its model.

    `Model.compat` sets any of these by name, also in camelCase.

    - `adaptive_thinking`: the model accepts an effort instead of a budget in tokens; with `always` it thinks
      at every level.
    - `tool_streaming`: arguments are streamed on request of a field of each tool (`eager`), of a beta header
      (`beta`), or not at all.
    - `thinking_display`: thinking comes as a summary or as its signature alone; empty: the model's default.
    - `server_tools`: the tools that the server runs; None: any.
    - `allow_unsigned_thinking`: the server expects thinking back although it signs none.
    - `supports_json_schema`: the request may carry the schema of the answer.
    """

    adaptive_thinking: AdaptiveThinking = ""
    tool_streaming: ToolStreaming = "beta"
    thinking_display: ThinkingDisplay = ""
    supports_temperature: bool = True
    supports_long_cache_retention: bool = False
    supports_betas: bool = True
    bearer_auth: bool = False
    allow_unsigned_thinking: bool = False
    server_tools: Sequence[str] | None = None
    supports_json_schema: bool = False


_CHOICES: Mapping[str, tuple[str, ...]] = {
    "adaptive_thinking": get_args(AdaptiveThinking),
    "tool_streaming": get_args(ToolStreaming),
    "thinking_display": get_args(ThinkingDisplay),
}


def compat_for(model: Model) -> Compat:
    """The flags detected for the model's server, with those of `model.compat` over them.

    Raises ConfigurationError for an unknown flag, naming similar ones, and for a wrong value.
    """
    return with_overrides(_detected(model), model.compat, "anthropic-messages", _CHOICES)


# Models that are known to accept a schema: Opus, Sonnet and Haiku from 4.5 on, not generation 5.
_SCHEMA_MODELS = re.compile(r"claude-(?:opus|sonnet|haiku)-4-(?:[5-9]|\d\d)(?!\d)")


def _detected(model: Model) -> Compat:
    host = (urlsplit(base_url(model)).hostname or "").lower()
    anthropic = host == "api.anthropic.com"
    poe = model.provider == "poe" or host == "api.poe.com"
    copilot = model.provider == "github-copilot" or host.endswith("githubcopilot.com")
    streaming: ToolStreaming = "" if copilot else "eager" if anthropic else "beta"
    return Compat(
        tool_streaming=streaming,
        # Models with the level `xhigh`, and all later ones, refuse a temperature.
        supports_temperature="xhigh" not in model.available_thinking_levels,
        supports_long_cache_retention=anthropic,
        supports_betas=not poe,
        bearer_auth=poe or copilot,
        supports_json_schema=anthropic and bool(_SCHEMA_MODELS.match(model.id)),
    )
