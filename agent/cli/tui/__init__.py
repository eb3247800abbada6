"""`agent` alone on a terminal: the interactive mode. Needs the extra `tui`.

Until its prompt is on the screen only prompt_toolkit and the option parser are loaded: `app` and the modules
it imports at the top import neither the agent nor rich. The rest is loaded with `session`, on a thread.
"""

from __future__ import annotations

from agent.cli.options import RunOptions
from agent.errors import ConfigurationError


def run_interactive(options: RunOptions) -> int:
    """Run the interactive mode until the user leaves; returns the exit code.

    Raises ConfigurationError when the extra is missing, or for an unknown model or tool.
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
