"""How the servers that speak Anthropic's Messages differ, as flags: found by host, set one by one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal as L
from typing import get_args
from urllib.parse import urlsplit

from agent.models import Model
from agent.providers.compat_flags import overridden
from agent.providers.endpoint import base_url

AdaptiveThinking = L["", "optional", "always"]
ToolStreaming = L["", "eager", "beta"]
ThinkingDisplay = L["", "summarized", "omitted"]


@dataclass(frozen=True, slots=True)
class Compat:
    """What a server and its model understand and insist on.

    `Model.compat` sets any of these by name, in this spelling or in camelCase. `adaptive_thinking`: the model
    takes an effort instead of a budget of tokens; `always`, it can't be told not to think. `tool_streaming`
    is how arguments are asked for piece by piece: by a field of each tool, by a beta header, or not at all.
    `thinking_display` is whether thinking comes as a summary or only as its signature (empty: the model's
    default). `server_tools` are the tools the server runs (None: any). `allow_unsigned_thinking`: the server
    wants thinking back though it signs none. `supports_json_schema`: the answer may be asked for by its
    schema.
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
    """The flags for a model: what is known of its server, with `model.compat` over it.

    Raises ConfigurationError for an unknown flag, naming near ones, and for a value a flag can't have.
    """
    return overridden(_detected(model), model.compat, "anthropic-messages", _CHOICES)


# Those known to take a schema of the answer: Opus, Sonnet and Haiku from 4.5 on. Of generation 5 it is not.
_KNOWS_SCHEMAS = re.compile(r"claude-(?:opus|sonnet|haiku)-4-(?:[5-9]|\d\d)(?!\d)")


def _detected(model: Model) -> Compat:
    host = (urlsplit(base_url(model)).hostname or "").lower()
    anthropic = host == "api.anthropic.com"
    poe = model.provider == "poe" or host == "api.poe.com"
    copilot = model.provider == "github-copilot" or host.endswith("githubcopilot.com")
    streaming: ToolStreaming = "" if copilot else "eager" if anthropic else "beta"
    return Compat(
        tool_streaming=streaming,
        # The models that brought `xhigh`, and all after them, refuse to have their sampling changed.
        supports_temperature="xhigh" not in model.available_thinking_levels,
        supports_long_cache_retention=anthropic,
        supports_betas=not poe,
        bearer_auth=poe or copilot,
        supports_json_schema=anthropic and bool(_KNOWS_SCHEMAS.match(model.id)),
    )
