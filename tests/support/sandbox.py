"""Marks tests that need bubblewrap, and skips them where it cannot run."""

from __future__ import annotations

import os

import pytest

from agent_tools.process.sandbox import Bubblewrap
from agent_tools.tool import ToolFailure


def _reason_against() -> str:
    """The reason why there can be no sandbox here; "" when there can."""
    try:
        Bubblewrap(os.getcwd(), protect=()).wrap(["bash", "-c", ":"], os.getcwd(), dict(os.environ)).end()
    except ToolFailure as failure:
        return str(failure)
    return ""


_REASON = _reason_against()
needs_sandbox = pytest.mark.skipif(bool(_REASON), reason=_REASON)
