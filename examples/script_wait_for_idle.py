"""A script: prompt, wait until everything is done, read the conversation.

The model here is scripted, so this runs without a key. With a real model, set its key in the environment
and write Agent("openai/gpt-5-mini", tools=coding_tools(".")), without stream_fn.
"""

from agent import Agent
from agent.testing import ScriptedModel, tool_call
from agent_tools import coding_tools

model = ScriptedModel([tool_call("bash", {"command": "echo hello"})], "It printed hello.")

with Agent(model.model, stream_fn=model.stream, tools=coding_tools(".")) as agent:
    agent.prompt("Run `echo hello` and tell me what it printed.")  # returns at once
    agent.wait_for_idle()  # no answer, no tool and no retry is to come
    print(agent.state.messages[-1].text)
