"""Models, their providers, and the models known by name."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from agent.errors import ConfigurationError, UnknownModelError
from agent.json_values import JsonMapping
from agent.model_list import model_list
from agent.usage import ModelCost


@dataclass(frozen=True, slots=True)
class Model:
    """One model at one provider.

    `api` names the wire format, `base_url` the server (empty: the provider's own; with or without `/v1`).
    `context_window` and `max_tokens` are in tokens. `cost=None` means that the price is unknown. `compat`
    overrides single flags of the wire format for servers that differ. `thinking_levels=None` stands for `off`
    alone when `reasoning` is false, else for `off` to `high`.
    """

    id: str
    api: str
    provider: str
    base_url: str = ""
    name: str = ""
    reasoning: bool = False
    input: tuple[str, ...] = ("text",)
    context_window: int = 128_000
    max_tokens: int = 8_192
    cost: ModelCost | None = None
    thinking_levels: tuple[str, ...] | None = None
    headers: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)
    compat: JsonMapping | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        for name in ("input", "thinking_levels"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, tuple):
                object.__setattr__(self, name, (value,) if isinstance(value, str) else tuple(value))

    @property
    def available_thinking_levels(self) -> tuple[str, ...]:
        """The thinking levels that a request may have."""
        if self.thinking_levels is not None:
            return self.thinking_levels
        return ("off", "minimal", "low", "medium", "high") if self.reasoning else ("off",)

    @property
    def supports_images(self) -> bool:
        """True when the model accepts images."""
        return "image" in self.input


@dataclass(frozen=True, slots=True)
class Provider:
    """The wire format and the base URL of a provider, and the environment variables for its key.

    With `any_id`, `get_model` takes ids that are not in the model list. The command uses `default_model`
    when only a key is given.
    """

    api: str
    base_url: str
    key_variables: tuple[str, ...] = ()
    any_id: bool = True
    default_model: str = ""


_COMPLETIONS = "openai-completions"

# In the order in which the command looks for a key.
PROVIDERS: Mapping[str, Provider] = {
    "anthropic": Provider(
        "anthropic-messages",
        "https://api.anthropic.com",
        ("ANTHROPIC_API_KEY", "ANTHROPIC_OAUTH_TOKEN"),
        False,
        "claude-sonnet-5-5",
    ),
    "openai": Provider(_COMPLETIONS, "https://api.openai.com/v1", ("OPENAI_API_KEY",), False, "gpt-6-sol"),
    "google": Provider(
        "google-generative-ai",
        "https://generativelanguage.googleapis.com",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        False,
        "gemini-3.8-flash",
    ),
    # Each resource has its own URL, which the model or --base-url has to give.
    "azure": Provider(_COMPLETIONS, "", ("AZURE_OPENAI_API_KEY",)),
    "bedrock": Provider(_COMPLETIONS, "", ("AWS_BEARER_TOKEN_BEDROCK",)),
    "openrouter": Provider(
        _COMPLETIONS,
        "https://openrouter.ai/api/v1",
        ("OPENROUTER_API_KEY",),
        default_model="openrouter/auto",
    ),
    "groq": Provider(
        _COMPLETIONS,
        "https://api.groq.com/openai/v1",
        ("GROQ_API_KEY",),
        default_model="openai/gpt-oss-120b",
    ),
    "deepseek": Provider(
        _COMPLETIONS, "https://api.deepseek.com/v1", ("DEEPSEEK_API_KEY",), default_model="deepseek-v4-pro"
    ),
    "ollama": Provider(_COMPLETIONS, "http://127.0.0.1:11434/v1"),
    "vllm": Provider(_COMPLETIONS, "http://127.0.0.1:8000/v1"),
    "llamacpp": Provider(_COMPLETIONS, "http://127.0.0.1:8080/v1"),
    "local": Provider(_COMPLETIONS, "http://127.0.0.1:8080/v1"),
}


def get_model(name: str) -> Model:
    """The model called `provider/id`, for example `openai/gpt-5-mini`.

    For providers with an open set of ids any id gives a model, of unknown price and with the default window.
    Raises UnknownModelError, naming similar ids, for an unknown provider and for an unknown id of a provider
    with a closed set. `Model(...)` describes a model that is not in the list.
    """
    provider_name, slash, id = name.partition("/")
    provider = PROVIDERS.get(provider_name)
    if provider is None or not slash or not id:
        raise _unknown(name)
    known = known_models().get(name)
    if known is not None:
        return known
    if not provider.any_id:
        raise _unknown(name)
    return Model(id, provider.api, provider_name, name=id)


@functools.cache
def known_models() -> Mapping[str, Model]:
    """All models of the model list by `provider/id`. The list is read at the first call."""
    return {f"{entry['provider']}/{entry['id']}": _model(entry) for entry in model_list().entries}


def resolve_model(model: Model | str | None) -> Model | None:
    """The model, or the one with this name; None for None. Raises ConfigurationError for anything else."""
    if model is None or isinstance(model, Model):
        return model
    if isinstance(model, str):
        return get_model(model)
    raise ConfigurationError(
        f"model must be a Model, a name such as 'openai/gpt-5-mini', or None, not {model!r}"
    )


def _unknown(name: str) -> UnknownModelError:
    from difflib import get_close_matches

    listed = list(known_models())
    provider, slash, _ = name.partition("/")
    if provider and slash and provider not in PROVIDERS:
        problem, cutoff = f"unknown provider {provider!r} of model {name!r}.", 0.8
    else:
        problem, cutoff = f"unknown model {name!r}: a name is 'provider/id'.", 0.4
    near = get_close_matches(name, listed, n=3, cutoff=cutoff)
    if not near:
        near = [full for full in listed if full.partition("/")[2] == name][:3]
    hint = f"Did you mean {' or '.join(near)}?" if near else f"Known providers: {', '.join(PROVIDERS)}."
    return UnknownModelError(
        f"{problem} {hint} "
        "A model that is not listed can be described with Model(id, api, provider, base_url=...), or on the "
        "command line with --model local/ID --base-url URL."
    )


def _model(entry: JsonMapping) -> Model:
    """The model of an entry of the list. Its price may be null, which is unknown and not zero."""
    levels = tuple(entry["levels"])
    price = entry["price"]
    adaptive = entry.get("adaptive")
    return Model(
        entry["id"],
        entry["api"],
        entry["provider"],
        name=entry["id"],
        reasoning=levels != ("off",),
        input=("text", "image") if entry["image"] else ("text",),
        context_window=entry["context"],
        max_tokens=entry["output"],
        cost=None if price is None else replace(ModelCost(*price), tiers=_tiers(entry)),
        thinking_levels=levels,
        compat={"adaptive_thinking": adaptive} if adaptive else None,
    )


def _tiers(entry: JsonMapping) -> tuple[tuple[int, ModelCost], ...]:
    """The prices of long prompts, with the tokens above which they count."""
    return tuple((above, ModelCost(*price)) for above, price in entry.get("tiers", ()))
