"""The terminal of the interactive mode: an input line that stays live below everything that is printed.

Printed text goes to the normal scrollback. Below it prompt_toolkit draws, again and again: what still
changes, what is queued, the input line and the footer.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout import BufferControl, ConditionalContainer, HSplit, Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.renderer import CPR_Support
from prompt_toolkit.styles import Style

from agent.cli.interrupts import end_now
from agent.cli.tui.commands import COMMANDS, NOT_YET, help_text, meant_command
from agent.cli.tui.completion import PromptCompleter
from agent.cli.tui.history import open_history
from agent.cli.tui.keys import key_bindings

if TYPE_CHECKING:
    from agent.cli.tui.session import Frame, Session

# Fast enough to read along with, slow enough to leave the machine to the work.
_FRAME_SECONDS = 1 / 15
_INPUT_ROWS = 10
_QUEUE_ROWS = 4
# The second Ctrl+C leaves when it comes while the person still means it.
_LEAVE_SECONDS = 2.0
# Esc begins the codes of other keys; those arrive within a few milliseconds, over a slow line in fifty.
_ESC_SECONDS = 0.05
# What was typed before is read at once; nobody presses Ctrl+J so soon.
_EARLY_SECONDS = 0.1
# What is longer is shown as a label until it is sent: a line of a thousand lines can't be edited anyway.
_LONG_PASTE_LINES = 12
_LONG_PASTE_CHARACTERS = 2000
_PASTE_LABEL = re.compile(r"\[pasted #(\d+): \d+ (?:lines|characters)\]")

_DIM = "fg:ansibrightblack"
_STYLE = Style.from_dict(
    {
        "prompt": "fg:ansicyan bold",
        "dim": _DIM,
        "queue": "fg:ansiyellow",
        "warning": "fg:ansiyellow",
        "completion-menu": "bg:default fg:default",
        "completion-menu.completion": "bg:default",
        "completion-menu.completion.current": "reverse bg:default fg:default",
        "completion-menu.meta.completion": f"bg:default {_DIM}",
        "completion-menu.meta.completion.current": "reverse bg:default fg:default",
        "scrollbar.background": "bg:default",
        "scrollbar.button": "bg:ansibrightblack",
    }
)


class InteractiveApp:
    """Draws, reads keys and hands both to the session, which is loaded while the prompt is already there.

    Threads: everything runs on the main thread but the loading; `wake` may be called from any.
    """

    def __init__(self, options: Any) -> None:
        self._options = options
        self._session: Session | None = None
        self._opened = ExitStack()
        self._frame: Frame | None = None
        self._is_ticking = False
        self._early: list[Callable[[], None]] = []  # what was asked for before the session was there
        self._pastes: dict[int, str] = {}
        self._hint = ""
        self._leaving_until = 0.0
        self._failure: BaseException | None = None
        self.buffer = Buffer(
            multiline=True,
            history=open_history(),
            completer=PromptCompleter(options.cwd),
            complete_while_typing=Condition(self._wants_menu),
        )
        self.app: Application[int] = Application(
            layout=Layout(self._layout()),
            key_bindings=key_bindings(self),
            style=_STYLE,
            erase_when_done=True,
        )
        self.app.ttimeoutlen = self.app.timeoutlen = _ESC_SECONDS
        # Asking the terminal where the cursor is would put an answer between the keys at every printed line.
        if hasattr(self.app.output, "enable_cpr"):
            self.app.output.enable_cpr = False
            self.app.renderer.cpr_support = CPR_Support.NOT_SUPPORTED

    def run(self) -> int:
        """Until the person leaves; the exit code. Raises what kept the session from being opened."""
        with _signals(self.app):
            try:
                code = asyncio.run(self._run())
            finally:
                self._opened.close()
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
            from agent.cli.tui.session import opened_session

            session = self._opened.enter_context(opened_session(self._options, self._columns, self.wake))
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
        """Do it with the session, as soon as there is one."""
        if self._session is not None:
            action(self._session)
        else:
            self._early.append(lambda: self._with_session(action))

    # -- frames ----------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Something has changed: draw from now on, until nothing does. From any thread."""
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
        is_lower = self._frame is not None and len(frame.live) < len(self._frame.live)
        self._frame = frame
        if frame.returned:
            self.give_back(frame.returned)
        if frame.printed or is_lower:
            self._print_above(frame.printed)
        else:
            self.app.invalidate()

    def _print_above(self, text: str) -> None:
        """Put text where our own lines begin, and those below it; in one step where the terminal can."""
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

    # -- what keys do ----------------------------------------------------------------------------------

    def submit(self, follow_up: bool = False) -> None:
        """Do what the line says."""
        text = self._take_line()
        if not text.strip():
            return
        if self._session is not None and self._session.asking.refuse(text):
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

    def newline(self) -> None:
        """Begin a new line, or submit: an Enter from before the terminal was ours came in as a line feed."""
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
        return _PASTE_LABEL.sub(lambda label: self._pastes.get(int(label[1]), label[0]), typed)

    def _command(self, name: str, argument: str) -> None:
        def act(session: Session) -> None:
            match name:
                case "/model":
                    session.show_model(argument)
                case "/thinking":
                    session.show_thinking(argument)
                case "/tools":
                    session.show_tools()
                case "/cost":
                    session.show_cost()
                case "/copy":
                    self._copy(session)
                case "/clear":
                    session.clear()
                case "/help":
                    session.note(help_text())
                case _:
                    session.note(f"{name}: not yet; conversations are not kept on disk in this version")

        if name == "/quit":
            self.leave()
        else:
            self._with_session(act)

    def _copy(self, session: Session) -> None:
        from base64 import b64encode

        answer = session.last_answer()
        if answer:  # OSC 52: also through ssh, where the terminal allows it
            self.app.output.write_raw(f"\x1b]52;c;{b64encode(answer.encode()).decode()}\x07")
            self.app.output.flush()
        session.note(f"copied {len(answer)} characters" if answer else "no answer to copy")

    def paste(self, text: str) -> None:
        """Insert what was pasted; what is long as a label that stands for it."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.count("\n") + 1
        if lines <= _LONG_PASTE_LINES and len(text) <= _LONG_PASTE_CHARACTERS:
            self.buffer.insert_text(text)
            return
        number = len(self._pastes) + 1
        self._pastes[number] = text
        size = f"{lines} lines" if lines > _LONG_PASTE_LINES else f"{len(text)} characters"
        self.buffer.insert_text(f"[pasted #{number}: {size}]")

    def escape(self) -> None:
        """Close the menu, or stop what runs and get back what is queued."""
        if self.buffer.complete_state is not None:
            self.buffer.cancel_completion()
        elif self._session is not None and self._session.is_busy:
            self.give_back(self._session.abort())
            self.wake()

    def interrupt(self) -> None:
        """Ctrl+C: stop what runs or empty the line; the second leaves."""
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
        self._loop.call_later(_LEAVE_SECONDS, self._forget_hint)

    def _forget_hint(self) -> None:
        self._hint = ""
        self.app.invalidate()

    def leave(self, code: int = 0) -> None:
        """End the program."""
        if self.app.is_running and not (self.app.future is None or self.app.future.done()):
            self.app.exit(result=code)

    def give_back(self, texts: Sequence[str]) -> None:
        """Put texts back into the line, before what is typed there."""
        if texts:
            self.buffer.text = "\n".join([*texts, self.buffer.text] if self.buffer.text else texts)
            self.buffer.cursor_position = len(self.buffer.text)
        self.app.invalidate()

    def answer(self, key: str) -> None:
        """A key that may answer a question; else it is for the line."""
        if self._session is None or not self._session.asking.key(key):
            self.buffer.insert_text(key)

    @property
    def is_asked(self) -> bool:
        """True while a question waits for its answer."""
        return self._session is not None and bool(self._session.asking.hint)

    def take_back(self) -> None:
        """Put the message that was queued last back into the line."""
        if self._session is not None:
            text = self._session.take_back()
            if text is not None:
                self.give_back([text])
                self.wake()

    @property
    def has_queued(self) -> bool:
        """True while queued messages are shown."""
        return self._frame is not None and bool(self._frame.queued)

    @property
    def is_busy(self) -> bool:
        """True while the agent or a command works."""
        return self._session is not None and self._session.is_busy

    def next_thinking_level(self) -> None:
        """Take the next thinking level."""
        self._with_session(lambda session: session.next_thinking_level())
        self.app.invalidate()

    def _wants_menu(self) -> bool:
        document = self.buffer.document
        if document.text.startswith("/"):
            return "\n" not in document.text
        return document.get_word_before_cursor(WORD=True).startswith("@")

    # -- the layout ------------------------------------------------------------------------------------

    def _layout(self) -> HSplit:
        def shown(name: str) -> ConditionalContainer:
            control = FormattedTextControl(lambda: getattr(self._frame, name))
            window = Window(control, dont_extend_height=True, wrap_lines=False)
            return ConditionalContainer(
                window, Condition(lambda: self._frame is not None and bool(getattr(self._frame, name)))
            )

        gap = ConditionalContainer(
            Window(height=1, dont_extend_height=True),
            Condition(lambda: self._frame is not None and bool(self._frame.live and self._frame.status)),
        )
        queue = Window(FormattedTextControl(self._queue), dont_extend_height=True)
        asked = Window(
            FormattedTextControl(lambda: [("class:warning", self._frame.asked if self._frame else "")]),
            dont_extend_height=True,
            wrap_lines=True,
        )
        line = Window(
            BufferControl(self.buffer),
            height=lambda: Dimension(min=1, max=_INPUT_ROWS),
            dont_extend_height=True,
            wrap_lines=True,
            get_line_prefix=self._prefix,
        )
        return HSplit(
            [
                shown("live"),
                gap,
                shown("status"),
                ConditionalContainer(queue, Condition(lambda: self.has_queued)),
                ConditionalContainer(asked, Condition(lambda: self.is_asked)),
                Window(char="─", height=1, style="class:dim"),
                line,
                CompletionsMenu(max_height=8, scroll_offset=1),
                Window(FormattedTextControl(self._footer), height=1, dont_extend_height=True),
                Window(
                    height=Dimension(min=0, preferred=0)
                ),  # takes what is left of the height, so that nothing above it is stretched
            ]
        )

    def _prefix(self, line: int, wrapped: int) -> StyleAndTextTuples:
        return [("class:prompt", "❯ " if line == 0 and wrapped == 0 else "  ")]

    def _queue(self) -> StyleAndTextTuples:
        queued = self._frame.queued if self._frame is not None else []
        width = max(10, self._columns() - 4)
        rows = [" ".join(text.split())[:width] for text in queued[-_QUEUE_ROWS:]]
        text = "\n".join(f"» {row}" for row in rows)
        return [("class:queue", text), ("class:dim", "\n  Alt+Up takes the last one back")]

    def _footer(self) -> StyleAndTextTuples:
        if self._hint:
            return [("class:warning", self._hint)]
        words = self._session.footer() if self._session is not None else {"model": "starting"}
        words["folder"] = _short_folder(self._options.cwd)
        width = self._columns()
        for least in ("tokens", "folder", "thinking", "cost", "context"):
            if len(" · ".join(words.values())) > width:
                words.pop(least, None)
        return [("class:dim", " · ".join(words.values()))]


def _short_folder(path: str) -> str:
    home = os.path.expanduser("~")
    return f"~{path[len(home) :]}" if path == home or path.startswith(home + os.sep) else path


class _signals:
    """While it lasts, SIGTERM and SIGHUP end the program at once: terminal restored, no command left."""

    def __init__(self, app: Application[int]) -> None:
        self._app = app
        self._numbers = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
        self._before: list[Any] = []

    def __enter__(self) -> None:
        restore = _terminal_restorer()

        def end(number: int, frame: object) -> None:
            try:
                restore()
            finally:
                end_now(128 + number)

        self._before = [signal.signal(number, end) for number in self._numbers]

    def __exit__(self, *_: object) -> None:
        for number, handler in zip(self._numbers, self._before, strict=True):
            signal.signal(number, handler)


def _terminal_restorer() -> Callable[[], None]:
    """A function that sets the terminal back to what it is now."""
    try:
        import termios

        descriptor = sys.stdin.fileno()
        settings = termios.tcgetattr(descriptor)
    except (ImportError, OSError, ValueError):
        return lambda: None

    def restore() -> None:
        with suppress(OSError, termios.error):
            # Bracketed paste off, cursor shown, and what is left of our lines erased.
            os.write(sys.stdout.fileno(), b"\x1b[?2004l\x1b[?25h\x1b[0m\r\n\x1b[J")
            termios.tcsetattr(descriptor, termios.TCSANOW, settings)

    return restore
