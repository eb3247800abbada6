"""Every exception this package raises on purpose.

    AgentError
    ├── ConfigurationError          a setting is missing, wrong or not supported
    │   └── UnknownModelError       no such model id at a provider with a closed list
    ├── AgentBusyError              the agent already runs; steer, follow up or wait
    ├── NothingToContinueError      there is no message to go on from
    ├── RunError                    a run ended in `error`          (.partial_result)
    ├── SideQueryError              a side query got no usable answer (.message, .blocks)
    ├── ToolError                   a tool failed; the text goes to the model as it is
    ├── PendingToolCallsError       tool calls wait for a resolution first
    ├── ToolCallNotPendingError     that call is unknown or already answered
    ├── InvalidToolResolutionError  a resolution with an empty or doubled id
    ├── SubagentPausedError         a child agent paused and can't answer
    ├── GuardrailError              a guardrail rejected              (.phase, .name)
    ├── SessionCorruptError         a session file can't be read
    ├── SessionLockedError          another process writes this session
    └── BudgetError                 money or tokens ran out

A failed model request, an abort and a reached limit are no exceptions: they end a run through its last event.
"""

from __future__ import annotations

import threading
from typing import Any


class AgentError(Exception):
    """Base of all errors of this package."""


class ConfigurationError(AgentError):
    """A setting is missing, wrong or not supported; the text names it and what to do."""


class UnknownModelError(ConfigurationError):
    """No model of that name; the text names near ones."""


class AgentBusyError(AgentError):
    """The agent is already processing a prompt."""


class NothingToContinueError(AgentError):
    """`resume()` was called with no messages to continue from."""


class RunError(AgentError):
    """A run ended in `error`. `partial_result` is the `RunResult` up to there."""

    def __init__(self, message: str, partial_result: Any = None) -> None:
        super().__init__(message)
        self.partial_result = partial_result


class SideQueryError(AgentError):
    """A side query failed. `message` is the last assistant message (or None), `blocks` its block summary."""

    def __init__(self, text: str, message: Any = None, blocks: Any = ()) -> None:
        super().__init__(text)
        self.message = message
        self.blocks = blocks


class ToolError(AgentError):
    """Raised by a tool to answer the model with an error result that carries just this text."""


class PendingToolCallsError(AgentError):
    """Tool calls of an earlier run wait for their resolution."""


class ToolCallNotPendingError(AgentError):
    """A resolution names a call that is unknown or already answered."""


class InvalidToolResolutionError(AgentError):
    """A resolution has an empty id, or two have the same one."""


class SubagentPausedError(AgentError):
    """A child agent paused for approval, which a tool call can't wait for."""


class GuardrailError(AgentError):
    """A guardrail rejected the input or the output; `__cause__` is what it raised."""

    def __init__(self, message: str, phase: str = "", name: str = "") -> None:
        super().__init__(message)
        self.phase = phase
        self.name = name


class SessionCorruptError(AgentError):
    """A session file can't be read, not even in part."""


class SessionLockedError(AgentError):
    """Another process writes this session; the text names it."""


class BudgetError(AgentError):
    """A budget is exhausted."""


# -- exceptions of the application's code: tools, hooks, callbacks, stream functions -------------------------


def contain(error: BaseException) -> None:
    """Re-raise a Ctrl-C; any other exception of the application's code ends nothing but that code.

    For `except BaseException` around such code, which may also raise SystemExit or CancelledError. Only the
    main thread receives Ctrl-C: there a KeyboardInterrupt is taken for one.
    """
    if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
        raise error


def error_text(error: BaseException) -> str:
    """The text of an exception, or its type when it has none or making it fails; never raises."""
    try:
        return str(error) or type(error).__name__
    except BaseException as failure:
        contain(failure)
        return type(error).__name__


def typed_error_text(error: BaseException) -> str:
    """Type and text of an exception: `ValueError: no such file`; never raises."""
    name, text = type(error).__name__, error_text(error)
    return name if text == name else f"{name}: {text}"
