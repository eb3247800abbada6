"""Long pastes: shown as a short label in the input line, sent in full."""

from __future__ import annotations

import re

# A longer text is shown as a label until it is sent: it could not be edited in a line of a few rows.
_LONG_LINES = 12
_LONG_CHARACTERS = 2000
_LABEL = re.compile(r"\[pasted #(\d+): \d+ (?:lines|characters)\]")


class Pastes:
    """The long texts that were pasted, by the number in their label."""

    def __init__(self) -> None:
        self._texts: dict[int, str] = {}

    def insertable(self, text: str) -> str:
        """The text to insert for a paste: the text with plain line feeds, or a label for a long one."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.count("\n") + 1
        if lines <= _LONG_LINES and len(text) <= _LONG_CHARACTERS:
            return text
        number = len(self._texts) + 1
        self._texts[number] = text
        size = f"{lines} lines" if lines > _LONG_LINES else f"{len(text)} characters"
        return f"[pasted #{number}: {size}]"

    def expand(self, typed: str) -> str:
        """The text with each label replaced by what was pasted."""
        return _LABEL.sub(lambda label: self._texts.get(int(label[1]), label[0]), typed)
