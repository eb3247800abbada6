"""The stop signal of a run: one thread sets it, any number wait for it, callbacks free what blocks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

logger = logging.getLogger("agent")


class CancelToken:
    """A thread-safe, one-way stop signal.

    Threads: every method may be called from any thread. `_lock` guards the callback table and the moment
    of setting; callbacks run on the thread that cancels (or at once on the registering thread when the
    token is already set), outside the lock, each exactly once; one that raises is logged and stops no
    other. The lock is reentrant: a signal handler or a finalizer may cancel on a thread that is just inside
    one of these methods. Satisfies the small protocol tools rely on: `is_set()` and `wait(timeout)`.
    """

    __slots__ = ("_callbacks", "_event", "_lock", "_reason")

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.RLock()
        self._callbacks: dict[object, Callable[[], object]] = {}
        self._reason = ""

    @property
    def reason(self) -> str:
        """Why it was cancelled; empty before that."""
        return self._reason

    def is_set(self) -> bool:
        """True once cancelled."""
        return self._event.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait up to `timeout` seconds (None: for ever); True when cancelled."""
        return self._event.wait(timeout)

    def cancel(self, reason: str = "cancelled") -> bool:
        """Set the signal and run the callbacks; False when it was set before (the first reason stays)."""
        with self._lock:
            if self._event.is_set():
                return False
            self._reason = self._reason or reason
            self._event.set()
            callbacks, self._callbacks = list(self._callbacks.values()), {}
        for callback in callbacks:
            _run(callback)
        return True

    def on_cancel(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Run `callback` when cancelled, at once if that has happened; returns what takes it back."""
        key = object()
        with self._lock:
            # In the table before the look at the event: a cancel that comes between must find it.
            self._callbacks[key] = callback
            if not self._event.is_set():
                return lambda: self._forget(key)
            was_run = self._callbacks.pop(key, None) is None
        if not was_run:
            _run(callback)
        return lambda: None

    def child(self) -> CancelToken:
        """A token that is cancelled with this one and may be cancelled alone.

        A child that outlives its use should be cancelled, or it stays registered with its parent.
        """
        token = CancelToken()
        remove = self.on_cancel(lambda: token.cancel(self._reason))
        token.on_cancel(remove)
        return token

    def _forget(self, key: object) -> None:
        with self._lock:
            self._callbacks.pop(key, None)


def _run(callback: Callable[[], object]) -> None:
    try:
        callback()
    except Exception:
        logger.exception("a cancel callback failed")
