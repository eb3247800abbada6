"""Everything the loop needs to know besides the conversation."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from agent.cancel import CancelToken
from agent.events import Event
from agent.hooks import Hooks, RunInfo
from agent.limits import Limits
from agent.messages import Message, default_convert_to_llm
from agent.models import Model
from agent.retry import RetryPolicy
from agent.runs import RunMetadata
from agent.stream import AgentContext, StreamOptions

Emit = Callable[[Event], object]
Poll = Callable[[], Sequence[Message]]
Mirror = Callable[[Message | None, Message | None], object]
PrepareAnswer = Callable[[Model, AgentContext, StreamOptions], tuple[AgentContext, StreamOptions]]


class News(Protocol):
    """What comes in from other threads and is to be told by the run's own."""

    def listen(self, wake: Callable[[], object] | None) -> None:
        """Call `wake`, on any thread, when there is something to tell; None ends that."""

    def tell_news(self) -> None:
        """Tell what has come in."""


@dataclass(slots=True)
class LoopConfig:
    """Everything the loop needs to know besides the context. Durations are in seconds.

    `get_api_key(provider)` gives the key for each request; `get_steering_messages` and
    `get_follow_up_messages` are polled at the start of a turn and when the run would end,
    `has_queued_messages` tells without taking. `clock()` is the Unix time and `wait(seconds)` waits and tells
    whether it was cancelled (by default on `cancel`).

    `mirror(old, new)` hears of every change of the run's messages: one was added (None, new), dropped (old,
    None) or mended (old, new); `replace_history(messages)` that a hook replaced them all. `park(cancel)` is
    called where the run would end with an answer: it waits, and returns what to go on with, or nothing.
    `answer_tools` take the final answer: they are there whatever hooks make of the tools, no gate is asked
    about them, and an answer that calls nothing else is reviewed like one in words. `prepare_answer(model,
    context, options)` has the last word on each request. `fallbacks` are models
    to go on with, one after the other, when the one before can't be reached; `api_key` is for the provider of
    `model` alone.
    """

    model: Model
    reasoning: str = field(default="", kw_only=True)
    convert_to_llm: Callable[[list[Message]], Sequence[Message]] | None = field(
        default=default_convert_to_llm, kw_only=True
    )
    transform_context: Callable[[list[Message]], Sequence[Message] | None] | None = field(
        default=None, kw_only=True
    )
    get_api_key: Callable[[str], str | None] | None = field(default=None, kw_only=True)
    get_steering_messages: Poll | None = field(default=None, kw_only=True)
    get_follow_up_messages: Poll | None = field(default=None, kw_only=True)
    has_queued_messages: Callable[[], bool] | None = field(default=None, kw_only=True)
    should_stop_after_turn: Callable[[RunInfo], bool] | None = field(default=None, kw_only=True)
    hooks: Hooks | None = field(default=None, kw_only=True)
    limits: Limits | None = field(default=None, kw_only=True)
    retry: RetryPolicy = field(default_factory=RetryPolicy, kw_only=True)
    cancel: CancelToken | None = field(default=None, kw_only=True)
    clock: Callable[[], float] = field(default=time.time, kw_only=True)
    wait: Callable[[float], bool] | None = field(default=None, kw_only=True)
    run: RunMetadata | None = field(default=None, kw_only=True)
    mirror: Mirror | None = field(default=None, kw_only=True)
    replace_history: Callable[[Sequence[Message]], object] | None = field(default=None, kw_only=True)
    park: Callable[[CancelToken], Sequence[Message]] | None = field(default=None, kw_only=True)
    news: News | None = field(default=None, kw_only=True)
    answer_tools: Sequence[Any] = field(default=(), kw_only=True)
    prepare_answer: PrepareAnswer | None = field(default=None, kw_only=True)
    fallbacks: Sequence[Model] = field(default=(), kw_only=True)
    api_key: str = field(default="", kw_only=True, repr=False)
    session_id: str = field(default="", kw_only=True)
    thinking_budgets: Mapping[str, int] | None = field(default=None, kw_only=True)
    transport: str = field(default="auto", kw_only=True)
    max_retry_delay: float | None = field(default=60.0, kw_only=True)
    server_tools: Sequence[Any] = field(default=(), kw_only=True)
    server_compaction: Any = field(default=None, kw_only=True)
    cache_retention: str = field(default="", kw_only=True)
    headers: Mapping[str, str] | None = field(default=None, kw_only=True, repr=False)
    temperature: float | None = field(default=None, kw_only=True)
    max_tokens: int | None = field(default=None, kw_only=True)
    timeout: float | None = field(default=None, kw_only=True)
    on_payload: Callable[[dict[str, Any], Model], dict[str, Any] | None] | None = field(
        default=None, kw_only=True
    )
    on_retry: Callable[[int, float, str], object] | None = field(default=None, kw_only=True)
