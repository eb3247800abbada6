"""Test doubles for agents: a scripted model, faults, a clock that does not wait, recorded providers.

model = ScriptedModel([tool_call("add", {"a": 2, "b": 3})], "The sum is 5.")
agent = Agent(model.model, stream_fn=model.stream, tools=[add])
assert agent.run("2 + 3?").text == "The sum is 5."
model.assert_finished()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent.testing.clock import FakeClock
from agent.testing.faults import Fault, FaultInjector, FaultKind
from agent.testing.scripted import ScriptedModel, done, error, text, thinking, tool_call

if TYPE_CHECKING:
    from agent.testing.recording import Recording

__all__ = [
    "FakeClock",
    "Fault",
    "FaultInjector",
    "FaultKind",
    "Recording",
    "ScriptedModel",
    "done",
    "error",
    "text",
    "thinking",
    "tool_call",
]


def __getattr__(name: str) -> Any:
    if name != "Recording":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from agent.testing.recording import Recording  # loads a web server, which few tests need

    globals()[name] = Recording
    return Recording
