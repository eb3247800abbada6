"""The messages typed while the agent works, until they are delivered or taken back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agent.agent import Agent
from agent.messages import UserMessage
from agent.runtime.inbox import Receipt

Kind = Literal["steering", "follow-up"]


@dataclass(frozen=True, slots=True)
class Queued:
    """A message, how it was queued, and its receipt."""

    kind: Kind
    message: UserMessage
    receipt: Receipt


class Outbox:
    """The queued messages of one agent, in the order they were typed.

    Threads: the terminal's thread adds and takes back, the agent's worker reads notes. The receipt alone
    determines whether a message was delivered, so that none is sent twice and none is lost.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._sent: list[Queued] = []

    def add(self, kind: Kind, message: UserMessage) -> None:
        """Queue a message for the running run."""
        queue = self._agent.steer if kind == "steering" else self._agent.follow_up
        self._sent = [*self.waiting(), Queued(kind, message, queue(message))]

    def waiting(self) -> list[Queued]:
        """The messages that are not delivered yet."""
        return [queued for queued in self._sent if queued.receipt.state == "queued"]

    def note(self, message: UserMessage) -> str:
        """How a message that enters the run was queued; empty for any other message."""
        for queued in self._sent:
            if queued.message is message:
                turn = queued.receipt.turn
                return f"({queued.kind}, delivered in turn {turn})" if turn else f"({queued.kind})"
        return ""

    def take_all(self) -> list[str]:
        """Take back all waiting messages; returns their texts, oldest first."""
        before = self.waiting()
        self._agent.clear_all_queues()
        return [queued.message.text for queued in before if queued.receipt.state == "returned"]

    def take_last(self) -> str | None:
        """Take back the message that was typed last; the others keep their order."""
        waiting = self.waiting()
        if not waiting:
            return None
        self._agent.clear_all_queues()
        returned = [queued for queued in waiting if queued.receipt.state == "returned"]
        self._sent = []
        for queued in returned[:-1]:
            self.add(queued.kind, queued.message)
        return returned[-1].message.text if returned else None
