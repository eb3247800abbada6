"""Which model goes on with a run when the one it was asked of has failed."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable

from agent.messages import AssistantMessage
from agent.models import Model
from agent.retry import classify_error, is_resumable

# Failures of a server or of an account, which another may not have. The rest would fail anywhere: a request
# that makes no sense, a conversation too long for the model (another window needs another decision).
_ANOTHER_MAY_HELP = frozenset(("rate_limit", "overloaded", "server", "network", "quota", "auth"))
_NO_KEY = "no API key for provider"
_EMPTY_ANSWERS = "empty answer again and again"
_STATUS = re.compile(r"([45]\d\d)(?!\w)")  # what the text of a refused request begins with


def another_may_help(error_message: str) -> bool:
    """True when the error is one of the server or the account, so that another model may well answer."""
    if error_message.startswith(_NO_KEY) or _EMPTY_ANSWERS in error_message:
        return True
    status = _STATUS.match(error_message)
    kind = classify_error(int(status[1]) if status else None, text=error_message).kind
    return kind in _ANOTHER_MAY_HELP or is_resumable(error_message)


class Fallbacks:
    """The models still to be tried in a run, in order; each is tried once. Used by the run's thread alone."""

    def __init__(self, models: Iterable[Model]) -> None:
        self._left = deque(models)

    def after(self, answer: AssistantMessage, failed: Model) -> Model | None:
        """The model to go on with after this answer of `failed`; None when none is left or would help."""
        if answer.stop_reason != "error" or not another_may_help(answer.error_message):
            return None
        while self._left:
            model = self._left.popleft()
            if model != failed:
                return model
        return None
