"""`agent "prompt"`: run one prompt in a folder, show it, and exit by what came of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from agent.agent import Agent
from agent.cli.interrupts import INTERRUPTED, abort_on_signals
from agent.cli.json_lines import JsonRenderer
from agent.cli.model_choice import choose_name, no_model_text, opened_model
from agent.cli.options import demo_parser, run_parser
from agent.cli.plain import PlainRenderer
from agent.cli.standard_input import read_standard_input
from agent.errors import ConfigurationError
from agent.limits import Limits
from agent.prompt import build_system_prompt
from agent.runs import RunResult

DONE, FAILED, MISUSE = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit code."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # whatever a model says can be shown
    try:
        if arguments[:1] == ["demo"]:
            from agent.cli.demo import run_demo

            return run_demo(demo_parser().parse_args(arguments[1:]))
        return _run(run_parser().parse_args(arguments))
    except ConfigurationError as error:
        print(f"agent: {error}", file=sys.stderr)
        return MISUSE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return _reader_gone()


def _run(options: Any) -> int:
    cwd = os.path.abspath(os.path.expanduser(options.cwd))
    if not os.path.isdir(cwd):
        raise ConfigurationError(f"--cwd: {options.cwd} is not a folder")
    prompt = _prompt(options)
    tools = chosen_tools(cwd, options.tools, options.pass_env)
    name = choose_name(options.model, os.environ)
    if name is None:
        raise ConfigurationError(no_model_text(os.environ))
    with opened_model(name, options.base_url, os.environ) as model:
        names = [tool.name for tool in tools]
        agent = Agent(
            model,
            system_prompt=build_system_prompt(
                cwd, names, options.system_prompt, options.append_system_prompt
            ),
            thinking_level=options.thinking,
            tools=tools,
            limits=Limits(max_turns=options.max_turns),
        )
        renderer: Any
        if options.json:
            renderer = JsonRenderer(sys.stdout, on_closed=agent.abort)
        else:
            renderer = PlainRenderer(sys.stdout, quiet=options.quiet, on_closed=agent.abort)
        return run_agent(agent, prompt, renderer)


def run_agent(agent: Agent, prompt: str, renderer: Any) -> int:
    """Run a prompt with a renderer as its subscriber; the exit code."""
    with agent, abort_on_signals(agent.abort) as signals:
        agent.subscribe(renderer)
        result = agent.prompt(prompt).result()
    if renderer.closed:
        return _reader_gone()
    if signals:
        return INTERRUPTED
    return _exit_code(result)


def chosen_tools(cwd: str, names: Sequence[str] | None, pass_env: Sequence[str]) -> list[Any]:
    """The coding tools for a folder, or those of them that are named.

    bash gets an environment without keys and tokens, but for the variables in `pass_env`.
    """
    from agent_tools import coding_tools

    tools = coding_tools(cwd, env_filter=True, pass_env=tuple(pass_env))
    if names is None:
        return tools
    by_name = {tool.name: tool for tool in tools}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise ConfigurationError(f"--tools: no tool {', '.join(unknown)}; there are {', '.join(by_name)}")
    return [by_name[name] for name in names]


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
            "the interactive mode is not built yet. agent --help tells more"
        )
    return "\n\n".join(parts)


def _exit_code(result: RunResult) -> int:
    match result.stop:
        case "error":
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


def _reader_gone() -> int:
    """Nobody reads our output any more: end without the complaint Python would make at exit."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    return FAILED
