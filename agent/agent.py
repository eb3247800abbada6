"""The Agent: it keeps a conversation and runs prompts on it, one at a time.

agent = Agent("openai/gpt-5-mini", tools=[...])
agent.subscribe(print)
agent.prompt("Fix the failing test")
agent.wait_for_idle()
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

import agent as _package
from agent.cancel import CancelToken
from agent.errors import AgentError, ConfigurationError, NothingToContinueError, RunError
from agent.hooks import Hooks
from agent.limits import Limits
from agent.loop.history import History
from agent.loop.side_query import SideQuery
from agent.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    ToolCall,
    checked_message,
    checked_messages,
    default_convert_to_llm,
)
from agent.models import Model, resolve_model
from agent.retry import RetryPolicy
from agent.runs import RunResult, current_cancel, enter_run, is_inside, new_metadata, parent_sink
from agent.runtime.active_run import Job
from agent.runtime.dispatcher import Dispatcher
from agent.runtime.event_iterator import EventIterator
from agent.runtime.event_relay import EventRelay
from agent.runtime.inbox import Inbox, Receipt
from agent.runtime.prompts import Prompt, as_message, prompt_messages
from agent.runtime.run_handle import Run, refuse_inside
from agent.runtime.run_state import RunState
from agent.runtime.settings import Setting, Settings
from agent.runtime.subscribers import Subscriber, SubscriberList, Subscription
from agent.stream import AgentContext, PartialMessage, StreamFn, StreamOptions
from agent.tools import ToolSet
from agent.tools.tool_sets import unique_tools
from agent.transcript import ToolResolution, Transcript, resolved_by

if TYPE_CHECKING:
    from agent.loop.structured_output import TypedOutput

_NO_STREAM_FN = (
    "no stream function configured: pass stream_fn=... to the Agent, or set agent.default_stream_fn "
    "to a function (model, context, options) -> iterator of stream events"
)
_NO_MODEL = "no model configured: pass a Model or a name such as 'openai/gpt-5-mini' to the Agent"


@dataclass(slots=True)
class AgentState:
    """A snapshot of an agent: lists and sets are copies, messages are shared."""

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
    - `fallbacks`: models that take over a run, one after the other, when the one before can't be reached or
      refuses for its own reasons. Default: none.
    - `thinking_level`: how much the model thinks: "off" (the default), "minimal", "low", "medium", "high",
      "xhigh" or "max". Each request uses the nearest level that its model has.
    - `thinking_budgets`: tokens for thinking by level, for models that take a budget. Default: the
      provider's own numbers.
    - `stream_fn(model, context, options)`: makes the requests, for tests and for models without a provider
      here. Default: `agent.default_stream_fn`.

    What it works with:

    - `system_prompt`: the text that every request begins with. Default: none.
    - `tools`: a list of tools, or a `ToolSet`, which is used as it is and not copied. Default: none. Raises
      for two tools of one name in a list; to replace a tool on purpose, use `update_tools`.
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
      Default: the environment variables of the provider. What it raises is shown as the reason for the
      missing key, without anything that looks like one.
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
    closed or collected. `_lock` guards messages, settings and the acceptance of runs, and is shared with the
    parts in `agent.runtime`; it is never held while user code runs. `_tools_lock` is held while a function
    given to `update_tools` runs. Waiting for the agent inside a run of its own raises RuntimeError at once.
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
        self._tools = given if isinstance(given, ToolSet) else unique_tools(given or ())
        self._relay = EventRelay()
        self._inbox = Inbox(steering_mode, follow_up_mode, self._relay.notify)
        self._parks = park

        # Reentrant: a signal handler may abort, or the collector close a lost iterator, while it is held.
        self._lock = threading.RLock()
        self._tools_lock = threading.RLock()  # reentrant: a change may make another change
        kept = transcript or Transcript()
        self._history = History(start.messages or kept.messages, self._lock)
        self._state = RunState(self._lock, self._history, kept.usage)
        self._subscribers = SubscriberList()
        self._key = object()  # stands for this agent where a reference would keep it alive
        self._runs = Dispatcher(
            self._lock, self._history, self._state, self._inbox, self._relay, self._subscribers
        )

    # -- running ---------------------------------------------------------------------------------------

    def prompt(self, prompt: Prompt, images: Sequence[ImageContent] = ()) -> Run:
        """Start a run with a text, a message or several; returns at once.

        Raises AgentBusyError while a run is active (use `steer` or `follow_up` then); a prompt made while a
        run is finishing is accepted and runs next. Raises ConfigurationError for a blank message and without
        a model or a stream function.
        """
        return self._start(CancelToken(), prompt_messages(prompt, images))

    def resume(self, *, output_type: Any = None) -> Run:
        """Continue from the messages as they are.

        After an answer, what is queued is sent: steering first, else follow-ups, else the word "continue". A
        typed run (`run(output_type=...)`) that ended without its value stays typed; in another process, give
        `output_type`. Raises NothingToContinueError when there are no messages, AgentBusyError while a run is
        active.
        """
        return self._start(CancelToken(), None, output_type)

    def run(
        self, prompt: Prompt, images: Sequence[ImageContent] = (), *, output_type: Any = None
    ) -> RunResult:
        """Prompt, wait for the end, and return the result.

        With `output_type`, a pydantic model or any type that pydantic can describe, the result's `output` is
        a value of it; an answer that does not fit is asked for again, three times. It is None when the run
        ended before it was given: see `stop`.

        Raises RunError, with `partial_result`, when the run ended in `error`; every other ending returns.
        An exception while waiting (Ctrl-C) aborts the run.
        """
        refuse_inside(self._key, "Agent.run()")
        cancel = CancelToken()
        try:
            run = self._start(cancel, prompt_messages(prompt, images), output_type)
            run.wait()
        except BaseException:
            cancel.cancel("aborted")
            raise
        result = run.result()
        if result.stop == "error":
            raise RunError(result.error or "the run failed", result) from result.cause
        return result

    def stream(self, prompt: Prompt, images: Sequence[ImageContent] = ()) -> EventIterator:
        """Prompt, and iterate over the run's events up to its `agent_end`; also a context manager.

        The prompt is made by this call. Leaving early (closing, leaving the `with`, dropping the iterator)
        aborts the run and waits for it.
        """
        refuse_inside(self._key, "Agent.stream()")
        messages = prompt_messages(prompt, images)
        return EventIterator(
            lambda cancel: self._start(cancel, messages),
            lambda subscriber: self.subscribe(subscriber, children=False),
            self.can_wait,
        )

    def wait_for_idle(self, timeout: float | None = None) -> bool:
        """Wait until no run is active or waiting, at most `timeout` seconds; True when idle.

        Raises RuntimeError inside a run of this agent.
        """
        refuse_inside(self._key, "Agent.wait_for_idle()")
        return self._runs.wait(timeout)

    def abort(self) -> None:
        """Stop the current run, if any; does not wait. What is queued stays queued."""
        self._runs.abort()

    def abort_run(self, run: Run) -> None:
        """Stop that run if it is the current or the waiting one; does not wait."""
        self._runs.abort(run)

    def reset(self) -> None:
        """Clear messages, error, usage and both queues; keep model, prompt, tools and options.

        Raises AgentBusyError while a run is active.
        """
        with self._lock:
            self._runs.check_free("Abort it and wait before resetting.")
            self._history.replace(())
            self._state.clear()
            self._inbox.clear()

    def can_wait(self) -> bool:
        """False where waiting for a run of this agent would never end: inside one, and on its worker."""
        return not is_inside(self._key) and not self._runs.is_worker()

    def close(self) -> None:
        """Abort the run and side queries, if any, and end the worker thread.

        May be called more than once; a closed agent takes no prompts.

        Waits for the end of the thread, at most three seconds, unless called inside a run of this agent.
        """
        self._runs.close(wait=self.can_wait())

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
        events until there is a place again; with `drop_streaming`, updates of messages and tools are dropped
        without a wait. `dropped` of the returned subscription counts them. Such a subscriber may get the end
        of a run after `wait_for_idle()` has returned; `close()` waits for it.

        It also gets the events of the runs that tools and hooks start inside this agent's: they have run ids
        of their own and a `parent_run_id`. With `children=False` it does not.
        """
        return self._subscribers.add(subscriber, queue, drop_streaming, children, self.name)

    @property
    def state(self) -> AgentState:
        """A snapshot of settings, messages and progress."""
        with self._lock:
            return AgentState(
                self._settings.system_prompt,
                self._settings.model,
                self._settings.thinking_level,
                self._tools,
                self._history.messages,
                self._runs.is_running(),
                self._state.stream_message,
                set(self._state.running_calls),
                self._state.error,
            )

    # -- queues ----------------------------------------------------------------------------------------

    def steer(self, message: str | Message) -> Receipt:
        """Queue a message for the start of the next turn; never starts a run.

        The receipt shows whether it was delivered.
        """
        return self._inbox.steer(as_message(message))

    def follow_up(self, message: str | Message) -> Receipt:
        """Queue a message for when the run would end; never starts a run.

        The receipt shows whether it was delivered.
        """
        return self._inbox.follow_up(as_message(message))

    @property
    def parks(self) -> bool:
        """True when the agent was made with `park=True`."""
        return self._parks

    def reply(self, message: str | Message) -> bool:
        """Answer an agent that parks (`park=True`); True when the current run will take it.

        A run that parks does not end with an answer: it waits for a reply, for queued messages, or for an
        abort. There is one place for a reply, which may be filled before the run has parked; False when it
        is full, when no run is active, and without `park`. A reply that the run ends without is dropped.
        """
        return self._inbox.reply(as_message(message))

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
        self._inbox.take_follow_ups()

    def clear_all_queues(self) -> None:
        """Drop everything that waits in either queue."""
        self._inbox.clear()

    # -- messages and tools ----------------------------------------------------------------------------

    def replace_messages(self, messages: Iterable[Message]) -> None:
        """Set the conversation. A run in progress continues with the messages that it has.

        Raises TypeError for anything but messages, and for messages whose content no model can be sent.
        """
        self._history.replace(checked_messages(messages))

    def append_message(self, message: Message) -> None:
        """Add to the conversation. A run in progress sends it with its next request.

        While tools run, it is added after their results. Raises TypeError as `replace_messages` does.
        """
        self._history.append(checked_message(message))

    def clear_messages(self) -> None:
        """Empty the conversation. A run in progress continues with the messages that it has."""
        self.replace_messages(())

    def update_tools(self, change: Callable[[ToolSet], object]) -> None:
        """Call `change(tools)` under a lock; a running run sees the change at its next request or call."""
        with self._tools_lock:
            change(self._tools)

    # -- calls that wait for a resolution --------------------------------------------------------------

    @property
    def pending_calls(self) -> list[ToolCall]:
        """The calls that a gate paused and that have no result yet, with the arguments that the gate set.

        Empty during a run. They are found in the messages, so those of a loaded transcript are here too, with
        the model's own arguments.
        """
        with self._lock:
            return [] if self._runs.is_running() else self._state.pending_calls()

    def resolve_tool_calls(self, *resolutions: ToolResolution) -> None:
        """Answer some or all pending calls; then `resume()` continues once none is pending.

        All of them or, when one is wrong, none. Raises AgentBusyError while a run is active,
        InvalidToolResolutionError for an empty or doubled id, ToolCallNotPendingError for any other call.
        """
        with self._lock:
            self._runs.check_free("Wait for it before resolving calls.")
            pending = self._history.pending()
            self._history.answer(pending, pending.answered(resolutions))

    def resolve_pending(self, resolve: Callable[[ToolCall], Any]) -> None:
        """Answer all pending calls with what `resolve(call)` returns: text, blocks or a ToolResult.

        What it raises becomes an error result. It runs on the calling thread with no lock held; when one of
        the calls was answered meanwhile, nothing is stored and ToolCallNotPendingError is raised.
        """
        advice = "Wait for it before resolving calls."
        with self._lock:
            self._runs.check_free(advice)
            pending, calls = self._history.pending(), self._state.pending_calls()
        results = resolved_by(calls, resolve)
        with self._lock:
            self._runs.check_free(advice)
            self._history.answer(pending, results)

    @property
    def transcript(self) -> Transcript:
        """The messages and their usage, to continue in another agent or process."""
        with self._lock:
            return Transcript(tuple(self._history.messages), self._state.usage)

    # -- side queries ----------------------------------------------------------------------------------

    def simple_prompt(
        self,
        messages: Prompt,
        model: Model | str | None = None,
        reasoning: str | None = None,
        *,
        cancel: CancelToken | None = None,
        timeout: float | None = None,
    ) -> str:
        """Ask a question beside the conversation, which it does not change, and return the answer's text.

        Runs on the caller's thread, also beside a run. Sends the given messages with the system prompt and no
        tools. `cancel` aborts it; by default, inside a tool or hook, the signal of that call or run does.
        `timeout` is the longest time in seconds for everything, retries included. `close()` aborts it too.

        Raises SideQueryError when there is no usable answer, for one that was aborted or late too,
        ConfigurationError without a model, and AgentError when the agent is closed.
        """
        return self.simple_prompt_stream(messages, model, reasoning, cancel=cancel, timeout=timeout)[0]

    def simple_prompt_stream(
        self,
        messages: Prompt,
        model: Model | str | None = None,
        reasoning: str | None = None,
        on_event: Subscriber | None = None,
        *,
        cancel: CancelToken | None = None,
        timeout: float | None = None,
    ) -> tuple[str, AssistantMessage]:
        """Like `simple_prompt`; also returns the message, and calls `on_event` while it streams."""
        settings = self._settings
        chosen = resolve_model(model) or settings.model
        if chosen is None:
            raise ConfigurationError("no model selected: the agent has none, and none was given")
        if timeout is not None and not timeout > 0:
            raise ConfigurationError(f"timeout must be a number of seconds above 0, or None, not {timeout!r}")
        mine = CancelToken()
        query = SideQuery(
            settings.system_prompt,
            prompt_messages(messages or []),
            settings.side_query_config(chosen, reasoning, mine),
            self._stream_fn_of(settings),
            on_event,
            timeout,
        )
        if self._runs.closing.is_set():
            raise AgentError("the agent is closed")
        tokens = (self._runs.closing, cancel or current_cancel())
        detach = [token.on_cancel(lambda: mine.cancel("aborted")) for token in tokens if token is not None]
        try:
            return query.ask()
        finally:
            for remove in detach:
                remove()

    # -- settings: a change is for the next run --------------------------------------------------------

    model: Setting[Model | None, Model | str | None] = Setting(
        "The model; a name is looked up when it is set.", resolve_model
    )
    fallbacks: Setting[tuple[Model, ...], Sequence[Model | str]] = Setting(
        "The models that take over a run when the one before can't be reached.", _models
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

    def _start(self, cancel: CancelToken, prompts: list[Message] | None, output_type: Any = None) -> Run:
        """Accept a run, or raise; checking and accepting are one step, so of two racing prompts one wins.

        Without prompts the run continues from the messages. When this is interrupted (Ctrl-C), a run that was
        accepted is aborted.
        """
        if prompts is None and output_type is None:
            output_type = self._state.open_output_type
        output = None if output_type is None else _typed_output(output_type, self._tools)
        try:
            with self._lock:
                self._runs.check_free("Wait for it before resuming." if prompts is None else self._advice())
                self._state.check_nothing_pending()
                last = self._history.last
                if last is None and not prompts:
                    raise NothingToContinueError(
                        "no messages to continue from: prompt the agent first"
                        if prompts is None
                        else "no messages to send: the prompt and the conversation are empty"
                    )
                if prompts is None and not isinstance(last, AssistantMessage):
                    prompts = []
                job = self._new_job(cancel, prompts, output)
                self._runs.accept(job, self.name)
                self._state.open_output_type = output_type
                return job.run
        except BaseException:
            cancel.cancel("aborted")
            raise

    def _advice(self) -> str:
        return f"Use {'reply(), ' if self._parks else ''}steer() or follow_up(), or wait for it."

    def _new_job(self, cancel: CancelToken, prompts: list[Message] | None, output: TypedOutput | None) -> Job:
        """A job with the settings of this moment. Raises unless there is everything a run needs."""
        settings = self._settings
        if settings.model is None:
            raise ConfigurationError(_NO_MODEL)
        if settings.limits is not None:
            for model in (settings.model, *settings.fallbacks):
                settings.limits.check_model(model)
        try:
            stream_fn = self._stream_fn_of(settings)
        except ConfigurationError as error:
            self._state.error = str(error)
            raise
        if output is not None:
            output.takes_schema = _schema_test_of(stream_fn)
        metadata = new_metadata(self._key, self.name)
        context = contextvars.copy_context()
        context.run(enter_run, metadata, self._key)
        return Job(
            owner=self,
            run=Run(metadata, self._key),
            prompts=prompts,
            settings=settings,
            model=settings.model,
            stream_fn=stream_fn,
            tools=self._tools,
            context=context,
            # A run inside one of the same agent is its sibling: their events go to the same place.
            sink=self._runs.active_sink() if is_inside(self._key) else parent_sink(),
            cancel=cancel,
            parks=self._parks,
            output=output,
        )

    def _stream_fn_of(self, settings: Settings) -> StreamFn:
        # The package's attribute is read at each call, so that it can be replaced at any time.
        stream_fn = settings.stream_fn or _package.default_stream_fn
        if stream_fn is None:
            raise ConfigurationError(_NO_STREAM_FN)
        return stream_fn


def _typed_output(output_type: Any, tools: ToolSet) -> TypedOutput:
    from agent.loop.structured_output import TypedOutput

    return TypedOutput(output_type, tools.names())


def _schema_test_of(stream_fn: StreamFn) -> Callable[[Model, AgentContext, StreamOptions], bool] | None:
    """The provider's `takes_schema` check; None when a custom stream function is in use."""
    from agent.providers import default_stream_fn, takes_schema

    return takes_schema if stream_fn is default_stream_fn else None


def _refuse_unsupported(**options: Any) -> None:
    for name, value in options.items():
        if value:
            raise ConfigurationError(f"Agent({name}=...) is not supported yet")
