"""The steering and follow-up messages that wait for a run: those of the agent's queues and those of hooks."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from agent.cancel import CancelToken
from agent.errors import contain
from agent.hooks import Hooks
from agent.loop.config import LoopConfig, Poll
from agent.loop.hook_calls import poll_safely
from agent.messages import Message

logger = logging.getLogger("agent")


class MessageQueues:
    """Polls for queued messages. Used by the run's thread alone.

    Once the run is cancelled, or `closed` is set because the next answer is the last one, the queues are left
    alone: what waits there is neither lost nor sent.
    """

    def __init__(self, config: LoopConfig, hooks: Hooks, cancel: CancelToken) -> None:
        self.closed = False
        self._config = config
        self._hooks = hooks
        self._cancel = cancel

    def poll_steering(self) -> Sequence[Message]:
        """The messages for the start of a turn."""
        return self._poll(self._config.get_steering_messages, self._hooks.steering_messages)

    def poll_follow_ups(self) -> Sequence[Message]:
        """The messages for when the run would end."""
        return self._poll(self._config.get_follow_up_messages, self._hooks.follow_up_messages)

    def has_messages(self) -> bool:
        """True when the agent's queues hold messages; takes none. Hooks cannot be asked that."""
        try:
            return self._config.has_queued_messages is not None and self._config.has_queued_messages()
        except BaseException as error:
            contain(error)
            logger.exception("checking for queued messages failed; counted as none")
            return False

    def _poll(self, queue: Poll | None, hook: Poll | None) -> Sequence[Message]:
        if self.closed or self._cancel.is_set():
            return ()
        messages = poll_safely(queue)
        return messages if hook is None else messages + poll_safely(hook)
