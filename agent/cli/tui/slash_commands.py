"""Executes the /commands of the interactive mode."""

from __future__ import annotations

from collections.abc import Callable

from agent.cli.tui.commands import help_text
from agent.cli.tui.session import Session


def run_command(session: Session, name: str, argument: str, copy: Callable[[str], object]) -> None:
    """Execute a command; `copy` puts a text into the terminal's clipboard."""
    match name:
        case "/model":
            session.settings.show_or_set_model(argument)
        case "/thinking":
            session.settings.show_or_set_thinking(argument)
        case "/tools":
            session.show_tools()
        case "/cost":
            session.show_cost()
        case "/copy":
            answer = session.last_answer()
            if answer:
                copy(answer)
            session.note(f"copied {len(answer)} characters" if answer else "no answer to copy")
        case "/clear":
            session.clear()
        case "/help":
            session.note(help_text())
        case _:
            session.note(f"{name}: not yet; conversations are not kept on disk in this version")
