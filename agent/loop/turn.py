"""A finished turn, and the two things that can follow it: another turn, or the end of the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from agent.hook_types import RequestUpdate
from agent.loop.tool_scheduler import ToolOutcome
from agent.messages import AssistantMessage, Message, ToolCall
from agent.runs import Stop


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn that has ended: its answer and the outcome of the answer's calls.

    `message` is None when the answer was discarded; `retry` is then the constraint to ask again with.
    `is_paused`: the provider interrupted the answer. `is_sent_back`: it goes on in the next turn, which must
    begin with no other message.
    """

    message: AssistantMessage | None
    outcome: ToolOutcome = field(default_factory=ToolOutcome)
    retry: RequestUpdate | None = None
    is_paused: bool = False
    is_sent_back: bool = False

    @property
    def natural_ending(self) -> Stop:
        """How the run ends if nothing follows: an unfinished text is `truncated`."""
        ending = self.outcome.ending or "end_turn"
        is_cut = self.is_paused or (self.message is not None and self.message.stop_reason == "length")
        return "truncated" if is_cut and ending == "end_turn" else ending


@dataclass(frozen=True, slots=True)
class Continue:
    """Another turn follows, which begins with these messages.

    With `same_request` it repeats or resumes the last request, whose constraint still holds.
    """

    messages: Sequence[Message] = ()
    same_request: bool = False


@dataclass(frozen=True, slots=True)
class End:
    """The run ends; `pending` are the calls that wait for a resolution."""

    stop: Stop
    error: str = ""
    cause: BaseException | None = None
    pending: tuple[ToolCall, ...] = ()


Decision: TypeAlias = Continue | End
