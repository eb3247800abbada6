"""Chooses the model of a command: the option, the environment, or the first provider with a key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from agent.errors import ConfigurationError
from agent.models import PROVIDERS, Model, get_model

LOCAL = "local/smollm2"


def choose_name(flag: str | None, environ: Mapping[str, str]) -> str | None:
    """The name of the model to use, or None when no option, variable or key determines one."""
    named = flag or environ.get("AGENT_MODEL")
    if named:
        return named
    for name, provider in PROVIDERS.items():
        if provider.default_model and _has_key(name, environ):
            return f"{name}/{provider.default_model}"
    return None


def no_model_text() -> str:
    """The error text for when no model can be chosen: which variables to set, and what needs no key."""
    usable = [entry for entry in PROVIDERS.values() if entry.default_model and entry.key_variables]
    variables = ", ".join(entry.key_variables[0] for entry in usable)
    return (
        f"no model: set one of {variables}, or name a model with --model or AGENT_MODEL\n"
        "(for example --model ollama/qwen3 for a server on this machine). `agent demo` needs no key."
    )


@contextmanager
def open_model(name: str, base_url: str, environ: Mapping[str, str]) -> Iterator[Model]:
    """The model of that name; a local one is served while the context lasts.

    The base URL is `base_url`, else `<PROVIDER>_BASE_URL`, else the provider's own.
    """
    provider = name.partition("/")[0]
    base_url = base_url or environ.get(f"{provider.upper()}_BASE_URL", "")
    if base_url and not base_url.lower().startswith(("http://", "https://")):
        raise ConfigurationError(f"the base URL {base_url} does not begin with http:// or https://")
    if name == LOCAL and not base_url:
        from agent.local_model import LocalServer

        with LocalServer() as server:
            yield server.model
        return
    model = get_model(name)
    yield replace(model, base_url=base_url) if base_url else model


def _has_key(provider: str, environ: Mapping[str, str]) -> bool:
    return any(environ.get(variable, "").strip() for variable in PROVIDERS[provider].key_variables)
