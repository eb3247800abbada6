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

# ruff: noqa: I001 - isort would make an import statement of each "X as X", which re-exports X
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers: the names of `_NAMES` once more; a test compares them
    from agent.agent import (
        Agent as Agent,
        AgentState as AgentState,
    )
    from agent.block_summary import (
        BlockSummary as BlockSummary,
        summarize_blocks as summarize_blocks,
    )
    from agent.cancel import (
        CancelToken as CancelToken,
    )
    from agent.errors import (
        AgentBusyError as AgentBusyError,
        AgentError as AgentError,
        BudgetError as BudgetError,
        ConfigurationError as ConfigurationError,
        GuardrailError as GuardrailError,
        InvalidToolResolutionError as InvalidToolResolutionError,
        NothingToContinueError as NothingToContinueError,
        PendingToolCallsError as PendingToolCallsError,
        RunError as RunError,
        SessionCorruptError as SessionCorruptError,
        SessionLockedError as SessionLockedError,
        SideQueryError as SideQueryError,
        SubagentPausedError as SubagentPausedError,
        ToolCallNotPendingError as ToolCallNotPendingError,
        ToolError as ToolError,
        UnknownModelError as UnknownModelError,
    )
    from agent.events import (
        AgentEnd as AgentEnd,
        AgentParked as AgentParked,
        AgentStart as AgentStart,
        AutoResume as AutoResume,
        CandidateDiscarded as CandidateDiscarded,
        Event as Event,
        MaxTurnsReached as MaxTurnsReached,
        MessageEnd as MessageEnd,
        MessageStart as MessageStart,
        MessageUpdate as MessageUpdate,
        ModelFallback as ModelFallback,
        QueueUpdate as QueueUpdate,
        StreamRetry as StreamRetry,
        ToolExecutionEnd as ToolExecutionEnd,
        ToolExecutionStart as ToolExecutionStart,
        ToolExecutionUpdate as ToolExecutionUpdate,
        TurnEnd as TurnEnd,
        TurnStart as TurnStart,
        event_to_json as event_to_json,
    )
    from agent.hooks import (
        Candidate as Candidate,
        CandidateInfo as CandidateInfo,
        Hooks as Hooks,
        InputInfo as InputInfo,
        OutputInfo as OutputInfo,
        RequestUpdate as RequestUpdate,
        RunInfo as RunInfo,
        ToolCallInfo as ToolCallInfo,
        ToolDecision as ToolDecision,
        ToolOverride as ToolOverride,
        ToolResultInfo as ToolResultInfo,
        Truncation as Truncation,
        TruncationInfo as TruncationInfo,
        TurnUpdate as TurnUpdate,
        merge_hooks as merge_hooks,
    )
    from agent.limits import (
        Limits as Limits,
    )
    from agent.loop import (
        AUTO_RESUME_MARKER as AUTO_RESUME_MARKER,
        LoopConfig as LoopConfig,
        agent_loop as agent_loop,
        agent_loop_continue as agent_loop_continue,
    )
    from agent.loop.side_query import (
        strip_unmatched_tool_calls as strip_unmatched_tool_calls,
    )
    from agent.messages import (
        AssistantMessage as AssistantMessage,
        CustomMessage as CustomMessage,
        ImageContent as ImageContent,
        Message as Message,
        ServerContent as ServerContent,
        TextContent as TextContent,
        ThinkingContent as ThinkingContent,
        ToolCall as ToolCall,
        ToolResultMessage as ToolResultMessage,
        UserMessage as UserMessage,
        default_convert_to_llm as default_convert_to_llm,
        message_from_json as message_from_json,
        message_to_json as message_to_json,
        render_meta as render_meta,
    )
    from agent.models import (
        Model as Model,
        get_model as get_model,
    )
    from agent.providers import (
        default_stream_fn as default_stream_fn,
    )
    from agent.retry import (
        RetryPolicy as RetryPolicy,
    )
    from agent.runs import (
        RunMetadata as RunMetadata,
        RunResult as RunResult,
        current_run as current_run,
    )
    from agent.runtime.inbox import (
        Receipt as Receipt,
    )
    from agent.runtime.run_handle import (
        Run as Run,
    )
    from agent.runtime.subscribers import (
        Subscription as Subscription,
    )
    from agent.stream import (
        AgentContext as AgentContext,
        PartialMessage as PartialMessage,
        StreamDone as StreamDone,
        StreamError as StreamError,
        StreamEvent as StreamEvent,
        StreamFn as StreamFn,
        StreamOptions as StreamOptions,
        StreamStart as StreamStart,
        TextDelta as TextDelta,
        TextEnd as TextEnd,
        TextStart as TextStart,
        ThinkingDelta as ThinkingDelta,
        ThinkingEnd as ThinkingEnd,
        ThinkingStart as ThinkingStart,
        ToolCallDelta as ToolCallDelta,
        ToolCallEnd as ToolCallEnd,
        ToolCallStart as ToolCallStart,
    )
    from agent.subagents import (
        as_tool as as_tool,
    )
    from agent.thinking import (
        THINKING_LADDER as THINKING_LADDER,
        clamp_thinking_level as clamp_thinking_level,
        is_canonical_thinking_level as is_canonical_thinking_level,
    )
    from agent.tools import (
        AgentTool as AgentTool,
        TitleArg as TitleArg,
        ToolContext as ToolContext,
        ToolDisplayHint as ToolDisplayHint,
        ToolResult as ToolResult,
        ToolSet as ToolSet,
        tool as tool,
    )
    from agent.transcript import (
        ToolResolution as ToolResolution,
        Transcript as Transcript,
    )
    from agent.usage import (
        Cost as Cost,
        ModelCost as ModelCost,
        Usage as Usage,
    )

