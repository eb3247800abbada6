"""The terminal of the interactive mode: an input line that stays usable below the printed output.

Printed text goes to the normal scrollback. Below it prompt_toolkit redraws the live part of the run, the
queue, the input line and the footer.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.renderer import CPR_Support

from agent.cli.display.paths import short_path
from agent.cli.interrupts import end_on_termination
from agent.cli.options import RunOptions
from agent.cli.terminal_state import TerminalState
from agent.cli.tui.commands import COMMANDS, NOT_YET, meant_command
from agent.cli.tui.completion import PromptCompleter
from agent.cli.tui.frame import Frame
from agent.cli.tui.history import open_history
from agent.cli.tui.keys import key_bindings
from agent.cli.tui.layout import STYLE, build_layout
from agent.cli.tui.paste_guard import guard_pastes
from agent.cli.tui.pastes import Pastes

if TYPE_CHECKING:
    from agent.cli.tui.session import Session

# Fast enough to read along, and slow enough to cost little.
_FRAME_SECONDS = 1 / 15
# A second Ctrl+C within this time leaves.
_LEAVE_SECONDS = 2.0
# Esc also begins the codes of other keys; those arrive within a few milliseconds, over a slow line in fifty.
_ESC_SECONDS = 0.05
# Input typed before the start is read at once; no key is pressed on purpose this early.
_EARLY_SECONDS = 0.1


class InteractiveApp:
    """Draws, reads keys and passes both to the session, which is loaded while the prompt is already usable.

    Threads: everything runs on the main thread but the loading; `wake` may be called from any thread.
    """

    def __init__(self, options: RunOptions) -> None:
        self._options = options
        self._session: Session | None = None
        self._resources = ExitStack()
        self._frame = Frame()
        self._is_ticking = False
        self._early: list[Callable[[], None]] = []  # actions to run once the session is loaded
        self._pastes = Pastes()
        self._hint = ""
        self._draft = ""  # of the line, while a question is open
        self._leaving_until = 0.0
        self._failure: BaseException | None = None
        self.buffer = Buffer(
            multiline=True,
            history=open_history(),
            completer=PromptCompleter(options.cwd),
            complete_while_typing=Condition(self._wants_menu),
        )
        self.app: Application[int] = Application(
            layout=build_layout(self.buffer, lambda: self._frame, self._columns, self._footer),
            key_bindings=key_bindings(self),
            style=STYLE,
            erase_when_done=True,
        )
        guard_pastes(self.app.input)
        self.app.ttimeoutlen = self.app.timeoutlen = _ESC_SECONDS
        # The answer to a cursor position request would arrive between the keys at every printed line.
        if hasattr(self.app.output, "enable_cpr"):
            self.app.output.enable_cpr = False
            self.app.renderer.cpr_support = CPR_Support.NOT_SUPPORTED

    def run(self) -> int:
        """Run until the user leaves; returns the exit code. Raises the error of a failed start."""
        with end_on_termination(TerminalState.saved()):
            try:
                code = asyncio.run(self._run())
            finally:
                self._resources.close()
        if self._failure is not None:
            raise self._failure
        return code

    async def _run(self) -> int:
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self.app.after_render += self._load_once
        return await self.app.run_async(handle_sigint=False)

    # -- loading ---------------------------------------------------------------------------------------

    def _load_once(self, _: object) -> None:
        self.app.after_render -= self._load_once
        threading.Thread(target=self._load, name="agent-loader", daemon=True).start()

    def _load(self) -> None:
        try:
            from agent.cli.tui.session import open_session

            session = self._resources.enter_context(open_session(self._options, self._columns, self.wake))
        except BaseException as error:
            self._failure = error
            self._later(self.leave)
            return
        self._later(lambda: self._ready(session))
        session.warm_up()

    def _ready(self, session: Session) -> None:
        self._session = session
        early, self._early = self._early, []
        for action in early:
            action()
        self.app.invalidate()
        self.wake()

    def _later(self, action: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(action)

    def _with_session(self, action: Callable[[Session], None]) -> None:
        """Call the action with the session, once it is loaded."""
        if self._session is not None:
            action(self._session)
        else:
            self._early.append(lambda: self._with_session(action))

    # -- frames ----------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Redraw until nothing changes any more. From any thread."""
        if not self._is_ticking:
            self._later(self._start_ticking)

    def _start_ticking(self) -> None:
        if not self._is_ticking:
            self._is_ticking = True
            self._tick()

    def _tick(self) -> None:
        if self._session is None or not self.app.is_running:
            self._is_ticking = False
            return
        frame = self._session.frame(self._columns(), self._live_rows())
        if frame is not None:
            self._show(frame)
        if frame is None or frame.is_running or frame.printed:
            self._loop.call_later(_FRAME_SECONDS, self._tick)
        else:
            self._is_ticking = False

    def _show(self, frame: Frame) -> None:
        self._keep_draft(bool(self._frame.question), bool(frame.question))
        is_lower = len(frame.live) < len(self._frame.live)
        self._frame = frame
        if frame.returned:
            self.give_back(frame.returned)
        if frame.printed or is_lower:
            self._print_above(frame.printed)
        else:
            self.app.invalidate()

    def _keep_draft(self, was_asked: bool, is_asked: bool) -> None:
        """Remove the text of the line while a question is open: it was not typed as an answer."""
        if is_asked and not was_asked:
            self._draft = self.buffer.text
            self.buffer.reset()
        elif was_asked and not is_asked:
            draft, self._draft = self._draft, ""
            self._hint = ""
            if draft:
                self.give_back([draft])

    def _print_above(self, text: str) -> None:
        """Print text above the live lines, in one synchronized update where the terminal supports that."""
        output, renderer = self.app.output, self.app.renderer
        output.write_raw("\x1b[?2026h")
        renderer.erase(leave_alternate_screen=False)
        output.write_raw(text.replace("\n", "\r\n"))
        self.app._redraw()
        output.write_raw("\x1b[?2026l")
        output.flush()

    def _columns(self) -> int:
        return self.app.output.get_size().columns

    def _live_rows(self) -> int:
        return max(3, self.app.output.get_size().rows - 8)

    # -- keys ------------------------------------------------------------------------------------------

    def submit(self, follow_up: bool = False) -> None:
        """Answer the open question with the line, execute the command in it, or send its text."""
        if self._session is not None and self._answer_question(self._session):
            return
        text = self._take_line()
        if not text.strip():
            return
        command = text.split(None, 1)[0]
        if command in COMMANDS or command in NOT_YET:
            self._command(command, text[text.index(command) + len(command) :].strip())
        elif meant := meant_command(text):
            self._with_session(lambda session: session.note(f"no command {command}; did you mean {meant}?"))
        elif text.startswith("!"):
            shared = not text.startswith("!!")
            typed = text.lstrip("!").strip()
            if typed:
                self._with_session(lambda session: session.shell(typed, shared))
        elif follow_up:
            self._with_session(lambda session: session.follow_up(text))
        else:
            self._with_session(lambda session: session.send(text))

    def _answer_question(self, session: Session) -> bool:
        """True while a question is open: the line is its answer, or stays as it is."""
        match session.asking.answer(self.buffer.text):
            case "none":
                return False
            case "answered":
                self.buffer.reset()
                self._hint = ""
            case "unclear":
                self._hint = "type a whole word: yes, no, or what to do instead"
        return True

    def newline(self) -> None:
        """Insert a line feed, or submit: an Enter typed before the start arrives as a line feed."""
        if self._loop.time() < self._began + _EARLY_SECONDS:
            self.submit()
        else:
            self.buffer.newline(copy_margin=False)

    def _take_line(self) -> str:
        typed = self.buffer.text
        if typed.strip():
            self.buffer.append_to_history()
        self.buffer.reset()
        self._hint = ""
        return self._pastes.expand(typed)

    def _command(self, name: str, argument: str) -> None:
        if name == "/quit":
            self.leave()
            return

        def act(session: Session) -> None:
            from agent.cli.tui.slash_commands import run_command

            run_command(session, name, argument, self._copy)

        self._with_session(act)

    def _copy(self, text: str) -> None:
        """Put a text into the terminal's clipboard with OSC 52, which also works through ssh."""
        from base64 import b64encode

        self.app.output.write_raw(f"\x1b]52;c;{b64encode(text.encode()).decode()}\x07")
        self.app.output.flush()

    def paste(self, text: str) -> None:
        """Insert a pasted text; a label instead of a long one."""
        self.buffer.insert_text(self._pastes.insertable(text))

    def escape(self) -> None:
        """Close the menu, or abort and put the queued texts back into the line."""
        if self.buffer.complete_state is not None:
            self.buffer.cancel_completion()
        elif self._session is not None and self._session.is_busy:
            self.give_back(self._session.abort())
            self.wake()

    def interrupt(self) -> None:
        """Ctrl+C: abort or empty the line; a second one leaves."""
        now = self._loop.time()
        if now < self._leaving_until:
            self.leave(code=0)
            return
        self._leaving_until = now + _LEAVE_SECONDS
        if self._session is not None and self._session.is_busy:
            self.escape()
        else:
            self.buffer.reset()
        self._hint = "Ctrl+C again leaves"
        self._loop.call_later(_LEAVE_SECONDS, self._clear_hint)

    def end_of_input(self) -> None:
        """Ctrl+D on an empty line: leave; while the agent works, only after a second one."""
        now = self._loop.time()
        if not self.is_busy or now < self._leaving_until:
            self.leave()
            return
        self._leaving_until = now + _LEAVE_SECONDS
        self._hint = "still working: Ctrl+D again stops it and leaves"
        self._loop.call_later(_LEAVE_SECONDS, self._clear_hint)

    def _clear_hint(self) -> None:
        self._hint = ""
        self.app.invalidate()

    def leave(self, code: int = 0) -> None:
        """End the program."""
        if self.app.is_running and not (self.app.future is None or self.app.future.done()):
            self.app.exit(result=code)

    def give_back(self, texts: Sequence[str]) -> None:
        """Put texts back into the line, before the text that is there."""
        if texts:
            self.buffer.text = "\n".join([*texts, self.buffer.text] if self.buffer.text else texts)
            self.buffer.cursor_position = len(self.buffer.text)
        self.app.invalidate()

    def take_back(self) -> None:
        """Put the last queued message back into the line."""
        if self._session is not None:
            text = self._session.take_back()
            if text is not None:
                self.give_back([text])
                self.wake()

    @property
    def has_queued(self) -> bool:
        """True while queued messages are shown."""
        return bool(self._frame.queued)

    @property
    def is_busy(self) -> bool:
        """True while the agent or a shell command runs."""
        return self._session is not None and self._session.is_busy

    def next_thinking_level(self) -> None:
        """Select the next thinking level of the model."""
        self._with_session(lambda session: session.settings.next_thinking_level())
        self.app.invalidate()

    def _wants_menu(self) -> bool:
        document = self.buffer.document
        if document.text.startswith("/"):
            return "\n" not in document.text
        return document.get_word_before_cursor(WORD=True).startswith("@")

    def _footer(self) -> StyleAndTextTuples:
        if self._hint:
            return [("class:warning", self._hint)]
        words = self._session.footer() if self._session is not None else {"model": "starting"}
        words["folder"] = short_path(self._options.cwd)
        width = self._columns()
        for least in ("tokens", "folder", "thinking", "cost", "context"):
            if len(" · ".join(words.values())) > width:
                words.pop(least, None)
        return [("class:dim", " · ".join(words.values()))]
