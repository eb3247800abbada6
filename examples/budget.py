"""Bound a run by turns, tokens, money and time, and let it say what it has found when a bound is reached.

The model here is scripted, so this runs without a key. With a real model, set its key in the environment
and write Agent("openai/gpt-5-mini", tools=[search], limits=limits), without stream_fn. `max_cost` needs a
model whose price is known; give it, if it is not: Model(..., cost=ModelCost(input=..., output=...)), in
dollars per million tokens.
"""

from dataclasses import replace

from agent import Agent, Limits, MaxTurnsReached, ModelCost, Usage, tool
from agent.testing import ScriptedModel, done, tool_call


@tool
def search(word: str) -> str:
    """Search."""
    return "nothing yet"


def looking(word):
    return [tool_call("search", {"word": word}), done("toolUse", Usage(input=40_000, output=2_000))]


SCRIPT = [looking("a"), looking("b"), "I looked twice and found nothing.", looking("c"), looking("d")]
model = ScriptedModel(*SCRIPT)
priced = replace(model.model, cost=ModelCost(input=1.25, output=10.0))

limits = Limits(max_turns=2, max_cost=0.50, max_seconds=60, tool_timeout=10, final_answer=True)
with Agent(priced, stream_fn=model.stream, tools=[search], limits=limits) as agent:
    agent.subscribe(
        lambda event: print(f"{event.turns} turns are over") if isinstance(event, MaxTurnsReached) else None
    )
    result = agent.run("Find it.")
    print(f"{result.stop}: {result.text} ({result.usage.cost.total:.2f} dollars)")

with Agent(priced, stream_fn=model.stream, tools=[search], limits=Limits(max_cost=0.10)) as agent:
    result = agent.run("Find it, but cheaply.")
    print(f"{result.stop} after {result.turns} turns: {result.usage.cost.total:.2f} dollars")
