"""Ask something on the side while a run goes on: neither the run nor the conversation notices.

The model here is scripted, so this runs without a key. With a real model, set its key in the environment
and write Agent("openai/gpt-5-mini"), without stream_fn; a side query may name a smaller model:
simple_prompt(text, "...").
"""

import threading

from agent import Agent
from agent.testing import ScriptedModel

writing, go_on = threading.Event(), threading.Event()


def write(context):
    writing.set()
    go_on.wait(10)
    return "Once upon a time there was an agent."


model = ScriptedModel(write, "A tale of an agent")

with Agent(model.model, stream_fn=model.stream) as agent:
    run = agent.prompt("Write a story.")
    writing.wait(10)
    title = agent.simple_prompt("Give a title for: a story about an agent")  # on this thread, beside the run
    print(f"title: {title}")
    go_on.set()
    print(f"story: {run.result().text}")
    print(f"{len(agent.state.messages)} messages in the conversation")
