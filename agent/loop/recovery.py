"""What follows an answer that failed: resume it, hand over to a fallback model, or end the turn.

A connection that broke is resumed: the model gets its partial answer back and goes on. A stream that broke
inside a tool call was already asked for again (`ModelCaller.call_until_usable`); here the model is informed.
When neither helps, the next fallback model takes over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from agent.cancel import CancelToken
from agent.events import AutoResume, ModelFallback, TurnEnd
from agent.loop.config import LoopConfig
from agent.loop.fallback import Fallbacks
from agent.loop.message_queues import MessageQueues
from agent.loop.model_call import Answer, ModelCaller
from agent.loop.recorder import RunRecorder
from agent.loop.turn import Continue, Decision, End
from agent.messages import (
    AssistantBlock,
    AssistantMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    UserMessage,
)
from agent.retry import is_resumable

AUTO_RESUME_MARKER = "▶"
"""The text of the user message that asks a model to go on with its partial answer."""


class Recovery:
    """Decides what follows failed answers of one run. Used by the run's thread alone."""

    def __init__(
        self,
        config: LoopConfig,
        recorder: RunRecorder,
        caller: ModelCaller,
        queues: MessageQueues,
        cancel: CancelToken,
        wait: Callable[[float], bool],
    ) -> None:
        self._waits = config.retry.auto_resume
        self._fallbacks = Fallbacks(config.fallbacks)
        self._recorder = recorder
        self._caller = caller
        self._queues = queues
        self._cancel = cancel
        self._wait = wait
        self._resumes = 0

    def reset(self) -> None:
        """Count resumes from zero again, after an answer that ended well."""
        self._resumes = 0

    def after_failure(self, answer: Answer) -> Decision:
        """Resume an answer whose stream broke, or hand over to a fallback model; else end the turn."""
        message = answer.message
        may_resume = message.stop_reason == "error" and is_resumable(message.error_message)
        if may_resume and self._resumes < len(self._waits):
            self._resumes += 1
            self._recorder.emit(AutoResume(self._resumes, message.error_message))
            if not self._wait(self._waits[self._resumes - 1]):
                return self._resume(answer)
        if self.use_fallback(message):
            return self._resume(answer)
        if not answer.recorded:
            self._recorder.history.add(message, send=False)
        self._recorder.emit(TurnEnd(message, (), self._recorder.usage))
        follow_ups = self._queues.poll_follow_ups()
        if follow_ups:
            return Continue(follow_ups)
        is_aborted = message.stop_reason == "aborted" or self._cancel.is_set()
        return End("aborted" if is_aborted else "error", message.error_message, answer.cause)

    def after_truncated_call(self, message: AssistantMessage) -> Decision:
        """Inform the model that its answers broke inside a tool call, with a follow-up if one waits."""
        if self.use_fallback(message):
            return Continue(same_request=True)
        notice = _truncation_notice(message.error_message)
        follow_ups = self._queues.poll_follow_ups()
        first = follow_ups[0] if follow_ups else None
        if isinstance(first, UserMessage) and isinstance(first.content, str):
            folded = UserMessage(f"{notice}\n\n{first.content}", first.timestamp)
            return Continue((folded, *follow_ups[1:]))
        message_to_model = UserMessage(notice, self._recorder.now_ms())
        self._recorder.add_whole(message_to_model)
        self._recorder.emit(TurnEnd(message_to_model, (), self._recorder.usage))
        if follow_ups:
            return Continue(follow_ups)
        error = message.error_message or "the stream broke inside a tool call"
        return End("aborted" if self._cancel.is_set() else "error", error)

    def use_fallback(self, message: AssistantMessage) -> bool:
        """True when another model takes over from the one that failed, for the rest of the run."""
        failed = self._caller.model
        model = None if self._cancel.is_set() else self._fallbacks.after(message, failed)
        if model is None:
            return False
        self._recorder.emit(ModelFallback(failed, model, message.error_message))
        self._caller.model, self._resumes = model, 0
        return True

    def _resume(self, answer: Answer) -> Continue:
        """Keep the partial answer and ask the model to go on, or ask again from the start."""
        if not answer.recorded:
            return Continue(same_request=True)
        kept = tuple(block for block in answer.message.content if not isinstance(block, ToolCall))
        if not _has_content(kept):
            self._recorder.history.drop(answer.message)
            return Continue(same_request=True)
        # Its calls never ran; without them the transcript needs no results that do not exist.
        clean = replace(answer.message, content=kept, stop_reason="stop", error_message="")
        self._recorder.history.swap(answer.message, clean)
        marker = UserMessage(AUTO_RESUME_MARKER, self._recorder.now_ms())
        return Continue((marker,), same_request=True)


def _has_content(content: Sequence[AssistantBlock]) -> bool:
    """True when a partial answer is worth keeping."""
    for block in content:
        if isinstance(block, TextContent) and block.text.strip():
            return True
        if isinstance(block, ThinkingContent) and (block.signature or block.thinking.strip()):
            return True
    return False


def _truncation_notice(error: str) -> str:
    return (
        f"Your last answer was cut off mid-tool-call ({error.strip() or 'unknown stream error'}). "
        "The tool was not executed. Please acknowledge this and decide whether to try the call again."
    )
