"""The agent that the options of a command ask for: its model, tools, system prompt and limits."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from agent.agent import Agent
from agent.cli.permissions.files import Mode
from agent.cli.permissions.gate import Ask, permissions_for
from agent.cli.setup.context_files import describe, for_prompt, read_context_files
from agent.cli.setup.model_choice import choose_name, no_model_text, opened_model
from agent.cli.setup.system_prompt import build_system_prompt
from agent.errors import ConfigurationError
from agent.hooks import Hooks, merge_hooks
from agent.limits import Limits


@contextmanager
def opened_agent(
    options: Any,
    *,
    tell: Callable[[str], object] = lambda text: None,
    ask: Ask | None = None,
    approve: Mode = "auto",
    **more: Any,
) -> Iterator[Agent]:
    """The agent for parsed options, open while the context lasts; `more` goes to `Agent` as it is.

    `tell` is called with each line that a person should see: the context files in use, what becomes of
    rules. `ask` puts calls that need approval to a person; `approve` is the mode when nothing sets one.
    Raises ConfigurationError when a tool or model is unknown, or no model can be chosen.
    """
    tools = chosen_tools(options.cwd, options.tools, options.pass_env)
    name = choose_name(options.model, os.environ)
    if name is None:
        raise ConfigurationError(no_model_text())
    system_prompt = build_system_prompt(
        options.cwd,
        [tool.name for tool in tools],
        options.system_prompt,
        options.append_system_prompt,
        _context_files(options, tell),
    )
    permissions = permissions_for(options, os.environ, default=approve, ask=ask, notify=tell)
    if permissions is not None:
        # The last to judge: it sees the arguments as the call will run with them.
        more["hooks"] = merge_hooks(more.get("hooks"), Hooks(before_tool=permissions.before_tool))
    with opened_model(name, options.base_url, os.environ) as model:
        agent = Agent(
            model,
            system_prompt=system_prompt,
            thinking_level=options.thinking,
            tools=tools,
            limits=Limits(max_turns=options.max_turns),
            **more,
        )
        with agent:
            yield agent


def _context_files(options: Any, tell: Callable[[str], object]) -> list[tuple[str, str]]:
    if not options.context_files:
        return []
    files = read_context_files(options.cwd, os.environ)
    if files:
        tell(f"context: {describe(files, options.cwd)}")
    return [(file.path, for_prompt(file)) for file in files]


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
