"""Tests against real parts (a model server, ripgrep, a fault injector) that a machine may lack."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def require_or_skip(reason: str) -> NoReturn:
    """Skip the test with `reason`; with AGENT_REQUIRE_REAL=1 in the environment fail it instead."""
    if os.environ.get("AGENT_REQUIRE_REAL") == "1":
        pytest.fail(f"a real part is missing where it must not be: {reason}", pytrace=False)
    pytest.skip(reason)
