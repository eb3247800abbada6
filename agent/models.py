"""What a model is, where it lives, and the short catalogue of known ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.errors import ConfigurationError, UnknownModelError
from agent.usage import ModelCost


@dataclass(frozen=True, slots=True)
class Model:
    """One model at one provider.

    `api` names the wire format, `base_url` the server (empty: the provider's own; with or without `/v1`).
    `context_window` and `max_tokens` are in tokens. `cost=None` is an unknown price. `compat` overrides
    single flags of the wire format for servers that differ. `thinking_levels=None` stands for `off` alone
    when `reasoning` is false, else for `off` up to `high`.
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
    headers: Mapping[str, str] = field(default_factory=dict)
    compat: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        for name in ("input", "thinking_levels"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, tuple):
                object.__setattr__(self, name, tuple(value))

    @property
    def available_thinking_levels(self) -> tuple[str, ...]:
        """The levels a request may ask for."""
        if self.thinking_levels is not None:
            return self.thinking_levels
        return ("off", "minimal", "low", "medium", "high") if self.reasoning else ("off",)

    @property
    def supports_images(self) -> bool:
        """True when the model sees images."""
        return "image" in self.input


@dataclass(frozen=True, slots=True)
class Provider:
    """Where a provider's models are served and which environment variables hold its key.

    `models` is the closed list of its ids, or None when any id may be asked for. `default_model` is what the
    command uses when only a key is given.
    """

    api: str
    base_url: str
    key_variables: tuple[str, ...] = ()
    models: Mapping[str, Model] | None = None
    default_model: str = ""


def _openai(id: str, window: int, output: int, price: tuple[float, float, float], **more: Any) -> Model:
    cost = ModelCost(price[0], price[1], price[2])
    images = ("text", "image")
    return Model(
        id,
        "openai-completions",
        "openai",
        name=id,
        input=images,
        context_window=window,
        max_tokens=output,
        cost=cost,
        **more,
    )


def _by_id(models: Sequence[Model]) -> dict[str, Model]:
    return {model.id: model for model in models}


# Windows, limits and prices (input, output, cached input; dollars per million tokens) as OpenAI's own pages
# listed them in 2025.
_OPENAI = _by_id(
    [
        _openai("gpt-4o", 128_000, 16_384, (2.5, 10.0, 1.25)),
        _openai("gpt-4o-mini", 128_000, 16_384, (0.15, 0.6, 0.075)),
        _openai("gpt-4.1", 1_047_576, 32_768, (2.0, 8.0, 0.5)),
        _openai("gpt-4.1-mini", 1_047_576, 32_768, (0.4, 1.6, 0.1)),
        _openai("gpt-4.1-nano", 1_047_576, 32_768, (0.1, 0.4, 0.025)),
        _openai(
            "o3", 200_000, 100_000, (2.0, 8.0, 0.5), reasoning=True, thinking_levels=("low", "medium", "high")
        ),
        _openai(
            "o4-mini",
            200_000,
            100_000,
            (1.1, 4.4, 0.275),
            reasoning=True,
            thinking_levels=("low", "medium", "high"),
        ),
        _openai(
            "gpt-5",
            400_000,
            128_000,
            (1.25, 10.0, 0.125),
            reasoning=True,
            thinking_levels=("minimal", "low", "medium", "high"),
        ),
        _openai(
            "gpt-5-mini",
            400_000,
            128_000,
            (0.25, 2.0, 0.025),
            reasoning=True,
            thinking_levels=("minimal", "low", "medium", "high"),
        ),
        _openai(
            "gpt-5-nano",
            400_000,
            128_000,
            (0.05, 0.4, 0.005),
            reasoning=True,
            thinking_levels=("minimal", "low", "medium", "high"),
        ),
    ]
)


def _claude(id: str, output: int, price: tuple[float, float, float, float]) -> Model:
    return Model(
        id,
        "anthropic-messages",
        "anthropic",
        name=id,
        reasoning=True,
        input=("text", "image"),
        context_window=200_000,
        max_tokens=output,
        cost=ModelCost(*price),
    )


# From Anthropic's own pages in 2025, in the same units; the fourth price is a five-minute cache write.
_ANTHROPIC = _by_id(
    [
        _claude("claude-sonnet-4-5", 64_000, (3.0, 15.0, 0.3, 3.75)),
        _claude("claude-haiku-4-5", 64_000, (1.0, 5.0, 0.1, 1.25)),
        _claude("claude-opus-4-1", 32_000, (15.0, 75.0, 1.5, 18.75)),
        _claude("claude-sonnet-4-0", 64_000, (3.0, 15.0, 0.3, 3.75)),
    ]
)


def _gemini(id: str, price: tuple[float, float, float]) -> Model:
    return Model(
        id,
        "google-generative-ai",
        "google",
        name=id,
        reasoning=True,
        input=("text", "image"),
        context_window=1_048_576,
        max_tokens=65_536,
        cost=ModelCost(*price),
    )


# From Google's own pages in 2025, for prompts of up to 200,000 tokens.
_GOOGLE = _by_id(
    [
        _gemini("gemini-2.5-pro", (1.25, 10.0, 0.31)),
        _gemini("gemini-2.5-flash", (0.3, 2.5, 0.075)),
        _gemini("gemini-2.5-flash-lite", (0.1, 0.4, 0.025)),
    ]
)

# In the order in which the command looks for a key.
PROVIDERS: Mapping[str, Provider] = {
    "anthropic": Provider(
        "anthropic-messages",
        "https://api.anthropic.com",
        ("ANTHROPIC_API_KEY",),
        _ANTHROPIC,
        "claude-sonnet-4-5",
    ),
    "openai": Provider(
        "openai-completions", "https://api.openai.com/v1", ("OPENAI_API_KEY",), _OPENAI, "gpt-5-mini"
    ),
    "google": Provider(
        "google-generative-ai",
        "https://generativelanguage.googleapis.com",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        _GOOGLE,
        "gemini-2.5-flash",
    ),
    "openrouter": Provider(
        "openai-completions",
        "https://openrouter.ai/api/v1",
        ("OPENROUTER_API_KEY",),
        default_model="anthropic/claude-sonnet-4.5",
    ),
    "groq": Provider(
        "openai-completions",
        "https://api.groq.com/openai/v1",
        ("GROQ_API_KEY",),
        default_model="openai/gpt-oss-120b",
    ),
    "deepseek": Provider(
        "openai-completions",
        "https://api.deepseek.com/v1",
        ("DEEPSEEK_API_KEY",),
        default_model="deepseek-chat",
    ),
    "ollama": Provider("openai-completions", "http://127.0.0.1:11434/v1"),
    "vllm": Provider("openai-completions", "http://127.0.0.1:8000/v1"),
    "llamacpp": Provider("openai-completions", "http://127.0.0.1:8080/v1"),
    "local": Provider("openai-completions", "http://127.0.0.1:8080/v1"),
}


def get_model(name: str) -> Model:
    """The model called `provider/id`, for example `openai/gpt-5-mini`.

    Providers with an open set of ids build a model from any id, of unknown price and with the default window.
    Raises UnknownModelError, naming near ids, for an unknown provider or an id a closed provider lacks; a
    model that is not listed can always be described with `Model(...)`.
    """
    provider_name, slash, id = name.partition("/")
    provider = PROVIDERS.get(provider_name)
    if provider is None or not slash or not id:
        raise _unknown(name)
    if provider.models is None:
        return Model(id, provider.api, provider_name, name=id)
    if id not in provider.models:
        raise _unknown(name)
    return provider.models[id]


def resolve_model(model: Model | str | None) -> Model | None:
    """A model given as such or by its name; None stays None. Raises ConfigurationError for anything else."""
    if model is None or isinstance(model, Model):
        return model
    if isinstance(model, str):
        return get_model(model)
    raise ConfigurationError(
        f"model must be a Model, a name such as 'openai/gpt-5-mini', or None, not {model!r}"
    )


def _unknown(name: str) -> UnknownModelError:
    from difflib import get_close_matches

    listed = [f"{provider}/{id}" for provider, entry in PROVIDERS.items() for id in entry.models or ()]
    near = get_close_matches(name, listed, n=3, cutoff=0.4)
    if not near:
        near = [full for full in listed if full.partition("/")[2] == name][:3]
    hint = f"Did you mean {' or '.join(near)}?" if near else f"Known providers: {', '.join(PROVIDERS)}."
    return UnknownModelError(
        f"unknown model {name!r}: a name is 'provider/id'. {hint} "
        "A model that is not listed can be described with Model(id, api, provider, base_url=...)."
    )
