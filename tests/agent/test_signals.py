"""Signal handlers and Ctrl-C, at every point of a call that Python can run them.

Python runs a signal handler on the main thread between two instructions. A trace function does the same at
a chosen one, so each is tried once instead of waiting for chance; a bounded number of real signals comes on
top. A handler that raises is tried only where CPython looks for signals: after calls and at backward jumps.
"""

from __future__ import annotations

import dis
import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from support.runs import until

import agent as package
from agent import Agent, CancelToken, LoopConfig, Receipt, RetryPolicy, UserMessage, agent_loop, tool
from agent.events import AgentEnd
from agent.stream import AgentContext, StreamDone, StreamEvent, StreamOptions, TextDelta
from agent.testing import ScriptedModel, error, tool_call

ROOT = str(Path(package.__file__).parent)
# After these CPython looks whether a signal has come.
CHECKED = ("CALL", "CALL_FUNCTION_EX", "CALL_KW", "RESUME", "JUMP_BACKWARD")


@cache
def instructions(code: CodeType) -> dict[int, str]:
    return {each.offset: each.opname for each in dis.get_instructions(code)}


@cache
def handlers(code: CodeType, offset: int) -> frozenset[int]:
    """The exception handlers that cover an instruction, `with` blocks included."""
    entries = dis.Bytecode(code).exception_entries  # type: ignore[attr-defined]
    return frozenset(entry.target for entry in entries if entry.start <= offset < entry.end)


def looks_for_signals(code: CodeType, last: int, now: int) -> bool:
    """True when CPython may raise between the two as well as a trace function does: after a call.

    CPython raises at the call that has just ended, the trace function at the instruction behind it. Where
    that one is not in the same blocks, the two would differ.
    """
    return instructions(code).get(last) in CHECKED and handlers(code, last) == handlers(code, now)


class Interrupter:
    """Runs `handler` once, before the n-th instruction of our code that a call executes on this thread."""

    def __init__(self, at: int, handler: Callable[[], object], checked_only: bool = False) -> None:
        self.count = 0
        self.fired = False
        self._at = at
        self._handler = handler
        self._checked_only = checked_only
        self._last: dict[FrameType, int] = {}

    def run(self, call: Callable[[], object]) -> object:
        before = sys.gettrace()  # that of a coverage report
        sys.settrace(self._trace)
        try:
            return call()
        finally:
            sys.settrace(before)
            self._last.clear()

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if self.fired or not frame.f_code.co_filename.startswith(ROOT):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            last, self._last[frame] = self._last.get(frame, -1), frame.f_lasti
            if not self._checked_only or looks_for_signals(frame.f_code, last, frame.f_lasti):
                self.count += 1
                if self.count == self._at:
                    self.fired = True
                    sys.settrace(None)
                    self._handler()
        return self._trace


