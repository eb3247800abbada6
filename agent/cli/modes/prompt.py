"""`agent "prompt"`: runs one prompt in a folder, shows it, and exits with a code for the outcome."""

from __future__ import annotations

import os
import sys
from typing import Protocol, TextIO

from agent.agent import Agent
from agent.cli.display.answer import AnswerRenderer
from agent.cli.display.clean_text import clean, unwrapped
from agent.cli.display.json_lines import JsonRenderer
from agent.cli.display.plain import PlainRenderer
from agent.cli.exit_codes import DONE, FAILED, INTERRUPTED, exit_without_reader
from agent.cli.interrupts import abort_on_signals
from agent.cli.options import RunOptions
from agent.cli.permissions.terminal_prompt import terminal_prompt
from agent.cli.setup.open_agent import Notify, open_agent
from agent.cli.setup.standard_input import read_standard_input
from agent.errors import ConfigurationError
from agent.events import Event
from agent.runs import RunResult


class Renderer(Protocol):
    """A subscriber that shows a run. `closed` is true once writing failed, `problem` is the reason."""

    closed: bool
    problem: BaseException | None
    shows_errors: bool  # the error that ended a run is part of what it writes

    def __call__(self, event: Event) -> None: ...

    def on_retry(self, attempt: int, delay: float, error: str) -> None:
        """Report that a failed request is sent again after `delay` seconds."""


def run_prompt(options: RunOptions) -> int:
    """Run the prompt of the options; returns the exit code."""
    prompt = _prompt(options)
    renderer: Renderer | None = None

    def on_retry(attempt: int, delay: float, error: str) -> None:
        if renderer is not None:
            renderer.on_retry(attempt, delay, error)

    ask = terminal_prompt(lambda: renderer)
    with open_agent(options, notify=_notifier(options), ask=ask, on_retry=on_retry) as agent:
        renderer = _renderer(options, agent)
        return run_agent(agent, prompt, renderer)


def run_agent(agent: Agent, prompt: str, renderer: Renderer) -> int:
    """Run a prompt with a renderer as its subscriber; returns the exit code."""
    with agent, abort_on_signals(agent.abort) as signals:
        agent.subscribe(renderer)
        result = agent.prompt(prompt).result()
    if renderer.closed:
        return exit_without_reader(renderer.problem)
    if signals:
        return INTERRUPTED
    return exit_code(result, is_shown=renderer.shows_errors and sys.stderr.isatty())


def screen_renderer(agent: Agent, cwd: str, *, quiet: bool = False) -> Renderer:
    """The renderer for standard output: rich on a terminal, else plain text without escape codes."""
    if quiet or not wants_rich(sys.stdout):
        return PlainRenderer(sys.stdout, quiet=quiet, on_closed=agent.abort, cwd=cwd)
    from agent.cli.display.view import RunView
    from agent.cli.render import RichRenderer

    return RichRenderer(on_closed=agent.abort, view=RunView(cwd=cwd))


def wants_rich(out: TextIO) -> bool:
    """True for a terminal with colours, unless NO_COLOR is set."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "") in ("dumb", "unknown"):
        return False
    return out.isatty()


def _renderer(options: RunOptions, agent: Agent) -> Renderer:
    if options.json:
        return JsonRenderer(unwrapped(sys.stdout), on_closed=agent.abort)
    if not sys.stdout.isatty():
        return AnswerRenderer(
            sys.stdout, sys.stderr, quiet=options.quiet, on_closed=agent.abort, cwd=options.cwd
        )
    return screen_renderer(agent, options.cwd, quiet=options.quiet)


def _notifier(options: RunOptions) -> Notify:
    """Prints notes on standard error; drops them with `--quiet` and `--json`."""
    if options.quiet or options.json:
        return lambda text: None
    return lambda text: print(clean(text), file=sys.stderr, flush=True)


def _prompt(options: RunOptions) -> str:
    """The prompt of the arguments, followed by piped standard input."""
    given = options.prompt if options.prompt is not None else " ".join(options.words)
    if options.prompt is not None and options.words:
        raise ConfigurationError("give the prompt once: either with -p or as words")
    piped = read_standard_input(sys.stdin)
    if given == "-":
        given = ""
    parts = [part for part in (given, piped) if part.strip()]
    if not parts:
        raise ConfigurationError(
            'no prompt: agent "fix the failing test", or agent -p TEXT, or pipe it in; '
            "agent alone on a terminal is interactive; see agent --help"
        )
    return "\n\n".join(parts)


def exit_code(result: RunResult, is_shown: bool) -> int:
    """The code for how the run ended; a failure is reported on standard error unless it is shown already."""
    match result.stop:
        case "error":
            if not is_shown:
                print(f"agent: {result.error}", file=sys.stderr)
            return FAILED
        case "max_turns":
            print(
                f"agent: stopped after {result.turns} turns, the limit; --max-turns N allows more",
                file=sys.stderr,
            )
            return FAILED
        case "truncated":
            print("agent: the answer was cut off at the model's output limit", file=sys.stderr)
            return FAILED
        case "aborted":
            return INTERRUPTED
    return DONE
