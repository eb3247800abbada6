"""An agent as a tool of another: a fresh one per call, told a prompt, answering with its last text."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agent.errors import ConfigurationError, SubagentPausedError, ToolError
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
            "description": "The task, with everything needed to do it: nothing else is known there.",
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

    `make_agent` is called for each call and makes a fresh agent, so calls know nothing of each other, also
    when they run side by side (`parallel`); the agent is closed afterwards. Its run is a child of the
    caller's: `parent_run_id` says so, and the caller's subscribers hear of its events as they come. Aborting
    the caller aborts it.

    A child that fails, is aborted or pauses for approval, which nobody could give, makes an error result;
    one that a limit ends gives the text so far. `max_depth` bounds how deep such agents may nest: with 1 it
    can be called by an agent that nobody else runs. With `roll_up_usage` what it spends counts as the
    caller's, also towards its limits. `details` of the result hold the run id, stop, turns and usage.
    """
    if max_depth is not None and (type(max_depth) is not int or max_depth < 1):
        raise ConfigurationError(
            f"max_depth must be a whole number of at least 1, or None, not {max_depth!r}"
        )

    def execute(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        prompt = arguments.get("prompt")
        if not isinstance(prompt, str) or not prompt.strip():
            raise ToolError("prompt must be a text that says what to do")
        if max_depth is not None and depth() > max_depth:
            raise ToolError(f"{name} can't be used here: such agents may nest {max_depth} deep at most")
        with make_agent() as agent:
            result = _run(agent, name, prompt, context)
        if roll_up_usage:
            context.add_usage(result.usage)
        return _told(result, name)

    return AgentTool(name, description, copy.deepcopy(_PARAMETERS), execute, parallel=parallel)


def _run(agent: Agent, name: str, prompt: str, context: ToolContext) -> RunResult:
    if agent.parks:
        raise ToolError(f"{name} would wait for a reply that never comes: its agent is made with park=True")
    run = agent.prompt(prompt)
    stop_listening = context.cancel.on_cancel(agent.abort)
    try:
        return run.result()
    finally:
        stop_listening()


def _told(result: RunResult, name: str) -> ToolResult:
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
