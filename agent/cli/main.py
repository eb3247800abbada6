"""The command `agent`: chooses the mode that the arguments ask for and loads only that one."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from agent.cli.display.clean_text import OutputError, cleaned
from agent.cli.exit_codes import INTERRUPTED, MISUSE, exit_without_reader
from agent.cli.options import RunOptions, parse_demo, parse_models, parse_run
from agent.errors import ConfigurationError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    from agent_tools.process.own_secrets import hide_own_secrets

    arguments = sys.argv[1:] if arguments is None else list(arguments)
    hide_own_secrets()
    with _clean_output():
        try:
            try:
                return _dispatch(arguments)
            finally:  # not at the interpreter's exit, where a failure would be a traceback
                sys.stdout.flush()
        except ConfigurationError as error:
            print(f"agent: {error}", file=sys.stderr)
            return MISUSE
        except KeyboardInterrupt:
            return INTERRUPTED
        except (OutputError, BrokenPipeError) as error:
            return exit_without_reader(error.__cause__)


@contextmanager
def _clean_output() -> Iterator[None]:
    """While open, text written to standard output and standard error is cleaned of control characters.

    Writers of escape codes and of JSON use the stream inside (`unwrapped`).
    """
    before = sys.stdout, sys.stderr
    sys.stdout = cleaned(_usable(sys.stdout))
    sys.stderr = cleaned(_usable(sys.stderr), is_optional=True)
    yield
    sys.stdout, sys.stderr = before  # not after an exception: its traceback is cleaned as well


def _usable(stream: TextIO | None) -> TextIO:
    if stream is None:  # the parent process closed the descriptor
        return open(os.devnull, "w")
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="replace")  # a character that the encoding lacks must not raise
    return stream


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
