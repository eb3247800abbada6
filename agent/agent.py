"""The stateful face: an agent keeps a conversation and runs prompts on it, one at a time.

agent = Agent("openai/gpt-5-mini", tools=[...])
agent.subscribe(print)
agent.prompt("Fix the failing test")
agent.wait_for_idle()
"""

from __future__ import annotations

import contextvars
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any

import agent as _package
from agent.cancel import CancelToken
from agent.errors import AgentBusyError, AgentError, ConfigurationError, NothingToContinueError, RunError
from agent.hooks import Hooks
from agent.limits import Limits
from agent.loop.history import History
from agent.loop.side_query import SideQuery
from agent.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    TextContent,
    ToolCall,
    UserMessage,
    default_convert_to_llm,
)
from agent.models import Model, resolve_model
from agent.retry import RetryPolicy
from agent.runs import (
    Ear,
    Run,
    RunResult,
    ear_of_the_enclosing_run,
    enter_run,
    is_inside,
    new_metadata,
    refuse_inside,
    wait_for,
)
from agent.runtime.active_run import ActiveRun, Job
from agent.runtime.inbox import Inbox, Receipt
from agent.runtime.run_state import RunState
from agent.runtime.settings import Setting, Settings
from agent.runtime.subscribers import Audience, Subscriber, Subscription
from agent.runtime.worker import Jobs, hire
from agent.stream import AgentContext, PartialMessage, StreamFn, StreamOptions
from agent.tools import ToolSet
from agent.transcript import ToolResolution, Transcript, resolved_by

if TYPE_CHECKING:
    from agent.loop.structured_output import TypedOutput
    from agent.runtime.event_iterator import EventStream

Prompt = str | Message | Sequence[str | Message]

_NO_STREAM_FN = (
    "no stream function configured: pass stream_fn=... to the Agent, or set agent.default_stream_fn "
    "to a function (model, context, options) -> iterator of stream events"
)
_NO_MODEL = "no model configured: pass a Model or a name such as 'openai/gpt-5-mini' to the Agent"


@dataclass(slots=True)
class AgentState:
    """What an agent is and holds at one moment: lists and sets are copies, messages are shared."""

    system_prompt: str = ""
    model: Model | None = None
    thinking_level: str = ""
    tools: ToolSet | None = None
    messages: list[Message] = field(default_factory=list)
    is_streaming: bool = False
    stream_message: Message | PartialMessage | None = None
    pending_tool_calls: set[str] = field(default_factory=set)
    error: str = ""


def _models(given: Sequence[Model | str]) -> tuple[Model, ...]:
    return tuple(model for name in given if (model := resolve_model(name)) is not None)


def _checked_transport(transport: str) -> str:
    if transport not in ("", "auto", "sse"):
        raise ConfigurationError(
            f'transport must be "auto" or "sse", not {transport!r}: answers come as server-sent events'
        )
    return transport or "auto"


