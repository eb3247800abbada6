"""The URL of a request."""

from __future__ import annotations

import re

from agent.errors import ConfigurationError
from agent.models import PROVIDERS, Model
from agent.providers.bedrock import BEDROCK, bedrock_url

# A base URL that contains its version: at the end (`/v1`, `/v1beta`, `/api/paas/v4`), or before the path
# under which a gateway serves OpenAI's format (Google's `/v1beta/openai`, Cloudflare's `/v1/a/b/compat`).
_VERSION = re.compile(r"/v\d+[a-z0-9]*(?:/(?:[^/]+/)*(?:openai|compat))?\Z")


def endpoint(model: Model, path: str, version: str = "/v1") -> str:
    """The URL of `path` (such as `/chat/completions`) at the model's server.

    The base URL may end in a version (then none is added) or in the whole path; an empty one stands for the
    provider's own. A query string stays at the end.
    """
    base, question, query = base_url(model).partition("?")
    base = base.rstrip("/")
    if not base.endswith(path):
        base += path if _VERSION.search(base) else version + path
    return base + question + query


def base_url(model: Model) -> str:
    """The model's base URL, or its provider's; raises ConfigurationError when there is neither."""
    base = model.base_url.strip()
    if not base and model.provider == BEDROCK:
        base = bedrock_url()
    if not base and model.provider in PROVIDERS:
        base = PROVIDERS[model.provider].base_url
    if not base:
        known = "has no address of its own" if model.provider in PROVIDERS else "is no known provider"
        raise ConfigurationError(f'the model "{model.id}" has no base_url, and "{model.provider}" {known}')
    return base if "://" in base else f"http://{base}"
