"""Which requests go through a proxy."""

from __future__ import annotations

import httpx
import pytest

from agent.providers.http.proxies import ProxySettings


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> str:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("ALL_PROXY", "http://proxy.invalid:1")
    return "http://proxy.invalid:1"


@pytest.mark.parametrize(
    ("no_proxy", "url"),
    [
        ("*", "https://api.example.com"),
        ("api.example.com", "https://api.example.com"),
        ("API.Example.com", "https://api.example.com"),
        ("other, .example.com", "https://api.example.com"),
        ("api.example.com:443", "https://api.example.com"),
        ("example.com:8443", "https://api.example.com:8443"),
        (".example.com:443", "https://api.example.com"),
        ("*.example.com:443", "https://api.example.com"),
        ("localhost:8080", "http://localhost:8080"),
        ("10.0.0.5:8000", "http://10.0.0.5:8000"),
        ("10.0.0.0/8", "http://10.1.2.3:8000"),
        ("192.168.1.7/24", "http://192.168.1.200"),
        ("127.0.0.1", "http://127.0.0.1:11434"),
        ("fd00::/8", "http://[fd12::1]:8000"),
        ("[::1]", "http://[::1]:8000"),
        ("[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_a_listed_host_is_reached_directly(
    no_proxy: str, url: str, proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", no_proxy)
    assert ProxySettings().proxy_for(httpx.URL(url), _port(url)) == ""


@pytest.mark.parametrize(
    ("no_proxy", "url"),
    [
        ("", "https://api.example.com"),
        (" , ,", "https://api.example.com"),
        ("api.example.com:80", "https://api.example.com"),
        ("ample.com:443", "https://api.example.com"),
        ("api.example.com:", "https://api.example.com"),
        (":443", "https://api.example.com"),
        ("10.0.0.0/8", "http://11.0.0.1"),
        ("10.0.0.0/99", "http://10.0.0.1"),
        ("10.0.0.0/8", "http://10.example.com"),
        ("fd00::/8", "http://10.0.0.1"),
    ],
)
def test_any_other_host_is_reached_through_the_proxy(
    no_proxy: str, url: str, proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", no_proxy)
    assert ProxySettings().proxy_for(httpx.URL(url), _port(url)) == proxy


def _port(url: str) -> int:
    parsed = httpx.URL(url)
    return parsed.port or {"http": 80, "https": 443}[parsed.scheme]
