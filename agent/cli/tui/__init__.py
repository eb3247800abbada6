"""`agent` alone on a terminal: the interactive mode. Needs the extra `tui`."""

from __future__ import annotations

from typing import Any

from agent.errors import ConfigurationError


def run_interactive(options: Any) -> int:
    """Talk with the agent until the person leaves; the exit code."""
    raise ConfigurationError(
        'no prompt: agent "fix the failing test", or agent -p TEXT, or pipe it in; '
        "the interactive mode is not built yet. agent --help tells more"
    )
