"""Where a request goes and with which key."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from agent.errors import ConfigurationError
from agent.models import PROVIDERS, Model
from agent.providers.bedrock import BEDROCK, bedrock_url
from agent.stream import StreamOptions

# A base URL that names its version: at its end (`/v1`, `/v1beta`, `/api/paas/v4`), or before the place
# where a gateway speaks OpenAI's format (Google's `/v1beta/openai`, Cloudflare's `/v1/a/b/compat`).
_VERSION = re.compile(r"/v\d+[a-z0-9]*(?:/(?:[^/]+/)*(?:openai|compat))?\Z")


def endpoint(model: Model, path: str, version: str = "/v1") -> str:
    """The URL of `path` (such as `/chat/completions`) at the model's server.

    The base URL may end in a version (then none is added) or in the whole path; an empty one is the
    provider's own. A query string stays at the end.
    """
    base, question, query = base_url(model).partition("?")
    base = base.rstrip("/")
    if not base.endswith(path):
        base += path if _VERSION.search(base) else version + path
    return base + question + query


def base_url(model: Model) -> str:
    """The model's base URL, or its provider's own; raises ConfigurationError when there is neither."""
    base = model.base_url.strip()
    if not base and model.provider == BEDROCK:
        base = bedrock_url()
    if not base and model.provider in PROVIDERS:
        base = PROVIDERS[model.provider].base_url
    if not base:
        known = "has no address of its own" if model.provider in PROVIDERS else "is no known provider"
        raise ConfigurationError(f'the model "{model.id}" has no base_url, and "{model.provider}" {known}')
    return base if "://" in base else f"http://{base}"


def api_key(model: Model, options: StreamOptions) -> str:
    """The key for the model: the one of the options, else of the environment; empty where none is needed.

    A provider of the catalogue that lists variables needs a key; any other server may do without. Raises
    ConfigurationError, which names the variables.
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
    return next(filter(None, _values(model)), "")


def key_variables(model: Model) -> tuple[str, ...]:
    """The environment variables that may hold the key: the catalogue's, else `<PROVIDER>_API_KEY`."""
    known = PROVIDERS.get(model.provider)
    if known is not None and known.key_variables:
        return known.key_variables
    return (re.sub(r"[^A-Z0-9]+", "_", model.provider.upper()) + "_API_KEY",) if model.provider else ()


def _values(model: Model) -> Iterator[str]:
    return (os.environ.get(name, "").strip() for name in key_variables(model))


def _needs_key(model: Model) -> bool:
    if model.provider == BEDROCK:  # a request without a key is signed
        return False
    known = PROVIDERS.get(model.provider)
    return bool(known.key_variables) if known is not None else not model.base_url
