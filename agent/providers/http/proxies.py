"""The proxies of the environment and of the operating system."""

from __future__ import annotations

import ipaddress
import urllib.request

import httpx


class ProxySettings:
    """`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` (any case), read once, when it is made.

    On macOS and Windows the system's settings serve where the environment has none.
    """

    def __init__(self) -> None:
        self._proxies = urllib.request.getproxies()

    def proxy_for(self, url: httpx.URL, port: int) -> str:
        """The URL of the proxy for a request to `url`; empty for a direct connection."""
        proxy = self._proxies.get(url.scheme) or self._proxies.get("all") or ""
        if not proxy or self._is_excluded(url.host, port):
            return ""
        return proxy if "://" in proxy else f"http://{proxy}"

    def _is_excluded(self, host: str, port: int) -> bool:
        """True when `NO_PROXY` or the system lists the host: a name, a domain, `host:port`, a CIDR range."""
        if urllib.request.proxy_bypass(host):
            return True
        entries = [entry.strip().lower() for entry in self._proxies.get("no", "").split(",")]
        return any(_names_port(entry, host, port) or _is_network_of(entry, host) for entry in entries)


def _names_port(entry: str, host: str, port: int) -> bool:
    """True for an entry `host:port` or `.domain:port` that names this host and port."""
    name, colon, number = entry.rpartition(":")
    if not colon or number != str(port):
        return False
    name = name.strip("[]").removeprefix("*").lstrip(".")
    return bool(name) and (host == name or host.endswith(f".{name}"))


def _is_network_of(entry: str, host: str) -> bool:
    """True when the entry is an IP address or a range in CIDR notation that the host's address belongs to."""
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        return False
