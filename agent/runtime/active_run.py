"""One run of an agent as it goes on, on the worker thread: the loop, the queues, the subscribers."""

from __future__ import annotations

import contextvars
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent.cancel import CancelToken
from agent.events import AgentEnd, AgentStart, Event, MessageUpdate, QueueUpdate, TurnEnd
from agent.hooks import merge_hooks
from agent.loop.config import LoopConfig
from agent.loop.history import History
from agent.loop.run import run_on_history
from agent.messages import AssistantMessage, Message
from agent.models import Model
from agent.runs import Ear, Run, RunResult, hear_runs_started_here
from agent.runtime.inbox import Inbox
from agent.runtime.run_state import RunState
from agent.runtime.settings import Settings
from agent.runtime.subscribers import Audience
from agent.stream import AgentContext, StreamFn
from agent.tools import ToolSet
from agent.usage import ZERO_USAGE, Usage

if TYPE_CHECKING:
    from agent.loop.structured_output import TypedOutput

logger = logging.getLogger("agent")


@dataclass(slots=True, kw_only=True)
class Job:
    """A run that was accepted: its handle and everything it starts from."""

    run: Run
    prompts: list[Message]
    settings: Settings
    model: Model
    stream_fn: StreamFn
    tools: ToolSet
    context: contextvars.Context
    ear: Ear | None
    skips_first_steering: bool = False
    parks: bool = False
    output: TypedOutput | None = None
    cancel: CancelToken = field(default_factory=CancelToken)
    is_finishing: bool = False  # its end is being told: one prompt may be accepted now


class ActiveRun:
    """Runs one job. Made when the job's turn has come; used by the worker alone.

    `history`, `state`, `inbox` and `audience` are the agent's; `ear` of the job is where others hear of its
    events too.
    """

    def __init__(self, job: Job, history: History, state: RunState, inbox: Inbox, audience: Audience) -> None:
        self._job = job
        self._run = job.run.metadata
        self._ear = job.ear
        self._history = history
        self._state = state
        self._inbox = inbox
        self._audience = audience
        self._outcome = _Outcome()

    def run(self) -> None:
        """Run it to its end; never raises."""
        context = self._job.context
        try:
            context.run(self._run_loop)
        except BaseException as error:  # a fault of ours: nobody may wait for ever because of it
            logger.exception("the agent loop failed")
            if not self._job.is_finishing:
                context.run(self._tell_crash, f"internal error: {type(error).__name__}: {error}")

    def settle(self) -> None:
        """Tell who waits for the run what came of it."""
        job = self._job
        job.run.settle(self._outcome.result(self._run.run_id, job.output.value if job.output else None))

    def _run_loop(self) -> None:
        job = self._job
        hear_runs_started_here(lambda event: None if job.is_finishing else self._inbox.hear(event))
        context = AgentContext(job.settings.system_prompt, (), job.tools)
        try:
            run_on_history(self._history, job.prompts, context, self._config(), job.stream_fn, self._tell)
        finally:
            job.cancel.cancel("the run has ended")  # frees whatever still waits on the run's signal

    def _config(self) -> LoopConfig:
        job = self._job
        config = job.settings.loop_config(job.model, job.cancel, self._run)
        config.get_steering_messages = _skipping_first(self._poll_steering, job.skips_first_steering)
        config.get_follow_up_messages = self._poll_follow_ups
        config.has_queued_messages = self._inbox.has_messages
        config.park = self._wait_parked if job.parks else None
        config.relay = self
        if job.output is not None:
            config.answer_tools = (job.output.tool,)
            config.prepare_answer = job.output.prepare
            config.hooks = merge_hooks(job.output.hooks, config.hooks)
        return config

    def _tell_crash(self, text: str) -> None:
        self._tell(AgentEnd(self._history.new, "error", text, run=self._run))

    # -- what is queued --------------------------------------------------------------------------------

    def _poll_steering(self) -> list[Message]:
        return self._poll(self._inbox.poll_steering)

    def _poll_follow_ups(self) -> list[Message]:
        return self._poll(self._inbox.poll_follow_ups)

    def _poll(self, poll: Callable[[int], list[Message]]) -> list[Message]:
        """What is queued, for the next turn; that it was queued is told before it leaves the queue."""
        self.emit_pending()
        return poll(self._outcome.turns + 1)

    def _wait_parked(self, cancel: CancelToken) -> Sequence[Message]:
        """What a parked run goes on with: the reply, or what is queued; nothing when it is aborted."""
        while self._inbox.wait(cancel):
            reply = self._inbox.take_reply()
            if reply is not None:
                return (reply,)
            queued = self._poll_steering() or self._poll_follow_ups()
            if queued:
                return queued
        return ()

    # -- events ----------------------------------------------------------------------------------------

    def on_pending(self, wake: Callable[[], object] | None) -> None:
        """Call `wake` when there is something to tell; for those who wait meanwhile."""
        self._inbox.listen(wake)

    def emit_pending(self) -> None:
        """Tell what has come in from other threads since the last event, if anything."""
        if not self._inbox.news:
            return
        events, queues = self._inbox.take_news()
        for event in events:
            self._tell(event)
        if queues is not None:
            self._tell(QueueUpdate(*queues, run=self._run))

    def _tell(self, event: Event) -> None:
        """Bring the state up to an event, then tell every subscriber of it."""
        if self._inbox.news and type(event) is not AgentStart:
            self.emit_pending()
        members = self._audience.members
        if event.run is not self._run:  # of a run inside this one
            members = tuple(member for member in members if member.hears_children)
        elif type(event) is MessageUpdate:
            self._state.stream_message = event.message
        else:
            self._note(event)
        for member in members:
            try:
                member.function(event)
            except BaseException:  # also SystemExit, which on this thread would end the agent alone
                logger.exception("a subscriber failed on %s", event.type)
        if self._ear is not None:
            self._ear(event)

    def _note(self, event: Event) -> None:
        self._state.note(event)
        self._outcome.note(event)
        if isinstance(event, AgentEnd):
            self._inbox.close_replies()
            self._job.is_finishing = True


class _Outcome:
    """What a run's events say of what came of it."""

    def __init__(self) -> None:
        self.turns = 0
        self._end = AgentEnd((), "error")
        self._usage: Usage = ZERO_USAGE
        self._text = ""

    def note(self, event: Event) -> None:
        if isinstance(event, TurnEnd):
            self._usage = event.usage
            message = event.message
            if isinstance(message, AssistantMessage):
                self.turns += message.stop_reason not in ("error", "aborted")
                self._text = message.text or self._text
            elif message is None:  # a discarded answer was one too
                self.turns += 1
        elif isinstance(event, AgentEnd):
            self._end = event

    def result(self, run_id: str, output: Any = None) -> RunResult:
        end = self._end
        return RunResult(
            end.stop,
            self.turns,
            self._usage,
            self._text,
            end.messages,
            end.pending_calls,
            end.error,
            run_id,
            output,
            end.cause,
        )


def _skipping_first(poll: Callable[[], list[Message]], skip: bool) -> Callable[[], list[Message]]:
    """The poll; with `skip`, the first call finds nothing, since the run began with what was queued."""
    if not skip:
        return poll
    calls = iter((True,))
    return lambda: [] if next(calls, False) else poll()
