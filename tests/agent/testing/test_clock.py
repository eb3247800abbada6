"""FakeClock: moves only when the test moves it."""

from __future__ import annotations

from agent.testing import FakeClock


def test_a_fake_clock_moves_only_on_request() -> None:
    clock = FakeClock(now=10.0)
    assert clock.time() == 10.0
    assert clock.wait(2.5) is False
    clock.advance(1.0)
    assert (clock.time(), clock.waits) == (13.5, [2.5])
    clock.cancel.cancel()
    assert clock.wait(99.0) is True
    assert clock.time() == 13.5
