"""One run of an agent in progress, on the worker thread: the loop, the queues, the subscribers."""

from __future__ import annotations

import contextvars
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.cancel import CancelToken
from agent.errors import typed_error_text
from agent.events import AgentEnd, AgentStart, Event, MessageUpdate, QueueUpdate, TurnEnd
from agent.hooks import merge_hooks
from agent.loop.config import LoopConfig
from agent.loop.history import History
from agent.loop.run import run_on_history
from agent.messages import AssistantMessage, Message, UserMessage
from agent.models import Model
from agent.runs import EventSink, RunResult, Stop, forward_events_to
from agent.runtime.event_relay import EventRelay
from agent.runtime.inbox import Inbox
from agent.runtime.run_handle import Run
from agent.runtime.run_state import RunState
from agent.runtime.settings import Settings
from agent.runtime.subscribers import SubscriberList
from agent.stream import AgentContext, StreamFn
from agent.tools import ToolSet
from agent.usage import ZERO_USAGE, Usage

if TYPE_CHECKING:
    from agent.loop.structured_output import TypedOutput

logger = logging.getLogger("agent")


@dataclass(slots=True, kw_only=True)
class Job:
    """A run that was accepted: its handle and everything it starts from.

    `owner` is the agent: the job keeps it alive until the run has ended.
    `prompts` is None for a run that begins with what is queued, else with the text "continue". `is_finishing`
    is set while the end is emitted: one prompt may be accepted from then on.
    """

    owner: object
    run: Run
    prompts: list[Message] | None
    settings: Settings
    model: Model
    stream_fn: StreamFn
    tools: ToolSet
    context: contextvars.Context
    sink: EventSink | None
    cancel: CancelToken
    parks: bool = False
    output: TypedOutput | None = None
    is_finishing: bool = False


class ActiveRun:
    """Runs one job.

    Threads: made when the job's turn has come, used by the worker alone. `history`, `state`, `inbox`, `relay`
    and `subscribers` are the agent's, and have locks of their own. `job.sink` gets the events too.
    """

    def __init__(
        self,
        job: Job,
        history: History,
        state: RunState,
        inbox: Inbox,
        relay: EventRelay,
        subscribers: SubscriberList,
    ) -> None:
        self._job = job
        self._run = job.run.metadata
        self._sink = job.sink
        self._history = history
        self._state = state
        self._inbox = inbox
        self._relay = relay
        self._subscribers = subscribers
        self._outcome = _Outcome()
        self._skips_steering = False

    def run(self) -> None:
        """Run the job to its end; never raises."""
        context = self._job.context
        try:
            context.run(self._run_loop)
        except BaseException as error:  # a bug in this package: the run must end anyway
            logger.exception("the agent loop failed")
            if not self._job.is_finishing:
                context.run(self._emit_crash, f"internal error: {typed_error_text(error)}")
        finally:
            self._job.cancel.cancel("the run has ended")  # frees what still waits on the run's signal

    def settle(self) -> None:
        """Give the result to the handle of the run."""
        output = self._job.output.value if self._job.output is not None and self.has_output else None
        self._job.run.settle(self._outcome.result(self._run.run_id, output))

    @property
    def has_output(self) -> bool:
        """True when the run was typed and ended with its value."""
        output = self._job.output
        ended_early = self._outcome.stop in ("error", "aborted", "paused")
        return output is not None and output.found and not ended_early

    def _run_loop(self) -> None:
        job = self._job
        forward_events_to(lambda event: None if job.is_finishing else self._relay.forward(event))
        context = AgentContext(job.settings.system_prompt, (), job.tools)
        prompts = self._queued_prompts() if job.prompts is None else job.prompts
        run_on_history(self._history, prompts, context, self._config(), job.stream_fn, self._emit)

    def _config(self) -> LoopConfig:
        job = self._job
        config = job.settings.loop_config(job.model, job.cancel, self._run)
        config.get_steering_messages = self._poll_steering
        config.get_follow_up_messages = self._poll_follow_ups
        config.has_queued_messages = self._inbox.has_messages
        config.park = self._wait_parked if job.parks else None
        config.relay = self
        if job.output is not None:
            config.answer_tools = (job.output.tool,)
            config.prepare_answer = job.output.prepare
            # Last, so that it takes no value that another hook rejects.
            config.hooks = merge_hooks(config.hooks, job.output.hooks)
        return config

    def _emit_crash(self, text: str) -> None:
        if not self._outcome.has_started:
            self._emit(AgentStart(run=self._run))
        self._emit(AgentEnd(self._history.new, "error", text, run=self._run))

    # -- the queues ------------------------------------------------------------------------------------

    def _queued_prompts(self) -> list[Message]:
        """The messages that a resumed run begins with; steering is not polled again for its first turn."""
        steering = self._inbox.poll_steering(1)
        self._skips_steering = bool(steering)
        return steering or self._inbox.poll_follow_ups(1) or [UserMessage("continue", timestamp=0)]

    def _poll_steering(self) -> list[Message]:
        if self._skips_steering:
            self._skips_steering = False
            return []
        return self._poll(self._inbox.poll_steering)

    def _poll_follow_ups(self) -> list[Message]:
        return self._poll(self._inbox.poll_follow_ups)

    def _poll(self, poll: Callable[[int], list[Message]]) -> list[Message]:
        """Take messages for the next turn, after the event that announces them as queued."""
        self.emit_pending()
        return poll(self._outcome.turns + 1)

    def _wait_parked(self, cancel: CancelToken) -> Sequence[Message]:
        """The messages that a parked run goes on with: the reply, or what is queued; none when aborted."""
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
        """Call `wake` when other threads have something to emit; None ends that."""
        self._relay.on_pending(wake)

    def emit_pending(self) -> None:
        """Emit what has come in from other threads since the last event."""
        if not self._relay.has_pending:
            return
        for event in self._relay.pending_events():
            self._emit(event)
        queues = self._inbox.take_change()
        if queues is not None:
            self._emit(QueueUpdate(*queues, run=self._run))

    def _emit(self, event: Event) -> None:
        """Bring the state up to an event, then call every subscriber with it."""
        if self._relay.has_pending and type(event) is not AgentStart:
            self.emit_pending()
        subscriptions = self._subscribers.subscriptions
        if event.run is not self._run:  # of a run inside this one
            subscriptions = tuple(each for each in subscriptions if each.with_children)
        elif type(event) is MessageUpdate:
            self._state.stream_message = event.message
        else:
            self._note(event)
        for subscription in subscriptions:
            try:
                subscription.function(event)
            except BaseException:  # also SystemExit, which on this thread would end the agent alone
                logger.exception("a subscriber failed on %s", event.type)
        if self._sink is not None:
            self._sink(event)

    def _note(self, event: Event) -> None:
        self._outcome.note(event)
        self._state.note(event)
        if isinstance(event, AgentEnd):
            self._inbox.close_replies()
            self._job.is_finishing = True


class _Outcome:
    """The parts of a run's result, from its events."""

    def __init__(self) -> None:
        self.has_started = False
        self.turns = 0
        self._end = AgentEnd((), "error")
        self._usage: Usage = ZERO_USAGE
        self._text = ""

    def note(self, event: Event) -> None:
        self.has_started = True
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

    @property
    def stop(self) -> Stop:
        return self._end.stop

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
