"""The stop signal: one thread sets it, any number wait, callbacks run exactly once."""

from __future__ import annotations

import logging
import signal
import threading
import time

import pytest

from agent.cancel import CancelToken


def test_a_new_token_is_not_set_and_has_no_reason() -> None:
    token = CancelToken()
    assert (token.is_set(), token.reason, token.wait(0)) == (False, "", False)


def test_the_first_reason_stays() -> None:
    token = CancelToken()
    assert token.cancel("first")
    assert not token.cancel("second")
    assert (token.is_set(), token.reason, token.wait()) == (True, "first", True)


def test_a_wait_ends_when_the_token_is_cancelled() -> None:
    token = CancelToken()
    waiting = threading.Event()
    ended: list[bool] = []

    def wait() -> None:
        waiting.set()
        ended.append(token.wait(30))

    threads = [threading.Thread(target=wait) for _ in range(5)]
    for thread in threads:
        thread.start()
    assert waiting.wait(5)
    started = time.monotonic()
    token.cancel()
    for thread in threads:
        thread.join(5)
    assert ended == [True] * 5
    assert time.monotonic() - started < 5


def test_the_reason_is_there_when_the_wait_ends_and_when_callbacks_run() -> None:
    token = CancelToken()
    seen: list[tuple[str, bool]] = []
    token.on_cancel(lambda: seen.append((token.reason, token.is_set())))
    token.cancel("enough")
    assert seen == [("enough", True)]


def test_callbacks_run_once_in_order_on_the_thread_that_cancels() -> None:
    token = CancelToken()
    ran: list[tuple[int, int]] = []
    for n in range(3):
        token.on_cancel(lambda n=n: ran.append((n, threading.get_ident())))
    thread = threading.Thread(target=token.cancel)
    thread.start()
    thread.join()
    token.cancel()
    assert ran == [(n, thread.ident) for n in range(3)]


def test_a_callback_for_a_token_already_set_runs_at_once() -> None:
    token = CancelToken()
    token.cancel()
    ran: list[int] = []
    remove = token.on_cancel(lambda: ran.append(threading.get_ident()))
    assert ran == [threading.get_ident()]
    remove()


def test_a_callback_that_was_taken_back_does_not_run() -> None:
    token = CancelToken()
    ran: list[str] = []
    remove = token.on_cancel(lambda: ran.append("first"))
    token.on_cancel(lambda: ran.append("second"))
    remove()
    remove()
    token.cancel()
    remove()
    assert ran == ["second"]


def test_the_same_callback_may_be_registered_twice_and_taken_back_once() -> None:
    token = CancelToken()
    ran: list[str] = []

    def callback() -> None:
        ran.append("x")

    token.on_cancel(callback)
    token.on_cancel(callback)()
    token.cancel()
    assert ran == ["x"]


def test_a_callback_that_raises_is_logged_and_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    token = CancelToken()
    ran: list[str] = []

    def broken() -> None:
        raise ValueError("boom")

    token.on_cancel(broken)
    token.on_cancel(lambda: ran.append("x"))
    with caplog.at_level(logging.ERROR, logger="agent"):
        assert token.cancel()
    assert ran == ["x"]
    assert "boom" in caplog.text


def test_no_lock_is_held_while_callbacks_run() -> None:
    token = CancelToken()
    ran: list[str] = []

    def callback() -> None:
        other = threading.Thread(target=lambda: token.on_cancel(lambda: ran.append("from another thread")))
        other.start()
        other.join(5)
        assert not other.is_alive()
        token.cancel("again")
        token.on_cancel(lambda: ran.append("from the callback"))

    token.on_cancel(callback)
    token.cancel("once")
    assert ran == ["from another thread", "from the callback"]
    assert token.reason == "once"


