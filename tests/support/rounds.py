"""How often random tests run: one environment variable scales all of them."""

from __future__ import annotations

import os

_FACTOR = float(os.environ.get("AGENT_TEST_ROUNDS", "1"))


def rounds(usual: int) -> int:
    """The number of rounds of a random test: `usual` times the multiplier AGENT_TEST_ROUNDS, at least one."""
    return max(1, round(usual * _FACTOR))
