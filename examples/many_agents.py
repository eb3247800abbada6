"""Many agents at once in one process: each has its own conversation and thread.

The model here is scripted, so this runs without a key. With a real model, set its key in the environment
and write Agent("openai/gpt-5-mini", name=city), without stream_fn. Mind the rate limits of your account:
requests that are refused for them are tried again after the delay that the server asks for.
"""

from agent import Agent
from agent.testing import ScriptedModel

CITIES = ["Paris", "Rome", "Oslo", "Lima", "Cairo", "Tokyo", "Quito", "Dakar"]


def answer(context):
    return f"{context.messages[-1].content} Yes."


def make(city):
    model = ScriptedModel(answer)
    return Agent(model.model, stream_fn=model.stream, name=city)


agents = [make(city) for city in CITIES]
runs = [agent.prompt(f"Is {agent.name} a capital?") for agent in agents]  # all of them are on their way now
for run in runs:
    result = run.result()
    print(result.text)
for agent in agents:
    agent.close()
