"""The URL and the credentials of a request to Gemini, there and on Vertex."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.gemini import GEMINI_3

from agent.errors import ConfigurationError
from agent.models import Model
from agent.providers.google_generative_ai.endpoint import gemini_credentials, gemini_url

PATH = "/v1beta/models/gemini-3.8-flash:streamGenerateContent?alt=sse"


# --- addresses ---


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("", "https://generativelanguage.googleapis.com" + PATH),
        ("https://h", "https://h" + PATH),
        ("https://h/", "https://h" + PATH),
        ("https://h/v1beta", "https://h" + PATH),
        ("https://h/v1beta/", "https://h" + PATH),
        ("https://h/v1", "https://h" + PATH.replace("v1beta", "v1")),
        ("https://h/gemini?tenant=a", "https://h/gemini" + PATH.replace("?", "?tenant=a&")),
        ("https://h" + PATH, "https://h" + PATH),
    ],
)
def test_the_base_url_may_name_its_version(base: str, url: str) -> None:
    model = replace(GEMINI_3, base_url=base)
    assert gemini_url(model, "k") == url


def test_an_id_may_name_its_collection() -> None:
    for id, path in (("models/x", "/v1beta/models/x:"), ("tunedModels/x", "/v1beta/tunedModels/x:")):
        model = replace(GEMINI_3, id=id, base_url="https://h")
        assert path in gemini_url(model, "k")
    odd = replace(GEMINI_3, id="a?b#c", base_url="https://h")
    assert "/models/a%3Fb%23c:" in gemini_url(odd, "k")


# --- Vertex ---

VERTEX = replace(GEMINI_3, provider="vertex", compat={"project": "p1", "location": "europe-west4"})


def vertex_url(model: Model = VERTEX, key: str = "ya29.token", **compat: str) -> str:
    model = replace(model, compat=compat or model.compat)
    return gemini_url(model, key).removesuffix(":streamGenerateContent?alt=sse")


def test_vertex_is_asked_at_its_location_for_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOGLE_CLOUD_LOCATION", raising=False)
    tail = "publishers/google/models/gemini-3.8-flash"
    assert vertex_url() == (
        f"https://europe-west4-aiplatform.googleapis.com/v1/projects/p1/locations/europe-west4/{tail}"
    )
    assert vertex_url(project="p1") == (
        f"https://aiplatform.googleapis.com/v1/projects/p1/locations/global/{tail}"
    )
    assert vertex_url(project="p1", location="eu").startswith("https://aiplatform.eu.rep.googleapis.com/v1/")


def test_vertex_finds_project_and_location_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p2")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "us-east1")
    assert "/projects/p2/locations/us-east1/" in vertex_url(replace(VERTEX, compat=None))
    assert "/projects/p1/locations/europe-west4/" in vertex_url()


def test_vertex_without_a_project_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT", raising=False)
    with pytest.raises(ConfigurationError, match="set GOOGLE_CLOUD_PROJECT"):
        vertex_url(replace(VERTEX, compat=None))
    assert vertex_url(replace(VERTEX, compat=None), key="AIzaKey").endswith(
        "aiplatform.googleapis.com/v1/publishers/google/models/gemini-3.8-flash"
    )


def test_vertex_takes_tokens_and_api_keys() -> None:
    assert gemini_credentials(VERTEX, "ya29.token") == {"authorization": "Bearer ya29.token"}
    assert gemini_credentials(VERTEX, "AIzaKey") == {"x-goog-api-key": "AIzaKey"}
    assert gemini_credentials(VERTEX, "") == {}


def test_vertex_takes_a_base_url_that_names_the_project() -> None:
    base = "https://gateway/v1/projects/p9/locations/asia"
    url = vertex_url(replace(VERTEX, base_url=base, id="models/gemini-x"))
    assert url == f"{base}/publishers/google/models/gemini-x"
    assert vertex_url(replace(VERTEX, base_url="https://gateway")).startswith(
        "https://gateway/v1/projects/p1/"
    )


def test_vertex_serves_other_publishers_and_endpoints() -> None:
    assert vertex_url(replace(VERTEX, id="meta/llama-4")).endswith("/publishers/meta/models/llama-4")
    assert vertex_url(replace(VERTEX, id="endpoints/123")).endswith("/locations/europe-west4/endpoints/123")