class Agent:
    """A conversation with a model that can use tools.

    Every option can be left out; `model` is needed by the first prompt at the latest. Times are in seconds.
    A value that is not allowed raises ConfigurationError, here or where the attribute of that name is set.

    Who answers:

    - `model`: a `Model`, or a name such as "openai/gpt-5-mini". Raises UnknownModelError for a name that its
      provider does not have.
    - `fallbacks`: models that go on with a run, one after the other, when the one before can't be reached or
      refuses for its own reasons. Default: none.
    - `thinking_level`: how much the model thinks: "off" (the default), "minimal", "low", "medium", "high",
      "xhigh" or "max". Each request uses the nearest level that its model has.
    - `thinking_budgets`: tokens for thinking by level, for models that take a budget. Default: the
      provider's own numbers.
    - `stream_fn(model, context, options)`: makes the requests, for tests and for models without a provider
      here. Default: `agent.default_stream_fn`.

    What it works with:

    - `system_prompt`: the text that every request begins with. Default: none.
    - `tools`: a list of tools, or a `ToolSet`, which is used as it is and not copied. Default: none.
    - `transcript`: the messages and the usage of an earlier conversation. Default: empty.
    - `initial_state`: an `AgentState` with a prompt, a model, a level, tools and messages; each of them that
      is not empty wins over the option of its name.
    - `name`: shown in events, logs and the names of threads; it need not be unique. Default: "".
    - `session_id`: names the conversation to providers that cache by it. Default: "", no name.

    How runs go:

    - `hooks`: functions that check, change or stop what a run does; see `Hooks`. Default: none.
    - `limits`: turns, tokens, money and time after which a run ends; see `Limits`. Default: no limits.
      `max_cost` with a model of unknown price raises ConfigurationError at the prompt.
    - `steering_mode`: how many of the messages given to `steer()` enter the conversation at a time:
      "one-at-a-time" (the default) or "all".
    - `follow_up_mode`: the same for `follow_up()`.
    - `park`: True makes a run that has an answer wait for `reply()` or a queued message instead of ending.
      Default: False.
    - `transform_context(messages)`: returns the messages to send instead, or None; a shorthand for the hook
      of that name. What it raises ends the run with an error.
    - `convert_to_llm(messages)`: returns the messages that a model understands. Default:
      `default_convert_to_llm`, which leaves out `CustomMessage`. What it raises ends the run with an error.
    - `compaction`: not supported yet; anything but None raises.

    How requests are made:

    - `get_api_key(provider)`: returns the key for each request, on the run's thread; None or "" for none.
      Default: the environment variables of the provider. What it raises is the reason shown for the missing
      key.
    - `retry`: the waits before each retry; see `RetryPolicy`.
    - `max_retry_delay`: the longest wait that a server may ask for. A longer one fails at once; None waits
      however long. Default: 60.
    - `on_retry(attempt, delay, error_text)`: called before each wait. What it raises is logged.
    - `on_payload(payload, model)`: gets the body of each request and may return a replacement. What it
      raises ends the run with an error.
    - `transport`: "auto" (the default) or "sse". Answers are streamed as server-sent events either way.
    - `server_tools`: tools that the provider runs itself, in the provider's own form. Default: none.
    - `server_compaction`: how the provider compacts a long history itself, in the provider's own form.
      Default: not at all.

    Threads: every method may be called from any thread. Runs happen one after the other on one worker
    thread, which also calls hooks and subscribers; it starts with the first prompt and ends when the agent is
    closed or collected. `_lock` guards the history and the acceptance of runs and is never held while user
    code runs; `_tools_lock` is held while a function given to `update_tools` runs. The queues have a lock of
    their own. Waiting for the agent inside one of its own runs raises RuntimeError at once.
    """

    def __init__(
        self,
        model: Model | str | None = None,
        *,
        system_prompt: str = "",
        thinking_level: str = "off",
        tools: Iterable[Any] | None = None,
        stream_fn: StreamFn | None = None,
        initial_state: AgentState | None = None,
        name: str = "",
        transcript: Transcript | None = None,
        convert_to_llm: Callable[[list[Message]], Sequence[Message]] | None = None,
        transform_context: Callable[[list[Message]], Sequence[Message] | None] | None = None,
        steering_mode: str = "one-at-a-time",
        follow_up_mode: str = "one-at-a-time",
        session_id: str = "",
        get_api_key: Callable[[str], str | None] | None = None,
        thinking_budgets: Mapping[str, int] | None = None,
        transport: str = "auto",
        max_retry_delay: float | None = 60.0,
        server_tools: Sequence[Any] = (),
        server_compaction: Any = None,
        on_payload: Callable[[dict[str, Any], Model], dict[str, Any] | None] | None = None,
        on_retry: Callable[[int, float, str], object] | None = None,
        hooks: Hooks | None = None,
        limits: Limits | None = None,
        retry: RetryPolicy | None = None,
        fallbacks: Sequence[Model | str] = (),
        park: bool = False,
        compaction: Any = None,
    ) -> None:
        _refuse_unsupported(compaction=compaction)
        start = initial_state or AgentState()
        self.name = name
        self._settings = Settings(
            system_prompt=start.system_prompt or system_prompt,
            model=resolve_model(start.model or model),
            thinking_level=start.thinking_level or thinking_level,
            stream_fn=stream_fn,
            session_id=session_id,
            thinking_budgets=thinking_budgets,
            transport=_checked_transport(transport),
            max_retry_delay=max_retry_delay,
            server_tools=tuple(server_tools),
            server_compaction=server_compaction,
            fallbacks=_models(fallbacks),
            convert_to_llm=convert_to_llm or default_convert_to_llm,
            transform_context=transform_context,
            get_api_key=get_api_key,
            on_payload=on_payload,
            on_retry=on_retry,
            hooks=hooks,
            limits=limits,
            retry=retry or RetryPolicy(),
        )
        given = start.tools if start.tools is not None else tools
        self._tools = given if isinstance(given, ToolSet) else ToolSet(given or ())
        self._inbox = Inbox(steering_mode, follow_up_mode)
        self._parks = park

        # Reentrant: a signal handler may abort, or the collector close a forgotten stream, while it is held.
        self._lock = threading.RLock()
        self._tools_lock = threading.RLock()  # a change may make another
        kept = transcript or Transcript()
        self._history = History(start.messages or kept.messages, self._lock)
        self._state = RunState(self._lock, self._history, kept.usage)
        self._audience = Audience()
        self._key = object()  # stands for this agent where a reference would keep it alive
        self._idle = threading.Event()
        self._idle.set()
        self._active: Job | None = None
        self._waiting: Job | None = None
        self._closed = False
        self._jobs: Jobs | None = None
        self._worker: threading.Thread | None = None

    # -- running ---------------------------------------------------------------------------------------

    def prompt(self, prompt: Prompt, images: Sequence[ImageContent] = ()) -> Run:
        """Start a run with a text, a message or several; returns at once.

        Raises AgentBusyError while a run is active (use `steer` or `follow_up` then); a prompt made while a
        run is finishing is accepted and runs next. Raises ConfigurationError without a model or a stream
        function.
        """
        return self._start(_as_messages(prompt, images))

    def resume(self) -> Run:
        """Go on from the messages as they are.

        After an answer, what is queued is sent: steering first, else follow-ups, else the word "continue".
        Raises NothingToContinueError when there are no messages, AgentBusyError while a run is active.
        """
        with self._lock:
            self._check_free("Wait for it before resuming.")
            self._state.check_nothing_pending()
            if self._history.last is None:
                raise NothingToContinueError("no messages to continue from: prompt the agent first")
            self._check_runnable_locked()
            if not isinstance(self._history.last, AssistantMessage):
                return self._accept([])
            # What is queued is taken in the same step that accepts the run, so none of it can be lost.
            steering = self._inbox.poll_steering(1)
            queued = steering or self._inbox.poll_follow_ups(1) or [UserMessage("continue", timestamp=0)]
            return self._accept(queued, skip_first_steering=bool(steering))

    def run(
        self, prompt: Prompt, images: Sequence[ImageContent] = (), *, output_type: Any = None
    ) -> RunResult:
        """Prompt, wait for the end, and give what came of it.

        With `output_type`, a pydantic model or any type that pydantic can describe, the result's `output` is
        a value of it; an answer that does not fit is asked for again, three times. It is None when the run
        ended before it was given: see `stop`.

        Raises RunError, with `partial_result`, when the run ended in `error`; every other ending returns.
        An exception while waiting (Ctrl-C) aborts the run.
        """
        refuse_inside(self._key, "Agent.run()")
        run = self._start(_as_messages(prompt, images), output_type)
        try:
            run.wait()
        except BaseException:
            self.abort_run(run)
            raise
        result = run.result()
        if result.stop == "error":
            raise RunError(result.error or "the run failed", result) from result.cause
        return result

    def stream(self, prompt: Prompt, images: Sequence[ImageContent] = ()) -> EventStream:
        """Prompt, and iterate over the run's events up to its `agent_end`; also a context manager.

        The prompt is made by this call. Leaving early (closing, leaving the `with`, dropping the iterator)
        aborts the run and waits for it.
        """
        from agent.runtime.event_iterator import EventStream

        refuse_inside(self._key, "Agent.stream()")
        return EventStream(self, prompt, images)

    def wait_for_idle(self, timeout: float | None = None) -> bool:
        """Wait until no run is active or waiting, at most `timeout` seconds; True when idle.

        Raises RuntimeError inside a run of this agent.
        """
        refuse_inside(self._key, "Agent.wait_for_idle()")
        with self._lock:  # a run is settled and the agent idle in one step: who has seen one sees the other
            idle = self._idle.is_set()
        return idle or wait_for(self._idle, timeout)

    def abort(self) -> None:
        """Stop the current run, if any; does not wait. What is queued stays queued."""
        with self._lock:
            jobs = [job for job in (self._active, self._waiting) if job is not None]
        for job in jobs:
            job.cancel.cancel("aborted")

    def abort_run(self, run: Run) -> None:
        """Stop that run if it is the current or the waiting one; does not wait."""
        with self._lock:
            jobs = [job for job in (self._active, self._waiting) if job is not None and job.run is run]
        for job in jobs:
            job.cancel.cancel("aborted")

    def reset(self) -> None:
        """Forget messages, error and both queues; keep model, prompt, tools and options.

        Raises AgentBusyError while a run is active.
        """
        with self._lock:
            self._check_free("Abort it and wait before resetting.")
            self._history.replace(())
            self._state.clear()
            self._inbox.clear()

    def can_wait(self) -> bool:
        """False where waiting for a run of this agent would never end: inside one, and on its worker."""
        return not is_inside(self._key) and threading.current_thread() is not self._worker

    def close(self) -> None:
        """Abort the run, if any, and end the worker thread. Idempotent; a closed agent takes no prompts.

        Waits for the end of the thread, at most three seconds, unless called inside a run of this agent.
        """
        with self._lock:
            self._closed = True
            worker = self._worker
            if self._active is None:
                self._dismiss()
        self.abort()
        if worker is not None and self.can_wait():
            deadline = time.monotonic() + _CLOSE_TIMEOUT
            worker.join(_CLOSE_TIMEOUT)
            self._audience.join(deadline)

    def __enter__(self) -> Agent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- watching --------------------------------------------------------------------------------------

    def subscribe(
        self,
        subscriber: Subscriber,
        queue: int | None = None,
        drop_streaming: bool = False,
        *,
        children: bool = True,
    ) -> Subscription:
        """Call `subscriber(event)` for every event, on the worker thread; returns a function that ends it.

        A subscriber may call any method but those that wait. One that raises is logged and stops nothing; one
        that blocks holds the run up, unless it has a `queue`: then it runs on a thread of its own, behind a
        queue of that many events. When the queue is full the run waits for it, at most 5 s, and then drops
        events until there is room again; with `drop_streaming`, updates of messages and tools are dropped
        without a wait. `dropped` of what is returned counts them. Such a subscriber may hear of the end of a
        run after `wait_for_idle()` has returned; `close()` waits for it.

        It also hears of the runs that tools and hooks start inside this agent's: their events have run ids of
        their own and a `parent_run_id`. With `children=False` it does not.
        """
        return self._audience.add(subscriber, queue, drop_streaming, children, self.name)

    @property
    def state(self) -> AgentState:
        """A snapshot of what the agent is and holds."""
        with self._lock:
            return AgentState(
                self._settings.system_prompt,
                self._settings.model,
                self._settings.thinking_level,
                self._tools,
                self._history.messages,
                self._is_streaming(),
                self._state.stream_message,
                set(self._state.running_calls),
                self._state.error,
            )

    # -- queues ----------------------------------------------------------------------------------------

    def steer(self, message: str | Message) -> Receipt:
        """Queue a message for the start of the next turn; never starts a run.

        The receipt tells what became of it.
        """
        return self._inbox.steer(_as_message(message))

    def follow_up(self, message: str | Message) -> Receipt:
        """Queue a message for when the run would end; never starts a run.

        The receipt tells what became of it.
        """
        return self._inbox.follow_up(_as_message(message))

    @property
    def parks(self) -> bool:
        """True when the agent was made with `park=True`."""
        return self._parks

    def reply(self, message: str | Message) -> bool:
        """Answer an agent that parks (`park=True`); True when the current run will take it.

        A run that parks does not end with an answer: it waits for a reply, for queued messages, or for an
        abort. There is one place for a reply, which may be taken before the run has parked; False when it is
        taken, when no run is active, and without `park`. A reply that its run does not come to is dropped.
        """
        return self._inbox.reply(_as_message(message))

    @property
    def has_queued_messages(self) -> bool:
        """True while steering or follow-up messages wait."""
        return self._inbox.has_messages()

    def follow_up_queue(self) -> list[Message]:
        """A copy of the waiting follow-ups, oldest first."""
        return self._inbox.follow_ups()

    def remove_follow_up(self, index: int) -> Message | None:
        """Take one waiting follow-up back; None when there is none at that index."""
        return self._inbox.remove_follow_up(index)

    def take_follow_ups(self) -> list[Message]:
        """Take all waiting follow-ups back, oldest first."""
        return self._inbox.take_follow_ups()

    def clear_steering_queue(self) -> None:
        """Drop all waiting steering messages."""
        self._inbox.clear_steering()

    def clear_follow_up_queue(self) -> None:
        """Drop all waiting follow-ups."""
        self._inbox.clear_follow_ups()

    def clear_all_queues(self) -> None:
        """Drop everything that waits in either queue."""
        self._inbox.clear()

    # -- messages and tools ----------------------------------------------------------------------------

    def replace_messages(self, messages: Iterable[Message]) -> None:
        """Set the conversation. A run in progress goes on with the messages that it has."""
        self._history.replace(messages)

    def append_message(self, message: Message) -> None:
        """Add to the conversation. A run in progress sends it with its next request.

        While tools run, it is added after their results.
        """
        self._history.append(message)

    def clear_messages(self) -> None:
        """Empty the conversation. A run in progress goes on with the messages that it has."""
        self.replace_messages(())

    def update_tools(self, change: Callable[[ToolSet], object]) -> None:
        """Call `change(tools)` under a lock; a running run sees the change at its next request or call."""
        with self._tools_lock:
            change(self._tools)

    # -- calls that wait for a resolution --------------------------------------------------------------

    @property
    def pending_calls(self) -> list[ToolCall]:
        """The calls that a gate paused and nobody has answered yet, with the arguments that it gave them.

        None of a running run. They are found in the messages, so those of a loaded transcript are here too,
        with the model's own arguments.
        """
        with self._lock:
            return [] if self._is_streaming() else self._state.pending_calls()

    def resolve_tool_calls(self, *resolutions: ToolResolution) -> None:
        """Answer some or all pending calls; then `resume()` goes on once none is left.

        All of them or, when one is wrong, none. Raises AgentBusyError while a run is active,
        InvalidToolResolutionError for an empty or doubled id, ToolCallNotPendingError for any other call.
        """
        with self._lock:
            self._check_free("Wait for it before resolving calls.")
            pending = self._history.pending()
            self._history.answer(pending, pending.answered(resolutions))

    def resolve_pending(self, resolve: Callable[[ToolCall], Any]) -> None:
        """Answer all pending calls with what `resolve(call)` returns: text, blocks or a ToolResult.

        What it raises becomes an error result. It runs on the calling thread with no lock held; when somebody
        else has answered one of the calls meanwhile, nothing is stored and ToolCallNotPendingError raised.
        """
        advice = "Wait for it before resolving calls."
        with self._lock:
            self._check_free(advice)
            pending, calls = self._history.pending(), self._state.pending_calls()
        results = resolved_by(calls, resolve)
        with self._lock:
            self._check_free(advice)
            self._history.answer(pending, results)

    @property
    def transcript(self) -> Transcript:
        """The conversation and what it has cost, to go on with in another agent or process."""
        with self._lock:
            return Transcript(tuple(self._history.messages), self._state.usage)

    # -- side queries ----------------------------------------------------------------------------------

    def simple_prompt(
        self, messages: Prompt, model: Model | str | None = None, reasoning: str | None = None
    ) -> str:
        """Ask something on the side and give the answer's text; the conversation is not touched.

        Runs on the caller's thread, also beside a run. Sends the given messages with the system prompt and no
        tools. Raises SideQueryError when there is no usable answer, ConfigurationError without a model.
        """
        return self.simple_prompt_stream(messages, model, reasoning)[0]

    def simple_prompt_stream(
        self,
        messages: Prompt,
        model: Model | str | None = None,
        reasoning: str | None = None,
        on_event: Subscriber | None = None,
    ) -> tuple[str, AssistantMessage]:
        """Like `simple_prompt`; also gives the message, and tells `on_event` of it while it comes in."""
        settings = self._settings
        chosen = resolve_model(model) or settings.model
        if chosen is None:
            raise ConfigurationError("no model selected: the agent has none, and none was given")
        config = settings.side_query_config(chosen, reasoning, CancelToken())
        query = SideQuery(
            settings.system_prompt,
            _as_messages(messages or []),
            config,
            self._stream_fn_of(settings),
            on_event,
        )
        return query.ask()

    # -- settings: a change is for the next run --------------------------------------------------------

    model: Setting[Model | None, Model | str | None] = Setting(
        "The model; a name is looked up when it is set.", resolve_model
    )
    fallbacks: Setting[tuple[Model, ...], Sequence[Model | str]] = Setting(
        "The models that go on with a run when the one before can't be reached.", _models
    )
    system_prompt: Setting[str, str] = Setting("The text that every request begins with.")
    thinking_level: Setting[str, str] = Setting(
        "The level asked for; each request clamps it to what its model offers."
    )
    stream_fn: Setting[StreamFn | None, StreamFn | None] = Setting(
        "The agent's own stream function; None means `agent.default_stream_fn`."
    )
    session_id: Setting[str, str] = Setting("Names the conversation to providers that cache by it.")
    thinking_budgets: Setting[Mapping[str, int] | None, Mapping[str, int] | None] = Setting(
        "Tokens for thinking by level, for models that take a budget."
    )
    transport: Setting[str, str] = Setting('How answers are streamed: "auto" or "sse".', _checked_transport)
    max_retry_delay: Setting[float | None, float | None] = Setting(
        "The longest wait that a server may ask for, in seconds; None for any."
    )
    server_tools: Setting[Sequence[Any], Sequence[Any]] = Setting(
        "Tools that the provider runs itself.", tuple
    )
    server_compaction: Setting[Any, Any] = Setting("How the provider compacts the history itself.")

    @property
    def steering_mode(self) -> str:
        """`one-at-a-time` or `all`; read at every poll, also by a running run."""
        return self._inbox.steering_mode

    @steering_mode.setter
    def steering_mode(self, mode: str) -> None:
        self._inbox.steering_mode = mode

    @property
    def follow_up_mode(self) -> str:
        """`one-at-a-time` or `all`; read at every poll, also by a running run."""
        return self._inbox.follow_up_mode

    @follow_up_mode.setter
    def follow_up_mode(self, mode: str) -> None:
        self._inbox.follow_up_mode = mode

    def __repr__(self) -> str:
        model = self._settings.model
        return f"<Agent {self.name or 'unnamed'} {model.id if model else 'without a model'}>"

    def _set(self, **changes: Any) -> None:
        with self._lock:
            self._settings = replace(self._settings, **changes)

    # -- accepting a run -------------------------------------------------------------------------------

    def _start(self, prompts: list[Message], output_type: Any = None) -> Run:
        """Accept a run, or raise; checking and accepting are one step, so of two racing prompts one wins."""
        output = None if output_type is None else _typed_output(output_type, self._tools)
        with self._lock:
            reply = "reply(), " if self._parks else ""
            self._check_free(f"Use {reply}steer() or follow_up(), or wait for it.")
            self._state.check_nothing_pending()
            self._check_runnable_locked()
            if not prompts and self._history.last is None:
                raise NothingToContinueError("no messages to send: the prompt and the conversation are empty")
            return self._accept(prompts, output=output)

    def _accept(
        self, prompts: list[Message], skip_first_steering: bool = False, output: TypedOutput | None = None
    ) -> Run:
        """Start the run, or let it wait for the one that is finishing. Called under the lock, checks made."""
        job = self._new_job(prompts, skip_first_steering, output)
        self._state.error = ""
        if self._active is None:
            self._launch(job)
        else:
            self._waiting = job
        return job.run

    def _check_free(self, advice: str) -> None:
        if self._closed:
            raise AgentError("the agent is closed")
        if self._is_streaming():
            raise AgentBusyError(f"the agent is already processing a prompt. {advice}")

    def _is_streaming(self) -> bool:
        return self._waiting is not None or (self._active is not None and not self._active.is_finishing)

    def _check_runnable_locked(self) -> None:
        """Raise unless there is everything a run needs: a model, a stream function, a thread."""
        if self._settings.model is None:
            raise ConfigurationError(_NO_MODEL)
        if self._settings.limits is not None:
            for model in (self._settings.model, *self._settings.fallbacks):
                self._settings.limits.check_model(model)
        try:
            self._stream_fn_of(self._settings)
        except ConfigurationError as error:
            self._state.error = str(error)
            raise
        if self._jobs is None:
            self._hire()

    def _hire(self) -> None:
        """Start the worker thread. Called under the lock."""
        jobs: Jobs = SimpleQueue()
        self._worker = hire(jobs, f"agent-worker-{self.name}")
        self._jobs = jobs
        # SimpleQueue.put is safe in a finalizer; at interpreter exit the daemon thread needs no farewell.
        weakref.finalize(self, jobs.put, None).atexit = False

    def _dismiss(self) -> None:
        """Tell the threads to end once they have done their jobs. Called under the lock."""
        if self._jobs is not None:
            self._jobs.put(None)
        self._audience.end()

    def _stream_fn_of(self, settings: Settings) -> StreamFn:
        # The package's attribute is read at each call, so that it can be replaced at any time.
        stream_fn = settings.stream_fn or _package.default_stream_fn
        if stream_fn is None:
            raise ConfigurationError(_NO_STREAM_FN)
        return stream_fn

    def _new_job(self, prompts: list[Message], skip_first_steering: bool, output: TypedOutput | None) -> Job:
        stream_fn = self._stream_fn_of(self._settings)
        if output is not None:
            output.takes_schema = _schema_test_of(stream_fn)
        model = self._settings.model
        assert model is not None  # checked
        metadata = new_metadata(self._key, self.name)
        context = contextvars.copy_context()
        context.run(enter_run, metadata, self._key)
        return Job(
            run=Run(metadata, self._key),
            prompts=prompts,
            settings=self._settings,
            model=model,
            stream_fn=stream_fn,
            tools=self._tools,
            context=context,
            ear=self._ear_of_a_new_run(),
            skips_first_steering=skip_first_steering,
            parks=self._parks,
            output=output,
        )

    def _ear_of_a_new_run(self) -> Ear | None:
        """Who else hears of a run started here: the enclosing run, or what encloses the current one."""
        if is_inside(self._key):
            return None if self._active is None else self._active.ear
        return ear_of_the_enclosing_run()

    def _launch(self, job: Job) -> None:
        """Hand an accepted job to the worker. Called under the lock."""
        self._active = job
        self._history.begin_run()
        self._state.stream_message = None
        self._idle.clear()
        if self._parks:
            self._inbox.open_replies()
        active = ActiveRun(job, self._history, self._state, self._inbox, self._audience)
        assert self._jobs is not None
        self._jobs.put(lambda: self._work(active))

    # -- on the worker thread --------------------------------------------------------------------------

    def _work(self, active: ActiveRun) -> None:
        try:
            active.run()
        finally:
            self._finish(active)

    def _finish(self, active: ActiveRun) -> None:
        """Settle a run, and start the one that waits or be idle, in one step."""
        with self._lock:
            self._history.end_run()
            self._state.end_run()
            self._inbox.close_replies()
            self._active, waiting, self._waiting = None, self._waiting, None
            active.settle()
            if waiting is not None:
                self._launch(waiting)
                return
            self._idle.set()
            if self._closed:
                self._dismiss()


