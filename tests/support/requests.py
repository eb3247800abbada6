"""How the tests of the transport make one request, and how they stop it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from agent.cancel import CancelToken
from agent.providers.http.client import ProviderError, post_sse
from agent.retry import RetryPolicy
from agent.stream import StreamOptions

NO_RETRY = RetryPolicy(request=())
# An abort frees within 100 ms; doubled, because the machine that tests may be busy.
PROMPT = 0.2


def options(*waits: float, **changes: Any) -> StreamOptions:
    """Stream options with these waits between the attempts."""
    return StreamOptions(**{"retry": RetryPolicy(request=waits), "timeout": 10.0, **changes})


def post(url: str, opts: StreamOptions, body: bytes = b"{}", **extra: Any) -> list[str]:
    """All payloads of one request."""
    with post_sse(url, authorized, body, options=opts, provider="test", **extra) as events:
        return list(events)


def failure(url: str, opts: StreamOptions, body: bytes = b"{}", **extra: Any) -> ProviderError:
    """The error that the request ends in."""
    try:
        payloads = post(url, opts, body, **extra)
    except ProviderError as error:
        return error
    raise AssertionError(f"the request succeeded: {payloads}")


def authorized(api_key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {api_key}"}


class Requesting:
    """A request on a thread of its own, to be aborted once it waits inside the function `phase`."""

    def __init__(self, url: str, phase: str, body: bytes = b"{}", waits: tuple[float, ...] = ()) -> None:
        self.cancel = CancelToken()
        self.error: ProviderError | None = None
        self._arguments = (url, options(*waits, cancel=self.cancel), body)
        self._phase = phase
        self._thread = threading.Thread(target=self._run, name="requesting")

    def _run(self) -> None:
        self.error = failure(*self._arguments)

    def abort_in_phase(self, condition: Callable[[], bool] = lambda: True) -> float:
        """Start, wait until the phase is reached and `condition` holds, abort; seconds until it was free."""
        self._thread.start()
        wait_until(lambda: self._in_phase() and condition())
        started = time.monotonic()
        self.cancel.cancel()
        self._thread.join(10.0)
        assert not self._thread.is_alive()
        return time.monotonic() - started

    def _in_phase(self) -> bool:
        frame = sys._current_frames().get(self._thread.ident or 0)
        while frame is not None:
            if frame.f_code.co_name == self._phase:
                return True
            frame = frame.f_back
        return False


def wait_until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    """Return once `condition` holds; AssertionError after `seconds`."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        pause.wait(0.002)
