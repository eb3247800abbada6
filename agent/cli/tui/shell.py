"""`!command`: shell commands that the user runs beside the agent."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from agent.cli.display import amounts
from agent.cli.display.clean_text import clean
from agent.cli.display.tool_view import row

# The user's own command may run as long as they like; Esc ends it.
_TIMEOUT = 24 * 3600.0
_SHOWN_LINES = 60

Done = Callable[[Sequence[RenderableType], str], None]


class _Context:
    """The context of the tool call: a stop signal; progress is discarded."""

    tool_call_id = ""
    journal = None

    def __init__(self) -> None:
        self.cancel = threading.Event()

    def update(self, partial: object) -> None:
        pass


class ShellCommands:
    """Runs one command at a time on a thread, with the user's whole environment."""

    def __init__(self, cwd: str) -> None:
        self._cwd = cwd
        self._context: _Context | None = None
        self._command = ""
        self._started = 0.0

    @property
    def is_running(self) -> bool:
        """True while a command runs."""
        return self._context is not None

    def start(self, command: str, done: Done) -> bool:
        """Run a command; returns False when another one is running.

        `done` is called on the thread with the parts to show and a report for the model.
        """
        if self._context is not None:
            return False
        context = self._context = _Context()
        self._command, self._started = command, time.monotonic()
        threading.Thread(target=self._run, args=(command, context, done), daemon=True).start()
        return True

    def stop(self) -> None:
        """End the running command, if any."""
        if self._context is not None:
            self._context.cancel.set()

    def status(self) -> list[RenderableType]:
        """One line about the running command; nothing when there is none."""
        if self._context is None:
            return []
        elapsed = amounts.duration(time.monotonic() - self._started)
        line = f"running {' '.join(self._command.split())} · {elapsed}"
        return [Text(clean(line), "dim", no_wrap=True, overflow="ellipsis")]

    def _run(self, command: str, context: _Context, done: Done) -> None:
        from agent_tools import bash_tool

        result = bash_tool(self._cwd, timeout=_TIMEOUT).execute({"command": command}, context)
        output = result.text.rstrip()
        lines = output.split("\n")
        left = len(lines) - _SHOWN_LINES
        more = [row(f"... {left} more lines", "dim italic")] if left > 0 else []
        head = Text.assemble(("! ", "bold magenta"), (clean(command), "bold"))
        shown = Group(
            head, *more, *(row(line, "red" if result.is_error else "") for line in lines[-_SHOWN_LINES:])
        )
        self._context = None
        done([shown], f"I ran this command myself:\n$ {command}\n{output}")
