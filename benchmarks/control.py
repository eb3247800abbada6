"""What the control of a run costs: hooks, tools side by side, and a thousand runs in bad weather.

Exits 1 when a promise is missed. The runs have a scripted model, so there is no network in what is measured;
both sides of a ratio take turns in this process.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from promises import Row, duration, report

from agent import Agent, Event, Hooks, Limits, ToolExecutionEnd, ToolExecutionStart, tool
from agent.stream import StreamDone, StreamStart, TextDelta, TextEnd, TextStart
from agent.testing import ScriptedModel, tool_call

ROUNDS = 9
TURNS = 200
DELTAS = 5000
TOOLS = 8
TOOL_SECONDS = 0.05
STRESS_TEST = Path(__file__).parent.parent / "tests/agent/test_stress.py"

# Each does what a hook that has nothing to say does.
IDLE = Hooks(
    before_tool=lambda info: None,
    after_tool=lambda info: None,
    transform_context=lambda messages: None,
    on_request=lambda context, options: None,
    input_guardrails=[("idle", lambda info: None)],
    output_guardrails=[("idle", lambda info: None)],
    candidate_answer=lambda info: None,
    prepare_turn=lambda info: None,
    should_stop_after_turn=lambda info: False,
    stop_when=lambda info: False,
    steering_messages=list,
    follow_up_messages=list,
    on_truncated=lambda info: None,
)


@tool
def noop(value: str) -> str:
    """Nothing."""
    return "ok"


@tool(parallel=True)
def pause_a_while() -> str:
    """Take as long as a small request does."""
    time.sleep(TOOL_SECONDS)
    return "ok"


def cpu_seconds(hooks: Hooks | None, script: list[Any], calls: int) -> float:
    """What a run of the script costs; it must run so many calls."""
    model, ended = ScriptedModel(*script), []
    with Agent(model.model, stream_fn=model.stream, tools=[noop], hooks=hooks) as agent:
        agent.subscribe(lambda event: ended.append(event) if type(event) is ToolExecutionEnd else None)
        began = time.process_time()
        result = agent.run("go")
        spent = time.process_time() - began
    if result.stop != "end_turn" or len(ended) != calls:
        sys.exit(f"the run ended with {result.stop} after {len(ended)} calls: {result.error}")
    return spent


def hooks_set(what: str, script: list[Any], calls: int, parts: int, limit: float) -> Row:
    """The cost with a full set of idle hooks against that with none; `parts` of `what` are in one run."""
    idle, none = [], []
    for number in range(ROUNDS + 1):
        costs = [cpu_seconds(hooks, script, calls) for hooks in (IDLE, None)]
        if number:  # the first warms up
            idle.append(costs[0] / parts)
            none.append(costs[1] / parts)
    return Row(what, duration(median(idle)), duration(median(none)), median(idle) / median(none), limit)


def batch_seconds(at_once: int) -> float:
    """From the start of the first of eight calls to the end of the last, at most so many side by side."""
    model = ScriptedModel([tool_call("pause_a_while") for _ in range(TOOLS)], "done")
    times: list[float] = []

    def note(event: Event) -> None:
        if isinstance(event, ToolExecutionStart | ToolExecutionEnd):
            times.append(time.perf_counter())

    limits = Limits(parallel_tools=at_once)
    with Agent(model.model, stream_fn=model.stream, tools=[pause_a_while], limits=limits) as agent:
        agent.subscribe(note)
        agent.run("go")
    if len(times) != 2 * TOOLS:
        sys.exit(f"{len(times) // 2} of {TOOLS} calls ran")
    return times[-1] - times[0]


def side_by_side() -> Row:
    at_once = median(batch_seconds(TOOLS) for _ in range(ROUNDS))
    one_by_one = median(batch_seconds(1) for _ in range(3))
    what = f"{TOOLS} tools of {TOOL_SECONDS * 1000:.0f} ms side by side / one by one"
    return Row(what, duration(at_once), duration(one_by_one), at_once * 1000, 150, " ms")


def stress() -> Row:
    """A thousand agents, three runs and more each, with faults, aborts and messages from other threads."""
    began = time.perf_counter()
    call = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(STRESS_TEST)]
    ended = subprocess.run(call, stdout=subprocess.PIPE, text=True, cwd=STRESS_TEST.parent.parent.parent)
    spent = time.perf_counter() - began
    if ended.returncode:
        sys.exit(ended.stdout)
    return Row("a thousand agents under stress", duration(spent), "", spent, 20, " s")


def measured() -> list[Callable[[], Row]]:
    turns = [*([tool_call("noop", {"value": "x"})] for _ in range(TURNS)), "done"]
    words = [TextDelta(0, "word ") for _ in range(DELTAS)]
    answer = [[StreamStart(), TextStart(0), *words, TextEnd(0), StreamDone("stop")]]
    return [
        side_by_side,
        lambda: hooks_set("CPU per turn, all hooks set / none", turns, TURNS, TURNS, 1.5),
        lambda: hooks_set("CPU per delta, all hooks set / none", answer, 0, DELTAS, 1.2),
        stress,
    ]


if __name__ == "__main__":
    sys.exit(report([measure() for measure in measured()]))
