"""The conversation of the interactive mode: the agent, its view and queues. Imports agent and rich."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TypeGuard

from rich.console import RenderableType
from rich.text import Text

from agent.agent import Agent
from agent.cli.display import amounts
from agent.cli.display.clean_text import clean, one_line
from agent.cli.display.markdown import Block
from agent.cli.display.view import RunView
from agent.cli.options import RunOptions
from agent.cli.permissions.gate import NO, Answer, Question
from agent.cli.setup.open_agent import open_agent
from agent.cli.tui.asking import Asking
from agent.cli.tui.commands import WELCOME
from agent.cli.tui.frame import Frame
from agent.cli.tui.model_settings import ModelSettings
from agent.cli.tui.outbox import Kind, Outbox
from agent.cli.tui.screen import to_ansi, to_fragments
from agent.cli.tui.shell import ShellCommands
from agent.errors import AgentBusyError, AgentError
from agent.events import AgentEnd, Event, MessageEnd
from agent.loop.recovery import AUTO_RESUME_MARKER
from agent.messages import AssistantMessage, Message, UserMessage
from agent.retry import is_overflow_text
from agent.usage import ZERO_USAGE, Usage

_TOO_LONG = (
    "too long for the model: send a shorter prompt, begin a new conversation with /clear, "
    "or take a model with a larger window with /model"
)


class Session:
    """One conversation in a terminal.

    Threads: the agent's worker delivers events, the terminal's thread calls everything else. `_lock` guards
    the view and the text to print, so that a part leaves the live area in the frame that prints it. Finished
    parts are drawn on the worker: a long one delays the run and not the keyboard.
    """

    def __init__(
        self,
        agent: Agent,
        cwd: str,
        width: Callable[[], int],
        wake: Callable[[], None],
        notes: Iterable[str] = (),
    ) -> None:
        self.agent = agent
        self.asking = Asking(self._show)
        self._cwd = cwd
        self._width = width
        self._wake = wake
        self._lock = threading.Lock()
        self._view = RunView(prompts=True, describe=self._describe, cwd=cwd)
        self._outbox = Outbox(agent)
        self._shell = ShellCommands(cwd)
        self._silent: list[UserMessage] = []  # shown already, when the command ran
        self._printed: list[str] = []
        self._notes = deque((note, "dim") for note in notes)  # from any thread, also where the lock is held
        self._returned: list[str] = []
        self._has_failed = False  # the last run ended in an error, and its prompt may be unanswered
        self._spent: Usage = ZERO_USAGE
        self._context_tokens = 0
        self.settings = ModelSettings(agent, self.note, lambda: self._view.is_running)
        agent.subscribe(self._on_event)

    # -- the run ---------------------------------------------------------------------------------------

    def send(self, text: str) -> None:
        """Prompt the agent, or steer it while it works."""
        self._deliver(UserMessage(text), "steering")

    def follow_up(self, text: str) -> None:
        """Queue a follow-up while the agent works, or prompt it."""
        self._deliver(UserMessage(text), "follow-up")

    def abort(self) -> list[str]:
        """Stop the run and the shell command; returns the queued texts, which are taken back."""
        self._shell.stop()
        self.agent.abort()
        return self._outbox.take_all()

    def take_back(self) -> str | None:
        """Take back the queued message that was typed last; returns its text."""
        return self._outbox.take_last()

    @property
    def is_busy(self) -> bool:
        """True while the agent or a shell command runs."""
        return self._view.is_running or self._shell.is_running

    def frame(self, width: int, rows: int) -> Frame | None:
        """The next frame; None while the worker draws: the last one then stays on the screen."""
        self._take_back_unanswered()
        if not self._lock.acquire(blocking=False):
            return None
        try:
            while self._notes:
                text, style = self._notes.popleft()
                self._print(self._view.spaced([Text(clean(text), style)]))
            printed, self._printed = "".join(self._printed), []
            returned, self._returned = self._returned, []
            running = self._view.is_running
            live = self._view.live() if running else []
            status: list[RenderableType] = [self._view.status()] if running else []
        finally:
            self._lock.release()
        question = self.asking.hint
        if question:
            status = []  # the run waits for the user
        if not running:
            self._deliver_late_messages()
            status = self._shell.status()
        return Frame(
            printed,
            to_fragments(live, width, rows) if live else [],
            to_fragments(status, width, 1) if status else [],
            [f"{queued.kind}: {queued.message.text}" for queued in self._outbox.waiting()],
            question,
            returned,
            running or self._shell.is_running or self._has_failed,
        )

    def on_retry(self, attempt: int, delay: float, error: str) -> None:
        """Fits `Agent(on_retry=...)`."""
        with self._lock:
            self._print(self._view.retry(attempt, delay, error))

    def note(self, text: str, style: str = "dim") -> None:
        """Print a message of the program itself. From any thread."""
        self._notes.append((text, style))
        self._wake()

    def warm_up(self) -> None:
        """Import what the first prompt needs, while the user types it."""
        to_ansi([Block("`x`\n```python\nx = 1\n```")], 80)
        model = self.agent.model
        with suppress(ImportError):  # the prompt reports a wire format that cannot be loaded
            import_module(f"agent.providers.{model.api.replace('-', '_') if model else ''}")

    def close(self) -> None:
        """End the run, the shell command and the agent."""
        self._shell.stop()
        self.agent.close()
        self.settings.close()

    def _deliver(self, message: UserMessage, kind: Kind) -> None:
        try:
            self.agent.prompt(message)
        except AgentBusyError:
            self._outbox.add(kind, message)
        except AgentError as error:
            self.note(str(error), "red")
            self._returned.append(message.text)
        self._wake()

    def _take_back_unanswered(self) -> None:
        """After a failed run remove the prompts that got no answer from the conversation, into the line.

        Otherwise the next prompt would send them once more, and one that is too long would fail forever.
        """
        if not self._has_failed or self.agent.state.is_streaming:
            return
        self._has_failed = False
        messages = list(self.agent.state.messages)
        while messages and _is_failure(messages[-1]):
            messages.pop()
        texts: list[str] = []
        while messages and self._is_prompt(last := messages[-1]):
            texts.insert(0, last.text)
            messages.pop()
        texts = [text for text in texts if text != AUTO_RESUME_MARKER]
        if texts:
            self.agent.replace_messages(messages)
            self._returned = [*texts, *self._returned]

    def _is_prompt(self, message: Message) -> TypeGuard[UserMessage]:
        """True for a message that was typed; the output of a shell command stays in the conversation."""
        return isinstance(message, UserMessage) and not any(message is silent for silent in self._silent)

    def _deliver_late_messages(self) -> None:
        """Start a run for messages that were queued too late for the run that just ended."""
        if self.agent.has_queued_messages:
            try:
                self.agent.resume()
            except AgentError as error:
                logging.getLogger("agent").debug("queued messages were not sent: %s", error)

    # -- on the worker ---------------------------------------------------------------------------------

    def _on_event(self, event: Event) -> None:
        with self._lock:
            self._print(self._view.feed(event))
            if self._view.is_foreign(event):
                return
            if isinstance(event, MessageEnd) and isinstance(event.message, AssistantMessage):
                self._context_tokens = event.message.usage.total_tokens or self._context_tokens
            if isinstance(event, AgentEnd):
                self._spent = self._spent + self._view.usage
                if event.stop in ("error", "aborted"):
                    self._returned += self._outbox.take_all()
                self._has_failed = event.stop == "error"
                if is_overflow_text(event.error or ""):
                    self._notes.append((_TOO_LONG, "yellow"))
        if event.type != "message_update":
            self._wake()

    def _describe(self, message: UserMessage) -> str | None:
        if any(message is silent for silent in self._silent):
            return None
        return self._outbox.note(message)

    def _print(self, parts: Sequence[RenderableType]) -> None:
        if parts:
            self._printed.append(to_ansi(parts, self._width()))

    def _show(self, parts: Sequence[RenderableType]) -> None:
        """Print parts from any thread."""
        with self._lock:
            self._print(self._view.spaced(parts))
        self._wake()

    # -- commands --------------------------------------------------------------------------------------

    def shell(self, command: str, shared: bool) -> None:
        """Run a shell command of the user; its output is shown and, if `shared`, sent to the model."""

        def done(parts: Sequence[RenderableType], report: str) -> None:
            self._show(parts)
            if shared:
                self._add_silently(UserMessage(report))
            self._wake()

        if not self._shell.start(command, done):
            self.note("a command is still running; Esc stops it", "yellow")
        self._wake()

    def _add_silently(self, message: UserMessage) -> None:
        """Add a message to the conversation that was shown already."""
        self._silent.append(message)
        if self._view.is_running:
            self.agent.steer(message)
        else:
            self.agent.append_message(message)

    def show_tools(self) -> None:
        """List the tools, each with the first sentence of its description."""
        tools = list(self.agent.state.tools or ())
        width = max((len(tool.name) for tool in tools), default=0) + 2
        rows = [f"{tool.name:<{width}}{_first_sentence(tool.description)}" for tool in tools]
        self.note("\n".join(rows) or "no tools")

    def show_cost(self) -> None:
        """Show the usage of the conversation."""
        spent = self._total()
        self.note(f"{amounts.tokens(spent)} · {self._cost(spent)}")

    def last_answer(self) -> str:
        """The text of the last answer; empty when there is none."""
        answers = [m.text for m in self.agent.state.messages if isinstance(m, AssistantMessage) and m.text]
        return answers[-1] if answers else ""

    def clear(self) -> None:
        """Clear the conversation."""
        try:
            self.agent.reset()
        except AgentBusyError:
            self.note("the agent is still working; Esc stops it", "yellow")
            return
        self._context_tokens = 0
        self._silent.clear()
        self.note("conversation cleared")

    def footer(self) -> dict[str, str]:
        """Model, thinking level, tokens, context used and cost, by these names."""
        model = self.agent.model
        assert model is not None
        words = {"model": f"{model.provider}/{model.id}", "thinking": f"thinking {self.settings.level}"}
        spent = self._total()
        if spent.total_tokens:
            words["tokens"] = amounts.tokens(spent)
        share = 100 * self._context_tokens / model.context_window if model.context_window else 0
        words["context"] = f"{share:.0f}% of {amounts.short_count(model.context_window)}"
        words["cost"] = self._cost(spent)
        return words

    def _cost(self, spent: Usage) -> str:
        model = self.agent.model
        is_known = model is not None and model.cost is not None
        return amounts.cost(spent) if is_known or spent.total_tokens else amounts.UNKNOWN_COST

    def _total(self) -> Usage:
        return self._spent + self._view.usage if self._view.is_running else self._spent


def _is_failure(message: Message) -> bool:
    """True for an answer that failed before it had any text or tool call."""
    if not isinstance(message, AssistantMessage) or message.stop_reason != "error":
        return False
    return not message.text.strip() and not message.tool_calls


def _first_sentence(text: str) -> str:
    return one_line(text.strip().partition("\n")[0].partition(". ")[0].rstrip("."))


@contextmanager
def open_session(
    options: RunOptions, width: Callable[[], int], wake: Callable[[], None]
) -> Iterator[Session]:
    """The session for parsed options, open while the context lasts."""
    session: Session | None = None
    notes: list[str] = []

    def notify(text: str) -> None:
        notes.append(text) if session is None else session.note(text)

    def ask(question: Question) -> Answer:
        return NO if session is None else session.asking.ask(question)

    def on_retry(attempt: int, delay: float, error: str) -> None:
        if session is not None:
            session.on_retry(attempt, delay, error)

    with open_agent(options, notify=notify, ask=ask, on_retry=on_retry) as agent:
        session = Session(agent, options.cwd, width, wake, [*notes, WELCOME])
        handler = _NoteHandler(session)
        logger = logging.getLogger("agent")
        logger.addHandler(handler)
        try:
            yield session
        finally:
            logger.removeHandler(handler)
            session.close()


class _NoteHandler(logging.Handler):
    """Prints warnings in the conversation: on standard error they would disturb the screen."""

    def __init__(self, session: Session) -> None:
        super().__init__(logging.WARNING)
        self._session = session

    def emit(self, record: logging.LogRecord) -> None:
        self._session.note(record.getMessage(), "yellow")
