"""The agent loop as functions of (context, config, emit), on the calling thread.

`agent_loop` and `agent_loop_continue` run it; `LoopConfig` holds what they need besides the conversation.
"""

from agent.loop.config import Emit, LoopConfig, Poll
from agent.loop.run import AUTO_RESUME_MARKER, agent_loop, agent_loop_continue

__all__ = [
    "AUTO_RESUME_MARKER",
    "Emit",
    "LoopConfig",
    "Poll",
    "agent_loop",
    "agent_loop_continue",
]
