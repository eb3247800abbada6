"""Fixtures for every test: a check for leftover threads and child processes, and loopback servers."""

from __future__ import annotations

import subprocess
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


@pytest.fixture(scope="session")
def latin_1(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables that select a locale with an encoding of one byte, made for these tests."""
    folder, name = tmp_path_factory.mktemp("locales"), "en_US.ISO-8859-1"
    options = ["-i", "en_US", "-f", "ISO-8859-1", "--no-archive"]
    try:
        subprocess.run(["localedef", *options, str(folder / name)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("localedef makes no locale here")
    return {"LOCPATH": str(folder), "LC_ALL": name}
