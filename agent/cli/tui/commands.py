"""The names and descriptions of the /commands and keys. `slash_commands` executes the commands."""

from __future__ import annotations

import re

COMMANDS: dict[str, str] = {
    "/model": "show the model, or use another: /model provider/id",
    "/thinking": "show the thinking level, or set it: /thinking high",
    "/tools": "list the tools",
    "/cost": "show the tokens and the cost of this conversation",
    "/copy": "copy the last answer",
    "/clear": "clear the conversation",
    "/help": "keys and commands",
    "/quit": "leave",
}
NOT_YET: dict[str, str] = {
    "/resume": "continue an earlier conversation (not yet)",
    "/continue": "continue the last conversation (not yet)",
    "/tree": "show the branches of this conversation (not yet)",
}

KEYS = """\
Enter          send; while the agent works: steer it, before its next step
Alt+Enter      while it works: queue a follow-up, for when it is done; else a new line
Ctrl+J, \\Enter a new line
Esc            stop the agent; queued messages return to the line
Alt+Up         take the last queued message back (also Up, on an empty line)
Shift+Tab      next thinking level
Tab            complete @files and /commands
Up, Down       earlier prompts
Ctrl+C twice   leave (once: stop the agent, or empty the line); Ctrl+D on an empty line
!command       run a command and show it to the model
!!command      run a command, only for you"""


WELCOME = "/help lists the keys and the commands"

_ONE_WORD = re.compile(r"/[A-Za-z]+")
# High enough that most paths of one word go to the model, low enough for one missing or two wrong letters.
_LIKENESS = 0.6


def meant_command(line: str) -> str | None:
    """The command that a line of one word probably means: `/model` for `/modl`; else None."""
    from difflib import get_close_matches  # needed for a misspelt command only

    word = line.strip()
    if not _ONE_WORD.fullmatch(word):
        return None
    near = get_close_matches(word.lower(), COMMANDS | NOT_YET, n=1, cutoff=_LIKENESS)
    return near[0] if near else None


def help_text() -> str:
    """The text of `/help`."""
    width = max(map(len, COMMANDS)) + 2
    rows = [f"{name:<{width}}{what}" for name, what in (COMMANDS | NOT_YET).items()]
    return "\n".join([KEYS, "", *rows])
