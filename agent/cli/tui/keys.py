"""The key bindings of the interactive mode."""

from __future__ import annotations

from typing import Protocol

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition, has_completions
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys


class KeyActions(Protocol):
    """What the keys act on."""

    buffer: Buffer

    @property
    def is_busy(self) -> bool:
        """True while the agent or a shell command runs."""
        ...

    @property
    def has_queued(self) -> bool:
        """True while queued messages are shown."""
        ...

    def submit(self, follow_up: bool = False) -> None:
        """Answer the open question with the input line, or execute or send it."""

    def newline(self) -> None:
        """Ctrl+J: insert a line feed."""

    def escape(self) -> None:
        """Esc: close the menu or abort."""

    def interrupt(self) -> None:
        """Ctrl+C: abort, empty the line or leave."""

    def end_of_input(self) -> None:
        """Ctrl+D on an empty line: end the program, or ask for a second one."""

    def take_back(self) -> None:
        """Return the last queued message to the line."""

    def next_thinking_level(self) -> None:
        """Select the next thinking level."""

    def paste(self, text: str) -> None:
        """Insert a pasted text."""


def key_bindings(actions: KeyActions) -> KeyBindings:
    """The keys of the interactive mode; all others edit the line as in a shell."""
    keys = KeyBindings()
    buffer = actions.buffer
    is_empty = Condition(lambda: not buffer.text)
    has_queued = Condition(lambda: actions.has_queued)

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        state = buffer.complete_state
        if state is not None and state.current_completion is not None:
            buffer.complete_state = None  # accepts the completion, which is in the line already
        elif buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.newline(copy_margin=False)
        else:
            actions.submit()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        if actions.is_busy:
            actions.submit(follow_up=True)
        else:
            buffer.newline(copy_margin=False)

    @keys.add("c-j")
    def _(event: KeyPressEvent) -> None:
        actions.newline()

    @keys.add("escape")
    def _(event: KeyPressEvent) -> None:
        actions.escape()

    @keys.add("c-c")
    @keys.add(Keys.SIGINT)
    def _(event: KeyPressEvent) -> None:
        actions.interrupt()

    @keys.add("c-d", filter=is_empty)
    def _(event: KeyPressEvent) -> None:
        actions.end_of_input()

    @keys.add("c-z")
    def _(event: KeyPressEvent) -> None:
        event.app.suspend_to_background()

    @keys.add("s-tab", filter=~has_completions)
    def _(event: KeyPressEvent) -> None:
        actions.next_thinking_level()

    @keys.add("escape", "up")
    @keys.add("up", filter=is_empty & has_queued)
    def _(event: KeyPressEvent) -> None:
        actions.take_back()

    @keys.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:
        actions.paste(event.data)

    return keys
