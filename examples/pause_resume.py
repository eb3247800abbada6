"""Pause a run for an approval, and go on with it in another process, hours later if need be.

    python pause_resume.py start conversation.json       # ends with a call that waits
    python pause_resume.py resume conversation.json      # answers it, and goes on

What is pending is found again in the messages, so the JSON of the transcript is all there is to keep.

The model here is scripted, so this runs without a key. With a real model, set its key in the environment
and write Agent("openai/gpt-5-mini", tools=[transfer], ...) in both functions, without stream_fn.
"""

import json
import subprocess
import sys
from pathlib import Path

from agent import Agent, Hooks, ToolDecision, Transcript, tool
from agent.testing import ScriptedModel, tool_call


@tool
def transfer(amount: int, to: str) -> str:
    """Send money."""
    return f"sent {amount} to {to}"


def start(path):
    model = ScriptedModel([tool_call("transfer", {"amount": 100, "to": "Ada"})])
    hooks = Hooks(before_tool=lambda call: ToolDecision.pause())
    with Agent(model.model, stream_fn=model.stream, tools=[transfer], hooks=hooks) as agent:
        result = agent.run("Pay Ada what we owe her.")
        print(f"{result.stop}: {[call.name for call in agent.pending_calls]}")
        path.write_text(json.dumps(agent.transcript.to_json()))


def resume(path):
    model = ScriptedModel("Ada has her money.")
    transcript = Transcript.from_json(json.loads(path.read_text()))
    with Agent(model.model, stream_fn=model.stream, tools=[transfer], transcript=transcript) as agent:
        for call in agent.pending_calls:
            print(f"approved: {call.name}({call.arguments})")
        # Each call gets what this returns as its result. A refusal would return a text that explains it.
        agent.resolve_pending(lambda call: transfer(**call.arguments))
        print(agent.resume().result().text)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        {"start": start, "resume": resume}[sys.argv[1]](Path(sys.argv[2]))
    else:  # both, each in its own process
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            for step in ("start", "resume"):
                subprocess.run([sys.executable, __file__, step, f"{folder}/conversation.json"], check=True)
