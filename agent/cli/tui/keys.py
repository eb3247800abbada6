"""Which key does what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prompt_toolkit.filters import Condition, has_completions
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

if TYPE_CHECKING:
    from agent.cli.tui.app import InteractiveApp


def key_bindings(app: InteractiveApp) -> KeyBindings:
    """The keys of the interactive mode; all others edit the line as in any shell."""
    keys = KeyBindings()
    is_empty = Condition(lambda: not app.buffer.text)
    has_queued = Condition(lambda: app.has_queued)

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        state = app.buffer.complete_state
        if state is not None and state.current_completion is not None:
            app.buffer.complete_state = None  # takes the entry, which stands in the line already
        elif app.buffer.document.text_before_cursor.endswith("\\"):
            app.buffer.delete_before_cursor()
            app.buffer.newline(copy_margin=False)
        else:
            app.submit()

    for letter in "yna":

        @keys.add(letter, filter=is_empty & Condition(lambda: app.is_asked))
        def _(event: KeyPressEvent) -> None:
            app.answer(event.data)

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        if app.is_busy:
            app.submit(follow_up=True)
        else:
            app.buffer.newline(copy_margin=False)

    @keys.add("c-j")
    def _(event: KeyPressEvent) -> None:
        app.newline()

    @keys.add("escape")
    def _(event: KeyPressEvent) -> None:
        app.escape()

    @keys.add("c-c")
    @keys.add(Keys.SIGINT)
    def _(event: KeyPressEvent) -> None:
        app.interrupt()

    @keys.add("c-d", filter=is_empty)
    def _(event: KeyPressEvent) -> None:
        app.leave()

    @keys.add("c-z")
    def _(event: KeyPressEvent) -> None:
        event.app.suspend_to_background()

    @keys.add("s-tab", filter=~has_completions)
    def _(event: KeyPressEvent) -> None:
        app.next_thinking_level()

    @keys.add("escape", "up")
    @keys.add("up", filter=is_empty & has_queued)
    def _(event: KeyPressEvent) -> None:
        app.take_back()

    @keys.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:
        app.paste(event.data)

    return keys