def test_every_callback_runs_exactly_once_however_threads_meet() -> None:
    for _ in range(200):
        token = CancelToken()
        counts = [0] * 8
        begin = threading.Barrier(3)

        def register(numbers: range, token: CancelToken = token, counts: list[int] = counts) -> None:
            begin.wait()  # noqa: B023
            for n in numbers:

                def count(n: int = n) -> None:
                    counts[n] += 1

                token.on_cancel(count)

        threads = [threading.Thread(target=register, args=(range(i * 4, i * 4 + 4),)) for i in range(2)]
        for thread in threads:
            thread.start()
        begin.wait()
        token.cancel()
        for thread in threads:
            thread.join()
        assert counts == [1] * 8


def test_only_one_of_many_cancels_counts() -> None:
    token = CancelToken()
    begin = threading.Barrier(8)
    won: list[str] = []

    def cancel(name: str) -> None:
        begin.wait()
        if token.cancel(name):
            won.append(name)

    threads = [threading.Thread(target=cancel, args=(str(n),)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert won == [token.reason]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timer here")
def test_a_signal_handler_may_cancel_whatever_its_thread_is_doing() -> None:
    """The handler runs between two steps of `on_cancel` on the same thread: it must not wait for itself."""
    token = CancelToken()
    counts = {"registered": 0, "ran": 0}

    def count() -> None:
        counts["ran"] += 1

    before = signal.signal(signal.SIGVTALRM, lambda number, frame: token.cancel("signal"))
    try:
        for _ in range(100):
            token = CancelToken()
            counts["registered"] = counts["ran"] = 0
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.0005)
            while not token.is_set():
                counts["registered"] += 1
                token.on_cancel(count)
            assert counts["ran"] == counts["registered"]
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


# -- children ------------------------------------------------------------------------------------------


def test_a_child_is_cancelled_with_its_parent_and_for_its_reason() -> None:
    parent = CancelToken()
    grandchild = parent.child().child()
    parent.cancel("enough")
    assert (grandchild.is_set(), grandchild.reason) == (True, "enough")


def test_a_child_may_be_cancelled_alone() -> None:
    parent = CancelToken()
    child, sibling = parent.child(), parent.child()
    child.cancel("alone")
    assert (parent.is_set(), sibling.is_set(), child.reason) == (False, False, "alone")
    parent.cancel("later")
    assert (child.reason, sibling.reason) == ("alone", "later")


def test_a_child_of_a_cancelled_token_is_cancelled() -> None:
    parent = CancelToken()
    parent.cancel("enough")
    assert parent.child().reason == "enough"


def test_a_cancelled_child_leaves_nothing_with_its_parent() -> None:
    parent = CancelToken()
    child = parent.child()
    assert len(parent._callbacks) == 1
    child.cancel()
    assert len(parent._callbacks) == 0


# -- interruptions -------------------------------------------------------------------------------------


def test_a_wait_longer_than_any_lock_can_wait_is_clipped() -> None:
    token = CancelToken()
    threading.Timer(0.01, token.cancel).start()
    assert token.wait(1e300)


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_wait_of_no_time_returns_at_once(seconds: float) -> None:
    assert not CancelToken().wait(seconds)


@pytest.mark.parametrize("error", [SystemExit(), ValueError(), type("Odd", (BaseException,), {})()])
def test_whatever_a_callback_raises_stops_no_other(error: BaseException) -> None:
    """FR-3"""
    token = CancelToken()
    ran: list[str] = []

    def broken() -> None:
        raise error

    token.on_cancel(broken)
    token.on_cancel(lambda: ran.append("x"))
    assert token.cancel()
    assert ran == ["x"]


def test_a_ctrl_c_in_a_callback_comes_through_after_the_others_have_run() -> None:
    token = CancelToken()
    ran: list[str] = []

    def interrupted() -> None:
        raise KeyboardInterrupt

    token.on_cancel(interrupted)
    token.on_cancel(lambda: ran.append("x"))
    with pytest.raises(KeyboardInterrupt):
        token.cancel("why")
    assert (ran, token.reason) == (["x"], "why")