# The public names by the module that defines them.
_NAMES = {
    "agent.agent": "Agent AgentState",
    "agent.block_summary": "BlockSummary summarize_blocks",
    "agent.cancel": "CancelToken",
    "agent.errors": """
        AgentBusyError AgentError BudgetError ConfigurationError GuardrailError
        InvalidToolResolutionError NothingToContinueError PendingToolCallsError RunError
        SessionCorruptError SessionLockedError SideQueryError SubagentPausedError
        ToolCallNotPendingError ToolError UnknownModelError
    """,
    "agent.events": """
        AgentEnd AgentParked AgentStart AutoResume CandidateDiscarded Event MaxTurnsReached
        MessageEnd MessageStart MessageUpdate ModelFallback QueueUpdate StreamRetry
        ToolExecutionEnd ToolExecutionStart ToolExecutionUpdate TurnEnd TurnStart event_to_json
    """,
    "agent.hooks": """
        Candidate CandidateInfo Hooks InputInfo OutputInfo RequestUpdate RunInfo ToolCallInfo
        ToolDecision ToolOverride ToolResultInfo Truncation TruncationInfo TurnUpdate merge_hooks
    """,
    "agent.limits": "Limits",
    "agent.loop": "AUTO_RESUME_MARKER LoopConfig agent_loop agent_loop_continue",
    "agent.loop.side_query": "strip_unmatched_tool_calls",
    "agent.messages": """
        AssistantMessage CustomMessage ImageContent Message ServerContent TextContent
        ThinkingContent ToolCall ToolResultMessage UserMessage default_convert_to_llm
        message_from_json message_to_json render_meta
    """,
    "agent.models": "Model get_model",
    "agent.providers": "default_stream_fn",
    "agent.retry": "RetryPolicy",
    "agent.runs": "RunMetadata RunResult current_run",
    "agent.runtime.inbox": "Receipt",
    "agent.runtime.run_handle": "Run",
    "agent.runtime.subscribers": "Subscription",
    "agent.stream": """
        AgentContext PartialMessage StreamDone StreamError StreamEvent StreamFn StreamOptions
        StreamStart TextDelta TextEnd TextStart ThinkingDelta ThinkingEnd ThinkingStart
        ToolCallDelta ToolCallEnd ToolCallStart
    """,
    "agent.subagents": "as_tool",
    "agent.thinking": "THINKING_LADDER clamp_thinking_level is_canonical_thinking_level",
    "agent.tools": "AgentTool TitleArg ToolContext ToolDisplayHint ToolResult ToolSet tool",
    "agent.transcript": "ToolResolution Transcript",
    "agent.usage": "Cost ModelCost Usage",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOMES)


if not TYPE_CHECKING:  # a type checker that sees it would believe in any name

    def __getattr__(name: str) -> Any:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(home), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
