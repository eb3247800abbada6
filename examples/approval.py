"""Approve tool calls at the terminal: harmless ones run, the others wait for a yes.

The gate is asked about all calls of an answer before the first of them runs. It is called on the agent's
worker thread; `input` there can't be interrupted by an abort, which is fine for a script. A screen that
must stay responsive waits for its answer on `call.cancel` too, or pauses the run instead: see
pause_resume.py.

The model here is scripted, so this runs without a key. With a real model, set its key in the environment
and write Agent("anthropic/claude-sonnet-5-5", tools=[look, delete], hooks=hooks), without stream_fn.
"""

from agent import Agent, Hooks, ToolDecision, tool
from agent.testing import ScriptedModel, tool_call

FILES = {"a.txt": "old", "b.txt": "older"}
HARMLESS = {"look"}


@tool
def look() -> list[str]:
    """List the files."""
    return sorted(FILES)


@tool
def delete(name: str) -> str:
    """Delete a file."""
    del FILES[name]
    return f"deleted {name}"


def ask(call):
    if call.name in HARMLESS:
        return ToolDecision.allow()
    arguments = ", ".join(f"{key}={value!r}" for key, value in call.arguments.items())
    try:
        answer = input(f"Run {call.name}({arguments})? [y/N] ")
    except EOFError:  # standard input has ended
        print()
        answer = "n"
    if answer.strip().lower() == "y":
        return ToolDecision.allow()
    return ToolDecision.deny("the user does not want this; ask before you try again")


model = ScriptedModel(
    [tool_call("look")],
    [tool_call("delete", {"name": "a.txt"}), tool_call("delete", {"name": "b.txt"})],
    "Done: only what you allowed is deleted.",
)

with Agent(model.model, stream_fn=model.stream, tools=[look, delete], hooks=Hooks(before_tool=ask)) as agent:
    print(agent.run("Clean up.").text)
print(f"left: {', '.join(FILES)}")
