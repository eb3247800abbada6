"""Guardrails: refuse an input, refuse an answer, or send an answer back to be made better.

A rejected input is not stored. A rejected answer is not stored either, but what it cost counts. A discarded
answer is asked for again, with a word on what to do better, and leaves nothing behind in the conversation.

The model here is scripted, so this runs without a key. With a real model, set its key in the environment
and write Agent("openai/gpt-5-mini", hooks=hooks), without stream_fn.
"""

from agent import Agent, Candidate, Hooks, RequestUpdate, RunError
from agent.testing import ScriptedModel


def no_card_numbers(info):
    if any("4111" in str(message.content) for message in info.input):
        raise ValueError("the message holds a card number")


def no_medical_advice(info):
    if "take two pills" in info.message.text:
        raise ValueError("the answer gives medical advice")


def with_a_source(info):
    if "[1]" in info.message.text:
        return Candidate.accept()
    return Candidate.retry(RequestUpdate(system_suffix="Name your source as [1]."))


hooks = Hooks(
    input_guardrails=[("cards", no_card_numbers)],
    output_guardrails=[("medicine", no_medical_advice)],
    candidate_answer=with_a_source,
)
model = ScriptedModel("Trains run on time.", "Trains run on time [1].", "Then take two pills [1].")

with Agent(model.model, stream_fn=model.stream, hooks=hooks) as agent:
    for prompt in ("My card is 4111 1111.", "Do trains run on time?", "I have a headache."):
        try:
            print(f"answered: {agent.run(prompt).text}")
        except RunError as error:
            guardrail = error.__cause__  # a GuardrailError, whose cause is what was raised above
            print(f"rejected by {guardrail.name} ({guardrail.phase}): {guardrail.__cause__}")
    print(f"{len(agent.state.messages)} messages are kept")
