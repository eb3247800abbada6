"""The models that take over when the current one cannot be reached."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable

from agent.messages import AssistantMessage
from agent.models import Model
from agent.retry import NO_SERVER, classify_error, is_resumable

# Failures of one server or account, which another may not have. Other failures would repeat anywhere: an
# invalid request, or a conversation too long for the model (another window is the application's decision).
_WORTH_ANOTHER_MODEL = frozenset(("rate_limit", "overloaded", "server", "network", "quota", "auth"))
_NO_KEY = "no API key for provider"
_EMPTY_ANSWERS = "empty answer again and again"
_STATUS = re.compile(r"([45]\d\d)(?!\w)")  # what the text of a refused request begins with


def is_worth_another_model(error_message: str) -> bool:
    """True when the error is one of the server or the account, so that another model may answer."""
    if error_message.startswith((_NO_KEY, NO_SERVER)) or _EMPTY_ANSWERS in error_message:
        return True
    status = _STATUS.match(error_message)
    kind = classify_error(int(status[1]) if status else None, text=error_message).kind
    return kind in _WORTH_ANOTHER_MODEL or is_resumable(error_message)


class Fallbacks:
    """The models still to be tried in a run, in order; each is tried once. Used by the run's thread alone."""

    def __init__(self, models: Iterable[Model]) -> None:
        self._left = deque(models)

    def after(self, answer: AssistantMessage, failed: Model) -> Model | None:
        """The model that takes over after this answer of `failed`; None when none is left or would help."""
        if answer.stop_reason != "error" or not is_worth_another_model(answer.error_message):
            return None
        while self._left:
            model = self._left.popleft()
            if model != failed:
                return model
        return None
