"""A synchronous, thread-based agent runtime: prompts in, a stream of events out, tools run in between.

    from agent import Agent, tool

    @tool
    def add(a: int, b: int) -> int:
        "Add two integers."
        return a + b

    agent = Agent("openai/gpt-5-mini", tools=[add])
    print(agent.run("What is 2 + 3?").text)

Names are looked up when first used, so that importing the package stays cheap. `default_stream_fn` is what an
agent streams with when it has no stream function of its own; assign another one, or None, to change that.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent.agent import Agent, AgentState
    from agent.cancel import CancelToken
    from agent.errors import (
        AgentBusyError,
        AgentError,
        BudgetError,
        ConfigurationError,
        GuardrailError,
        InvalidToolResolutionError,
        NothingToContinueError,
        PendingToolCallsError,
        RunError,
        SessionCorruptError,
        SessionLockedError,
        SideQueryError,
        SubagentPausedError,
        ToolCallNotPendingError,
        ToolError,
        UnknownModelError,
    )
    from agent.events import (
        AgentEnd,
        AgentStart,
        AutoResume,
        Event,
        MessageEnd,
        MessageStart,
        MessageUpdate,
        StreamRetry,
        ToolExecutionEnd,
        ToolExecutionStart,
        ToolExecutionUpdate,
        TurnEnd,
        TurnStart,
        event_to_json,
    )
    from agent.hooks import (
        Hooks,
        RunInfo,
        ToolCallInfo,
        ToolDecision,
        ToolOverride,
        ToolResultInfo,
        merge_hooks,
    )
    from agent.limits import Limits
    from agent.loop import AUTO_RESUME_MARKER, LoopConfig, agent_loop, agent_loop_continue
    from agent.messages import (
        AssistantMessage,
        CustomMessage,
        ImageContent,
        Message,
        ServerContent,
        TextContent,
        ThinkingContent,
        ToolCall,
        ToolResultMessage,
        UserMessage,
        default_convert_to_llm,
        message_from_json,
        message_to_json,
        render_meta,
    )
    from agent.models import Model, get_model
    from agent.providers import default_stream_fn
    from agent.retry import RetryPolicy
    from agent.runs import Run, RunMetadata, RunResult, current_run
    from agent.side_query import BlockSummary, strip_unmatched_tool_calls, summarize_blocks
    from agent.stream import (
        AgentContext,
        PartialMessage,
        StreamDone,
        StreamError,
        StreamEvent,
        StreamFn,
        StreamOptions,
        StreamStart,
        TextDelta,
        TextEnd,
        TextStart,
        ThinkingDelta,
        ThinkingEnd,
        ThinkingStart,
        ToolCallDelta,
        ToolCallEnd,
        ToolCallStart,
    )
    from agent.thinking import THINKING_LADDER, clamp_thinking_level, is_canonical_thinking_level
    from agent.tools import AgentTool, TitleArg, ToolContext, ToolDisplayHint, ToolResult, ToolSet, tool
    from agent.usage import Cost, ModelCost, Usage

_NAMES_BY_HOME = {
    "agent.agent": "Agent AgentState",
    "agent.cancel": "CancelToken",
    "agent.errors": "AgentBusyError AgentError BudgetError ConfigurationError GuardrailError "
    "InvalidToolResolutionError NothingToContinueError PendingToolCallsError RunError SessionCorruptError "
    "SessionLockedError SideQueryError SubagentPausedError ToolCallNotPendingError ToolError UnknownModelError",
    "agent.events": "AgentEnd AgentStart AutoResume Event MessageEnd MessageStart MessageUpdate StreamRetry "
    "ToolExecutionEnd ToolExecutionStart ToolExecutionUpdate TurnEnd TurnStart event_to_json",
    "agent.hooks": "Hooks RunInfo ToolCallInfo ToolDecision ToolOverride ToolResultInfo merge_hooks",
    "agent.limits": "Limits",
    "agent.loop": "AUTO_RESUME_MARKER LoopConfig agent_loop agent_loop_continue",
    "agent.messages": "AssistantMessage CustomMessage ImageContent Message ServerContent TextContent "
    "ThinkingContent ToolCall ToolResultMessage UserMessage default_convert_to_llm message_from_json "
    "message_to_json render_meta",
    "agent.models": "Model get_model",
    "agent.providers": "default_stream_fn",
    "agent.retry": "RetryPolicy",
    "agent.runs": "Run RunMetadata RunResult current_run",
    "agent.side_query": "BlockSummary strip_unmatched_tool_calls summarize_blocks",
    "agent.stream": "AgentContext PartialMessage StreamDone StreamError StreamEvent StreamFn StreamOptions "
    "StreamStart TextDelta TextEnd TextStart ThinkingDelta ThinkingEnd ThinkingStart ToolCallDelta ToolCallEnd "
    "ToolCallStart",
    "agent.thinking": "THINKING_LADDER clamp_thinking_level is_canonical_thinking_level",
    "agent.tools": "AgentTool TitleArg ToolContext ToolDisplayHint ToolResult ToolSet tool",
    "agent.usage": "Cost ModelCost Usage",
}
_HOMES = {name: home for home, names in _NAMES_BY_HOME.items() for name in names.split()}

__all__ = sorted(_HOMES)  # noqa: PLE0605 - the table above is the one list of public names


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
