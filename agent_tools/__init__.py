"""A coding toolbox for any agent: read, write, edit, run, search.

`coding_tools(cwd)` gives a list of tools with `name`, `description`, `parameters` (JSON Schema) and
`execute(arguments, context)`. Nothing here depends on an agent framework.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_tools.bash import bash_tool
    from agent_tools.edit import edit_tool
    from agent_tools.editdiff import editdiff_tool
    from agent_tools.find import find_tool
    from agent_tools.grep import grep_tool
    from agent_tools.imageresize import imageresize_tool
    from agent_tools.jobs import JobTable, jobs_tool
    from agent_tools.ls import ls_tool
    from agent_tools.plan import PlanEntry, plan_tool, valid_priority, valid_status
    from agent_tools.read import read_tool
    from agent_tools.tool import Context, ImageBlock, Result, TextBlock, Tool, ToolFailure
    from agent_tools.toolsets import all_tools, coding_tools, read_only_tools
    from agent_tools.write import write_tool

__all__ = [
    "Context",
    "ImageBlock",
    "JobTable",
    "PlanEntry",
    "Result",
    "TextBlock",
    "Tool",
    "ToolFailure",
    "all_tools",
    "bash_tool",
    "coding_tools",
    "edit_tool",
    "editdiff_tool",
    "find_tool",
    "grep_tool",
    "imageresize_tool",
    "jobs_tool",
    "ls_tool",
    "plan_tool",
    "read_only_tools",
    "read_tool",
    "valid_priority",
    "valid_status",
    "write_tool",
]

_HOMES = {
    "coding_tools": "agent_tools.toolsets",
    "read_only_tools": "agent_tools.toolsets",
    "all_tools": "agent_tools.toolsets",
    "bash_tool": "agent_tools.bash",
    "JobTable": "agent_tools.jobs",
    "jobs_tool": "agent_tools.jobs",
    "read_tool": "agent_tools.read",
    "write_tool": "agent_tools.write",
    "edit_tool": "agent_tools.edit",
    "editdiff_tool": "agent_tools.editdiff",
    "find_tool": "agent_tools.find",
    "grep_tool": "agent_tools.grep",
    "ls_tool": "agent_tools.ls",
    "imageresize_tool": "agent_tools.imageresize",
    "PlanEntry": "agent_tools.plan",
    "plan_tool": "agent_tools.plan",
    "valid_priority": "agent_tools.plan",
    "valid_status": "agent_tools.plan",
    "Context": "agent_tools.tool",
    "ImageBlock": "agent_tools.tool",
    "Result": "agent_tools.tool",
    "TextBlock": "agent_tools.tool",
    "Tool": "agent_tools.tool",
    "ToolFailure": "agent_tools.tool",
}


def __getattr__(name: str) -> Any:
    # Names are looked up when asked for, so that importing the package loads neither pydantic nor pillow.
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value
