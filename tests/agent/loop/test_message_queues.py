"""Polling of steering and follow-up messages."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from agent.cancel import CancelToken
from agent.hooks import Hooks
from agent.loop import LoopConfig
from agent.loop.message_queues import MessageQueues
from agent.messages import Message, UserMessage
from agent.models import Model

MODEL = Model("m", "scripted", "scripted")
POLLS = ["poll_steering", "poll_follow_ups"]


def returning(*texts: str) -> Callable[[], Sequence[Message]]:
    return lambda: [UserMessage(text) for text in texts]


def fail() -> Sequence[Message]:
    raise RuntimeError("broken queue")


def queues(poll: Any, hook: Any, cancel: CancelToken | None = None) -> MessageQueues:
    """Queues whose two polls both have these sources."""
    config = LoopConfig(MODEL, get_steering_messages=poll, get_follow_up_messages=poll)
    hooks = Hooks(steering_messages=hook, follow_up_messages=hook)
    return MessageQueues(config, hooks, cancel or CancelToken())


def polled(messages: MessageQueues, poll: str) -> list[str]:
    found: Sequence[Any] = getattr(messages, poll)()
    return [message.text for message in found]


@pytest.mark.parametrize("poll", POLLS)
@pytest.mark.parametrize(
    ("queue", "hook", "expected"),
    [
        (None, None, []),
        (returning("a", "b"), None, ["a", "b"]),
        (None, returning("c"), ["c"]),
        (returning("a"), returning("c"), ["a", "c"]),
        (lambda: None, lambda: ["text"], ["text"]),
        (fail, returning("c"), ["c"]),
        (returning("a"), fail, ["a"]),
    ],
)
def test_messages_of_the_queue_come_before_those_of_the_hook(
    poll: str, queue: Any, hook: Any, expected: list[str]
) -> None:
    assert polled(queues(queue, hook), poll) == expected


def test_each_poll_reads_its_own_sources() -> None:
    config = LoopConfig(MODEL, get_steering_messages=returning("s"), get_follow_up_messages=returning("f"))
    hooks = Hooks(steering_messages=returning("S"), follow_up_messages=returning("F"))
    messages = MessageQueues(config, hooks, CancelToken())
    assert polled(messages, "poll_steering") == ["s", "S"]
    assert polled(messages, "poll_follow_ups") == ["f", "F"]


@pytest.mark.parametrize("poll", POLLS)
def test_closed_queues_and_those_of_a_cancelled_run_are_not_polled(poll: str) -> None:
    calls: list[str] = []

    def source() -> list[Message]:
        calls.append("polled")
        return []

    cancel = CancelToken()
    closed, cancelled = queues(source, source), queues(source, source, cancel)
    closed.closed = True
    cancel.cancel()
    assert polled(closed, poll) == polled(cancelled, poll) == []
    assert calls == []


@pytest.mark.parametrize(("check", "expected"), [(None, False), (lambda: True, True), (lambda: False, False)])
def test_the_check_for_messages_takes_none(check: Any, expected: bool) -> None:
    config = LoopConfig(MODEL, get_steering_messages=fail, has_queued_messages=check)
    assert MessageQueues(config, Hooks(), CancelToken()).has_messages() is expected


def test_a_check_for_messages_that_raises_is_logged_and_counts_as_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def check() -> bool:
        raise RuntimeError("broken check")

    messages = MessageQueues(LoopConfig(MODEL, has_queued_messages=check), Hooks(), CancelToken())
    with caplog.at_level(logging.ERROR, "agent"):
        assert messages.has_messages() is False
    assert "broken check" in caplog.text
