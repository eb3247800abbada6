"""Loopback ports for servers that are started by the tests."""

from __future__ import annotations

import socket


def find_free_port() -> int:
    """A port of 127.0.0.1 that had no listener a moment ago."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])
