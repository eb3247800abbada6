"""The URL and the credentials of OpenAI's two formats, at OpenAI and on Azure.

Azure serves both formats for a `Model(deployment, api, "azure", base_url)`. The base URL may be

- the resource, `https://NAME.openai.azure.com` (with or without `/openai` or `/openai/v1`): requests go to
  `/openai/v1/...?api-version=v1`;
- the same with a version of its own, `...?api-version=preview`: kept as it is;
- with a dated version, `...?api-version=2024-10-21`, which only the older addresses know: requests go to
  `/openai/deployments/DEPLOYMENT/chat/completions` and `/openai/responses`;
- a gateway's address that ends in a version, a deployment or the whole path: only the rest is added.

A key is sent as the `api-key` header, a token of Entra ID (`get_api_key` may return one) as a bearer token.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qs, quote

from agent.errors import ConfigurationError
from agent.models import Model
from agent.providers.endpoint import base_url, endpoint
from agent.stream import StreamOptions

CHAT_PATH = "/chat/completions"
RESPONSES_PATH = "/responses"

AZURE = "azure"
_AZURE_VERSION = "v1"
_DATED = re.compile(r"\d{4}-\d{2}-\d{2}")
_DEPLOYMENT = re.compile(r"/deployments/[^/]+\Z")
_VERSION_AT_END = re.compile(r"/v\d+\Z")
# Entra ID issues JSON Web Tokens: three parts, the first an object in base64.
_WEB_TOKEN = re.compile(r"eyJ[\w-]*\.[\w-]*\.[\w-]*\Z", re.ASCII)

_CACHE_KEY_LIMIT = 64  # OpenAI's for prompt_cache_key


def openai_url(model: Model, path: str) -> str:
    """The URL of `path`; raises ConfigurationError for an Azure deployment without a version."""
    if model.provider != AZURE:
        return endpoint(model, path)
    base, _, query = base_url(model).partition("?")
    base = base.rstrip("/")
    version = parse_qs(query).get("api-version", [""])[0]
    if not version and "/deployments/" in base:
        raise ConfigurationError(
            f"the base_url of {model.id!r} names an Azure deployment and needs a dated version with it: "
            f"{base}?api-version=2024-10-21"
        )
    if not version:
        query = f"{query}&" * bool(query) + f"api-version={_AZURE_VERSION}"
    if not base.endswith(path):
        base = _azure_root(base, path, model.id, dated=bool(_DATED.match(version))) + path
    return f"{base}?{query}"


def _azure_root(base: str, path: str, deployment: str, dated: bool) -> str:
    """The base of the URL on Azure; a base URL that already names a version or a deployment is kept."""
    if _VERSION_AT_END.search(base) or _DEPLOYMENT.search(base):
        return base
    root = base.removesuffix("/openai") + "/openai"
    if not dated:
        return f"{root}/{_AZURE_VERSION}"
    return f"{root}/deployments/{quote(deployment, safe='')}" if path == CHAT_PATH else root


def openai_credentials(model: Model, key: str) -> dict[str, str]:
    """The header with the key; none without a key."""
    if not key:
        return {}
    if model.provider == AZURE and not _WEB_TOKEN.match(key):
        return {"api-key": key}
    return {"authorization": f"Bearer {key}"}


def prompt_cache_key(options: StreamOptions) -> str:
    """The session id, cut to the length that OpenAI accepts: requests with one key share a cache."""
    return options.session_id[:_CACHE_KEY_LIMIT]
