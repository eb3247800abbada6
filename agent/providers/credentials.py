"""The API key of a request."""

from __future__ import annotations

import os
import re
from urllib.parse import urlsplit

from agent.errors import ConfigurationError
from agent.models import PROVIDERS, Model
from agent.providers.bedrock import BEDROCK
from agent.stream import StreamOptions


def api_key(model: Model, options: StreamOptions) -> str:
    """The key for the model: from the options, else from the environment; empty where none is needed.

    A known provider that lists environment variables needs a key; other servers may do without. Raises
    ConfigurationError that names the variables.
    """
    if options.api_key:
        return options.api_key
    if options.api_key_error:
        raise ConfigurationError(f'no API key for provider "{model.provider}": {options.api_key_error}')
    key = environment_key(model)
    if key or not _needs_key(model):
        return key
    variables = " or ".join(key_variables(model))
    raise ConfigurationError(
        f'no API key for provider "{model.provider}": set {variables}, or pass get_api_key= to the Agent'
    )


def environment_key(model: Model) -> str:
    """The first non-empty key among the provider's environment variables."""
    values = (os.environ.get(name, "").strip() for name in key_variables(model))
    return next(filter(None, values), "")


def rejected_key_text(model: Model, *, is_given: bool, url: str) -> str:
    """Which key a server rejected, without the key: its variable, or that it was given or missing."""
    host = urlsplit(url).netloc.rpartition("@")[2]
    if is_given:
        return f"{host} rejected the API key that the program gave"
    variables = key_variables(model)
    used = next((name for name in variables if os.environ.get(name, "").strip()), "")
    if used:
        return f"{host} rejected the key in {used}"
    return f"{host} wants a key, and none was sent: set {' or '.join(variables) or 'api_key'}"


def key_variables(model: Model) -> tuple[str, ...]:
    """The environment variables for the key: those of a known provider, else `<PROVIDER>_API_KEY`."""
    known = PROVIDERS.get(model.provider)
    if known is not None and known.key_variables:
        return known.key_variables
    return (re.sub(r"[^A-Z0-9]+", "_", model.provider.upper()) + "_API_KEY",) if model.provider else ()


def _needs_key(model: Model) -> bool:
    if model.provider == BEDROCK:  # a request without a key is signed
        return False
    known = PROVIDERS.get(model.provider)
    return bool(known.key_variables) if known is not None else not model.base_url
