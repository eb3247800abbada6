"""Builds the agent that the options of a command describe: its model, tools, system prompt and limits."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from agent.agent import Agent
from agent.cli.options import ApprovalMode, RunOptions
from agent.cli.permissions.gate import Ask, Permissions, permissions_for
from agent.cli.setup.context_files import describe, prompt_text, read_context_files
from agent.cli.setup.model_choice import choose_name, no_model_text, open_model
from agent.cli.setup.system_prompt import build_system_prompt
from agent.errors import ConfigurationError
from agent.hooks import Hooks
from agent.limits import Limits
from agent.retry import RetryPolicy

if TYPE_CHECKING:
    from agent_tools.tool import Tool

# Seconds, after those of RetryPolicy.request; the last one repeats.
_BUSY_WAITS = (8.0, 15.0, 30.0)
# A server may ask for a longer wait than ours, in seconds; beyond this the run ends and says so.
_LONGEST_REQUESTED_WAIT = 300.0

Notify = Callable[[str], object]
OnRetry = Callable[[int, float, str], object]


@contextmanager
def open_agent(
    options: RunOptions,
    *,
    notify: Notify = lambda text: None,
    ask: Ask | None = None,
    default_mode: ApprovalMode = "auto",
    on_retry: OnRetry | None = None,
) -> Iterator[Agent]:
    """The agent for parsed options; closed when the context ends.

    `notify` receives each line that the user should see: the context files in use, notes about rules. `ask`
    puts calls that need approval to the user; `default_mode` holds when neither an option nor a settings file
    names a mode. Raises ConfigurationError when a tool or model is unknown, or no model can be chosen.
    """
    permissions = permissions_for(options, os.environ, default=default_mode, ask=ask, notify=notify)
    tools = choose_tools(options.cwd, options.tools, options.pass_env, is_confined=options.sandbox)
    if permissions is not None:
        tools = [_without_hidden_files(tool, options, permissions) for tool in tools]
    name = choose_name(options.model, os.environ)
    if name is None:
        raise ConfigurationError(no_model_text())
    system_prompt = build_system_prompt(
        options.cwd,
        [tool.name for tool in tools],
        options.system_prompt,
        options.append_system_prompt,
        _context_files(options, notify),
    )
    with open_model(name, options.base_url, os.environ) as model:
        agent = Agent(
            model,
            system_prompt=system_prompt,
            thinking_level=options.thinking,
            tools=tools,
            limits=Limits(max_turns=options.max_turns),
            hooks=Hooks(before_tool=permissions.before_tool) if permissions is not None else None,
            on_retry=on_retry,
            retry=retry_policy(options.max_retries),
            max_retry_delay=_LONGEST_REQUESTED_WAIT,
        )
        with agent:
            yield agent


def retry_policy(max_retries: int) -> RetryPolicy:
    """The waits of a command: a busy server is tried for minutes, a connection that fails a few times."""
    quick = RetryPolicy().request
    waits = (*_BUSY_WAITS, *[_BUSY_WAITS[-1]] * max_retries)
    return RetryPolicy(request=quick[:max_retries], busy=waits[: max(0, max_retries - len(quick))])


def _context_files(options: RunOptions, notify: Notify) -> list[tuple[str, str]]:
    if not options.context_files:
        return []
    files = read_context_files(options.cwd, os.environ)
    if files:
        notify(f"context: {describe(files, options.cwd)}")
    return [(file.path, prompt_text(file)) for file in files]


def _without_hidden_files(tool: Tool[Any], options: RunOptions, permissions: Permissions) -> Tool[Any]:
    """The same tool; for a search, one that leaves out the files that rules hide."""
    from agent_tools.find import find_tool
    from agent_tools.grep import grep_tool
    from agent_tools.ls import ls_tool

    exclude = permissions.exclude_for(tool.name)
    if exclude is None:
        return tool
    match tool.name:
        case "grep":
            return grep_tool(options.cwd, confine=options.sandbox, exclude=exclude)
        case "find":
            return find_tool(options.cwd, confine=options.sandbox, exclude=exclude)
        case "ls":
            return ls_tool(options.cwd, confine=options.sandbox, exclude=exclude)
    return tool


def choose_tools(
    cwd: str, names: Sequence[str] | None, pass_env: Sequence[str] = (), is_confined: bool = False
) -> list[Tool[Any]]:
    """The coding tools for a folder, or those with the given names, in that order.

    bash gets an environment without keys and tokens, except for the variables in `pass_env`. Confined tools
    refuse paths outside the folder, and run commands in a sandbox or not at all.
    """
    from agent_tools import coding_tools

    tools = coding_tools(cwd, env_filter=True, pass_env=tuple(pass_env), confine=is_confined)
    if names is None:
        return tools
    by_name = {tool.name: tool for tool in tools}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise ConfigurationError(f"--tools: no tool {', '.join(unknown)}; there are {', '.join(by_name)}")
    return [by_name[name] for name in names]
