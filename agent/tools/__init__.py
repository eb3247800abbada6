"""What a tool is: `AgentTool`, the `@tool` decorator, and `ToolSet`, where names cannot collide.

A `ToolSet` also takes any object with `name`, `description`, `parameters` and `execute(arguments,
context)`, so tools of other packages fit without importing this one.
"""

from agent.tools.decorator import FunctionTool, tool
from agent.tools.definition import AgentTool, Execute, TitleArg, ToolContext, ToolDisplayHint, ToolLike
from agent.tools.results import ToolResult, to_result
from agent.tools.tool_sets import JoinedTools, ToolGroups, ToolSet, unique_tools

__all__ = [
    "AgentTool",
    "Execute",
    "FunctionTool",
    "JoinedTools",
    "TitleArg",
    "ToolContext",
    "ToolDisplayHint",
    "ToolGroups",
    "ToolLike",
    "ToolResult",
    "ToolSet",
    "to_result",
    "tool",
    "unique_tools",
]
