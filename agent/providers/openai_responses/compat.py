"""How the servers that speak Responses differ, as flags: found by provider or host, set one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal as L
from typing import get_args
from urllib.parse import urlsplit

from agent.models import Model
from agent.providers.compat_flags import overridden
from agent.providers.endpoint import base_url
from agent.providers.openai_endpoint import AZURE
from agent.providers.output_schema import openai_knows_schemas

ReasoningSummary = L["auto", "concise", "detailed", ""]
ServiceTier = L["", "auto", "default", "flex", "priority", "scale"]


@dataclass(frozen=True, slots=True)
class Compat:
    """What a server understands and insists on; `Model.compat` sets any of these by name.

    `supports_developer_role` is for the system prompt of reasoning models. `reasoning_effort_map` renames
    thinking levels (`off` too). `reasoning_summary` empty asks for none. `service_tier` is sent as it is
    and, with `flex` and `priority`, changes what the answer costs. `supports_json_schema`: the answer may be
    asked for by its schema.
    """

    supports_developer_role: bool = True
    supports_encrypted_reasoning: bool = True
    supports_strict_mode: bool = True
    supports_json_schema: bool = False
    supports_long_cache_retention: bool = False
    reasoning_effort_map: Mapping[str, str] = field(default_factory=dict)
    reasoning_summary: ReasoningSummary = "auto"
    service_tier: ServiceTier = ""


_CHOICES: Mapping[str, tuple[str, ...]] = {
    "reasoning_summary": get_args(ReasoningSummary),
    "service_tier": get_args(ServiceTier),
}


def compat_for(model: Model) -> Compat:
    """The flags for a model: what is known of its server, with `model.compat` over it.

    Raises ConfigurationError for an unknown flag, naming near ones, and for a value a flag can't have.
    """
    openai = model.provider == "openai" or urlsplit(base_url(model)).hostname == "api.openai.com"
    found = Compat(
        supports_long_cache_retention=openai,
        supports_json_schema=(openai or model.provider == AZURE) and openai_knows_schemas(model.id),
    )
    return overridden(found, model.compat, model.api, _CHOICES)
