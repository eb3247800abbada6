"""The command `agent`: finds out which of its modes is asked for, and loads that one alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from agent.cli.exit_codes import INTERRUPTED, MISUSE, reader_gone
from agent.cli.options import demo_parser, models_parser, run_parser
from agent.errors import ConfigurationError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit code."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - it is the stream from now on
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # whatever a model says can be shown
    try:
        return _dispatch(arguments)
    except ConfigurationError as error:
        print(f"agent: {error}", file=sys.stderr)
        return MISUSE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return reader_gone()


def _dispatch(arguments: Sequence[str]) -> int:
    # Each mode is imported when it is chosen: the interactive one has its prompt on screen before the rest.
    match arguments[:1]:
        case ["demo"]:
            from agent.cli.modes.demo import run_demo

            return run_demo(demo_parser().parse_args(arguments[1:]))
        case ["models"]:
            from agent.cli.modes.models import run_models

            return run_models(models_parser().parse_args(arguments[1:]))
    options = run_parser().parse_args(arguments)
    _check_folder(options)
    if options.rpc:
        from agent.cli.modes.rpc import run_rpc

        return run_rpc(options)
    if options.acp:
        from agent.cli.modes.acp import run_acp

        return run_acp(options)
    if _is_interactive(options):
        from agent.cli.tui import run_interactive

        return run_interactive(options)
    from agent.cli.modes.prompt import run_print

    return run_print(options)


def _check_folder(options: Any) -> None:
    """Make `--cwd` absolute; raises ConfigurationError when it is no folder."""
    try:
        cwd = os.path.abspath(os.path.expanduser(options.cwd))
    except FileNotFoundError:
        raise ConfigurationError(
            "the current folder no longer exists: go to another, or name one with --cwd"
        ) from None
    if not os.path.isdir(cwd):
        raise ConfigurationError(f"--cwd: {options.cwd} is not a folder")
    options.cwd = cwd


def _is_interactive(options: Any) -> bool:
    """True for `agent` alone on a terminal; a prompt, a pipe or another form of output is for one run."""
    if options.prompt is not None or options.words or options.json or options.quiet:
        return False
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))
