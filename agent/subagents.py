"""Agents as tools of other agents: each call prompts a new agent and returns its last text."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING

from agent.errors import ConfigurationError, SubagentPausedError, ToolError
from agent.json_values import JsonObject
from agent.messages import usage_to_json
from agent.runs import RunResult, depth
from agent.tools import AgentTool, ToolContext, ToolResult

if TYPE_CHECKING:
    from agent.agent import Agent

_PARAMETERS = {
    "type": "object",
    "properties": {
        "prompt": {
            "type": "string",
            "description": "The task, with all the information it needs: the agent knows nothing else.",
        }
    },
    "required": ["prompt"],
}


def as_tool(
    make_agent: Callable[[], Agent],
    name: str,
    description: str,
    parallel: bool = False,
    max_depth: int | None = None,
    roll_up_usage: bool = False,
) -> AgentTool:
    """A tool that runs an agent on the `prompt` it is given; its last text is the result.

    `make_agent` is called for each call and makes a new agent, so calls share nothing, also when they run
    side by side (`parallel`); the agent is closed afterwards. Its run is a child of the caller's (see
    `parent_run_id`), and the caller's subscribers receive its events as they come. Aborting the caller aborts
    it.

    A child that fails, is aborted, or pauses for an approval (it cannot get one) makes an error result; one
    that a limit ends returns the text so far. `max_depth` bounds how deep such agents may nest: with 1 only a
    top-level agent can call it. With `roll_up_usage` its usage counts as the caller's, also for its limits.
    `details` of the result hold the run id, stop, turns and usage.
    """
    if max_depth is not None and (type(max_depth) is not int or max_depth < 1):
        raise ConfigurationError(
            f"max_depth must be a whole number of at least 1, or None, not {max_depth!r}"
        )

    def execute(arguments: JsonObject, context: ToolContext) -> ToolResult:
        prompt = arguments.get("prompt")
        if not isinstance(prompt, str) or not prompt.strip():
            raise ToolError("prompt must be a text that describes the task")
        if max_depth is not None and depth() > max_depth:
            raise ToolError(f"{name} can't be used here: such agents may nest {max_depth} deep at most")
        with make_agent() as agent:
            result = _run(agent, name, prompt, context)
        if roll_up_usage:
            context.add_usage(result.usage)
        return _tool_result(result, name)

    return AgentTool(name, description, copy.deepcopy(_PARAMETERS), execute, parallel=parallel)


def _run(agent: Agent, name: str, prompt: str, context: ToolContext) -> RunResult:
    if agent.parks:
        raise ToolError(f"{name} cannot be used: its agent is made with park=True and would wait for a reply")
    run = agent.prompt(prompt)
    remove_callback = context.cancel.on_cancel(agent.abort)
    try:
        return run.result()
    finally:
        remove_callback()


def _tool_result(result: RunResult, name: str) -> ToolResult:
    if result.stop == "paused":
        count = len(result.pending_calls)
        calls = "1 pending tool call" if count == 1 else f"{count} pending tool calls"
        raise SubagentPausedError(
            f"{name} paused with {calls}: a sub-agent can't wait for an approval, so its work is lost"
        )
    if result.stop == "aborted":
        raise ToolError(f"{name} was aborted")
    if result.stop == "error":
        raise ToolError(f"{name} failed: {result.error or 'no reason was given'}")
    details = {"run_id": result.run_id, "stop": result.stop, "turns": result.turns}
    return ToolResult(result.text, details | {"usage": usage_to_json(result.usage)})
