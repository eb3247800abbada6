"""A result of a type: the answer comes as a checked value, and a wrong one goes back to the model.

The model here is scripted, so this runs without a key. With a real model, set its key in the environment
and write Agent("openai/gpt-5-mini", tools=[look_up]), without stream_fn; it works with every provider.
"""

from pydantic import BaseModel, Field

from agent import Agent, tool
from agent.testing import ScriptedModel, tool_call


class City(BaseModel):
    """A city and how many people live there."""

    name: str
    people: int = Field(gt=0)


@tool
def look_up(name: str) -> str:
    """Look a city up."""
    return f"{name} has 2.1 million people"


model = ScriptedModel(
    [tool_call("look_up", {"name": "Paris"})],
    [tool_call("final_answer", {"name": "Paris", "people": "about two million"})],  # no number: sent back
    [tool_call("final_answer", {"name": "Paris", "people": 2_100_000})],
)

with Agent(model.model, stream_fn=model.stream, tools=[look_up]) as agent:
    result = agent.run("How many people live in Paris?", output_type=City)
city = result.output
print(f"{type(city).__name__}: {city.name}, {city.people + 1} with you; {result.turns} turns")
