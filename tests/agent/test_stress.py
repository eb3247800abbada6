"""A thousand runs of random scripts, tools, faults, aborts and steering; what must hold always, holds.

A failure names its seed: `stress(seed)` repeats it, as far as threads allow.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import pytest
from support.rounds import rounds
from support.runs import NO_WAITS, assert_events_balance, assert_well_formed, frozen, until

from agent import Agent, AgentTool
from agent.errors import ToolError
from agent.events import AgentEnd, Event, MessageEnd
from agent.hooks import Hooks, ToolDecision, ToolOverride
from agent.limits import Limits
from agent.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from agent.runtime.run_handle import Run
from agent.stream import StreamStart, TextDelta, ToolCallDelta, ToolCallStart
from agent.testing import FaultInjector, ScriptedModel, done, error, text, thinking, tool_call
from agent.tools import ToolResult
from agent.usage import Usage

RUNS = rounds(1000)
BLOCKS = 10

ERRORS = [
    "connection reset by peer",
    "400 bad request",
    "429 rate limit",
    "",
    "unexpected EOF",
    "529 overloaded",
]
PARALLEL = ["fine", "raises", "talks", "waits"]
TOOLS = ["fine", "fails", "raises", "stops", "talks", "waits", "missing"]


def tools() -> list[AgentTool]:
    def made(name: str, execute: Callable[[dict[str, Any], Any], Any]) -> AgentTool:
        parallel = name in PARALLEL
        return AgentTool(name, "", {"type": "object"}, execute, parallel=parallel, timeout=5.0)

    def fails(arguments: dict[str, Any], context: Any) -> str:
        raise ToolError("it went wrong")

    def raises(arguments: dict[str, Any], context: Any) -> str:
        raise KeyError(arguments.popitem())

    def talks(arguments: dict[str, Any], context: Any) -> str:
        for number in range(5):
            context.update(str(number))
        return "done"

    def waits(arguments: dict[str, Any], context: Any) -> str:
        context.cancel.wait(0.002)
        if context.cancel.is_set():
            raise ToolError("interrupted")
        return "waited"

    return [
        made("fine", lambda arguments, context: f"fine {arguments}"),
        made("fails", fails),
        made("raises", raises),
        made("stops", lambda arguments, context: ToolResult("bye", terminate=True)),
        made("talks", talks),
        made("waits", waits),
    ]


class StressTest:
    """One agent in bad weather. Everything random comes from the seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.calm = False
        self.model = ScriptedModel(*[self.turn() for _ in range(self.random.randint(1, 12))])
        faults = FaultInjector(
            self.model.stream,
            seed=seed,
            rate=0.25,
            kinds=("cut", "error", "corrupt", "duplicate", "delay"),
        )
        self.agent = Agent(
            self.model.model,
            stream_fn=faults.stream,
            tools=tools(),
            retry=NO_WAITS,
            hooks=Hooks(before_tool=self.gate, after_tool=self.override, transform_context=self.transform),
            limits=Limits(
                max_turns=self.random.choice([None, None, 1, 2, 3]),
                parallel_tools=self.random.choice([None, 1, 2, 4]),
            ),
            steering_mode=self.random.choice(["all", "one-at-a-time"]),
            follow_up_mode=self.random.choice(["all", "one-at-a-time"]),
        )
        self.events: list[Event] = []
        self.hashes: list[Any] = []
        self.hashed = self.random.random() < 0.2
        self.queued: list[str] = []
        self.outside: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self.agent.subscribe(self.watch)
        self.agent.subscribe(self.meddle)

    # -- the script --

    def turn(self) -> Any:
        choose = self.random.random()
        usage = Usage(input=self.random.randint(0, 9), total_tokens=self.random.randint(1, 99))
        if choose < 0.1:
            return [text("half of it"), error(self.random.choice(ERRORS), usage=usage)]
        if choose < 0.15:
            return RuntimeError("the provider has a bug")
        if choose < 0.2:
            return [
                StreamStart(),
                TextDelta(0, "cut"),
                ToolCallStart(1, "c", "fine"),
                ToolCallDelta(1, '{"a'),
            ]
        if choose < 0.25:
            return [done("stop", usage)]
        if choose < 0.4:
            return [thinking("hmm so", "sig"), text("an answer in words"), done("stop", usage)]
        return [
            text("let me see"),
            *(self.call() for _ in range(self.random.randint(1, 3))),
            done("length" if choose > 0.95 else "toolUse", usage),
        ]

    def call(self) -> Any:
        id = self.random.choice(["", "", "twin"])
        return tool_call(self.random.choice(TOOLS), {"a": [1], "b": self.random.randint(0, 9)}, id)

    # -- the hooks --

    def rolls(self, chance: float) -> bool:
        return not self.calm and self.random.random() < chance

    def gate(self, info: Any) -> ToolDecision | None:
        info.arguments.clear()
        if self.rolls(0.05):
            raise ValueError("the gate is stuck")
        if self.rolls(0.05):
            return ToolDecision.pause()
        if self.rolls(0.1):
            return ToolDecision.deny()
        return ToolDecision.allow({"b": 1}) if self.rolls(0.1) else None

    def override(self, info: Any) -> ToolOverride | None:
        info.arguments.clear()
        if self.rolls(0.05):
            raise ValueError("the filter is broken")
        return ToolOverride(content="filtered") if self.rolls(0.1) else None

    def transform(self, messages: list[Message]) -> list[Message] | None:
        if self.rolls(0.03):
            raise ValueError("no context")
        if self.rolls(0.1):
            messages.clear()
        return None

    # -- the weather --

    def watch(self, event: Event) -> None:
        self.events.append(event)
        if self.hashed:
            self.hashes.append(frozen(event))

    def meddle(self, event: Event) -> None:
        if not self.rolls(0.08):
            return
        deed = self.random.choice(
            [self.steer, self.follow_up, self.steer, self.follow_up, self.abort, self.fail]
        )
        if deed != self.fail and self.random.random() < 0.5:
            self.outside.put(deed)
        else:
            deed()

    def steer(self) -> None:
        self.agent.steer(self.token())

    def follow_up(self) -> None:
        self.agent.follow_up(self.token())

    def token(self) -> str:
        self.queued.append(f"<queued-{len(self.queued)}>")
        return self.queued[-1]

    def abort(self) -> None:
        if not self.calm:
            self.agent.abort()

    def fail(self) -> None:
        raise LookupError("a subscriber has a bug")

    # -- the run and what must hold --

    def run(self) -> None:
        gremlin = threading.Thread(target=self.haunt, name="gremlin")
        gremlin.start()
        try:
            for number in range(2):
                self.run_once(f"prompt-{number}")
            self.calm = True
            self.agent.stream_fn = lambda *request: ScriptedModel(*["fine"] * 1).stream(*request)
            self.run_once("after the stress")  # 5: whatever happened, the agent takes the next prompt
        finally:
            self.outside.put(None)
            gremlin.join(10)
            self.agent.close()
        self.check_queues()

    def haunt(self) -> None:
        while deed := self.outside.get():
            deed()

    def run_once(self, prompt: str) -> None:
        self.events, self.hashes = [], []
        history = self.agent.state.messages
        self.check(self.agent.prompt(prompt), history)
        while self.agent.pending_calls:
            self.agent.resolve_pending(lambda call: f"resolved {call.name}")
            self.events, self.hashes = [], []
            history = self.agent.state.messages
            assert_well_formed(history)
            self.check(self.agent.resume(), history)

    def check(self, run: Run, history: list[Message]) -> None:
        assert run.wait(30), "the run hangs"
        assert self.agent.wait_for_idle(0)
        result = run.result(0)
        end = self.events[-1]
        assert isinstance(end, AgentEnd)
        messages = self.agent.state.messages
        assert messages == [*history, *end.messages]
        assert result.messages == end.messages
        waiting = [call.id for call in self.agent.pending_calls]
        assert bool(waiting) == (result.stop == "paused")
        assert [call.id for call in result.pending_calls] == waiting
        assert_well_formed([*messages, *(ToolResultMessage(id, "", "") for id in waiting)])  # 1, 2
        assert_events_balance(self.events)  # 3, and 4: usage never falls
        answers = [e.message for e in self.events if isinstance(e, MessageEnd)]
        spent = sum(m.usage.total_tokens for m in answers if isinstance(m, AssistantMessage))
        assert result.usage.total_tokens == spent  # 4
        assert self.agent.state.pending_tool_calls == set()
        assert (result.stop == "error") == bool(result.error)
        if self.hashed:
            assert [frozen(event) for event in self.events] == self.hashes  # 7

    def check_queues(self) -> None:
        """Each queued message is in the conversation or still queued, once."""
        self.agent.steering_mode = "all"
        waiting = [*self.agent._inbox.poll_steering(), *self.agent.take_follow_ups()]
        contents = [m.content for m in (*self.agent.state.messages, *waiting) if isinstance(m, UserMessage)]
        for token in self.queued:
            assert sum(str(content).count(token) for content in contents) == 1, token


def stress(seed: int) -> None:
    try:
        StressTest(seed).run()
    except BaseException as error:
        raise AssertionError(f"stress({seed}) failed: {error!r}") from error


@pytest.mark.parametrize("block", range(BLOCKS))
def test_the_invariants_hold_under_stress(block: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL", "agent")  # thousands of failures are logged on purpose
    for seed in range(block * RUNS // BLOCKS, (block + 1) * RUNS // BLOCKS):
        stress(seed)
    until(lambda: not [t for t in threading.enumerate() if t.name.startswith("agent-")])  # 6
