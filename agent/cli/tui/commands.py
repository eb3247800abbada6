"""The /commands: their names and what they are for. What they do is in `session` and `app`."""

from __future__ import annotations

import re

COMMANDS: dict[str, str] = {
    "/model": "show the model, or take another: /model provider/id",
    "/thinking": "show the thinking level, or set it: /thinking high",
    "/tools": "list the tools",
    "/cost": "what this conversation has used",
    "/copy": "copy the last answer",
    "/clear": "forget the conversation",
    "/help": "keys and commands",
    "/quit": "leave",
}
NOT_YET: dict[str, str] = {
    "/resume": "go on with an earlier conversation (not yet)",
    "/continue": "go on with the last conversation (not yet)",
    "/tree": "show the branches of this conversation (not yet)",
}

KEYS = """\
Enter          send; while the agent works: steer it, before its next step
Alt+Enter      while it works: queue a follow-up, for when it is done; else a new line
Ctrl+J, \\Enter a new line
Esc            stop the agent; what is queued comes back to the line
Alt+Up         take the last queued message back (also Up, on an empty line)
Shift+Tab      next thinking level
Tab            complete @files and /commands
Up, Down       earlier prompts
Ctrl+C twice   leave (once: stop the agent, or empty the line); Ctrl+D on an empty line
!command       run a command and show it to the model
!!command      run a command, only for you"""


WELCOME = "/help lists the keys and the commands"

_LOOKS_LIKE_ONE = re.compile(r"/[A-Za-z]+")
# High enough that most paths of one word go to the model, low enough for a letter lost or two changed.
_LIKENESS = 0.6


def meant_command(line: str) -> str | None:
    """The command that a line of one word nearly is: `/model` for `/modl`."""
    from difflib import get_close_matches  # only a slip needs it

    word = line.strip()
    if not _LOOKS_LIKE_ONE.fullmatch(word):
        return None
    near = get_close_matches(word.lower(), COMMANDS | NOT_YET, n=1, cutoff=_LIKENESS)
    return near[0] if near else None


def help_text() -> str:
    """What `/help` says."""
    width = max(map(len, COMMANDS)) + 2
    rows = [f"{name:<{width}}{what}" for name, what in (COMMANDS | NOT_YET).items()]
    return "\n".join([KEYS, "", *rows])