# A tool that ignores its cancellation is given up after one second; this leaves room for that.
_CLOSE_TIMEOUT = 3.0


def _typed_output(output_type: Any, tools: ToolSet) -> TypedOutput:
    from agent.loop.structured_output import TypedOutput

    return TypedOutput(output_type, tools.names())


def _schema_test_of(stream_fn: StreamFn) -> Callable[[Model, AgentContext, StreamOptions], bool] | None:
    """What tells of a request whether it brings the answer's schema; None for functions of others' making."""
    from agent.providers import default_stream_fn, takes_schema

    return takes_schema if stream_fn is default_stream_fn else None


def _as_messages(prompt: Prompt, images: Sequence[ImageContent] = ()) -> list[Message]:
    if isinstance(prompt, str) and images:
        return [UserMessage([TextContent(prompt), *images])]
    if images:
        raise ConfigurationError("images go with a text prompt; put them into the message's content instead")
    if isinstance(prompt, (list, tuple)):
        return [_as_message(item) for item in prompt]
    return [_as_message(prompt)]


def _as_message(message: Any) -> Message:
    if isinstance(message, str):
        return UserMessage(message)
    if not hasattr(message, "role"):
        raise ConfigurationError(f"a message must be text or a message object, not {type(message).__name__}")
    return message  # type: ignore[no-any-return]


def _refuse_unsupported(**options: Any) -> None:
    for name, value in options.items():
        if value:
            raise ConfigurationError(f"Agent({name}=...) is not supported yet")
