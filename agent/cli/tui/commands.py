"""The /commands: their names and what they are for. What they do is in `session` and `app`."""

from __future__ import annotations

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


def help_text() -> str:
    """What `/help` says."""
    width = max(map(len, COMMANDS)) + 2
    rows = [f"{name:<{width}}{what}" for name, what in (COMMANDS | NOT_YET).items()]
    return "\n".join([KEYS, "", *rows])
