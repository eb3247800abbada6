"""Sub-agents in parallel: an agent hands out research and reads what comes back.

Each call of the tool makes a new agent, so the two share nothing. Subscribers of the calling agent receive
their events too, under separate run ids; aborting the calling agent aborts them.

The models here are scripted, so this runs without a key. With real ones, set their keys in the environment
and write Agent("anthropic/claude-sonnet-5-5", ...) for the one and a smaller model for the others, without
stream_fn.
"""

from agent import Agent, AgentEnd, AgentStart, Limits, Usage, as_tool
from agent.testing import ScriptedModel, done, tool_call


def answer(context):
    return [f"All about {context.messages[-1].content}.", done("stop", Usage(100, 20, 0, 0, 120))]


def make_researcher():
    model = ScriptedModel(answer)
    return Agent(model.model, stream_fn=model.stream, name="researcher", limits=Limits(max_turns=10))


research = as_tool(
    make_researcher,
    "research",
    "Find out everything about one topic. Several topics can be researched at once.",
    parallel=True,
    max_depth=1,  # a researcher that had this tool could not use it
    roll_up_usage=True,  # what the researchers spend counts as the writer's, also towards its limits
)


def show(event):
    who = f"{event.agent_name} inside another run" if event.parent_run_id else event.agent_name
    if isinstance(event, AgentStart | AgentEnd):
        print(f"{who}: {'starts' if isinstance(event, AgentStart) else 'ends'}")


model = ScriptedModel(
    [tool_call("research", {"prompt": "cats"}), tool_call("research", {"prompt": "dogs"})],
    "Cats and dogs differ.",
)

with Agent(model.model, stream_fn=model.stream, name="writer", tools=[research]) as agent:
    agent.subscribe(show)
    result = agent.run("Compare cats and dogs.")
    for message in agent.state.messages:
        if message.role == "toolResult":
            print(f"result: {message.text}")
    print(f"{result.text} ({result.usage.total_tokens} tokens, those of the researchers included)")
