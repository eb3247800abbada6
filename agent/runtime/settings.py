"""What an agent is set to, and what the loop is told of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.cancel import CancelToken
from agent.hooks import Hooks
from agent.limits import Limits
from agent.loop.config import LoopConfig
from agent.messages import Message, default_convert_to_llm
from agent.models import Model
from agent.retry import RetryPolicy
from agent.runs import RunMetadata
from agent.stream import StreamFn


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All options of an agent. A run captures them when it is accepted: a change is for the next one."""

    system_prompt: str = ""
    model: Model | None = None
    thinking_level: str = "off"
    stream_fn: StreamFn | None = None
    session_id: str = ""
    thinking_budgets: Mapping[str, int] | None = None
    transport: str = "auto"
    max_retry_delay: float | None = 60.0
    server_tools: Sequence[Any] = ()
    server_compaction: Any = None
    fallbacks: tuple[Model, ...] = ()
    convert_to_llm: Callable[[list[Message]], Sequence[Message]] = default_convert_to_llm
    transform_context: Callable[[list[Message]], Sequence[Message] | None] | None = None
    get_api_key: Callable[[str], str | None] | None = None
    on_payload: Callable[[dict[str, Any], Model], dict[str, Any] | None] | None = None
    on_retry: Callable[[int, float, str], object] | None = None
    hooks: Hooks | None = None
    limits: Limits | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)

    def loop_config(self, cancel: CancelToken, run: RunMetadata | None) -> LoopConfig:
        """The same for the loop. There must be a model."""
        assert self.model is not None
        return LoopConfig(
            self.model,
            reasoning="" if self.thinking_level == "off" else self.thinking_level,
            convert_to_llm=self.convert_to_llm,
            transform_context=self.transform_context,
            get_api_key=self.get_api_key,
            hooks=self.hooks,
            limits=self.limits,
            retry=self.retry,
            cancel=cancel,
            clock=time.time,
            run=run,
            session_id=self.session_id,
            thinking_budgets=self.thinking_budgets,
            transport=self.transport,
            max_retry_delay=self.max_retry_delay,
            server_tools=self.server_tools,
            server_compaction=self.server_compaction,
            fallbacks=self.fallbacks,
            on_payload=self.on_payload,
            on_retry=self.on_retry,
        )
