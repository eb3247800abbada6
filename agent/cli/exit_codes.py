"""The exit codes of the command."""

from __future__ import annotations

import sys

from agent.cli.display.clean_text import discard_output

DONE, FAILED, MISUSE, INTERRUPTED = 0, 1, 2, 130


def exit_without_reader(problem: BaseException | None = None) -> int:
    """The exit code when standard output can't be written; reports any `problem` but a closed pipe."""
    if problem is not None and not isinstance(problem, BrokenPipeError):
        print(f"agent: the output can't be written: {problem}", file=sys.stderr)
    discard_output(sys.stdout)
    return FAILED
