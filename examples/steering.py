"""Steer a run while it works: a word in between, something for afterwards, and what became of both.

The model here is scripted, so this runs without a key. With a real model, set its key in the environment
and write Agent("openai/gpt-5-mini", tools=[search]), without stream_fn.
"""

import threading

from agent import Agent, QueueUpdate, tool
from agent.testing import ScriptedModel, tool_call

searching, go_on = threading.Event(), threading.Event()


@tool
def search(query: str) -> str:
    """Search the web."""
    searching.set()
    go_on.wait(10)
    return f"ten thousand pages about {query}"


def show(event):
    if isinstance(event, QueueUpdate):
        steering = [message.content for message in event.steering]
        follow_ups = [message.content for message in event.follow_ups]
        print(f"waiting: {steering} {follow_ups}")


model = ScriptedModel(
    [tool_call("search", {"query": "trains"})], "This year: three new lines.", "You are welcome."
)

with Agent(model.model, stream_fn=model.stream, tools=[search]) as agent:
    agent.subscribe(show)
    run = agent.prompt("What is new about trains?")
    searching.wait(10)
    # A person types while the tool runs; steer and follow_up return at once, on any thread.
    hint = agent.steer("Only this year, please.")
    thanks = agent.follow_up("Thank you!")
    print(f"before: {hint.state}, {thanks.state}")
    go_on.set()
    run.wait()
    print(f"after: {hint.state} in turn {hint.turn}, {thanks.state} in turn {thanks.turn}")
    print([m.content for m in agent.state.messages if m.role == "user"])
