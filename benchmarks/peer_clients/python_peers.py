"""Runs a scenario with another framework for Python and prints what it cost, one JSON line per repeat.

    python_peers.py openai-agents|pydantic-ai PORT SCENARIO

What ../measure.py does for ours, with the same counts: an agent with a tool that does nothing, whose events
are all looked at. A hundred agents at once are tasks of one event loop here, as these frameworks want it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from measure import AGENTS, REPEATS, measure, peak_kb

Client = Callable[[str], Awaitable[tuple[int, int]]]
INSTRUCTIONS = "You are a test."
# More than any script has.
MAX_TURNS = 1000


def noop(value: str) -> str:
    """Nothing."""
    return "ok"


def openai_agents(url: str) -> Client:
    from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
    from openai import AsyncOpenAI

    set_tracing_disabled(True)
    openai = AsyncOpenAI(base_url=url, api_key="x")
    tools = [function_tool(noop)]
    deltas = ("response.output_text.delta", "response.function_call_arguments.delta")

    async def converse(script: str) -> tuple[int, int]:
        seen = calls = 0
        model = OpenAIChatCompletionsModel(script, openai)
        agent = Agent("test", instructions=INSTRUCTIONS, model=model, tools=tools)
        run = Runner.run_streamed(agent, "go", max_turns=MAX_TURNS)
        async for event in run.stream_events():
            if event.type == "raw_response_event":
                seen += event.data.type in deltas
            elif event.type == "run_item_stream_event":
                calls += event.name == "tool_output"
        return seen, calls

    return converse


def pydantic_ai(url: str) -> Client:
    from pydantic_ai import Agent, FunctionToolResultEvent, PartDeltaEvent, PartStartEvent, UsageLimits
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=url, api_key="x")
    limits = UsageLimits(request_limit=None)

    async def converse(script: str) -> tuple[int, int]:
        seen = calls = 0
        agent = Agent(OpenAIChatModel(script, provider=provider), instructions=INSTRUCTIONS)
        agent.tool_plain(noop)
        async with agent.run_stream_events("go", usage_limits=limits) as events:
            async for event in events:
                if isinstance(event, PartDeltaEvent):
                    seen += 1
                elif isinstance(event, PartStartEvent):  # the first delta of a text is in its start
                    seen += bool(getattr(event.part, "content", None))
                elif isinstance(event, FunctionToolResultEvent):
                    calls += 1
        return seen, calls

    return converse


async def many(client: Client) -> tuple[int, int]:
    ended = await asyncio.gather(*(client("tools-10") for _ in range(AGENTS)))
    return sum(deltas for deltas, _ in ended), sum(calls for _, calls in ended)


def main(which: str, port: str, scenario: str) -> None:
    url = f"http://127.0.0.1:{port}/v1"
    client: Client = {"openai-agents": openai_agents, "pydantic-ai": pydantic_ai}[which](url)
    with asyncio.Runner() as runner:

        def run(conversation: Any) -> tuple[int, int]:
            done: tuple[int, int] = runner.run(conversation)
            return done

        run(client("text-20"))
        run(client("tools-2"))
        for _ in range(REPEATS.get(scenario, 5)):
            before = peak_kb(reset=True)
            cost = measure(lambda: run(many(client) if scenario == "agents" else client(scenario)))
            print(json.dumps({**cost, "growth_mb": (peak_kb() - before) / 1024}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
