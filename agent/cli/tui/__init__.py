"""`agent` alone on a terminal: the interactive mode. Needs the extra `tui`.

Until its prompt is on screen nothing is loaded but prompt_toolkit and what reads the command line: `app`,
`keys`, `completion` and `commands` import no agent and no rich. The rest comes with `session`, on a thread.
"""

from __future__ import annotations

from typing import Any

from agent.errors import ConfigurationError


def run_interactive(options: Any) -> int:
    """Talk with the agent until the person leaves; the exit code.

    Raises ConfigurationError when the extra is missing or the options ask for what there is not.
    """
    try:
        import prompt_toolkit  # noqa: F401
    except ImportError:
        raise ConfigurationError(
            "agent without a prompt is interactive, which needs prompt_toolkit: "
            'pip install "steady-agent[tui]". For one task: agent "fix the failing test"'
        ) from None
    from agent.cli.tui.app import InteractiveApp

    return InteractiveApp(options).run()
