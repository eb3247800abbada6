"""The command `agent`: chooses the mode that the arguments ask for and loads only that one."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from agent.cli.exit_codes import INTERRUPTED, MISUSE, exit_without_reader
from agent.cli.options import RunOptions, parse_demo, parse_models, parse_run
from agent.errors import ConfigurationError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # the parent process closed the descriptor
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - in use until the process ends
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a character that the encoding lacks must not raise
    try:
        return _dispatch(arguments)
    except ConfigurationError as error:
        print(f"agent: {error}", file=sys.stderr)
        return MISUSE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return exit_without_reader()


def _dispatch(arguments: Sequence[str]) -> int:
    # Each mode is imported when it is chosen: the interactive one shows its prompt before the rest is loaded.
    match arguments[:1]:
        case ["demo"]:
            from agent.cli.modes.demo import run_demo

            return run_demo(parse_demo(arguments[1:]))
        case ["models"]:
            from agent.cli.modes.models import run_models

            return run_models(parse_models(arguments[1:]))
    options = parse_run(arguments)
    if options.rpc:
        from agent.cli.modes.rpc import run_rpc

        return run_rpc(options)
    if options.acp:
        from agent.cli.modes.acp import run_acp

        return run_acp(options)
    if _is_interactive(options):
        from agent.cli.tui import run_interactive

        return run_interactive(options)
    from agent.cli.modes.prompt import run_prompt

    return run_prompt(options)


def _is_interactive(options: RunOptions) -> bool:
    """True for `agent` without a prompt or output option when both ends are a terminal."""
    if options.prompt is not None or options.words or options.json or options.quiet:
        return False
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))
