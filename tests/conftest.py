"""Fixtures for every test: a check for leftover threads and child processes, and loopback servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from support.leftovers import Leftovers
from support.ports import find_free_port
from support.real import require_or_skip as _require_or_skip
from support.sse_server import SseServer


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Fail a test that leaves a thread or a child process behind, after a grace for those that are ending."""
    leftovers = Leftovers()
    yield
    left = leftovers.wait(seconds=2.0)
    if left:
        pytest.fail("the test left behind: " + "; ".join(left), pytrace=False)


@pytest.fixture
def free_port() -> int:
    """A loopback port that had no listener a moment ago."""
    return find_free_port()


@pytest.fixture
def sse_server() -> Iterator[SseServer]:
    """A scripted HTTP server on loopback: see `support.sse_server`."""
    with SseServer() as server:
        yield server


@pytest.fixture
def require_or_skip() -> Callable[[str], None]:
    """`require_or_skip(reason)`: skips, or fails where the real parts must be there."""
    return _require_or_skip
