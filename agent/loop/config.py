"""The configuration of the loop: the options of its requests, and what the run is made of besides them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

from agent.cancel import CancelToken
from agent.events import Event
from agent.hooks import Hooks, RunInfo
from agent.limits import Limits
from agent.messages import Message, default_convert_to_llm
from agent.models import Model
from agent.runs import RunMetadata
from agent.stream import AgentContext, StreamOptions

Emit = Callable[[Event], object]
Poll = Callable[[], Sequence[Message]]
PrepareAnswer = Callable[[Model, AgentContext, StreamOptions], tuple[AgentContext, StreamOptions]]


class PendingEvents(Protocol):
    """Events from other threads, for the run's thread to emit."""

    def on_pending(self, wake: Callable[[], object] | None) -> None:
        """Call `wake`, on any thread, when there are events; None ends that."""

    def emit_pending(self) -> None:
        """Emit the events that have come in."""


@dataclass(slots=True, kw_only=True)
class RunOptions(StreamOptions):
    """What an agent and a bare loop have in common: the options of their requests and of their runs.

    - `convert_to_llm(messages)`: the messages to send for those of the conversation.
    - `transform_context(messages)`, `hooks`: see `Hooks`.
    - `get_api_key(provider)`: the key for each request; None or "" for none.
    - `limits`: what ends a run early; None for no limits.
    - `fallbacks`: the models that take over, one after the other, when the one before can't be reached.
      `api_key` is for the provider of the first model alone.
    """

    convert_to_llm: Callable[[list[Message]], Sequence[Message]] | None = default_convert_to_llm
    transform_context: Callable[[list[Message]], Sequence[Message] | None] | None = None
    get_api_key: Callable[[str], str | None] | None = None
    hooks: Hooks | None = None
    limits: Limits | None = None
    fallbacks: Sequence[Model] = ()


@dataclass(slots=True, kw_only=True)
class LoopConfig(RunOptions):
    """Everything the loop needs besides the context. Times are in seconds.

    Takes every field of `StreamOptions` too: they are the template for the options of each request.
    `reasoning` is the level asked for; each request clamps it to what its model offers.

    - `model`: the model of the first request.
    - `get_steering_messages`, `get_follow_up_messages`: polled at the start of a turn and where the run would
      end; `has_queued_messages` looks without taking.
    - `should_stop_after_turn(info)`: see `Hooks`.
    - `clock()`: the Unix time. `wait(seconds)`: waits, True when cancelled; by default on `cancel`.
    - `run`: the metadata that the events carry.
    - `park(cancel)`: called where the run would end with an answer; waits, and returns the messages to go on
      with, or none.
    - `relay`: events of other threads to emit between those of the run.
    - `answer_tools`: tools that take the final answer. They are offered whatever hooks make of the tools, no
      gate is asked about them, and an answer that calls nothing else is reviewed like an answer in text.
    - `prepare_answer(model, context, options)`: the last change to each request.
    """

    model: Model = field(kw_only=False)
    get_steering_messages: Poll | None = None
    get_follow_up_messages: Poll | None = None
    has_queued_messages: Callable[[], bool] | None = None
    should_stop_after_turn: Callable[[RunInfo], bool] | None = None
    clock: Callable[[], float] = time.time
    wait: Callable[[float], bool] | None = None
    run: RunMetadata | None = None
    park: Callable[[CancelToken], Sequence[Message]] | None = None
    relay: PendingEvents | None = None
    answer_tools: Sequence[Any] = ()
    prepare_answer: PrepareAnswer | None = None

    def __post_init__(self) -> None:
        if self.cancel is None:  # accepted, since it is how a caller without a signal may say so
            self.cancel = CancelToken()

    def stream_options(self) -> StreamOptions:
        """New options for one request, from the template."""
        return StreamOptions(**{name: getattr(self, name) for name in _REQUEST_FIELDS})


_REQUEST_FIELDS = tuple(option.name for option in fields(StreamOptions))