class Stalled:
    """A model whose answer never ends by itself."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    def stream(self, model: Any, context: AgentContext, options: StreamOptions) -> Iterator[StreamEvent]:
        self.asked.set()
        yield TextDelta(0, "half")
        options.cancel.wait()


def quick(model: Any, context: AgentContext, options: StreamOptions) -> Iterator[StreamEvent]:
    yield TextDelta(0, "ok")
    yield StreamDone()


def agent_of(stream: Any = quick) -> Agent:
    return Agent(ScriptedModel().model, stream_fn=stream)


def workers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("agent-")]


CALLS: dict[str, Callable[[Agent], object]] = {
    "abort": lambda agent: agent.abort(),
    "steer": lambda agent: agent.steer("a"),
    "follow_up": lambda agent: agent.follow_up("a"),
    "follow_up_queue": lambda agent: agent.follow_up_queue(),
    "remove_follow_up": lambda agent: agent.remove_follow_up(0),
    "take_follow_ups": lambda agent: agent.take_follow_ups(),
    "clear_steering_queue": lambda agent: agent.clear_steering_queue(),
    "clear_all_queues": lambda agent: agent.clear_all_queues(),
    "state": lambda agent: agent.state,
    "append_message": lambda agent: agent.append_message(UserMessage("m")),
    "set a setting": lambda agent: setattr(agent, "session_id", "s"),
    "subscribe": lambda agent: agent.subscribe(print)(),
}


def all_positions(start: Callable[[], tuple[Interrupter, Callable[[], object]]]) -> int:
    """How many instructions a call has, from a run in which nothing comes in between."""
    interrupter, call = start()
    interrupter.run(call)
    return interrupter.count


# -- handlers that return ------------------------------------------------------------------------------


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", CALLS)
def test_a_handler_may_abort_steer_and_follow_up_at_every_instruction(name: str) -> None:
    """FR-5: a deadlock shows as a timeout, a lost message as a receipt that stays queued."""
    stalled = Stalled()
    with agent_of(stalled.stream) as agent:
        agent.prompt("hi")
        assert stalled.asked.wait(10)
        for at in range(1, 10_000):
            for text in ("one", "two"):
                agent.steer(text)
                agent.follow_up(text)
            receipts: list[Receipt] = []

            def handler(receipts: list[Receipt] = receipts) -> None:
                agent.abort()
                receipts.extend((agent.steer("handler"), agent.follow_up("handler")))

            interrupter = Interrupter(at, handler)
            interrupter.run(lambda: CALLS[name](agent))
            if not interrupter.fired:
                agent.abort()
            assert agent.wait_for_idle(10)
            queued = [m.content for m in (*agent.follow_up_queue(), *agent._inbox._steering.messages())]  # type: ignore[union-attr]
            assert queued.count("handler") == sum(r.state == "queued" for r in receipts), f"instruction {at}"
            if not interrupter.fired:
                assert at > 10
                return
            agent.reset()
            stalled.asked.clear()
            agent.prompt("hi")
            assert stalled.asked.wait(10)


@pytest.mark.timeout(60)
def test_a_handler_may_abort_while_the_agent_is_closed() -> None:
    """FR-5"""
    for at in range(1, 10_000):
        agent = agent_of(Stalled().stream)
        run = agent.prompt("hi")
        interrupter = Interrupter(at, agent.abort)
        interrupter.run(agent.close)
        assert run.done, f"instruction {at}"
        if not interrupter.fired:
            assert at > 10
            return


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["cancel", "wait", "on_cancel", "child", "take back"])
def test_a_handler_may_cancel_a_token_at_every_instruction_of_its_methods(name: str) -> None:
    """FR-5"""
    for at in range(1, 10_000):
        token = CancelToken()
        ran: list[str] = []
        take_back = token.on_cancel(lambda ran=ran: ran.append("first"))  # type: ignore[misc]
        calls: dict[str, Callable[[], object]] = {
            "cancel": lambda token=token: token.cancel("call"),  # type: ignore[misc]
            "wait": lambda token=token: token.wait(0.02),  # type: ignore[misc]
            "on_cancel": lambda token=token, ran=ran: token.on_cancel(lambda: ran.append("second")),  # type: ignore[misc]
            "child": lambda token=token: token.child(),  # type: ignore[misc]
            "take back": take_back,
        }
        interrupter = Interrupter(at, lambda token=token: token.cancel("handler"))  # type: ignore[misc]
        made = interrupter.run(calls[name])
        if not interrupter.fired:
            return
        assert token.is_set()
        assert token.wait(0)
        assert token.reason in ("handler", "call")
        assert ran.count("first") <= 1
        if name == "on_cancel":
            assert ran.count("second") == 1, f"instruction {at}"
        if name == "child":
            assert isinstance(made, CancelToken)
            assert made.is_set(), f"instruction {at}"


# -- handlers that raise -------------------------------------------------------------------------------


def interrupt() -> None:
    raise KeyboardInterrupt


STARTS: dict[str, Callable[[Agent], object]] = {
    "prompt": lambda agent: agent.prompt("hi"),
    "run": lambda agent: agent.run("hi"),
    "stream": lambda agent: list(agent.stream("hi")),
    "resume": lambda agent: agent.resume(),
    "wait": lambda agent: agent.prompt("hi").wait(10),
}


def assert_usable(agent: Agent) -> None:
    assert agent.wait_for_idle(10)
    assert agent.run("again").text == "ok"
    assert not agent.state.is_streaming


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", STARTS)
def test_an_agent_is_usable_after_a_ctrl_c_wherever_it_comes(name: str) -> None:
    """FR-5"""
    for at in range(1, 10_000):
        agent = agent_of()
        if name == "resume":
            agent.append_message(UserMessage("m"))
        interrupter = Interrupter(at, interrupt, checked_only=True)
        try:
            interrupter.run(lambda agent=agent: STARTS[name](agent))  # type: ignore[misc]
        except KeyboardInterrupt:
            assert interrupter.fired
        assert_usable(agent)
        agent.close()
        until(lambda: not workers())
        if not interrupter.fired:
            assert at > 10
            return


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timer here")
@pytest.mark.timeout(120, method="thread")  # the other method uses the same timer
def test_agents_are_usable_after_real_interrupts_at_random_moments() -> None:
    """FR-5: up to 400 interrupts in the first 0.6 ms of `run`."""
    interrupted = 0
    is_armed = False

    def raise_when_armed(number: int, frame: object) -> None:
        if is_armed:
            raise KeyboardInterrupt

    before = [
        signal.signal(signal.SIGINT, raise_when_armed),
        signal.signal(signal.SIGALRM, lambda number, frame: signal.raise_signal(signal.SIGINT)),
    ]
    gc.disable()  # what others do in its callbacks is not the agent's to survive
    try:
        for number in range(400):
            agent = agent_of()
            try:
                is_armed = True
                signal.setitimer(signal.ITIMER_REAL, 0.00001 + 0.0000015 * number)
                agent.run("hi")
                is_armed = False
            except KeyboardInterrupt:
                interrupted += 1
            is_armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert_usable(agent)
            agent.close()
    finally:
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGALRM, before[1])
        gc.enable()
    assert interrupted > 40
    until(lambda: not workers())


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timer here")
@pytest.mark.timeout(120, method="thread")  # the other method uses the same timer
def test_real_signals_lose_no_message_and_lock_nothing() -> None:
    """FR-5: 2,000 signals while queues are filled and emptied."""
    receipts: list[Receipt] = []
    with agent_of() as agent:

        def handler(number: int, frame: object) -> None:
            agent.abort()
            receipts.append(agent.follow_up("handler"))

        before = signal.signal(signal.SIGALRM, handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0001, 0.0001)
            while len(receipts) < 2000:
                agent.follow_up("a")
                agent.follow_up_queue()
                agent.take_follow_ups()
                agent.clear_all_queues()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        waiting = sum(receipt.state == "queued" for receipt in receipts)
        assert sum(m.content == "handler" for m in agent.follow_up_queue()) == waiting  # type: ignore[union-attr]


@pytest.mark.timeout(120)
def test_a_handler_may_cancel_a_loop_that_runs_on_this_thread() -> None:
    """FR-5: at every 23rd instruction of a run with a tool and a resume, its waits included."""

    @tool
    def echo(word: str) -> str:
        """Say it again."""
        return word

    ended: set[str] = set()
    for at in range(1, 100_000, 23):
        cancel = CancelToken()
        model = ScriptedModel([tool_call("echo", {"word": "x"})], error("connection reset by peer"), "done")
        retry = RetryPolicy(auto_resume=(0.001,))
        config = LoopConfig(model.model, cancel=cancel, retry=retry)
        ends: list[AgentEnd] = []
        interrupter = Interrupter(at, lambda cancel=cancel: cancel.cancel("handler"))  # type: ignore[misc]
        interrupter.run(
            lambda model=model, config=config, ends=ends: agent_loop(  # type: ignore[misc]
                [UserMessage("hi")],
                AgentContext("", (), [echo]),
                config,
                model.stream,
                lambda event: ends.append(event) if isinstance(event, AgentEnd) else None,
            )
        )
        ended.add(ends[0].stop)
        if not interrupter.fired:
            break
    assert ended == {"aborted", "end_turn"}
