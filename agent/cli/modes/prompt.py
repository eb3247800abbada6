"""`agent "prompt"`: run one prompt in a folder, show it, and exit by what came of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from agent.agent import Agent
from agent.cli.display.amounts import duration
from agent.cli.display.json_lines import JsonRenderer
from agent.cli.display.plain import PlainRenderer, clean, one_line
from agent.cli.exit_codes import DONE, FAILED, INTERRUPTED, reader_gone
from agent.cli.interrupts import abort_on_signals
from agent.cli.permissions.terminal_prompt import terminal_prompt
from agent.cli.setup.open_agent import opened_agent
from agent.cli.setup.standard_input import read_standard_input
from agent.errors import ConfigurationError
from agent.runs import RunResult


def run_print(options: Any) -> int:
    """Run the prompt of the options; the exit code."""
    prompt = _prompt(options)
    renderer: Any = None

    def on_retry(attempt: int, delay: float, error: str) -> None:
        report = getattr(renderer, "on_retry", None)
        if report is not None:
            report(attempt, delay, error)
        else:
            tell(f"retry {attempt} in {duration(delay)}: {one_line(error)}")

    tell = _teller(options)
    ask = terminal_prompt(lambda: renderer)
    with opened_agent(options, tell=tell, ask=ask, on_retry=on_retry) as agent:
        renderer = _renderer(options, agent)
        return run_agent(agent, prompt, renderer)


def run_agent(agent: Agent, prompt: str, renderer: Any) -> int:
    """Run a prompt with a renderer as its subscriber; the exit code."""
    with agent, abort_on_signals(agent.abort) as signals:
        agent.subscribe(renderer)
        result = agent.prompt(prompt).result()
    if renderer.closed:
        return reader_gone(renderer.problem)
    if signals:
        return INTERRUPTED
    return _exit_code(result, is_told=getattr(renderer, "tells_errors", False) and sys.stderr.isatty())


def screen_renderer(agent: Agent, *, quiet: bool = False) -> Any:
    """The renderer that fits standard output: rich on a terminal, else plain text without escape codes."""
    if quiet or not wants_rich(sys.stdout):
        return PlainRenderer(sys.stdout, quiet=quiet, on_closed=agent.abort)
    from agent.cli.render import RichRenderer

    return RichRenderer(on_closed=agent.abort)


def wants_rich(out: Any) -> bool:
    """True for a terminal that takes colours, unless NO_COLOR asks for none."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "") in ("dumb", "unknown"):
        return False
    return bool(out.isatty())


def _renderer(options: Any, agent: Agent) -> Any:
    if options.json:
        return JsonRenderer(sys.stdout, on_closed=agent.abort)
    return screen_renderer(agent, quiet=options.quiet)


def _teller(options: Any) -> Callable[[str], object]:
    """Shows what is to be known beside the output; nothing with `--quiet` and `--json`."""
    if options.quiet or options.json:
        return lambda text: None
    return lambda text: print(clean(text), file=sys.stderr, flush=True)


def _prompt(options: Any) -> str:
    """The prompt of the arguments, with what is piped in after it."""
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
            "agent alone on a terminal is interactive. agent --help tells more"
        )
    return "\n\n".join(parts)


def _exit_code(result: RunResult, is_told: bool) -> int:
    """The code for how the run ended, told on standard error unless it stands on the screen already."""
    match result.stop:
        case "error":
            if not is_told:
                print(f"agent: {result.error}", file=sys.stderr)
            return FAILED
        case "max_turns":
            print(
                f"agent: stopped after {result.turns} turns, the limit; --max-turns N allows more",
                file=sys.stderr,
            )
            return FAILED
        case "aborted":
            return INTERRUPTED
    return DONE
