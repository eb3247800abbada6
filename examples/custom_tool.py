"""A tool of your own: typed arguments, progress, a stop signal, and errors that the model can act on.

The model here is scripted, so this runs without a key. With a real model, set its key in the environment
and write Agent("anthropic/claude-sonnet-5-5", tools=[count_words]), without stream_fn.
"""

from typing import Annotated

from agent import Agent, ToolContext, ToolError, ToolExecutionEnd, ToolExecutionUpdate, tool
from agent.testing import ScriptedModel, tool_call

BOOKS = {"ulysses": "Stately, plump Buck Mulligan came from the stairhead", "moby": "Call me Ishmael"}


@tool(timeout=10)
def count_words(title: Annotated[str, "The short name of a book."], context: ToolContext) -> int:
    """Count the words of a book."""
    if title not in BOOKS:
        raise ToolError(f"there is no book {title!r}; choose one of {', '.join(BOOKS)}")
    count = 0
    for _ in BOOKS[title].split():
        if context.cancel.is_set():  # the run was aborted: whatever is returned now is not used
            break
        count += 1
    context.update(f"{title}: {count} words so far")
    return count


def show(event):
    match event:
        case ToolExecutionUpdate(partial_result=partial):
            print(f"  ... {partial.text}")
        case ToolExecutionEnd(tool_name=name, result=result, is_error=failed):
            print(f"  {name} {'failed' if failed else 'returned'}: {result.text}")


model = ScriptedModel(
    [tool_call("count_words", {"title": "mobydick"})],
    [tool_call("count_words", {"title": "moby"})],
    "Three words.",
)

with Agent(model.model, stream_fn=model.stream, tools=[count_words]) as agent:
    agent.subscribe(show)
    print(agent.run("How long is Moby Dick?").text)
