"""Completion of /commands, their arguments, and @files."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from agent.cli.tui.commands import COMMANDS, NOT_YET
from agent.thinking import THINKING_LADDER

# A longer menu is of no use, and walking a larger tree takes too long for one.
_MOST_SHOWN = 50
_MOST_FILES = 50_000
_FRESH_SECONDS = 5.0


class PromptCompleter(Completer):
    """Completes the word before the cursor. Runs on a thread of its own, since a walk takes time."""

    def __init__(self, cwd: str) -> None:
        self._cwd = cwd
        self._files: list[str] = []
        self._walked = float("-inf")

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """The completions of the word before the cursor."""
        line = document.text_before_cursor
        if line.startswith("/") and "\n" not in line:
            command, space, argument = line.partition(" ")
            return self._arguments(command, argument) if space else _commands(command)
        word = document.get_word_before_cursor(WORD=True)
        return self._paths(word) if word.startswith("@") else ()

    def _arguments(self, command: str, argument: str) -> Iterator[Completion]:
        if command == "/thinking":
            names: Iterable[str] = reversed(THINKING_LADDER)
        elif command == "/model":
            from agent.models import known_models

            names = known_models()
        else:
            return
        found = (name for name in names if argument.lower() in name.lower())
        for name, _ in zip(found, range(_MOST_SHOWN), strict=False):
            yield Completion(name, -len(argument))

    def _paths(self, word: str) -> Iterator[Completion]:
        wanted = word[1:].lower()
        names = self._known_files()
        found = [name for name in names if wanted in name.lower()]
        # Files whose own name starts with the word come first, and shorter paths before longer ones.
        found.sort(
            key=lambda name: (not _file_name(name).lower().startswith(_file_name(wanted)), len(name), name)
        )
        for name in found[:_MOST_SHOWN]:
            text = f'@"{name}"' if " " in name else f"@{name}"
            yield Completion(text, -len(word), display=name)

    def _known_files(self) -> list[str]:
        if time.monotonic() - self._walked > _FRESH_SECONDS:
            self._files = list(_walk(self._cwd))
            self._walked = time.monotonic()
        return self._files


def _commands(start: str) -> Iterator[Completion]:
    for name, what in (COMMANDS | NOT_YET).items():
        if name.startswith(start):
            yield Completion(name, -len(start), display_meta=what)


def _walk(cwd: str) -> Iterator[str]:
    """The files and folders that git would not ignore, the folders with a slash."""
    from agent_tools.search.gitignore import Walk

    left = _MOST_FILES
    try:
        for prefix, names in Walk(cwd):
            for name in names:
                yield prefix + name
            left -= len(names)
            if left <= 0:
                return
    except OSError:
        return


def _file_name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]
