"""The URL and the credentials of Google's format: Gemini's own API, or Vertex.

Vertex is the provider `vertex`; it serves every model of Google:

    replace(get_model("google/gemini-3.8-flash"), provider="vertex", compat={"project": "my-project"})

The project is `compat["project"]` or GOOGLE_CLOUD_PROJECT, the location `compat["location"]` or
GOOGLE_CLOUD_LOCATION, else `global`. The key is an access token (of `gcloud auth print-access-token`, or from
the package google-auth through `get_api_key`, which is asked before every request and once more when one was
rejected) or an API key, which needs no project. Access tokens are not made from service account files here.
"""

from __future__ import annotations

import os
from urllib.parse import quote

from agent.errors import ConfigurationError
from agent.models import Model
from agent.providers.endpoint import endpoint
from agent.providers.google_generative_ai.compat import Compat, compat_for

VERTEX = ("vertex", "google-vertex")
_METHOD = ":streamGenerateContent"
# How Google's API keys begin; anything else is an access token.
_API_KEYS = ("AIza", "AQ.")
# Locations that span several regions have a host of another form.
_MULTI_REGIONS = ("us", "eu")


def gemini_url(model: Model, key: str) -> str:
    """The URL that streams an answer; raises ConfigurationError when the project for Vertex is missing."""
    if model.provider in VERTEX:
        url = _vertex_url(model, compat_for(model), key)
    else:
        named = model.id.startswith(("models/", "tunedModels/"))
        resource = model.id if named else f"models/{model.id}"
        url = endpoint(model, f"/{_quoted(resource)}{_METHOD}", "/v1beta")
    return url if "alt=sse" in url else f"{url}{'&' if '?' in url else '?'}alt=sse"


def gemini_credentials(model: Model, key: str) -> dict[str, str]:
    """The header with the key; none without a key."""
    if not key:
        return {}
    if model.provider in VERTEX and not key.startswith(_API_KEYS):
        return {"authorization": f"Bearer {key}"}
    return {"x-goog-api-key": key}


def _vertex_url(model: Model, compat: Compat, key: str) -> str:
    location = compat.location or os.environ.get("GOOGLE_CLOUD_LOCATION", "").strip() or "global"
    base = model.base_url.strip().rstrip("/") or f"https://{_vertex_host(location)}/v1"
    if "/projects/" in base:
        return f"{base}/{_vertex_model(model.id)}{_METHOD}"
    project = compat.project or os.environ.get("GOOGLE_CLOUD_PROJECT", "").strip()
    if not project and not key.startswith(_API_KEYS):
        raise ConfigurationError(
            f"Vertex needs the project for {model.id!r}: set GOOGLE_CLOUD_PROJECT, or give the model "
            'compat={"project": "..."}'
        )
    place = f"/projects/{quote(project, safe='')}/locations/{quote(location, safe='')}" if project else ""
    at = Model(model.id, model.api, model.provider, base)
    return endpoint(at, f"{place}/{_vertex_model(model.id)}{_METHOD}", "/v1")


def _vertex_host(location: str) -> str:
    if location == "global":
        return "aiplatform.googleapis.com"
    if location in _MULTI_REGIONS:
        return f"aiplatform.{location}.rep.googleapis.com"
    return f"{location}-aiplatform.googleapis.com"


def _vertex_model(id: str) -> str:
    """The resource name of a model; an id such as `anthropic/claude-x` contains its publisher."""
    if id.startswith(("publishers/", "endpoints/")):
        return _quoted(id)
    publisher, slash, name = id.removeprefix("models/").partition("/")
    if not slash:
        publisher, name = "google", publisher
    return _quoted(f"publishers/{publisher}/models/{name}")


def _quoted(resource: str) -> str:
    return quote(resource, safe="/@")
