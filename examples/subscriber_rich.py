"""Show a run on the terminal with rich: text as it streams, a line per tool, sub-agents indented.

The subscriber has a queue, so that a slow terminal never holds the agent up: deltas are dropped when it
can't keep up, and everything else arrives.

The model here is scripted, so this runs without a key. With a real model, set its key in the environment
and write Agent("openai/gpt-5-mini", tools=read_only_tools(".")), without stream_fn.
"""

from rich.console import Console
from rich.markup import escape

from agent import Agent, MessageUpdate, TextDelta, ToolExecutionEnd, ToolExecutionStart, TurnEnd
from agent.testing import ScriptedModel, tool_call
from agent_tools import read_only_tools

console = Console(highlight=False)


def show(event):
    indent = "    " if event.parent_run_id else ""  # a run inside another: a sub-agent
    match event:
        case MessageUpdate(stream_event=TextDelta(delta=delta)):
            console.print(escape(delta), end="")
        case ToolExecutionStart(tool_name=name, arguments=arguments):
            console.print(f"{indent}[bold cyan]{name}[/] [dim]{escape(str(dict(arguments)))}[/]")
        case ToolExecutionEnd(result=result, is_error=failed):
            style = "red" if failed else "green"
            console.print(
                f"{indent}[{style}]{escape(result.text.splitlines()[0] if result.text else 'ok')}[/]"
            )
        case TurnEnd():
            console.print()


model = ScriptedModel([tool_call("ls", {"path": "."})], "That is all there is.")

with Agent(model.model, stream_fn=model.stream, tools=read_only_tools(".")) as agent:
    subscription = agent.subscribe(show, queue=1000, drop_streaming=True)
    agent.run("What is in this folder?")
# Leaving the block closes the agent, and waits until the subscriber has seen the end.
if subscription.dropped:
    console.print(f"[dim]({subscription.dropped} updates were not shown)[/]")
