"""FaultInjector: faults in any stream, chosen or from a seed."""

from __future__ import annotations

from typing import Any

from support.streams import answer, events

from agent.cancel import CancelToken
from agent.stream import AgentContext, StreamError, StreamOptions, StreamStart, TextDelta
from agent.testing import Fault, FaultInjector, ScriptedModel


def faulty(*faults: Fault, turns: tuple[Any, ...] = ("one two three",)) -> FaultInjector:
    return FaultInjector(ScriptedModel(*turns).stream, faults)


def test_without_faults_nothing_changes() -> None:
    assert events(faulty().stream) == events(ScriptedModel("one two three").stream)


def test_a_cut_ends_the_stream_without_an_end_event() -> None:
    assert [e.type for e in events(faulty(Fault("cut", at=3)).stream)] == [
        "start",
        "text_start",
        "text_delta",
    ]


def test_an_error_ends_it_with_its_text() -> None:
    received = events(faulty(Fault("error", at=1, text="broken pipe")).stream)
    assert received == [StreamStart(), StreamError("broken pipe")]


def test_a_stall_lasts_until_it_is_cancelled_or_over() -> None:
    token = CancelToken()
    token.cancel()
    received = events(faulty(Fault("stall", at=1)).stream, StreamOptions(cancel=token))
    assert received[-1].type == "error"
    timed_out = events(faulty(Fault("stall", at=1, seconds=0.001)).stream)[-1]
    assert isinstance(timed_out, StreamError)
    assert "i/o timeout" in timed_out.error_message


def test_a_delta_can_be_garbled_come_twice_or_late() -> None:
    garbled = answer(events(faulty(Fault("corrupt", at=2)).stream)).text
    assert garbled != "one two three"
    assert garbled.endswith("two three")
    assert answer(events(faulty(Fault("duplicate", at=2)).stream)).text == "one one two three"
    assert answer(events(faulty(Fault("delay", at=2, seconds=0.001)).stream)).text == "one two three"


def test_a_fault_is_for_one_request_or_for_all() -> None:
    injector = faulty(Fault("cut", call=1), turns=("a", "b", "c"))
    assert [len(events(injector.stream)) for _ in range(3)] == [5, 0, 5]
    assert [f.call for f in injector.injected] == [1]


def test_the_same_seed_gives_the_same_faults() -> None:
    def play(seed: int) -> list[Fault]:
        injector = FaultInjector(ScriptedModel(*["one two three four five six"] * 50).stream, seed=seed)
        for _ in range(50):
            events(injector.stream)
        return injector.injected

    assert play(7) == play(7) != play(8)
    assert 5 <= len(play(7)) <= 30


def test_the_stream_under_it_is_closed() -> None:
    closed: list[bool] = []

    def stream(model: Any, context: AgentContext, options: StreamOptions) -> Any:
        try:
            yield StreamStart()
            yield TextDelta(0, "x")
        finally:
            closed.append(True)

    events(FaultInjector(stream, [Fault("cut", at=1)]).stream)
    assert closed == [True]
