"""Compatibility flags of the Responses format, detected from the provider or the host of the base URL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal as L
from typing import get_args
from urllib.parse import urlsplit

from agent.models import Model
from agent.providers.compat_flags import with_overrides
from agent.providers.endpoint import base_url
from agent.providers.openai_endpoint import AZURE
from agent.providers.output_schema import openai_supports_schemas

ReasoningSummary = L["auto", "concise", "detailed", ""]
ServiceTier = L["", "auto", "default", "flex", "priority", "scale"]


@dataclass(frozen=True, slots=True)
class Compat:
    """The features and requirements of a server. `Model.compat` sets any of these by name, also in camelCase.

    - `supports_developer_role`: for the system prompt of reasoning models.
    - `reasoning_effort_map` renames thinking levels, `off` too. An empty `reasoning_summary` requests none.
    - `service_tier` is sent unchanged; `flex` and `priority` change the price of the answer.
    - `supports_json_schema`: the request may carry the schema of the answer.
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
    """The flags detected for the model's server, with those of `model.compat` over them.

    Raises ConfigurationError for an unknown flag, naming similar ones, and for a wrong value.
    """
    openai = model.provider == "openai" or urlsplit(base_url(model)).hostname == "api.openai.com"
    found = Compat(
        supports_long_cache_retention=openai,
        supports_json_schema=(openai or model.provider == AZURE) and openai_supports_schemas(model.id),
    )
    return with_overrides(found, model.compat, model.api, _CHOICES)
