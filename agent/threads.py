"""Starting threads so that a Ctrl-C does no harm."""

from __future__ import annotations

import signal
import threading
from types import FrameType


def start_thread(thread: threading.Thread) -> None:
    """Start a thread; on the main thread, a Ctrl-C that comes meanwhile is handled after that.

    `Thread.start` waits for the new thread on an Event. An exception of a signal handler in there can leave
    the lock of the Event taken, and the new thread would wait for it for ever. Raises RuntimeError when the
    system gives out no more threads, and what the handler raises.
    """
    is_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGINT) if is_main else None
    if not callable(handler):
        thread.start()
        return
    received: list[FrameType | None] = []
    try:
        signal.signal(signal.SIGINT, lambda number, frame: received.append(frame))
    except ValueError:  # not the main interpreter
        thread.start()
        return
    try:
        thread.start()
    finally:
        signal.signal(signal.SIGINT, handler)
        if received:
            handler(signal.SIGINT, received[0])
