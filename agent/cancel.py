"""The stop signal of a run, and the flag that it and the handles of runs are made of."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable

logger = logging.getLogger("agent")


# A blocking wait on the main thread may miss Ctrl-C: the signal can go to another thread, and on Windows
# nothing wakes a lock. Python runs the handlers on the main thread between two instructions, so that thread
# waits in slices of this many seconds.
SIGNAL_POLL_SECONDS = 0.1


def poll_timeout() -> float | None:
    """The longest single wait on this thread, in seconds; None on any but the main thread."""
    return SIGNAL_POLL_SECONDS if threading.current_thread() is threading.main_thread() else None


class Latch:
    """A flag that is set once and that any number of threads wait for.

    Threads: every method may be called from any thread, from a finalizer and from a signal handler, which may
    interrupt another of them on the same thread. That rules out `threading.Event`: its lock is not reentrant,
    and an exception of a signal handler (Ctrl-C) can leave it locked for ever. No two callers share a lock
    here: each waiter has one of its own, released by the caller that takes it out of `_waiters`. Dict
    operations are atomic.
    """

    __slots__ = ("_is_set", "_waiters")

    def __init__(self) -> None:
        self._is_set = False
        self._waiters: dict[object, Callable[[], None]] = {}

    def is_set(self) -> bool:
        """True once set."""
        return self._is_set

    def set(self) -> None:
        """Set the flag and wake all who wait for it."""
        self._is_set = True
        for key in list(self._waiters):
            release = self._waiters.pop(key, None)
            if release is not None:
                release()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait up to `timeout` seconds, None: without a limit; True when it is set.

        On the main thread signal handlers run meanwhile.
        """
        if self._is_set:
            return True
        lock = threading.Lock()
        lock.acquire()
        self._waiters[lock] = lock.release
        try:
            # Looked at after the entry is there: a `set` that comes in between finds the entry.
            return self._is_set or _acquire(lock, timeout) or self._is_set
        finally:
            self._waiters.pop(lock, None)


def _acquire(lock: threading.Lock, timeout: float | None) -> bool:
    """Take a lock within `timeout` seconds, in slices on the main thread."""
    end = math.inf if timeout is None else time.monotonic() + timeout
    longest = poll_timeout() or threading.TIMEOUT_MAX
    while (left := end - time.monotonic()) > 0:
        if lock.acquire(timeout=min(left, longest)):
            return True
    return False


class CancelToken:
    """A thread-safe, one-way stop signal.

    Threads: every method may be called from any thread, from a finalizer and from a signal handler, as with
    `Latch`; no lock is held. Callbacks run on the thread that cancels, or at once on the registering thread
    when the token is set already: each exactly once, by the caller that takes it out of `_callbacks`, which
    is atomic. One that raises is logged and stops no other. Has the protocol that tools rely on: `is_set()`
    and `wait(timeout)`.
    """

    __slots__ = ("_callbacks", "_latch", "_reasons")

    def __init__(self) -> None:
        self._latch = Latch()
        self._callbacks: dict[object, Callable[[], object]] = {}
        self._reasons: dict[str, tuple[str]] = {}  # "first": of the call that counts

    @property
    def reason(self) -> str:
        """Why it was cancelled; empty before that."""
        first = self._reasons.get("first")
        return "" if first is None else first[0]

    def is_set(self) -> bool:
        """True once cancelled."""
        return self._latch.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait up to `timeout` seconds, None: without a limit; True when cancelled."""
        return self._latch.wait(timeout)

    def cancel(self, reason: str = "cancelled") -> bool:
        """Set the signal and run the callbacks; False when another call was first, whose reason stays."""
        mine = (reason,)
        is_first = self._reasons.setdefault("first", mine) is mine
        # A later call continues where an exception ended the first: a Ctrl-C may come at any point here.
        self._latch.set()
        interrupt: KeyboardInterrupt | None = None
        for key in list(self._callbacks):
            try:
                self._run(key)
            except KeyboardInterrupt as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt
        return is_first

    def on_cancel(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Run `callback` when cancelled, at once if that has happened; returns its removal."""
        key = object()
        # Registered before the flag is looked at: a cancel that comes in between finds it.
        self._callbacks[key] = callback
        if self._latch.is_set():
            self._run(key)
        return lambda: self._forget(key)

    def child(self) -> CancelToken:
        """A token that is cancelled with this one and may be cancelled alone.

        A child that outlives its use should be cancelled, or it stays registered with its parent.
        """
        token = CancelToken()
        remove = self.on_cancel(lambda: token.cancel(self.reason))
        token.on_cancel(remove)
        return token

    def _run(self, key: object) -> None:
        callback = self._callbacks.pop(key, None)
        if callback is None:
            return
        try:
            callback()
        except BaseException as error:  # also SystemExit, which must not end the thread that cancels
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise  # a Ctrl-C, on the thread that gets those
            logger.exception("a cancel callback failed")

    def _forget(self, key: object) -> None:
        self._callbacks.pop(key, None)
